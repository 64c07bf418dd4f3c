# SPDX-License-Identifier: MIT
# What the planted programs share, as turns.py: a step once, or, live, at each x of the input.
BLOCK_BYTES = 100_000
BLOCKS = 150 # of a step
$kept = []

def churn
  100.times { "x" * BLOCK_BYTES }
end

def run(&step)
  return step.call if ARGV != ["live"]
  $stdout.sync = true
  puts 1
  while (word = $stdin.read(1))
    word == "x" ? step.call : churn
    puts 2
  end
end
