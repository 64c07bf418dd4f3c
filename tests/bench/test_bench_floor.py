# SPDX-License-Identifier: MIT
"""The floor is a correct malloc as far as it goes: everything but giving memory back.

scripts/test tests/bench/test_bench_floor.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import run_captured
from table import each_row
from under_shim import transparent_huge_pages

pytestmark = pytest.mark.bench

PRELUDE = """
import ctypes, errno, threading
libc = ctypes.CDLL(None, use_errno=True)
size, pointer = ctypes.c_size_t, ctypes.c_void_p
def bind(name, result, *arguments):
    function = libc[name]
    function.restype, function.argtypes = result, arguments
    return function
malloc = bind("malloc", pointer, size)
free = bind("free", None, pointer)
calloc = bind("calloc", pointer, size, size)
realloc = bind("realloc", pointer, pointer, size)
memalign = bind("memalign", pointer, size, size)
aligned_alloc = bind("aligned_alloc", pointer, size, size)
valloc = bind("valloc", pointer, size)
pvalloc = bind("pvalloc", pointer, size)
posix_memalign = bind("posix_memalign", ctypes.c_int, ctypes.POINTER(pointer), size, size)
usable = bind("malloc_usable_size", size, pointer)
reuse = bind("floor_reuse", None, pointer, pointer)
"""

CLAIMS = {
    "eight_byte_blocks_lie_eight_bytes_apart": """
blocks = [malloc(8) for _ in range(1000)]
steps = [b - a for a, b in zip(blocks, blocks[1:])]
assert all(step % 8 == 0 for step in steps) and steps.count(8) > 900
""",
    "larger_blocks_are_aligned_to_sixteen": """
for n in (9, 15, 16, 17, 24, 100, 1000, 5000, 70000, 1 << 21):
    assert malloc(n) % 16 == 0, n
""",
    "size_zero_is_unique_and_not_null": """
blocks = {malloc(0) for _ in range(100)}
assert None not in blocks and len(blocks) == 100
""",
    "blocks_do_not_overlap": """
import random
generator = random.Random(7)
spans = sorted((malloc(n), n) for n in (generator.randrange(0, 3000) for _ in range(5000)))
assert all(a + n <= b for (a, n), (b, _) in zip(spans, spans[1:]))
""",
    "usable_size_is_usable": """
for n in (0, 1, 8, 9, 33, 4096, 5000, 1 << 20):
    block = malloc(n)
    assert usable(block) >= n
    ctypes.memset(block, 0x5A, usable(block))
assert usable(None) == 0
""",
    "free_touches_nothing": """
block = malloc(64)
ctypes.memmove(block, b"x" * 64, 64)
free(block)
free(None)
assert ctypes.string_at(block, 64) == b"x" * 64
""",
    "realloc_keeps_the_contents": """
block = realloc(None, 8)
ctypes.memmove(block, b"12345678", 8)
for n in (9, 17, 100, 4096, 100000):
    block = realloc(block, n)
    assert ctypes.string_at(block, 8) == b"12345678", n
assert realloc(block, 5) == block
assert realloc(block, 0) is None
assert realloc(block, 1 << 40) is None and ctypes.get_errno() == errno.ENOMEM
""",
    "calloc_is_zero_also_in_reused_memory": """
first = malloc(64)
ctypes.memset(first, 0xFF, 64)
reuse(first, first + 64)
again = calloc(4, 16)
assert again == first and ctypes.string_at(again, 64) == bytes(64)
assert calloc(1 << 33, 1 << 33) is None and ctypes.get_errno() == errno.ENOMEM
""",
    "reuse_gives_the_same_blocks_again": """
blocks = [malloc(8) for _ in range(100)]
reuse(blocks[0], blocks[0] + 800)
again = [malloc(8) for _ in range(100)]
assert again == list(range(blocks[0], blocks[0] + 800, 8))
""",
    "alignments_up_to_a_gigabyte": """
for shift in range(3, 31):
    block = pointer()
    assert posix_memalign(ctypes.byref(block), 1 << shift, 100) == 0
    assert block.value % (1 << shift) == 0 and usable(block) >= 100
    assert memalign(1 << shift, 5) % (1 << shift) == 0
    assert aligned_alloc(1 << shift, 5) % (1 << shift) == 0
