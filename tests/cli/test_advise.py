# SPDX-License-Identifier: MIT
"""`poolshim advise`: programs with one pattern each get the pool that fits, programs without one
are told so, and what cannot be advised on is one line.

    scripts/test tests/cli/test_advise.py

Line 1 of each program in tests/advice has the pool, or "none".
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from table import each_row
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.advise import again, command, patterns, replay  # noqa: E402
from poolshim_cli.advise import streams, together, trace  # noqa: E402
from poolshim_cli.advise.order import facts_of  # noqa: E402
from poolshim_cli.advise.report import Advice  # noqa: E402

pytestmark = pytest.mark.preload

MAIN = ROOT / "scripts" / "poolshim_cli" / "__main__.py"
SOURCES = {path.stem: path for path in sorted((ROOT / "tests" / "advice").glob("*.c"))}
HEADERS = {"region": "region", "stack": "stack", "scratch": "stack", "fifo": "fifo",
           "pool": "pool", "ring": "ring"}  # fmt: skip


def expected_of(name: str) -> str:
    """What line 1 says."""
    found = re.match(r"// advise: (\w+)\n", SOURCES[name].read_text())
    assert found is not None
    return found.group(1)


def poolshim(
    build: Path, *words: str | os.PathLike[str], timeout: float = 300,
    tmpdir: Path | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POOLSHIM_")}
    env = {**kept, "POOLSHIM_BUILD_DIR": str(build)}
    if tmpdir is not None:
        env["TMPDIR"] = str(tmpdir)
    words = (sys.executable, str(MAIN), "advise", *map(str, words))
    return run_captured(list(words), env=env, timeout=timeout, **options)


@cache
def advised(build: Path, name: str) -> dict[str, Any]:
    need("addr2line")
    done = poolshim(build, "--json", "--", build / "tests" / "advice" / name)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_there_are_six_patterns_and_programs_without() -> None:
    pools = [expected_of(name) for name in SOURCES]
    assert set(pools) == {*HEADERS, "none"}
    assert pools.count("none") >= 2


@pytest.mark.parametrize("name", [name for name in SOURCES if expected_of(name) != "none"])
def test_the_pool_that_fits_is_named(build_dir: Path, name: str) -> None:
    found = advised(build_dir, name)
    first = found["advice"][0]
    assert first["pool"] == expected_of(name), found
    assert first["header"] == f"poolshim/{HEADERS[first['pool']]}.h"
    assert f"{name}.c:" in first["made_at"][0] and f"{name}.c:" in first["freed_at"][0]
    assert first["allocations"] == pytest.approx(found["allocations"], rel=0.05)
    assert first["malloc_ns"] > 0 and first["pool_ns"] > 0 and first["low"] <= first["high"]
    assert 0 < first["kib_low"] <= first["kib_high"]


@each_row("name", [name for name in SOURCES if expected_of(name) == "none"])
def test_without_a_pattern_there_is_nothing_to_gain(build_dir: Path, name: str) -> None:
    found = advised(build_dir, name)
    assert [one for one in found["advice"] if one["is_worthwhile"]] == []
    assert found["advice"] or found["others"]


def test_the_report_says_what_to_change(build_dir: Path, tmp_path: Path) -> None:
    kept = tmp_path / "one.trace"
    done = poolshim(build_dir, "--once", "-o", kept, "--", build_dir / "tests/advice/region")
    assert done.returncode == 0 and done.stdout == ""
    assert "#include <poolshim/region.h>" in done.stderr
    assert "1 to gain from, of a processor time that was not measured\n" in done.stderr
    assert re.search(r"allocated at add_node \(.*region\.c:\d+\)", done.stderr)
    again = poolshim(build_dir, "--read", kept)
    assert again.returncode == 0
    assert "die together" in again.stdout


def test_a_program_without_gain_is_told_so(build_dir: Path) -> None:
    done = poolshim(build_dir, "--", build_dir / "tests/advice/none_resized")
    assert "nothing to gain" in done.stderr
    assert "its blocks are resized" in done.stderr


def test_a_site_in_windows_stands_for_all_its_allocations(build_dir: Path) -> None:
    program = build_dir / "tests/advice/pool"
    done = poolshim(build_dir, "--json", "--once", "--size", "1MiB", "--", program)
    found = json.loads(done.stdout)
    assert found["traced"] < found["allocations"] / 4
    assert found["advice"][0]["pool"] == "pool"
    assert found["advice"][0]["allocations"] == pytest.approx(found["allocations"], rel=0.05)


@each_row(
    ("words", "status", "message"),
    [
        ((), 2, "which command? poolshim advise -- COMMAND"),
        (("--frobnicate",), 2, "no option --frobnicate; the command's own options come after --"),
        (("--top", "0", "--", "true"), 2, "--top: 0 is no number of call sites"),
        (("--read", "none.trace"), 2, "none.trace: No such file or directory"),
        (("--server", "true {port}"), 2, "--server and --load go together"),
        (("--read", "x", "--server", "a {port}", "--load", "b"), 2, "one of them"),
        (("--read", "x", "--", "true"), 2, "--read takes a file: no command, --output or --size"),
        (("--size", "1", "--", "true"), 2, '--size: "1" is below the minimum, 64KiB'),
        (("--", "./none"), 127, "./none: no such command"),
        (("-o", "none/t", "--", "true"), 2, "none"),
    ],
)
def test_bad_input_is_one_line(
    build_dir: Path, tmp_path: Path, words: tuple[str, ...], status: int, message: str
) -> None:
    done = poolshim(build_dir, *words, cwd=tmp_path)
    assert done.returncode == status
    assert done.stderr.startswith("poolshim advise: ") and done.stderr.count("\n") == 1
    assert message in done.stderr


@each_row("content", [b"", b"x" * 8000, b"PSTRACE1" + b"\xff" * 8000])
def test_a_damaged_trace_is_one_line(build_dir: Path, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.trace"
    path.write_bytes(content)
    done = poolshim(build_dir, "--read", path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "not a trace of POOLSHIM_TRACE" in done.stderr


@pytest.mark.root
def test_a_disk_without_room_for_the_trace_is_one_line(build_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, check=False).returncode != 0:
        pytest.skip("needs a small file system")
    try:
        for size, status in (("2MiB", 125), ("512KiB", 0)):
            command = ["--", sys.executable, "-S", "-c", ""]
            done = poolshim(build_dir, "--once", "--size", size, *command, tmpdir=folder)
            assert done.returncode == status, done.stderr
            if status:
                line = f"poolshim advise: {folder}: 1.0 MiB are free, a trace takes 2.0: "
                assert done.stderr == f"{line}--size N, or another folder in TMPDIR\n"
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_the_exit_status_is_the_commands(build_dir: Path) -> None:
    assert poolshim(build_dir, "--", "sh", "-c", "exit 7").returncode == 7


# ---- order and patterns, on traces made here ----


def made_by(calls: list[tuple[str, int]], **columns: int) -> trace.Trace:
    """A trace of one site: ("a", size) allocates, ("f", n) frees the block n."""
    found = trace.Trace(weights=[1.0], stacks={0: (), 1: (10, 20), 2: (30, 40)})
    for time, (kind, value) in enumerate(calls):
        if kind == "f":
            found.died[value] = time
            found.free_stack[value] = columns.get("free_stack", 2)
            found.free_thread[value] = columns.get("free_thread", 1)
            continue
        for column, one in ((found.size, value), (found.stack, 1), (found.thread, 1),
                            (found.born, time), (found.window, 0), (found.died, trace.LIVE),
                            (found.free_stack, 0), (found.free_thread, 0)):  # fmt: skip
            column.append(one)
        found.is_resized.append(0)
    found.made_count = len(found.size)
    return found


def pool_of(found: trace.Trace) -> str | None:
    pattern, _ = patterns.pattern_of(facts_of(found, list(range(len(found.size)))))
    return pattern.pool if pattern else None


def sizes(count: int) -> list[tuple[str, int]]:
    return [("a", 16 + at % 7 * 16) for at in range(count)]


def test_blocks_that_live_to_the_end_die_together() -> None:
    assert pool_of(made_by(sizes(100))) == "region"


def test_generations_that_overlap_are_groups() -> None:
    calls = sizes(60)
    for start in range(0, 200, 20):
        calls += [("f", one) for one in range(start, start + 20)] + sizes(20)
    found = made_by(calls)
    assert pool_of(found) == "fifo" or pool_of(found) == "region"


def test_frees_from_elsewhere_one_by_one_have_no_pool() -> None:
    calls = []
    for at in range(100):
        calls += [("a", 16 + at % 5 * 16), ("f", at)]
    assert pool_of(made_by(calls, free_thread=2)) is None


def test_a_batch_of_another_thread_is_a_frame() -> None:
    calls: list[tuple[str, int]] = []
    for start in range(0, 200, 10):
        calls += sizes(10) + [("f", one) for one in range(start, start + 10)]
    assert pool_of(made_by(calls, free_thread=2)) == "ring"
    assert pool_of(made_by(calls, free_thread=1)) != "ring"


def test_scratch_needs_a_free_by_the_same_call() -> None:
    calls: list[tuple[str, int]] = []
    for start in range(0, 100, 2):
        calls += [("a", 16 + start), ("a", 32), ("f", start), ("f", start + 1)]
    found = made_by(calls)
    found.stacks[2] = (30, 20)
    assert pool_of(found) == "scratch"
    found.stacks[2] = (30, 40)
    assert pool_of(found) is None


def test_streams_clear_away_what_lives_on(build_dir: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("POOLSHIM_BUILD_DIR", str(build_dir))
    found = made_by([*[("a", 48)] * 40, *(("f", one) for one in range(10, 40))])
    facts = facts_of(found, list(range(40)))
    for pattern in (patterns.REGION, patterns.STACK, patterns.FIFO, patterns.POOL):
        site = patterns.Site((10,), facts, pattern, "")
        pair = streams.streams_of(found, site)
        head = streams.HEADER.unpack_from(pair.malloc)
        calls = [kind for kind, _, _ in _ops(pair.malloc)]
        assert calls.count(streams.ALLOC) == calls.count(streams.FREE) == head[3]
        assert head[2] < head[1]
        gain = replay.measure(found, site)
        assert gain.blocks == head[3] and gain.pool_ns > 0


def _ops(data: bytes) -> list[tuple[int, int, int]]:
    words = memoryview(data)[streams.HEADER.size :].cast("I")
    return [(words[at], words[at + 1], words[at + 2]) for at in range(0, len(words), 3)]


def test_a_small_part_of_the_program_is_no_gain() -> None:
    found = made_by(sizes(100))
    facts = facts_of(found, list(range(100)))
    site = patterns.Site((10,), facts, patterns.POOL, "")
    cost = replay.Cost(20.0, 20.0, 0, 100)
    gain = replay.Gain(20.0, 10.0, 0.4, 0.6, 0, 0, 100)
    unclear = replay.Gain(20.0, 19.0, 0.9, 1.1, 0, 0, 100)
    assert Advice(site, cost, gain, [], [], 10_000).is_worthwhile
    assert not Advice(site, cost, gain, [], [], 1_000_000).is_worthwhile
    assert not Advice(site, cost, unclear, [], [], 10_000).is_worthwhile
    assert not Advice(site, cost, None, [], [], 10_000).is_worthwhile


def test_clearly_less_memory_is_a_gain() -> None:
    found = made_by(sizes(100))
    site = patterns.Site((10,), facts_of(found, list(range(100))), patterns.POOL, "")
    cost = replay.Cost(20.0, 20.0, 8192, 100)
    for low, high, pays in ((0.5, 0.6, True), (0.5, 1.2, False), (0.92, 0.95, False)):
        gain = replay.Gain(20.0, 19.0, 0.9, 1.1, 8192, 8192 * (low + high) / 2, 100, low, high)
        assert Advice(site, cost, gain, [], [], 10**9).is_worthwhile == pays
    assert replay.peaks_interval([0, 0, 0], [4.0, 4.0, 4.0]) == (0.25, 0.25)


def test_what_malloc_takes_is_the_most_that_a_pool_saves() -> None:
    found = made_by(sizes(100))
    site = patterns.Site((10,), facts_of(found, list(range(100))), patterns.POOL, "")
    small, large = replay.Cost(20.0, 20.0, 0, 100), replay.Cost(20.0, 20.0, 2048, 100)
    assert Advice(site, small, None, [], [], 200_000).can_pay
    assert not Advice(site, small, None, [], [], 200_001).can_pay
    assert Advice(site, large, None, [], [], 10**9).can_pay, "memory may be less"
    assert Advice(site, small, None, [], [], None).can_pay, "of an unknown time"
    hidden = replay.Cost(0.01, 20.0, 0, 100)
    assert Advice(site, hidden, None, [], [], 200_000).can_pay, "the loop seemed as long"


def many_sites(count: int) -> trace.Trace:
    """Sites of one size each, whose blocks die in no order."""
    calls: list[tuple[str, int]] = []
    live: list[int] = []
    generator = random.Random(1)
    for block in range(400 * count):
        calls.append(("a", 48))
        live.append(block)
        if len(live) > 100:
            calls.append(("f", live.pop(generator.randrange(100))))
    found = made_by(calls)
    found.stacks = {0: (), 2: (30, 40), **{3 + at: (100 + at,) for at in range(count)}}
    for block in range(400 * count):
        found.stack[block] = 3 + block % count
    return found


@each_row(("program_ns", "measured"), [(None, 3), (1e6, 3), (1e9, 0)])
def test_sites_that_can_pay_are_measured_up_to_a_number(
    monkeypatch: Any, program_ns: float | None, measured: int
) -> None:
    calls: list[patterns.Site] = []
    monkeypatch.setattr(replay, "cost_of", lambda *_: replay.Cost(100.0, 100.0, 0, 400))
    gain = replay.Gain(100.0, 50.0, 0.4, 0.6, 0, 0, 400)
    monkeypatch.setattr(replay, "measure", lambda _, site: calls.append(site) or gain)
    found = command.find(many_sites(8), program_ns, 3)
    assert len(found.advice) == 8 and len(calls) == measured
    assert len([one for one in found.advice if one.gain is not None]) == measured
    assert ("more with --top" in " ".join(found.notes)) == (measured > 0)


def test_a_command_that_does_not_end_again_is_stopped(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(again, "MORE_S", 0.3)
    mark = tmp_path / "pid"
    words = ["sh", "-c", f"echo $$ > {mark}; sleep 1000 & wait"]
    repeat = again.Again(words, dict(os.environ), 0, None, 0.1)
    assert repeat.processor_ns() is None
    assert "did not end within" in repeat.note
    assert not Path(f"/proc/{mark.read_text().strip()}").exists()


def test_a_command_that_ends_otherwise_again_is_not_timed() -> None:
    repeat = again.Again(["sh", "-c", "exit 3"], dict(os.environ), 0, None, 0.1)
    assert repeat.processor_ns() is None
    assert repeat.note.endswith("the command ended with 3, not 0")


SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"".join([b"x" * (40 + i % 90) for i in range(300)])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *unused): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
LOAD = """
import sys, urllib.request
for _ in range(10):
    urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/").read()
