# SPDX-License-Identifier: MIT
"""The suite: its table of cases, its sums with known answers, bench/suite.py from end to end.

scripts/test tests/bench/test_bench_suite.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, library_that_does_not_load, run_captured
from table import each_row

sys.path.insert(0, str(ROOT / "bench"))
pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")
pytest.importorskip("click", reason="click is not installed: run scripts/setup")

from harness import figures, programs, suite_cases, suite_report, verdict  # noqa: E402
from harness.inputs import GENERATORS, write_inputs  # noqa: E402
from harness.runner import Case, Run  # noqa: E402
from harness.session import Session  # noqa: E402
from poolshim_cli.allocators import Allocator  # noqa: E402
from poolshim_cli.errors import BadRequest, RunFailed  # noqa: E402

pytestmark = pytest.mark.bench

NAMES = ("glibc", "quick", "small", "poolshim")
ALLOCATORS = [Allocator(name) for name in NAMES]


def write_suite(folder: Path, text: str) -> Path:
    path = folder / "suite.toml"
    path.write_text(text)
    return path


# ---- the table of cases ----


def test_every_workload_has_a_case_and_every_case_a_workload() -> None:
    rows = [row for group in suite_cases.read_suite(suite_cases.DEFAULT_SUITE)
            for row in group.cases]  # fmt: skip
    workloads = {path.stem for path in (ROOT / "bench").glob("*.c")}
    assert {row.case.program for row in rows} == workloads


def test_scale_multiplies_what_it_should(tmp_path: Path) -> None:
    path = write_suite(tmp_path, """