assert valloc(10) % 4096 == 0 and pvalloc(4097) % 4096 == 0 and usable(pvalloc(4097)) >= 8192
""",
    "bad_alignments_and_sizes_fail": """
block = pointer()
for alignment in (0, 3, 4, 24):
    assert posix_memalign(ctypes.byref(block), alignment, 8) == errno.EINVAL, alignment
assert posix_memalign(ctypes.byref(block), 64, 1 << 60) == errno.ENOMEM
assert block.value is None
assert memalign(24, 8) is None and ctypes.get_errno() == errno.EINVAL
for n in (1 << 40, (1 << 63) - 1, (1 << 64) - 1):
    assert malloc(n) is None and ctypes.get_errno() == errno.ENOMEM, n
assert pvalloc((1 << 64) - 1) is None
""",
    "threads_get_distinct_blocks": """
found = [[] for _ in range(4)]
def take(mine):
    mine.extend(malloc(8) for _ in range(50000))
threads = [threading.Thread(target=take, args=(mine,)) for mine in found]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(set().union(*found)) == 200000
""",
}


@pytest.fixture(scope="session")
def floor(build_dir: Path) -> Path:
    """libfloor.so of the build under test."""
    return build_dir / "bench" / "libfloor.so"


def run_under(
    floor: Path | None, *words: str | Path, **env: str
) -> subprocess.CompletedProcess[str]:
    """A command with the floor preloaded, or with nothing."""
    full = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | env
    if floor is not None:
        full["LD_PRELOAD"] = str(floor)
    return run_captured(words, env=full)


@each_row("huge_pages", ["0", "1"])
@each_row("claim", CLAIMS)
def test_floor(floor: Path, claim: str, huge_pages: str) -> None:
    done = run_under(floor, sys.executable, "-c", PRELUDE + CLAIMS[claim], FLOOR_THP=huge_pages)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_floor_is_what_the_claims_ran_on(floor: Path) -> None:
    """Without the floor the script cannot even find floor_reuse."""
    done = run_under(None, sys.executable, "-c", PRELUDE)
    assert done.returncode != 0 and "floor_reuse" in done.stderr


def test_a_real_program_runs_on_the_floor(floor: Path) -> None:
    script = "import json; print(json.dumps({str(i): [i] * 9 for i in range(20000)})[-50:])"
    outputs = [run_under(library, sys.executable, "-c", script) for library in (None, floor)]
    assert outputs[0].returncode == outputs[1].returncode == 0, outputs[1].stderr
    assert outputs[0].stdout == outputs[1].stdout


@each_row("mode", ["uncontended", "contended"])
def test_list_rounds_reuse_dead_lists(build_dir: Path, floor: Path, mode: str) -> None:
    """Uncontended, all rounds but the last hand their list on: one list is all that is mapped."""
    words = ("--mode", mode, "--count", "1000000", "--rounds", "5", "--json")
    done = run_under(floor, build_dir / "bench" / "list100m", *words)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["floor_reuse"] is True
    payload_kib = 8 * 1000001 // 1024
    reused = [measured["reused"] for measured in report["rounds"]]
    if mode == "uncontended":
        assert reused == [True] * 4 + [False]
        assert payload_kib <= report["peak_rss_kib"] < 1.5 * payload_kib
    else:
        lists = 5 - sum(reused)
        slack = 0.75 if transparent_huge_pages() == "always" else 0.5
        assert payload_kib <= report["peak_rss_kib"] < (lists + slack) * payload_kib


def test_malloc_of_eight_bytes_makes_no_call(floor: Path) -> None:
    """Up to its first return, malloc is a handful of instructions and calls nothing."""
    shown = run_captured(["objdump", "-d", "--no-show-raw-insn", "--disassemble=malloc", floor])
    body = shown.stdout.partition("<malloc>:")[2]
    straight = body[: body.index("\tret")].splitlines()
    words = [line.split("\t")[1].split()[0] for line in straight if "\t" in line]
    assert "call" not in words
    assert 0 < len(words) <= 20