"""


def test_a_server_is_traced_under_its_load(build_dir: Path, tmp_path: Path) -> None:
    server, load, kept = tmp_path / "server.py", tmp_path / "load.py", tmp_path / "kept.trace"
    server.write_text(SERVER)
    load.write_text(LOAD)
    done = poolshim(
        build_dir, "--json", "-o", kept, "--server", f"{sys.executable} {server} {{port}}",
        "--load", f"{sys.executable} {load} {{port}}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["allocations"] > 10 * 300
    assert not any("no names" in note for note in found["notes"]), "SIGTERM ended it"
    assert found["advice"][0]["program_ns"] > 0
    assert kept.stat().st_size > 0


def test_windows_stand_for_what_follows_them() -> None:
    weights = trace.weights_of([0, 200, 400], [100, 250, 450], 300)
    assert weights == [2.0, 2.0, 0.0]


def two_sites(calls: list[tuple[str, int]], sites: list[int]) -> list[patterns.Site]:
    """A trace of several call sites, by allocation, and its sites after joining."""
    found = made_by(calls)
    found.stacks = {0: (), 1: (10, 20), 2: (30, 40), 3: (11, 20)}
    for block, site in enumerate(sites):
        found.stack[block] = site
    return together.joined(found, patterns.sites_of(found))


def test_sites_that_die_together_are_one() -> None:
    calls = []
    for start in range(0, 1000, 40):
        calls += sizes(40) + [("f", one) for one in range(start, start + 40)]
    (site,) = two_sites(calls, [1, 3] * 500)
    assert site.pattern is patterns.REGION and site.facts.count == 1000
    assert sorted(part.key for part in site.parts) == [(10,), (11,)]
    assert len(site.groups) == 25


def test_sites_that_die_at_different_times_stay_apart() -> None:
    calls, sites = [], []
    for start in range(0, 1200, 60):  # the first 40 die before the other 20 are allocated
        calls += sizes(40) + [("f", one) for one in range(start, start + 40)]
        calls += sizes(20)
        calls += [("f", one) for one in range(start + 40, start + 60)]
        sites += [1] * 40 + [3] * 20
    found = two_sites(calls, sites)
    assert [(site.pattern, site.parts) for site in found] == [(patterns.REGION, ())] * 2


def test_the_replayers_own_work_is_no_cost() -> None:
    answer = {"round_ns": [100, 110, 15], "loop_ns": [30, 10, 20], "peak_kib": 0}
    assert replay.run_of(answer).calls_ns == [80, 90, 1]


def test_the_replayer_tells_its_own_work(build_dir: Path, tmp_path: Path) -> None:
    found = made_by([*[("a", 48)] * 4000, *(("f", one) for one in range(4000))])
    site = patterns.Site((10,), facts_of(found, list(range(4000))), patterns.POOL, "")
    path = tmp_path / "stream"
    path.write_bytes(streams.streams_of(found, site).malloc)
    program = build_dir / "scripts" / "native" / "replay"
    program = program if program.exists() else next(build_dir.rglob("replay"))
    done = run_captured([str(program), "-n", "5", "malloc", str(path)])
    answer = json.loads(done.stdout)
    assert len(answer["round_ns"]) == len(answer["loop_ns"]) == 5
    assert 0 < min(answer["loop_ns"]) < min(answer["round_ns"])


def test_stacks_behind_words_that_were_not_written_are_read() -> None:
    words = [0, 2, 100, 200, 0, 0, 0, 1, 300]
    data = b"".join(one.to_bytes(8, "little") for one in words)
    assert trace.read_stacks(data, {1, 7}) == {0: (), 1: (100, 200), 7: (300,)}
    assert trace.read_stacks(data, {4, 99}) == {0: ()}
