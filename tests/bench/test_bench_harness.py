# SPDX-License-Identifier: MIT
"""The harness: sums with known answers, the time budget, the proofs, what the tables say.

scripts/test tests/bench/test_bench_harness.py
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from table import each_row

sys.path.insert(0, str(ROOT / "bench"))
pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")

from harness import report, runner  # noqa: E402
from harness.session import Progress, Session  # noqa: E402
from harness.summary import summarise  # noqa: E402
from poolshim_cli import allocators, intervals, launcher, machine  # noqa: E402
from poolshim_cli.errors import BadRequest, RunFailed  # noqa: E402

pytestmark = pytest.mark.bench

GLIBC = allocators.Allocator("glibc")
FAST = allocators.Allocator("fast", Path("/lib/libfast.so"))
FLOOR = allocators.Allocator("floor", Path("/lib/libfloor.so"))
LIST = runner.list_case("uncontended", 1000, 3)
CONTENDED = runner.list_case("contended", 1000, 3)


def make_run(
    case: runner.Case, allocator: str, rounds: list[tuple[float, float]], cost_s: float = 1.0
) -> runner.Run:
    """A process that took these (alloc, free) milliseconds."""
    text = {
        **dict(case.expected),
        "nodes_per_round": 1001,
        "rounds": [{"alloc_ms": a, "free_ms": f} for a, f in rounds],
        "total_ms": sum(a + f for a, f in rounds),
    }
    seen = {"wall_s": 1.0, "peak_rss_kib": 2048, "max_rss_kib": 4096}
    return runner.Run(case.name, allocator, text, seen, cost_s)


class FakeRunner:
    """Instead of processes: a fixed cost for each case and allocator, on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, costs_s: dict[tuple[str, str], float]):
        self.now = 0.0
        self.costs_s = costs_s
        self.calls: list[tuple[str, str]] = []
        self.failing: dict[tuple[str, str], str] = {}
        self.interrupt_at: int | None = None
        self.foreign_cores = 0.0
        monkeypatch.setattr("harness.session.time.monotonic", lambda: self.now)
        monkeypatch.setattr(
            "harness.session.foreign_cpu_s", lambda: 100 + self.now * self.foreign_cores
        )

    def run(self, case: runner.Case, allocator: allocators.Allocator) -> runner.Run:
        key = (case.name, allocator.name)
        self.calls.append(key)
        if len(self.calls) == self.interrupt_at:
            raise KeyboardInterrupt
        self.now += self.costs_s[key]
        if key in self.failing:
            raise RunFailed(self.failing[key])
        return make_run(case, allocator.name, [(2, 1)] * 3, self.costs_s[key])


# ---- intervals ----


def test_best_and_median() -> None:
    assert intervals.best([3.0, 1.5, 2.0]) == 1.5
    assert intervals.pooled_median([[5.0, 1.0], [3.0]]) == 3.0


def test_interval_of_constants_is_their_ratio() -> None:
    assert intervals.ratio_interval([[4.0, 4.0], [4.0]], [[2.0], [2.0, 2.0]]) == (2.0, 2.0)


def test_interval_of_two_clusters_spans_them() -> None:
    """Drawing two clusters of two: all low, all high, or mixed."""
    assert intervals.ratio_interval([[1.0], [3.0]], [[1.0], [1.0]]) == (1.0, 3.0)


def test_interval_holds_the_true_ratio_and_repeats() -> None:
    generator = random.Random(1)
    slow = [[generator.gauss(30, 1) for _ in range(5)] for _ in range(8)]
    fast = [[generator.gauss(20, 1) for _ in range(5)] for _ in range(8)]
    interval = intervals.ratio_interval(slow, fast)
    assert interval is not None
    assert 1.4 < interval[0] < 1.5 < interval[1] < 1.6
    assert intervals.ratio_interval(slow, fast) == interval
    assert intervals.is_difference(interval) is True


def test_same_distribution_is_no_difference() -> None:
    generator = random.Random(2)
    sides = [[[generator.gauss(20, 2) for _ in range(4)] for _ in range(5)] for _ in range(2)]
    assert intervals.is_difference(intervals.ratio_interval(*sides)) is False


def test_interval_is_wider_when_processes_differ_than_when_rounds_do() -> None:
    """The process is the unit: the same numbers, grouped otherwise, are worth less."""
    base = [[10.0] * 4] * 4
    between = intervals.ratio_interval([[8.0] * 4, [9.0] * 4, [11.0] * 4, [12.0] * 4], base)
    within = intervals.ratio_interval([[8.0, 9.0, 11.0, 12.0]] * 4, base)
    assert between is not None and within is not None
    assert between[1] - between[0] > within[1] - within[0]


