# SPDX-License-Identifier: MIT
"""Flight records after the fact: `poolshim why FILE.pb`, and the growth in `profile --read`.

    scripts/test tests/cli/test_why_flight.py

The histories are planted (recorded.py): a leak, steady memory, a burst. tests/faults/load_flight.c
leaves real records. tests/shim/test_flight.py has what the library writes.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, RunShim, run_captured
from recorded import BEGIN_MS, MIB, points, write
from running import POOLSHIM
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import flight, pprof  # noqa: E402
from poolshim_cli.errors import BadRequest  # noqa: E402
from poolshim_cli.why.flight import Report  # noqa: E402

NAME = "poolshim-20261118T110640-4711.pb"


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return run_captured([str(POOLSHIM), *map(str, words)], timeout=120)


def counted(at_s: float, resident: float, live: float, free: float = 0.0, limit: float = 0.0,
            pools: float = 0.0) -> tuple[float, ...]:
    """An entry of the parts, of amounts in MiB."""
    return (at_s, *(one * MIB for one in (resident, live, pools, free / 4, 3 * free / 4, limit)))


def mark(at_s: float, usage: float, limit: float) -> tuple[float | bytes, ...]:
    return (at_s, usage * MIB, limit * MIB, b"memory.max")


def leaking(per_minute: float, begin_s: float = 0.0, base: float = 20.0
            ) -> Callable[[float], float]:
    """Live memory that grows from a second on, beside blocks that come and go."""
    draw = random.Random(5)
    return lambda s: base + max(0.0, s - begin_s) * per_minute / 60 + draw.uniform(-0.2, 0.2)


def growth(found: list[tuple[Any, ...]], amount: Callable[[flight.Point], float]) -> flight.Growth:
    made = [flight.Point(one[0], round(one[1]), round(one[2])) for one in found]
    return flight.History(made).growth_of(amount)


# ---- growth ----


@each_row("per_minute, seconds", [(6.0, 300), (120.0, 60), (2.0, 480), (600.0, 10)])
def test_a_planted_leak_has_its_rate(per_minute: float, seconds: int) -> None:
    step_s = 1.0 if seconds > 20 else 0.1
    found = growth(points(seconds, leaking(per_minute), step_s=step_s), flight.live)
    assert found.is_lasting and found.rate is not None
    low, per, high = (60 * one / MIB for one in (found.rate.low, found.rate.per_s, found.rate.high))
    assert 0.99 * low <= per_minute <= 1.01 * high
    assert per == pytest.approx(per_minute, rel=0.02)
    assert found.gained / MIB == pytest.approx(per_minute * seconds / 60, abs=1)


def test_a_leak_that_began_late_is_found_in_the_last_part() -> None:
    found = growth(points(400, leaking(60.0, begin_s=330)), flight.resident)
    assert found.is_lasting and found.rate is not None
    assert 20 <= found.span_s <= 100
    assert 60 * found.rate.per_s / MIB == pytest.approx(60, rel=0.15)


def test_steady_memory_is_no_growth() -> None:
    """Noise of 3 MiB, as of samples, in 150 records: none may be taken for a leak."""
    alarms = 0
    for seed in range(150):
        draw = random.Random(seed)
        found = points(300, lambda _, draw=draw: 100 + draw.gauss(0, 3))  # type: ignore[misc]
        alarms += growth(found, flight.live).is_lasting
    assert alarms == 0


@each_row("rise_s, seconds", [(5, 60), (5, 400), (30, 200)])
def test_a_burst_that_has_ended_is_no_growth(rise_s: int, seconds: int) -> None:
    """Points are closer while memory grows: an eighth more, and one each second."""
    burst = points(rise_s, lambda s: 20 + 100 * s / rise_s, step_s=rise_s / 40)
    flat = [(rise_s + at, 124 * MIB, 120 * MIB) for at in range(1, seconds)]
    found = growth([*burst, *flat], flight.live)
    assert not found.is_lasting and found.gained == pytest.approx(100 * MIB, rel=0.02)


def test_a_full_ring_has_the_last_minutes(tmp_path: Path) -> None:
    """The oldest entry may be half overwritten: it is left out."""
    path = write(tmp_path / NAME, points(1500, leaking(6.0)))
    history = flight.history_of(pprof.read(path), "")
    assert history is not None and len(history.points) == 511
    assert history.last.at_s == pytest.approx(BEGIN_MS / 1000 + 1500)
    assert history.span_s == pytest.approx(510)


def test_points_before_a_clock_was_set_back_are_left_out(tmp_path: Path) -> None:
    found = [(one[0] - 1000 * (one[0] > 100), *one[1:]) for one in points(160, leaking(6.0))]
    found = [(2000 + float(one[0]), *one[1:]) for one in found]
    history = flight.history_of(pprof.read(write(tmp_path / NAME, found)), "")
    assert history is not None and history.span_s == pytest.approx(59)


# ---- reports ----


def report(tmp_path: Path, *args: Any, **more: Any) -> Report:
    return Report(write(tmp_path / NAME, *args, **more))


def test_a_killed_leak(tmp_path: Path) -> None:
    """20 MiB and 6 a minute for 5 minutes, of 100: 46 MiB are left, which is 7.7 minutes."""
    found = report(tmp_path, points(300, leaking(6.0)),
                   [counted(at, 24 + at / 10, 20 + at / 10, limit=100) for at in range(5, 300, 10)],
                   sites={"leak_here": 45.0, "parse": 5.0})
    assert (found.verdict.cause, found.verdict.part) == ("growth", "live")
    assert "growing live memory: it grew by 29.7 MiB in 5.0 min, 6.0 MiB a minute" in (
        found.verdict.text)
    assert "most is from leak_here < main, 45.0 MiB ±" in found.verdict.text
    assert "(90 % of the live memory)" in found.verdict.text
    until = found.history.seconds_to_limit(found.resident)
    assert until is not None and until[0] < until[1] < until[2]
    assert until[1] == pytest.approx(460, rel=0.05)
    assert "the limit of 100.0 MiB would have been reached 7." in found.outlook()
    assert found.head().startswith("server (process 4711): 53.9 MiB resident at 20261118T111140Z")
    assert "did not end by exit" in found.head()
    assert found.parts["live"] / MIB == pytest.approx(50, abs=1)
    assert found.parts["other"] / MIB == pytest.approx(4, abs=0.5)


def test_a_leak_that_reached_its_limit(tmp_path: Path) -> None:
    found = report(tmp_path, points(300, leaking(15.0)),
                   [counted(295, 97.8, 93.8, limit=100)], [mark(290, 95.2, 100)])
    assert found.verdict.cause == "growth"
    assert found.outlook() == ("the limit of 100.0 MiB was near 10 s before the last point: "
                               "95.2 MiB were in use")  # fmt: skip
    assert "limit: 95.2 MiB in use of the 100.0 MiB of memory.max at " in found.text(10, 80)


def test_steady_memory_at_a_limit(tmp_path: Path) -> None:
    found = report(tmp_path, points(200, lambda s: 92 + s % 2), [counted(195, 97, 92, limit=100)],
                   [mark(20, 95.1, 100)])
    assert (found.verdict.cause, found.verdict.nbytes) == ("limit", round(95.1 * MIB))
    assert "raise the limit to 128 MiB" in found.verdict.step


def test_steady_memory_far_from_a_limit(tmp_path: Path) -> None:
    found = report(tmp_path, points(200, lambda s: 50 + s % 2), [counted(195, 55, 50, limit=1000)],
                   state="ended by exit")
    assert found.verdict.cause == "nothing" and "ended by exit" in found.head()
    assert found.outlook().startswith("no lasting growth in 3.3 min: it remained near 5")
    assert "limit: 1000.0 MiB, which was not near" in found.text(10, 80)


def test_a_burst_whose_memory_was_retained(tmp_path: Path) -> None:
    rise = points(5, lambda s: 20 + 20 * s, step_s=0.25)
    flat = [(5 + at, 124 * MIB, 20 * MIB) for at in range(1, 100)]
    found = report(tmp_path, [*rise, *flat], [counted(100, 124, 20, free=98)])
    assert (found.verdict.cause, found.verdict.part) == ("retained", "retained")
    assert found.verdict.nbytes == 98 * MIB and "POOLSHIM_LIMIT=80%" in found.verdict.step


@each_row("free, other, cause, part", [(0, 1, "growth", "other"), (1, 0, "retained", "retained")])
def test_growth_beside_live_memory(
    free: int, other: int, cause: str, part: str, tmp_path: Path
) -> None:
    found = report(
        tmp_path, points(300, lambda _: 30, lambda s: 10 + s / 3),
        [counted(at, 40 + at / 3, 30, free=free * at / 3, limit=500) for at in range(5, 300, 10)],
    )
    assert (found.verdict.cause, found.verdict.part) == (cause, part)
    assert found.verdict.nbytes / MIB == pytest.approx(97 if part == "retained" else 100, abs=3)
    assert ("other resident memory" if other else "free memory") in found.verdict.text


def test_memory_that_is_not_mallocs(tmp_path: Path) -> None:
    found = report(tmp_path, points(100, lambda _: 10, lambda _: 90), [counted(95, 100, 10)])
    assert (found.verdict.cause, found.verdict.nbytes) == ("mappings", 90 * MIB)
    assert "`poolshim why server`" in found.verdict.step


def test_live_memory_that_resident_memory_does_not_follow_is_chance(tmp_path: Path) -> None:
    """Sampled memory grew; resident memory did not."""
    found = report(tmp_path, points(300, leaking(6.0), lambda s: 60 - s / 10))
    assert found.live.is_lasting and found.verdict.cause != "growth"


def test_parts_that_were_counted_earlier_follow_the_samples(tmp_path: Path) -> None:
    """The process grew by 90 MiB after the count: that is live memory, not other memory."""
    found = report(tmp_path, points(9, lambda s: 10 * s, step_s=0.25), [counted(0, 4, 0)])
    assert found.parts["live"] / MIB == pytest.approx(90, abs=1)
    assert any("counted 9.0 s before the last point" in note for note in found.notes)


# ---- the command ----


def test_one_screen(tmp_path: Path) -> None:
    path = write(tmp_path / NAME, points(300, leaking(6.0)), [counted(295, 53.5, 49.5, limit=100)])
    done = command("why", path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 24 and all(len(line) <= 80 for line in lines), done.stdout
    titles = [line.partition(":")[0] for line in lines if ": " in line and line[0] != " "]
    assert titles[-3:] == ["verdict", "outlook", "next"]
    quiet = command("why", "-q", path)
    assert done.stdout.endswith(quiet.stdout) and quiet.stdout.startswith("verdict: growing live")
    found = json.loads(command("why", "--json", path).stdout)
    assert found["verdict"]["cause"] == "growth" and not found["ended_by_exit"]
    grown = found["history"]["growth"]["live"]
    assert grown["low"] * 0.99 <= 6 * MIB <= grown["high"] * 1.01 and grown["is_lasting"]
    assert found["history"]["limit_bytes"] == 100 * MIB
    assert found["history"]["seconds_to_limit"]["at_rate"] == pytest.approx(460, rel=0.05)
    assert [site["name"] for site in found["sites"]] == ["leak_here"]


def test_a_list_of_call_sites_has_the_growth(tmp_path: Path) -> None:
    path = write(tmp_path / NAME, points(300, leaking(6.0)), [counted(295, 53.5, 49.5, limit=100)])
    done = command("profile", "--read", path)
    assert done.returncode == 0, done.stderr
    assert "note: live memory grew to the end, by 29.7 MiB in 5.0 min, 6.0 MiB a minute (95 %:" in (
        done.stdout)
    assert "note: at this rate the limit of 100.0 MiB would have been reached 7." in done.stdout
    found = json.loads(command("profile", "--json", "--read", path).stdout)["flight"]
    assert found["growth"]["resident"]["is_lasting"] and found["points"] == 301
    steady = write(tmp_path / "steady.pb", points(300, lambda _: 30))
    assert "note: no lasting growth in 5.0 min\n" in command("profile", "--read", steady).stdout


def test_a_profile_has_no_growth(tmp_path: Path) -> None:
    path = tmp_path / "heap.pb"
    write(path, points(30, leaking(6.0)), content=b"")
    done = command("profile", "--json", "--read", path)
    assert done.returncode == 0 and json.loads(done.stdout)["flight"] is None
    refused = command("why", path)
    assert refused.returncode == 2 and refused.stderr == (
        f"poolshim why: {path}: no flight record: it has no history of the memory; "
        "`poolshim profile --read` lists the call sites of a profile\n")  # fmt: skip


@pytest.mark.preload
@each_row("end, status", [("kill", -signal.SIGKILL), ("exit", 0), ("abort", -signal.SIGABRT)])
def test_real_records_of_a_leak(
    end: str, status: int, run_shim: RunShim, build_dir: Path, tmp_path: Path
) -> None:
    program = build_dir / "tests" / "faults" / "load_flight"
    env = {"POOLSHIM_FLIGHT": str(tmp_path), "POOLSHIM_LIMIT": "60MiB",
           "POOLSHIM_PROFILE_INTERVAL": "256KiB", "POOLSHIM_PROFILE_SEED": "3"}
    assert run_shim([program, "80", "1000", end], env=env).returncode == status
    (path,) = tmp_path.iterdir()
    found = Report(path)
    assert (found.verdict.cause, found.verdict.part) == ("growth", "live")
    assert found.sites[0].name == "leak_here" and found.has_exit == (end == "exit")
    (near,) = found.history.marks
    assert (near.limit, near.source) == (60 * MIB, "POOLSHIM_LIMIT")
    assert near.usage >= 60 * MIB and found.history.limit == 60 * MIB
    assert found.parts["live"] == pytest.approx(80 * MIB, rel=0.15)
    assert found.parts["other"] < 12 * MIB


@pytest.mark.preload
def test_a_real_burst_that_ended(run_shim: RunShim, tmp_path: Path) -> None:
    """Blocks that were freed again: no growth, though it rose to 60 MiB."""
    script = "blocks = [bytearray(20000) for _ in range(3000)]\ndel blocks\nkept = []\n" \
             "for _ in range(12000):\n    kept = [bytearray(20000) for _ in range(20)]\n"
    env = {"POOLSHIM_FLIGHT": str(tmp_path), "POOLSHIM_PROFILE_INTERVAL": "64KiB"}
    assert run_shim([sys.executable, "-c", script], env=env).returncode == 0
    found = Report(next(tmp_path.iterdir()))
    assert found.verdict.cause != "growth" and not found.live.is_lasting
    assert max(one.live for one in found.history.points) > 40 * MIB


# ---- files that are none ----


def one_line(done: subprocess.CompletedProcess[str], status: int = 2) -> str:
    assert done.returncode == status, (done.stdout, done.stderr)
    assert done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_file_that_ends_early(run_shim: RunShim, build_dir: Path, tmp_path: Path) -> None:
    """Cut anywhere, it is a shorter record or one line."""
    program = build_dir / "tests" / "faults" / "load_flight"
    env = {"POOLSHIM_FLIGHT": str(tmp_path)}
    assert run_shim([program, "30", "1000", "kill"], env=env).returncode == -signal.SIGKILL
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    for end in (*range(0, 20000, 331), *range(20000, len(data), 40009)):
        path.write_bytes(data[:end])
        try:
            assert Report(path).history.points  # whole messages are a record
            assert end < 20000  # beyond is the field that fills the file
        except BadRequest as error:
            assert str(error).startswith(f"{path}: n") and "\n" not in str(error)
    path.write_bytes(data[:9000])
    assert "not a profile in pprof's format: " in one_line(command("why", path))


@each_row("content, wanted", [
    (b"", "no flight record"),
    (b"\x02", "is damaged: it is too short"),
    (flight.HEAD.pack(1, 512, 32, 4, 1, 1, 0), "it has version 1, this command reads 2"),
    (flight.HEAD.pack(2, 0, 32, 4, 1, 1, 0), "is damaged: its lengths contradict each other"),
    (flight.HEAD.pack(2, 1 << 31, 32, 4, 1, 1, 0), "is damaged: its lengths contradict"),
    (flight.HEAD.pack(2, 512, 32, 4, 1, 1, 0), "is damaged: its lengths contradict each other"),
    (flight.HEAD.pack(2, 2, 1, 1, 1, 0, 0) + flight.POINT.pack(BEGIN_MS, 1 << 60, 1) + bytes(128),
     "is damaged: an entry is out of range"),
    (flight.HEAD.pack(2, 2, 1, 1, 1, 0, 0) + bytes(152), "is damaged: an entry is out of range"),
    (flight.HEAD.pack(2, 1, 1, 1, 0, 0, 0) + bytes(24 + 104), "no flight record"),
])  # fmt: skip
def test_a_damaged_history_is_one_line(content: bytes, wanted: str, tmp_path: Path) -> None:
    path = write(tmp_path / NAME, points(30, leaking(6.0)), content=content)
    with pytest.raises(BadRequest, match="^" + str(path)) as found:
        Report(path)
    assert wanted in str(found.value) and "\n" not in str(found.value)


def test_random_histories_are_read_or_refused(tmp_path: Path) -> None:
    draw = random.Random(11)
    data = write(tmp_path / NAME, points(300, leaking(6.0)), [counted(9, 30, 20)],
                 [mark(9, 30, 40)]).read_bytes()
    begin = len(data) - 14312
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(draw.randrange(1, 30)):
            changed[draw.randrange(begin, len(data))] = draw.randrange(256)
        (tmp_path / NAME).write_bytes(changed)
        try:
            text = Report(tmp_path / NAME).text(10, 80)
        except BadRequest as error:
            text = str(error)
        assert text.isprintable() or "verdict: " in text


@each_row("name, content, wanted", [
    ("x.pb", b"no profile", "not a profile in pprof's format"),
    ("x.pb", b"", "not a profile in pprof's format: it is empty"),
    ("x.pb", b"\x7fELF" + bytes(60), "not a profile in pprof's format"),
    ("x.pb.gz", b"\x1f\x8b\x08broken", "not a profile in pprof's format"),
    ("folder.pb", None, "Is a directory"),
    ("absent.pb", ..., "No such file or directory"),
])
def test_a_foreign_file_is_one_line(
    name: str, content: Any, wanted: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is None:
        path.mkdir()
    elif content is not ...:
        path.write_bytes(content)
    assert wanted in one_line(command("why", path))


@each_row("words, wanted", [
    (["--seconds", "5"], "is a flight record: no --seconds, --watch or --container"),
    (["--watch"], "is a flight record: no --seconds, --watch or --container"),
    (["--container", "0123"], "is a flight record: no --seconds, --watch or --container"),
    (["--top", "none"], "--top: none is no number"),
    (["1"], "one flight record at a time"),
])
def test_options_of_processes_are_refused(
    words: list[str], wanted: str, tmp_path: Path
) -> None:
    path = write(tmp_path / NAME, points(30, leaking(6.0)))
    assert wanted in one_line(command("why", path, *words))
