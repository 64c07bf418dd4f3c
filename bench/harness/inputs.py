# SPDX-License-Identifier: MIT
"""Writes the files that the real programs of bench/programs.toml work on: the same every time.

    PYTHONPATH=bench python3 -m harness.inputs FOLDER [SCALE]

Each is written by a generator below; scale 1 is about a second of work for a program.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

SEED = 20140513
WORDS = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor".split()


def times(count: int, scale: float) -> int:
    """The count at a scale, at least 1."""
    return max(1, round(count * scale))


def templates_cpp(scale: float) -> Iterator[str]:
    """Maps, variants and lambdas, each of a type of its own: what a C++ compiler allocates for."""
    yield "#include <algorithm>\n#include <functional>\n#include <map>\n#include <string>\n"
    yield "#include <tuple>\n#include <variant>\n#include <vector>\n"
    yield "template <int N> struct key { int value; bool operator<(key o) const "
    yield "{ return value + N < o.value; } };\n"
    for i in range(times(6, scale)):
        yield f"""
int use_{i}(int n) {{
    std::map<key<{i}>, std::vector<std::tuple<key<{i}>, std::string>>> table;
    std::variant<key<{i}>, std::string, std::vector<key<{i}>>> one = key<{i}>{{n}};
    std::function<int(key<{i}>)> get = [&](key<{i}> k) {{ return k.value + int(one.index()); }};
    for (int j = 0; j < n; j++) {{
        table[key<{i}>{{j}}].emplace_back(key<{i}>{{j}}, std::to_string(j));
    }}
    return std::count_if(table.begin(), table.end(), [&](auto &e) {{ return get(e.first) > 1; }});
}}
"""


def work_py(scale: float) -> Iterator[str]:
    """Dictionaries, strings, objects, JSON."""
    yield f"""
import json, random
random.seed({SEED})
class Item:
    def __init__(self, name, tags):
        self.name, self.tags = name, tags
items = []
for number in range({times(60000, scale)}):
    item = Item("item %d" % random.randrange(10**6), [str(tag) for tag in range(number % 7)])
    items.append(item)
    if number % 3 == 0:
        items[random.randrange(len(items))] = item
index = {{}}
for item in items:
    index.setdefault(item.name[-3:], []).append(item)
text = json.dumps({{key: [i.tags for i in found] for key, found in index.items()}})
words = " ".join(sorted(item.name for item in items)).split()
print(len(text), len(words), sum(map(len, json.loads(text).values())))
"""


def work_pl(scale: float) -> Iterator[str]:
    """Hashes of arrays, substitutions, joins."""
    yield f"""
use strict; use warnings;
my %table; my $state = 1;
for my $i (1 .. {times(300000, scale)}) {{
    $state = ($state * 1103515245 + 12345) % 2147483648;
    my $key = "key" . ($state % 5000);
    push @{{$table{{$key}}}}, "value $i " . ("x" x ($state % 50));
    delete $table{{"key" . ($i % 5000)}} if $state % 11 == 0;
}}
my $text = join "\\n", map {{ "$_: " . join ",", @{{$table{{$_}}}} }} sort keys %table;
my $count = ($text =~ s/value (\\d+)/<$1>/g);
print length($text), " $count\\n";
"""


def work_lua(scale: float) -> Iterator[str]:
    """Trees and strings, dropped and built again: the garbage collector frees them one by one."""
    yield f"""
local function tree(depth)
    if depth == 0 then return {{ name = "leaf" }} end
    return {{ left = tree(depth - 1), right = tree(depth - 1), name = "node " .. depth }}