def test_one_process_has_no_interval() -> None:
    assert intervals.ratio_interval([[1.0, 2.0]], [[1.0], [2.0]]) is None
    assert intervals.is_difference(None) is None


# ---- allocators.toml ----


def test_own_table_is_valid_and_complete() -> None:
    names = [entry["name"] for entry in allocators.read_table(allocators.DEFAULT_TABLE)]
    assert names == ["glibc", "jemalloc", "tcmalloc", "mimalloc", "poolshim", "floor"]


@each_row(
    ("text", "complaint"),
    [
        ("[[allocator]\n", "table.toml"),
        ("[[allocator]]\nfiles = []\n", "needs a name"),
        ('[[allocator]]\nname = "a b"\n', "needs a name"),
        ('[[allocator]]\nname = "a"\n[[allocator]]\nname = "a"\n', "twice"),
        ('[[allocator]]\nname = "a"\nfile = "x"\n', "unknown key 'file'"),
        ('[[allocator]]\nname = "a"\nfiles = "x"\n', "files must be a list"),
    ],
)
def test_bad_table_is_one_clear_line(tmp_path: Path, text: str, complaint: str) -> None:
    table = tmp_path / "table.toml"
    table.write_text(text)
    with pytest.raises(BadRequest, match=complaint) as failure:
        allocators.read_table(table)
    assert "\n" not in str(failure.value)


def test_missing_library_names_its_package(tmp_path: Path) -> None:
    entry = {"name": "x", "files": ["libnothing-of-the-kind.so"], "package": "libnothing1"}
    found = allocators.resolve(entry, tmp_path)
    assert isinstance(found, allocators.Missing)
    assert "libnothing-of-the-kind.so" in found.reason and "libnothing1" in found.reason


def test_library_is_found_in_the_build_and_by_the_loaders_name(tmp_path: Path) -> None:
    built = tmp_path / "bench" / "libx.so"
    built.parent.mkdir()
    built.write_bytes(Path(sys.executable).resolve().read_bytes()[:64])
    assert allocators.find_library(["{build}/bench/libx.so"], tmp_path) == built
    libc = allocators.find_library(["libc.so.6"], tmp_path)
    assert libc is not None and libc.is_file()


def test_library_of_another_machine_is_passed_over(tmp_path: Path) -> None:
    header = bytearray(Path(sys.executable).resolve().read_bytes()[:64])
    header[18] ^= 0x55  # e_machine
    (tmp_path / "libx.so").write_bytes(header)
    assert allocators.find_library(["{build}/libx.so"], tmp_path) is None
    (tmp_path / "libx.so").write_text("/* GNU ld script */")
    assert allocators.find_library(["{build}/libx.so"], tmp_path) is None


# ---- one process, believed or not ----


def make_runner(tmp_path: Path, libraries: list[allocators.Allocator]) -> runner.Runner:
    """A runner over a build folder with empty programs in it."""
    for program in ("scripts/launcher", "bench/list100m", "bench/page_blocks"):
        path = tmp_path / program
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o755)
    return runner.Runner(tmp_path, libraries)


def test_unbuilt_folder_is_a_bad_request(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="build first"):
        runner.Runner(tmp_path, [])


def test_command_preloads_and_demands_the_proof(tmp_path: Path) -> None:
    tuned = allocators.Allocator("fast", FAST.library, {"TUNE": "1"})
    words = make_runner(tmp_path, [tuned]).launch(LIST, tuned).words(Path("/l"), "/result")
    text = " ".join(words)
    assert "--env TUNE=1 --env LD_PRELOAD=/lib/libfast.so --expect-mapped /lib/libfast.so" in text
    program = words[words.index("--") + 1 :]
    assert program[0].endswith("/bench/list100m") and program[-1] == "--json"
    bare = make_runner(tmp_path, []).launch(LIST, GLIBC).words(Path("/l"), "/result")
    assert bare[0] == "/l" and "LD_PRELOAD" not in " ".join(bare)


def test_mapping_is_checked_both_ways() -> None:
    others = [a.library for a in (FAST, FLOOR) if a.library is not None]
    good = {"is_expected_mapped": True, "mapped": ["/lib/libc.so.6", "/lib/libfast.so"]}
    launcher.check_mapping(good, FAST.library, others, "")
    missing = {"is_expected_mapped": False, "mapped": ["/lib/libc.so.6"]}
    with pytest.raises(RunFailed, match="libfast.so was not mapped: ld.so complains"):
        launcher.check_mapping(missing, FAST.library, others, "ld.so complains\nmore")
    with pytest.raises(RunFailed, match="another allocator was mapped: /lib/libfast.so"):
        launcher.check_mapping(good, GLIBC.library, others, "")