[program.replace]
scaled = { operations = 1000 }
[group.a]
title = "A"
goals = { cell = 1.05 }
program = "replace"
cases = [
    { name = "x", options = { slots = 50 }, goal = 0.8 },
    { name = "y", options = { slots = 60, operations = 9, rounds = 4 } },
]
""")  # fmt: skip
    [group] = suite_cases.read_suite(path, 0.1)
    x, y = group.cases
    assert x.case.name == "a/x" and x.short_name == "x" and x.figure == "round"
    assert dict(x.case.expected) == {"benchmark": "replace", "slots": 50, "operations": 100}
    assert " ".join(x.case.arguments) == "--operations 100 --slots 50"
    assert "--operations 1 " in " ".join(y.case.arguments), "never nothing"
    assert (x.case.rounds, y.case.rounds) == (None, 4)
    assert (x.goal, y.goal) == (0.8, 1.05)


GOOD_HEAD = '[program.pair]\nscaled = {}\n[group.a]\ntitle = "A"\n'


@each_row(
    ("text", "complaint"),
    [
        ("[program", "suite.toml"),
        (GOOD_HEAD, "'cases' is missing"),
        (GOOD_HEAD + 'cases = [{ name = "x" }]', "no [program.None]"),
        (GOOD_HEAD + 'cases = [{ name = "x", program = "other" }]', "no [program.other]"),
        (GOOD_HEAD + 'cases = [{ name = "x", program = "pair", figure = "best" }]', "'best'"),
        (GOOD_HEAD + 'cases = [{ name = "x", program = "pair", option = {} }]', "'option'"),
        (GOOD_HEAD + "goal = 1\ncases = []", "'goal'"),
        (GOOD_HEAD + "goals = { all = 1 }\ncases = []", "'all'"),
        (GOOD_HEAD + 'program = "pair"\ncases = [{ name = "x" }, { name = "x" }]', "twice"),
    ],
)
def test_wrong_table_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadRequest) as refused:
        suite_cases.read_suite(write_suite(tmp_path, text))
    assert complaint in str(refused.value)


# ---- figures and sums ----


def make_run(rounds: list[dict[str, float]], rss_mib: float = 1, **fields: Any) -> Run:
    launcher = {"peak_rss_kib": rss_mib * 1024, "max_rss_kib": 1, "user_s": 1.5, "sys_s": 0.25,
                "last_rss_kib": 900, "last_dirty_kib": None}  # fmt: skip
    return Run("a/x", "any", {"rounds": rounds, "total_ms": 12.0, **fields}, launcher, 1.0)


def test_figures_of_a_workload_and_of_a_list() -> None:
    run = make_run([{"ms": 9, "cpu_ms": 6, "operations": 1000},
                    {"ms": 2, "cpu_ms": 1.5, "operations": 1000}])  # fmt: skip
    assert figures.FIGURES["round"].values(run) == [2000], "ns each, after the first round"
    assert figures.FIGURES["cpu_round"].values(run) == [1500]
    assert figures.FIGURES["steps"].values(run) == [4]
    assert figures.FIGURES["cpu"].values(run) == [1.75]
    assert figures.FIGURES["last_rss"].values(run) == [900]
    phases = ("alloc_ms", "free_ms", "alloc_cpu_ms", "free_cpu_ms")
    rounds = [dict(zip(phases, values, strict=True)) for values in ((5, 1, 4, 1), (1, 1, 0.5, 0.5))]
    nodes = make_run(rounds, nodes_per_round=100)
    assert figures.FIGURES["round"].values(nodes) == [20000]
    assert figures.FIGURES["cpu_round"].values(nodes) == [10000]
    assert figures.FIGURES["first"].values(nodes) == [4]
    assert figures.FIGURES["total"].values(nodes) == [12]


@each_row("name", ["dirty_per_thread", "last_dirty"])
def test_figure_that_is_not_there_fails_the_row(name: str) -> None:
    with pytest.raises(RunFailed):
        figures.FIGURES[name].values(make_run([{"ms": 1, "operations": 1}]))


def make_session(
    values: dict[tuple[str, str], list[float]], rss: dict[str, float] | None = None
) -> tuple[Session, suite_cases.Group]:
    """A session in which (case, allocator) took these ns, one process each; and its group."""
    names = list(dict.fromkeys(case for case, _ in values))
    rows = tuple(
        suite_cases.SuiteCase(Case(f"a/{name}", "pair", (), (), 1), "round", 1.05)
        for name in names
    )
    session = Session([row.case for row in rows], ALLOCATORS, 1, 100)
    for (case, allocator), each in values.items():
        session.runs[f"a/{case}", allocator] = [
            make_run([{"ms": ns / 1e6, "operations": 1}], (rss or {}).get(allocator, 1))
            for ns in each
        ]
    return session, suite_cases.Group("a", "A", rows, {"mean": 0.95})


def test_case_is_set_against_its_best_peer() -> None:
    session, group = make_session(
        {("x", "glibc"): [50, 52], ("x", "quick"): [20, 22], ("x", "small"): [40, 41],
         ("x", "poolshim"): [10, 11]}, {"glibc": 1, "quick": 8, "small": 4, "poolshim": 2},
    )  # fmt: skip
    [comparison] = verdict.judge(session, group).comparisons
    assert (comparison.best_peer, comparison.least_peer) == ("quick", "small"), "glibc is no rival"
    assert comparison.ratio == pytest.approx(0.5) and comparison.rss_ratio == pytest.approx(0.5)
    assert comparison.interval is not None
    assert comparison.interval == pytest.approx((10 / 22, 11 / 20))
    assert comparison.standing == "ahead" and comparison.is_goal_met is True


@each_row(
    ("ours", "standing", "is_goal_met"),
    [([19, 20], "ahead", True), ([20.5, 17], "ahead", True), ([20.2, 20.6], "level", True),
     ([20.9, 30], "behind", True), ([22, 22], "behind", False)],
)  # fmt: skip
def test_standing_tells_level_from_behind(
    ours: list[float], standing: str, is_goal_met: bool
) -> None:
    session, group = make_session({("x", "quick"): [20, 20.5], ("x", "poolshim"): ours})
    [comparison] = verdict.judge(session, group).comparisons
    assert comparison.standing == standing and comparison.is_goal_met is is_goal_met


def test_means_over_a_group() -> None:
    """Best of each case: 0.5 and 2; quick alone: 0.5 and 1; small alone: 0.25 and 2."""
    session, group = make_session(
        {("x", "quick"): [20], ("x", "small"): [40], ("x", "poolshim"): [10],
         ("y", "quick"): [20], ("y", "small"): [10], ("y", "poolshim"): [20]},
        {"quick": 4, "small": 1, "poolshim": 2},
    )  # fmt: skip
    found = verdict.judge(session, group)
    assert found.mean == pytest.approx(1.0)
    assert found.peers == pytest.approx({"quick": 0.5**0.5, "small": 0.5**0.5})
    assert found.rss_peers == pytest.approx({"quick": 0.5, "small": 2.0})
    assert found.least == ("small", pytest.approx(2.0))


def test_failed_row_and_absent_subject_leave_gaps_not_zeros() -> None:
    session, group = make_session(
        {("x", "quick"): [20], ("x", "small"): [10], ("x", "poolshim"): [10], ("y", "quick"): [20]}
    )
    session.failures["a/x", "small"] = "it crashed"
    found = verdict.judge(session, group)
    assert [c.best_peer for c in found.comparisons] == ["quick", None]
    assert found.comparisons[1].standing is None
    assert found.mean == pytest.approx(0.5) and found.peers == {"quick": pytest.approx(0.5)}
    section = suite_report.comparison_section(found, session)
    assert section.failures == [("a/x, small", "it crashed")]
    assert suite_report.not_ahead([found]) == []


def test_cases_behind_are_named_worst_first() -> None:
    session, group = make_session(
        {("x", "quick"): [10, 10], ("x", "poolshim"): [20, 20],
         ("y", "quick"): [10, 10], ("y", "poolshim"): [40, 40]}
    )  # fmt: skip
    lines = suite_report.not_ahead([verdict.judge(session, group)])
    assert [line.split(": ")[:2] for line in lines] == [["Behind", "a/y"], ["Behind", "a/x"]]
    assert "4.00 of quick" in lines[0]


# ---- real programs ----


def test_inputs_are_the_same_every_time(tmp_path: Path) -> None:
    for name in ("one", "two", "large"):
        (tmp_path / name).mkdir()
        write_inputs(tmp_path / name, 0.02 if name == "large" else 0.001)
    for name in GENERATORS:
        one, two, large = ((tmp_path / f / name).read_bytes() for f in ("one", "two", "large"))
        assert one == two and len(large) >= len(one) > 0
    assert (tmp_path / "large" / "lines.txt").stat().st_size > 10000


def program_runner(
    build_dir: Path, folder: Path, table: str, timeout_s: float = 30
) -> tuple[programs.SuiteRunner, list[Case], list[str]]:
    """A runner for a table of programs, its cases, and the reasons for those that lack."""
    path = folder / "programs.toml"
    path.write_text(table)
    group, missing = programs.read_programs(path)
    inputs = folder / "inputs"
    inputs.mkdir()
    runner = programs.SuiteRunner(build_dir, [], timeout_s, group.cases, inputs, 0.001)
    return runner, [row.case for row in group.cases], [gone.reason for gone in missing]


BUSY = "i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done; "


def test_program_is_run_with_its_input_and_environment(build_dir: Path, tmp_path: Path) -> None:
    check = BUSY + "[ $COLOUR = red ] && read first && [ -n \\\"$first\\\" ] && echo done"
    runner, [case], missing = program_runner(build_dir, tmp_path, f"""