end
local function count(t) return t.left and count(t.left) + count(t.right) + 1 or 1 end
local sum, parts = 0, {{}}
for i = 1, {times(60, scale)} do sum = sum + count(tree(13)) end
for i = 1, {times(500000, scale)} do
    parts[#parts + 1] = string.format("%d:%s", i, string.rep("x", i % 40))
    if i % 5000 == 0 then sum = sum + #table.concat(parts, ","); parts = {{}} end
end
print(sum)
"""


def work_js(scale: float) -> Iterator[str]:
    """Objects, strings, maps, JSON, and buffers, which V8 takes from malloc."""
    yield f"""
let state = 1;
const step = () => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) >>> 8;
const next = (n) => step() % n;
const items = [];
for (let i = 0; i < {times(150000, scale)}; i++) {{
    const tags = Array.from({{ length: i % 7 }}, String);
    items.push({{ name: `item ${{next(1000000)}}`, tags }});
}}
const index = new Map();
for (const item of items) {{
    const key = item.name.slice(-3);
    index.set(key, [...(index.get(key) ?? []), item.tags]);
}}
const text = JSON.stringify([...index]);
const buffers = [];
for (let i = 0; i < {times(60000, scale)}; i++) {{
    buffers[next(2000)] = Buffer.alloc(4096 + next(20000), 7);
}}
console.log(text.length, JSON.parse(text).length, buffers.reduce((n, b) => n + b.length, 0));
"""


def data_json(scale: float) -> Iterator[str]:
    """An array of small objects."""
    generator = random.Random(SEED)
    yield "["
    for i in range(times(30000, scale)):
        entry = {"id": i, "group": generator.choice(WORDS), "score": generator.randrange(1000),
                 "tags": generator.sample(WORDS, 3), "note": None if i % 5 else "note %d" % i}
        yield ("," if i else "") + json.dumps(entry) + "\n"
    yield "]"  # fmt: skip


def work_sql(scale: float) -> Iterator[str]:
    """Inserts, an index, joins, updates, all in memory."""
    yield f"""
PRAGMA temp_store = MEMORY;
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, grp INTEGER, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {times(240000, scale)})
INSERT INTO item SELECT i, 'item ' || (i * 7919 % 100003), i % 977, hex(i * 31) FROM n;
CREATE INDEX item_name ON item(name);
SELECT count(*), sum(length(a.note)) FROM item a JOIN item b ON a.name = b.name AND a.id < b.id;
UPDATE item SET note = note || '-' || name WHERE grp % 3 = 0;
DELETE FROM item WHERE grp % 10 = 4;
SELECT grp, count(*), group_concat(substr(note, 1, 3)) FROM item GROUP BY grp ORDER BY 2, 1 LIMIT 5;
SELECT count(DISTINCT note) FROM item;
"""


def page_ps(scale: float) -> Iterator[str]:
    """Pages of text, curves and fills."""
    yield "%!PS\n/Helvetica findfont 9 scalefont setfont\n"
    for page in range(times(20, scale)):
        for line in range(60):
            text = " ".join(WORDS[(page + line + i) % len(WORDS)] for i in range(12))
            yield f"30 {780 - line * 12} moveto (page {page} line {line} {text}) show\n"
        yield f"0 1 300 {{ /i exch def i 300 div {page % 7} 7 div 0.5 setrgbcolor\n"
        yield "newpath i 2 mul 100 moveto i 3 mul 200 i 400 300 i 2 mul 700 curveto\n"
        yield "i 5 add 690 lineto closepath fill } for\nshowpage\n"


def lines_txt(scale: float) -> Iterator[str]:
    """Lines to sort."""
    generator = random.Random(SEED)
    for _ in range(times(800000, scale)):
        yield f"{generator.randrange(10**9)} {generator.choice(WORDS)} {generator.choice(WORDS)}\n"


def redis_sh(scale: float) -> Iterator[str]:
    """The client: waits for the server, works it with values of several sizes, shuts it down."""
    requests = times(20000, scale)
    yield "set -e\ncli() { redis-cli -s redis.sock \"$@\"; }\nleft=200\n"
    yield "until [ \"$(cli ping 2>&1)\" = PONG ]; do\n"
    yield "    left=$((left - 1)); [ $left -gt 0 ] || exit 1; sleep 0.05\ndone\n"
    for size in (16, 100, 1000):
        yield f"redis-benchmark -s redis.sock -q -P 16 -c 20 -r 50000 -n {requests} -d {size} "
        yield "-t set,get,lpush,lpop,sadd,hset >redis.log\n"
    yield "cli shutdown nosave || true\n"


GENERATORS: dict[str, Callable[[float], Iterator[str]]] = {
    "templates.cpp": templates_cpp,
    "work.py": work_py,
    "work.pl": work_pl,
    "work.lua": work_lua,
    "work.js": work_js,
    "data.json": data_json,
    "work.sql": work_sql,
    "page.ps": page_ps,
    "lines.txt": lines_txt,
    "redis.sh": redis_sh,
}


def write_inputs(folder: Path, scale: float = 1) -> None:
    """All of them into the folder, which exists."""
    for name, generate in GENERATORS.items():
        with (folder / name).open("w") as file:
            file.writelines(generate(scale))


if __name__ == "__main__":
    write_inputs(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1)