@each_row(
    ("change", "complaint"),
    [
        ({}, None),
        ({"count": 999}, "count = 999"),
        ({"mode": "contended"}, "mode = 'contended'"),
        ({"rounds": []}, "0 rounds"),
        ({"rounds": [{"alloc_ms": 1, "free_ms": 0}] * 3}, "took no time"),
    ],
)
def test_report_must_be_of_the_work_asked(change: dict[str, Any], complaint: str | None) -> None:
    text = json.dumps(make_run(LIST, "x", [(2, 1)] * 3).report | change)
    if complaint is None:
        assert runner.parse_report(LIST, text)["count"] == 1000
    else:
        with pytest.raises(RunFailed, match=complaint):
            runner.parse_report(LIST, text)


def test_failed_or_garbled_program_is_a_failure() -> None:
    with pytest.raises(RunFailed, match="exit status 1: out of luck"):
        launcher.check_exit({"exit_status": 1, "signal": None}, "\nout of luck\n")
    with pytest.raises(RunFailed, match="ended by signal 11: no message"):
        launcher.check_exit({"exit_status": None, "signal": 11}, "")
    with pytest.raises(RunFailed, match="not JSON: hello"):
        runner.parse_report(LIST, "hello")
    with pytest.raises(RunFailed, match="launcher: exit status 126: cannot"):
        done = subprocess.CompletedProcess([], 126, "", "cannot")
        launcher.parse_report("", done)


# ---- sessions ----


def test_allocators_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRunner(monkeypatch, {("uncontended", "glibc"): 1, ("uncontended", "fast"): 1})
    session = Session([LIST], [GLIBC, FAST], processes=2, budget_s=100)
    session.run(fake, Progress())  # type: ignore[arg-type]
    assert fake.calls == [("uncontended", "glibc"), ("uncontended", "fast")] * 2
    assert session.spent_s == 4


