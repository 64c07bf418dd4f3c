# SPDX-License-Identifier: MIT
"""`poolshim compare --trace`: the calls of a trace, each allocator's memory for them, bad files.

scripts/test tests/cli/test_compare_trace.py
"""

from __future__ import annotations

import json
import os
import random
import resource
import struct
import subprocess
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from compare_lab import columns, compare
from conftest import BUILD_DIR, run_captured
from poolshim_cli.advise import trace as traces
from poolshim_cli.compare import order
from poolshim_cli.errors import BadRequest
from table import each_row

MIB = 1 << 20
MADE, FREED, RESIZED, ZEROED = traces.MADE, traces.FREED, traces.RESIZED, traces.ZEROED
NEVER = 1 << 62
EVENTS_AT = 4096
REPLAY = BUILD_DIR / "scripts" / "replay_malloc"
TOLERANCE = 0.05  # of peak RSS, the promise of docs/command.md
# Objects of many sizes, a third of which dies, in one thread: 60 MiB, since runs beside other tests
# may map up to 2.9 MiB more of Python's files.
OBJECTS = (
    "kept = {}\n"
    "for i in range(270000):\n"
    "    kept[i] = ['x' * (i % 300), i]\n"
    "    if i % 3 == 0: kept.pop(i // 2, None)\n"
)

Row = tuple[int, int, int, int, int]  # address, bytes, thread, kind, align_shift


@pytest.fixture(autouse=True)
def build(build_dir: Path) -> None:
    """Everything here needs replay_malloc."""


def trace_of(rows: list[Row], window: int = NEVER, peak: int = 0, made: int | None = None) -> bytes:
    """A trace with these events; the first window ends after so many allocations."""
    events, count = bytearray(), 0
    for address, size, thread, kind, align_shift in rows:
        events += traces.EVENT.pack(address, size, 0, count, thread, kind, align_shift)
        count += kind & 3 == MADE
    starts, ends = [NEVER + 1] * traces.WINDOWS, [NEVER + 2] * traces.WINDOWS
    starts[0], ends[0] = 0, window
    if window != NEVER:
        starts[1] = window + 1
    head = traces.HEADER.pack(
        traces.MAGIC, 4000, 4000, EVENTS_AT, len(rows), 4000, 4000, traces.WINDOWS, *starts, *ends,
        1, len(rows), count if made is None else made, 0, 0, 0, peak,
    )  # fmt: skip
    return head.ljust(EVENTS_AT, b"\0") + bytes(events)


def ordered(folder: Path, data: bytes) -> tuple[order.Order, list[tuple[int, ...]]]:
    """The calls that a trace becomes: place, bytes, thread, kind, align_shift."""
    path = folder / "t.trace"
    path.write_bytes(data)
    written = order.write_order(path, folder / "calls")
    calls = (folder / "calls").read_bytes()[order.START.size :]
    return written, list(order.CALL.iter_unpack(calls))


