# SPDX-License-Identifier: MIT
# What perl programs do: hashes, regular expressions, sorting, string growth, children.
use strict;
use warnings;

my %count;
my $value = 1;
for my $i (1 .. 60000) {
    $value = ($value * 1103515245 + 12345) % 2147483648;
    my $word = sprintf("%x", $value >> 12);
    $count{$word}++;
    $count{substr($word, 0, 2)} += length $word;
}
my @top = (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0 .. 19];
print "$_ $count{$_}\n" for @top;

my $text = join ' ', map { "item$_=" . ($_ * 37 % 1001) } 1 .. 20000;
my $matches = 0;
$matches++ while $text =~ /item(\d+)=(\d*7)\b/g;
(my $changed = $text) =~ s/item(\d+)/"<" . ($1 % 97) . ">"/ge;
print "matches: $matches, length: ", length $changed, "\n";

my $children = 0;
for my $number (1 .. 4) {
    my $pid = fork();
    die "fork: $!" unless defined $pid;
    if ($pid == 0) {
        my @list = map { [$_, $_ * $number] } 1 .. 20000;
        exit(@list == 20000 ? 0 : 1);
    }
    waitpid $pid, 0;
    $children++ if $? == 0;
}
print "children: $children\n";