def test_budget_drops_the_most_expensive_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pass 1 costs 26 s whatever the budget; of pass 2, only what fits into the other 10 s."""
    costs = {
        ("uncontended", "glibc"): 4.0,
        ("uncontended", "fast"): 1.0,
        ("contended", "glibc"): 20.0,
        ("contended", "fast"): 1.0,
    }
    fake = FakeRunner(monkeypatch, costs)
    session = Session([LIST, CONTENDED], [GLIBC, FAST], processes=3, budget_s=36)
    session.run(fake, Progress())  # type: ignore[arg-type]
    assert {key: len(runs) for key, runs in session.runs.items()} == {
        ("uncontended", "glibc"): 2,
        ("uncontended", "fast"): 3,
        ("contended", "glibc"): 1,
        ("contended", "fast"): 3,
    }
    assert session.spent_s <= 36


def test_first_pass_is_whole_on_any_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRunner(monkeypatch, {("uncontended", "glibc"): 9, ("uncontended", "fast"): 9})
    session = Session([LIST], [GLIBC, FAST], processes=3, budget_s=0)
    session.run(fake, Progress())  # type: ignore[arg-type]
    assert len(fake.calls) == 2


def test_failure_ends_its_row_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRunner(monkeypatch, {("uncontended", "glibc"): 1, ("uncontended", "fast"): 1})
    fake.failing["uncontended", "fast"] = "libfast.so was not mapped: no message"
    session = Session([LIST], [GLIBC, FAST], processes=3, budget_s=100)
    session.run(fake, Progress())  # type: ignore[arg-type]
    assert fake.calls.count(("uncontended", "fast")) == 1
    assert fake.calls.count(("uncontended", "glibc")) == 3
    section = report.list_section(session, summarise(session), "uncontended", 1000)
    assert [row[0] for row in section.rows] == ["glibc"]
    assert section.failures == [("fast", "libfast.so was not mapped: no message")]
    assert "FAILED: libfast.so was not mapped" in report.markdown([section], [])


def test_interrupt_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRunner(monkeypatch, {("uncontended", "glibc"): 1, ("uncontended", "fast"): 1})
    fake.interrupt_at = 2
    session = Session([LIST], [GLIBC, FAST], processes=3, budget_s=100)
    session.run(fake, Progress())  # type: ignore[arg-type]
    assert session.is_interrupted and list(summarise(session)) == [("uncontended", "glibc")]


@each_row(("cores", "is_told"), [(1.5, True), (0.05, False)])
def test_busy_machine_is_told(monkeypatch: pytest.MonkeyPatch, cores: float, is_told: bool) -> None:
    fake = FakeRunner(monkeypatch, {("uncontended", "glibc"): 4})
    fake.foreign_cores = cores
    session = Session([LIST], [GLIBC], processes=1, budget_s=100)
    session.run(fake, Progress())  # type: ignore[arg-type]
    assert session.foreign_cores == pytest.approx(cores)
    below = "\n".join(report.notes(session, [], machine.describe()))
    assert ("other processes used 1.5 of" in below) == is_told


def test_foreign_time_is_all_busy_time_but_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields: user nice system idle iowait irq softirq steal guest guest_nice."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = [ticks * n for n in (100, 2, 30, 1000, 1000, 4, 5, 6, 1000, 1000)]
    text = "cpu  " + " ".join(map(str, fields)) + "\ncpu0 1 2 3\n"
    monkeypatch.setattr("poolshim_cli.machine.read_text", lambda path: text)
    monkeypatch.setattr("poolshim_cli.machine.os.times", lambda: (1.0, 2.0, 10.0, 20.0, 5000.0))
    assert machine.foreign_cpu_s() == pytest.approx(147 - 33)
    monkeypatch.setattr("poolshim_cli.machine.read_text", lambda path: "")
    assert machine.foreign_cpu_s() == 0


# ---- sums and tables ----


@pytest.fixture
def measured() -> Session:
    """glibc twice, a library twice as fast, the floor four times as fast."""
    session = Session([LIST], [GLIBC, FAST, FLOOR], processes=2, budget_s=100)
    for allocator, factor in (("glibc", 1.0), ("fast", 0.5), ("floor", 0.25)):
        rounds = [(90.0, 40.0), (20.0, 12.0), (24.0, 10.0)]
        slower = [(95.0, 40.0), (22.0, 14.0), (26.0, 12.0)]
        session.runs["uncontended", allocator] = [
            make_run(LIST, allocator, [(a * factor, f * factor) for a, f in times])
            for times in (rounds, slower)
        ]
    return session


def test_summary_is_best_of_rounds_and_ratio_of_bests(measured: Session) -> None:
    row = summarise(measured)["uncontended", "fast"]
    assert (row.alloc_ms, row.free_ms, row.first_alloc_ms) == (10.0, 5.0, 45.0)
    assert row.total_s == pytest.approx(0.098)
    assert row.peak_rss_mib == 2.0
    assert (row.to_floor, row.to_baseline, row.processes) == (2.0, 0.5, 2)
    assert row.alloc_mops == pytest.approx(1001 / 10 / 1000)
    low, high = row.to_baseline_interval or (0, 0)
    assert low <= 0.5 <= high < 1


def test_ratio_without_its_base_is_a_dash(measured: Session) -> None:
    del measured.runs["uncontended", "glibc"], measured.runs["uncontended", "floor"]
    section = report.list_section(measured, summarise(measured), "uncontended", 1000)
    assert section.rows[0][0] == "fast"
    assert section.rows[0][-4:] == [report.NOTHING, report.NOTHING, report.NOTHING, "2"]


def test_interval_says_when_there_is_no_difference() -> None:
    assert report.interval((0.5, 0.75)) == "0.50–0.75"
    assert report.interval((0.9, 1.1)) == "0.90–1.10 ≈"
    assert report.interval(None) == report.NOTHING


def test_markdown_is_a_table(measured: Session) -> None:
    made = report.sections(measured, summarise(measured))
    lines = report.markdown(made, ["below"]).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 3
    assert len({line.count("|") for line in table}) == 1
    assert "time/glibc" in table[0] and "uncontended" in lines[0] and "below" in lines[-1]


def test_page_table_sets_one_alignment_against_the_other() -> None:
    cases = [runner.page_case(alignment, 100, 3) for alignment in (16, 4096)]
    session = Session(cases, [GLIBC], processes=1, budget_s=1)
    for case, factor in zip(cases, (1.0, 3.0)):
        times = [(9 * factor, factor), (2 * factor, factor), (3 * factor, factor)]
        session.runs[case.name, "glibc"] = [make_run(case, "glibc", times)]
    (section,) = report.sections(session, summarise(session))
    assert [row[:5] for row in section.rows] == [
        ["glibc", "16", "9.0", "2.0", "1.0"],
        ["glibc", "4096", "27.0", "6.0", "3.0"],
    ]
    assert [row[6] for row in section.rows] == [report.NOTHING, "3.00"]


def test_json_holds_every_process(measured: Session) -> None:
    gone = [allocators.Missing("other", "not found: libother.so")]
    text = json.loads(json.dumps(report.as_json(measured, gone, {"cpu": "x"})))
    assert text["schema"] == 1 and text["machine"] == {"cpu": "x"}
    assert len(text["runs"]) == 6 and len(text["summaries"]) == 3
    assert text["missing"] == [{"name": "other", "reason": "not found: libother.so"}]
    assert text["runs"][0]["report"]["rounds"][0]["alloc_ms"] == 90.0