def replayed(path: Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    """One run of the replay on libc."""
    return run_captured([str(REPLAY), str(path)], timeout=120, **options)


def test_each_event_is_its_call(tmp_path: Path) -> None:
    rows = [
        (0x1000, 100, 1, MADE, 0),
        (0x2000, 50, 1, MADE | ZEROED, 0),
        (0x3000, 64, 2, MADE, 6),
        (0x1000, 0, 2, FREED, 0),  # remote
        (0x4000, 10, 1, MADE, 0),  # its place again
        (0x9999, 0, 1, FREED, 0),  # never seen: no call
        (0, 0, 0, 0, 0),  # claimed, and not written
        (0x2000, 0, 0, FREED, 0),  # of a thread past its destructors
    ]
    _, calls = ordered(tmp_path, trace_of(rows))
    assert calls == [
        (0, 100, 0, order.ALLOC, 0), (1, 50, 0, order.ZALLOC, 0), (2, 64, 1, order.ALIGN, 6),
        (0, 0, 1, order.FREE, 0), (0, 10, 0, order.ALLOC, 0), (1, 0, 0, order.FREE, 0),
    ]  # fmt: skip


@each_row(
    ("rows", "calls"),
    [
        # In place: freed, then made. With a copy: made, then freed. Other threads come between.
        ([(1, 0, 1, FREED | RESIZED, 0), (1, 90, 1, MADE | RESIZED, 0)], [(0, 90, 0, 3, 0)]),
        ([(2, 90, 1, MADE | RESIZED, 0), (1, 0, 1, FREED | RESIZED, 0)], [(0, 90, 0, 3, 0)]),
        (
            [(2, 90, 1, MADE | RESIZED, 0), (3, 5, 2, MADE, 0), (1, 0, 1, FREED | RESIZED, 0)],
            [(1, 5, 1, 0, 0), (0, 90, 0, 3, 0)],
        ),
        # Half of one is a call of its own.
        ([(2, 90, 1, MADE | RESIZED, 0)], [(1, 90, 0, 0, 0)]),
        ([(1, 0, 1, FREED | RESIZED, 0), (4, 8, 1, MADE, 0)], [(0, 0, 0, 4, 0), (0, 8, 0, 0, 0)]),
    ],
)
def test_the_events_of_a_realloc_are_one_call(
    tmp_path: Path, rows: list[Row], calls: list[tuple[int, ...]]
) -> None:
    _, found = ordered(tmp_path, trace_of([(1, 40, 1, MADE, 0), *rows]))
    assert found == [(0, 40, 0, order.ALLOC, 0), *calls]


def test_a_thread_ends_where_another_begins_later(tmp_path: Path) -> None:
    rows = [(16 * n, 8, 1 + n, MADE, 0) for n in range(50)]
    written, calls = ordered(tmp_path, trace_of([(9999, 8, 1, MADE, 0), *rows]))
    assert written.threads == 50
    ended = [one for one in calls if one[3] == order.END]
    assert len(ended) == 48  # neither the main thread nor the last one
    assert {one[2] for one in calls} == {0, 1}
    done = replayed(tmp_path / "calls")
    assert done.returncode == 0 and json.loads(done.stdout)["calls"] == 51


def test_of_a_trace_with_windows_the_first_is_replayed(tmp_path: Path) -> None:
    rows = [(16 * n, 8, 1, MADE, 0) for n in range(100)]
    written, calls = ordered(tmp_path, trace_of(rows, window=60, made=5000))
    assert len(calls) == 60 and not written.head.is_whole
    done = compare("--allocators", "glibc,poolshim", "--runs", "1", "--json", "-",
                   "--trace", tmp_path / "t.trace")  # fmt: skip
    assert done.returncode == 0, done.stderr
    warnings = [one for one in json.loads(done.stdout)["warnings"] if "windows" in one]
    assert len(warnings) == 1 and "the first 60 calls" in warnings[0]


def test_the_peak_is_that_of_the_blocks(tmp_path: Path) -> None:
    """40 MiB of blocks of 4 KiB, of which 24 MiB were freed before the last 24."""
    count = 40 * MIB // 4096
    made = [((n + 1) << 13, 4096, 1, MADE, 0) for n in range(count)]
    freed = [((n + 1) << 13, 0, 1, FREED, 0) for n in range(24 * MIB // 4096)]
    again = [((n + count + 1) << 13, 4096, 1, MADE, 0) for n in range(24 * MIB // 4096)]
    _, calls = ordered(tmp_path, trace_of([*made, *freed, *again]))
    assert len(calls) == 2 * len(freed) + count
    full = json.loads(replayed(tmp_path / "calls").stdout)
    ordered(tmp_path, trace_of(made[:1]))
    empty = json.loads(replayed(tmp_path / "calls").stdout)
    assert full["live_bytes_peak"] == 40 * MIB
    grown = full["peak_rss_bytes"] - empty["peak_rss_bytes"]
    assert 40 * MIB <= grown <= 40 * MIB * (1 + TOLERANCE)
    assert full["cpu_ns"] > empty["cpu_ns"] > 0


def test_large_blocks_are_used_as_far_as_the_rss_says(tmp_path: Path) -> None:
    rows = [(1 << 30, 200 * MIB, 1, MADE, 0), (1 << 31, 2 * MIB, 1, MADE, 0)]
    ordered(tmp_path, trace_of(rows, peak=50 * MIB))
    found = json.loads(replayed(tmp_path / "calls").stdout)
    assert 45 * MIB < found["peak_rss_bytes"] < 60 * MIB


def test_what_the_program_has_besides_is_added(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    rows = [((n + 1) << 13, 2000, 1, MADE, 0) for n in range(2000)]
    few = ("--allocators", "glibc,poolshim", "--runs", "1", "--json", "-", "--trace")
    peaks = []
    for more in (0, 30 * MIB):
        path.write_bytes(trace_of(rows, peak=20 * MIB + more))
        data = json.loads(compare(*few, path).stdout)
        peaks.append([column["runs"][0]["peak_rss_kib"] << 10 for column in data["columns"]])
        assert data["about"]["mode"] == "trace" and data["about"]["calls"] == 2000
    grown = [high - low for low, high in zip(*peaks, strict=True)]
    assert all(abs(one - 30 * MIB) < MIB for one in grown)


@pytest.mark.compare
@pytest.mark.slow
def test_a_real_program_is_predicted(tmp_path: Path, shim: Path) -> None:
    path = tmp_path / "python.trace"
    words = ["/usr/bin/python3", "-c", OBJECTS]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POOLSHIM_")}
    env = {**kept, "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    traced = {"LD_PRELOAD": str(shim), "POOLSHIM_TRACE": str(path), "POOLSHIM_TRACE_MAX": "256MiB"}
    assert run_captured(words, env={**env, **traced}, timeout=120).returncode == 0
    names = [one.name for one in columns()]
    chosen = [one for one in ("glibc", "jemalloc", "tcmalloc", "poolshim") if one in names]
    few = ("--allocators", ",".join(chosen), "--runs", "3", "--no-noise", "--json", "-")
    live = compare(*few, "--", "env", "PYTHONMALLOC=malloc", "PYTHONHASHSEED=0", *words)
    replay = compare(*few, "--trace", path)
    assert live.returncode == replay.returncode == 0, live.stderr + replay.stderr
    peaks = [
        {c["name"]: median(run["peak_rss_kib"] for run in c["runs"]) for c in data["columns"]}
        for data in (json.loads(live.stdout), json.loads(replay.stdout))
    ]
    assert set(peaks[0]) == set(peaks[1]) == set(chosen)
    for name in chosen:
        assert peaks[1][name] == pytest.approx(peaks[0][name], rel=TOLERANCE), name


HEAD = trace_of([(16, 8, 1, MADE, 0)])


@each_row(
    ("data", "words", "message"),
    [
        (None, (), "none.trace: No such file or directory"),
        (b"", (), "it is too short"),
        (b"x" * 8000, (), "it does not begin like one"),
        (b"PSTRACE1" + HEAD[8:], (), "another version of poolshim wrote it"),
        (HEAD[:-1], (), "it ends early"),
        (traces.MAGIC + b"\xff" * 8000, (), "it does not begin like one"),
        (trace_of([]), (), "no allocation was traced"),
        (trace_of([(16, 0, 1, FREED, 0)]), (), "no allocation was traced"),
        (HEAD, ("--", "true"), "--trace replays a file: leave out the command"),
        (HEAD, ("--server", "x"), "--trace does not go with --server"),
        (HEAD, ("--rss-curve",), "--trace does not go with --rss-curve"),
        (HEAD, ("--from", "x.json"), "--from measures nothing"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, data: bytes | None, words: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "none.trace"
    if data is not None:
        path.write_bytes(data)
    done = compare("--json", tmp_path / "out.json", "--trace", path, *words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("poolshim compare: ") and done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not (tmp_path / "out.json").exists()


@each_row("kind", ["folder", "pipe"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    done = compare("--trace", path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and str(path) in done.stderr


def check_calls(path: Path) -> None:
    """No call concerns a place that has no block, or the block of another."""
    data = path.read_bytes()
    _, blocks, threads, share = order.START.unpack_from(data)
    live: set[int] = set()
    assert share <= order.SHARE_UNIT
    for place, _, thread, kind, align_shift in order.CALL.iter_unpack(data[order.START.size :]):
        assert place < blocks and thread < threads and align_shift <= order.ALIGN_SHIFT_MAX
        if kind == order.END:
            assert thread
            continue
        assert (place in live) == (kind in (order.FREE, order.REALLOC))
        live.add(place) if kind != order.FREE else live.remove(place)


def test_damaged_traces_are_refused_or_become_calls(tmp_path: Path) -> None:
    generator = random.Random(20261)
    kinds = [MADE, FREED, MADE | RESIZED, FREED | RESIZED, MADE | ZEROED, 0, 255]
    outcomes = {"refused": 0, "calls": 0}
    for _ in range(300):
        rows = [
            (generator.randrange(12), generator.choice([0, 8, 5000, 0xFFFFFFFF]),
             generator.randrange(5), generator.choice(kinds), generator.choice([0, 4, 255]))
            for _ in range(60)
        ]  # fmt: skip
        data = bytearray(trace_of(rows, peak=generator.choice([0, 1, (1 << 64) - 1])))
        for _ in range(generator.randrange(4)):
            at = generator.choice([generator.randrange(traces.HEADER.size),
                                   generator.randrange(len(data))])  # fmt: skip
            data[at] = generator.randrange(256)
        if generator.random() < 0.1:
            del data[generator.randrange(len(data)) :]
        try:
            ordered(tmp_path, bytes(data))
        except BadRequest as error:
            assert "\n" not in str(error)
            outcomes["refused"] += 1
            continue
        check_calls(tmp_path / "calls")
        outcomes["calls"] += 1
    assert min(outcomes.values()) > 30, outcomes


def limit_memory() -> None:
    """Blocks of 4 GiB are refused, and nothing of them is touched."""
    resource.setrlimit(resource.RLIMIT_AS, (300 * MIB, 300 * MIB))


def test_damaged_calls_are_refused_or_made(tmp_path: Path) -> None:
    generator = random.Random(20262)
    path = tmp_path / "calls"
    statuses = set()
    for _ in range(60):
        calls = [
            struct.pack("<IIHBB", generator.randrange(8), generator.randrange(3000),
                        generator.randrange(3), generator.randrange(5), 0)
            for _ in range(40)
        ]  # fmt: skip
        data = bytearray(order.START.pack(order.MAGIC, 8, 3, order.SHARE_UNIT) + b"".join(calls))
        for _ in range(generator.randrange(3)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(data)
        done = replayed(path, preexec_fn=limit_memory)
        assert done.returncode in (0, 1, 2), (done.returncode, done.stderr)
        assert done.returncode == 0 or done.stderr.startswith("replay_malloc: ")
        statuses.add(done.returncode)
    assert {0, 2} <= statuses


def test_the_table_is_readable_at_50_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    path.write_bytes(HEAD)
    few = ("--allocators", "glibc,poolshim", "--runs", "1", "--trace", path)
    for width in (50, 80):
        done = compare(*few, width=width)
        assert done.returncode == 0, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= width
        assert "CPU time" in done.stdout and "peak RSS" in done.stdout