[[program]]
name = "mine"
command = ["sh", "-c", "{check}"]
stdin = "lines.txt"
env = {{ COLOUR = "red" }}
[[program]]
name = "absent"
command = ["no-such-program-anywhere"]
package = "some-package"
""")  # fmt: skip
    assert missing == ["not found: no-such-program-anywhere; Debian package some-package"]
    run = runner.run(case, Allocator("glibc"))
    assert run.launcher["exit_status"] == 0 and run.peak_rss_kib > 100
    assert figures.FIGURES["cpu"].values(run)[0] > 0


def test_output_that_depends_on_the_allocator_fails_the_row(
    build_dir: Path, tmp_path: Path
) -> None:
    text = f'[[program]]\nname = "p"\ncommand = ["sh", "-c", "{BUSY} echo $WHO"]\n'
    runner, [case], _ = program_runner(build_dir, tmp_path, text)
    runner.run(case, Allocator("one", env={"WHO": "same"}))
    runner.run(case, Allocator("two", env={"WHO": "same"}))
    with pytest.raises(RunFailed, match="something else"):
        runner.run(case, Allocator("three", env={"WHO": "other"}))


def test_failing_program_and_failing_partner_fail_the_row(build_dir: Path, tmp_path: Path) -> None:
    text = f"""
