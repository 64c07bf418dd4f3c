<?php
// SPDX-License-Identifier: MIT
// A worker of PHP: requests one after the other, each parses JSON, builds a page and drops both; the
// last 8 pages are cached. When the load ends the garbage is collected, then nothing happens
// until standard input ends.
//
//     php pages.php REQUESTS

const KEPT_PAGES = 8;

function document(): string
{
    $rows = [];
    for ($id = mt_rand(20, 2000); $id > 0; $id--) {
        $rows[] = ['id' => $id, 'group' => 'group ' . mt_rand(0, 11),
                   'text' => str_repeat('x & y ', mt_rand(1, 40)), 'tags' => range(0, mt_rand(0, 5))];
    }
    return json_encode($rows);
}

function page(string $document): string
{
    $groups = [];
    foreach (json_decode($document, true) as $row) {
        $groups[$row['group']][] = $row;
    }
    ksort($groups);
    $page = '<html><body>';
    foreach ($groups as $name => $rows) {
        $page .= '<h2>' . htmlspecialchars($name) . '</h2><table>';
        foreach ($rows as $row) {
            $page .= '<tr><td>' . $row['id'] . '</td><td>' . htmlspecialchars($row['text'])
                . '</td><td>' . implode(', ', $row['tags']) . '</td></tr>';
        }
        $page .= '</table>';
    }
    return $page . '</body></html>';
}

mt_srand(1);
$kept = [];
$bytes = 0;
for ($request = max(1, (int) $argv[1]); $request > 0; $request--) {
    $kept[] = page(document());
    $bytes += strlen(end($kept));
    if (count($kept) > KEPT_PAGES) {
        array_shift($kept);
    }
}
if ($bytes === 0) {
    fwrite(STDERR, "pages.php: no page was built\n");
    exit(1);
}
$kept = [];
gc_collect_cycles();
gc_mem_caches();
echo "load ended\n";
stream_get_contents(STDIN);