[[program]]
name = "bad"
command = ["sh", "-c", "{BUSY} echo broken >&2; exit 3"]
[[program]]
name = "lonely"
command = ["sh", "-c", "{BUSY} true"]
partner = ["sh", "-c", "echo nobody there; exit 1"]
[[program]]
name = "endless"
command = ["sleep", "600"]
"""
    runner, [bad, lonely, endless], _ = program_runner(build_dir, tmp_path, text, timeout_s=1)
    with pytest.raises(RunFailed, match="exit status 3: broken"):
        runner.run(bad, Allocator("glibc"))
    with pytest.raises(RunFailed, match="nobody there"):
        runner.run(lonely, Allocator("glibc"))
    with pytest.raises(RunFailed, match="no end after 1 s"):
        runner.run(endless, Allocator("glibc"))


# ---- bench/suite.py ----


def run_suite(
    build_dir: Path, *words: str | Path, env: dict[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    dropped = ("LD_PRELOAD", "POOLSHIM_", "COLUMNS")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    command = (sys.executable, ROOT / "bench" / "suite.py", "--build", build_dir, *words)
    return run_captured(command, timeout=timeout, env=clean | (env or {}))


def measured(
    build_dir: Path, folder: Path, *words: str | Path
) -> tuple[subprocess.CompletedProcess[str], Any]:
    """A run and its JSON."""
    done = run_suite(build_dir, "--results", folder / "results", *words)
    [path] = (folder / "results").glob("suite-*.json")
    return done, json.loads(path.read_text())


def test_workloads_from_end_to_end(build_dir: Path, tmp_path: Path) -> None:
    """A run without the subject has figures of all, no ratios, all groups but the real programs."""
    groups = "pair,replace,mix,list,contended,pages,process,threads,buffers,medium,growth"
    words = ("--only", groups, "--scale", "0.002", "--passes", "1", "--allocators", "glibc,floor")
    done, result = measured(build_dir, tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [allocator["name"] for allocator in result["allocators"]] == ["glibc"], "no floor here"
    cases = [case for group in result["groups"] for case in group["cases"]]
    assert len(cases) == len(result["runs"]) > 50
    for case in cases:
        assert case["cells"]["glibc"]["value"] > 0 and case["cells"]["glibc"]["rss_mib"] > 0
        assert case["ratio"] is None and case["standing"] is None
    assert "Servers, rings, bursts" in done.stdout and "Sums:" in done.stdout
    [markdown] = (tmp_path / "results").glob("*.md")
    assert markdown.read_text().count("### ") == 3 * 11 + 1, "everybody's figures are in the file"
    if "No plots" not in done.stdout:
        drawn = {path.name.partition("-")[2].partition("-")[2] for path in
                 (tmp_path / "results").glob("*.svg")}  # fmt: skip
        assert {"pair.svg", "growth-time.svg", "growth-rss.svg", "threads-time.svg"} <= drawn
        assert "rss-mix-churn.svg" in drawn


@pytest.mark.preload
def test_poolshim_is_set_against_glibc(build_dir: Path, shim: Path, tmp_path: Path) -> None:
    words = ("--only", "pair,process", "--scale", "0.002", "--passes", "2", "--full")
    done, result = measured(build_dir, tmp_path, *words, "--allocators", "glibc,poolshim")
    assert done.returncode == 0, done.stdout + done.stderr
    for case in (case for group in result["groups"] for case in group["cases"]):
        cells = case["cells"]
        assert case["best_peer"] == "glibc" and len(case["interval"]) == 2
        assert case["ratio"] == pytest.approx(cells["poolshim"]["value"] / cells["glibc"]["value"])
    for run in result["runs"]:
        expected = None if run["allocator"] == "glibc" else str(shim.resolve())
        assert run["launcher"]["expected"] == expected
    assert "the figures of all" in done.stdout


@pytest.mark.slow
@pytest.mark.preload
def test_real_programs_from_end_to_end(build_dir: Path, shim: Path, tmp_path: Path) -> None:
    words = ("--only", "programs", "--scale", "0.01", "--passes", "1")
    done, result = measured(build_dir, tmp_path, *words, "--allocators", "glibc,poolshim")
    assert done.returncode == 0, done.stdout + done.stderr
    [group] = result["groups"]
    absent = [gone for gone in result["missing"] if gone["name"].startswith("programs/")]
    assert len(group["cases"]) + len(absent) == 10 and len(group["cases"]) >= 3
    assert all(set(case["cells"]) == {"glibc", "poolshim"} for case in group["cases"])


def test_table_from_the_environment_is_added(build_dir: Path, tmp_path: Path) -> None:
    table = tmp_path / "mine.toml"
    table.write_text('[[allocator]]\nname = "mine"\nfiles = ["/nonexistent/libmine.so"]\n')
    words = ("--only", "process", "--scale", "0.01", "--passes", "1", "--results", tmp_path)
    env = {"POOLSHIM_BENCH_ALLOCATORS": str(table)}
    done = run_suite(build_dir, *words, "--allocators", "glibc,mine", env=env)
    assert done.returncode == 0, done.stderr
    assert "Not measured: mine, not found: /nonexistent/libmine.so." in done.stdout
    assert "Settings in force" not in done.stdout, "it is no setting of an allocator"
    assert "'mine'" in run_suite(build_dir, *words, "--allocators", "mine").stderr


def test_library_that_does_not_load_fails_its_rows(build_dir: Path, tmp_path: Path) -> None:
    broken = library_that_does_not_load(tmp_path)
    words = ("--only", "process", "--scale", "0.01", "--passes", "1", "--add", f"broken={broken}")
    done, result = measured(build_dir, tmp_path, *words, "--allocators", "glibc,broken")
    assert done.returncode == 1
    assert len(result["failures"]) == 4
    assert "process/rss, broken: FAILED: libbroken.so was not mapped" in done.stdout


def test_list_names_groups_and_cases(build_dir: Path) -> None:
    done = run_suite(build_dir, "--list")
    assert done.returncode == 0
    assert "replace: replace-1K, replace-100K" in done.stdout and "programs: " in done.stdout


@each_row(
    ("words", "complaint"),
    [
        (["--only", "everything"], "no 'everything'"),
        (["--allocators", "nomalloc"], "no 'nomalloc'"),
        (["--allocators", "floor"], "floor gives nothing back"),
        (["--scale", "0"], "--scale"),
        (["--passes", "0"], "--passes"),
        (["--cases", "/nonexistent.toml"], "/nonexistent.toml"),
        (["--results", "/proc/nowhere"], "/proc/nowhere"),
        (["--build", "/nonexistent"], "build first"),
        (["extra"], "extra"),
    ],
)
def test_bad_request_is_one_line(build_dir: Path, words: list[str], complaint: str) -> None:
    done = run_suite(build_dir, "--scale", "0.001", *words)
    assert done.returncode == 2 and done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("suite.py: ") and complaint in lines[0]
