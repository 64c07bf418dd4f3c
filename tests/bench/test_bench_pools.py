# SPDX-License-Identifier: MIT
"""The pools' benchmark: every contest does its work, the sums have known answers, the command line.

scripts/test tests/bench/test_bench_pools.py
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD_DIR, ROOT, run_captured
from instructions import require_valgrind
from table import each_row

sys.path.insert(0, str(ROOT / "bench"))
pytest.importorskip("rich", reason="rich is not installed: run scripts/setup")
pytest.importorskip("click", reason="click is not installed: run scripts/setup")

from harness import contests, enlarge_plot, pool_programs, published_tables  # noqa: E402
from harness.contests import Contest, Result  # noqa: E402
from poolshim_cli.errors import BadRequest  # noqa: E402

pytestmark = pytest.mark.bench

TINY = "0.0005"


def all_contests() -> list[Contest]:
    try:
        return contests.discover(BUILD_DIR)
    except BadRequest:
        return []


@pytest.mark.nightly  # as all that runs the programs of bench/pools, which --all builds
@each_row("contest", all_contests())
def test_contest_does_its_work(contest: Contest) -> None:
    program = BUILD_DIR / "bench" / "pools" / contest.program
    result = run_captured(
        [str(program), "--case", contest.case, "--pool", contest.pool, "--scale", TINY], timeout=120
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["group"], report["case"], report["pool"]) == (
        contest.group, contest.case, contest.pool,
    )  # fmt: skip
    assert report["cold_ms"] > 0
    assert report["warm_ms"] > 0
    assert report["peak_rss_kib"] > 0


@pytest.mark.nightly
def test_there_are_contests_of_every_family() -> None:
    pools = {contest.pool for contest in all_contests()}
    families = {"ps_region", "ps_stack", "ps_fifo", "ps_ring", "ps_pool", "ps_slice", "ps_slots"}
    assert families | {"ps_fixed", "ps_bounded", "ps_retire", "ps_shared"} <= pools


@pytest.mark.nightly
@each_row("arguments", [[], ["--case", "small"], ["--case", "x", "--pool", "y"]])
def test_a_program_says_how_to_call_it(arguments: list[str]) -> None:
    result = run_captured([str(BUILD_DIR / "bench" / "pools" / "requests"), *arguments])
    assert result.returncode == 2
    assert result.stderr.startswith("usage:")


def result_of(pool: str, warm: list[float], case: str = "c") -> Result:
    return Result(Contest("p", "g", case, pool), [2 * value for value in warm], warm, [1024])


def test_our_best_is_set_against_the_best_original() -> None:
    results = [
        result_of("ps_a", [3.0, 2.0]),
        result_of("ps_b", [9.0]),
        result_of("boost", [4.0, 5.0]),
        result_of("malloc", [8.0]),
        result_of("floor", [1.0]),
    ]
    assert contests.stand(results, "warm_ms") == (0.5, "ps_a", "boost")


def test_a_contestant_that_does_less_is_no_target() -> None:
    contestants = ("ps_shared", "malloc", "boost_interprocess")
    results = [
        Result(Contest("shared", "shared", "pairs", pool), [value], [value], [1024])
        for pool, value in zip(contestants, (2.0, 1.0, 4.0))
    ]
    assert contests.stand(results, "warm_ms") == (0.5, "ps_shared", "boost_interprocess")


def test_without_an_original_there_is_no_ratio() -> None:
    assert contests.stand([result_of("ps_a", [1.0]), result_of("floor", [1.0])], "warm_ms") is None


def test_the_mean_is_geometric() -> None:
    results = [
        result_of("ps_a", [1.0], "one"), result_of("x", [2.0], "one"),
        result_of("ps_a", [8.0], "two"), result_of("x", [4.0], "two"),
    ]  # fmt: skip
    assert contests.mean_of(results, "warm_ms") == pytest.approx(1.0)


@pytest.mark.nightly
def test_families_have_a_table_of_their_own() -> None:
    results = [result_of("ps_a", [1.0]), result_of("x", [2.0])]
    assert list(contests.document_tables(results)) == ["pools.cases"]
    results += [Result(Contest("p", "shared", "c", pool), [4.0], [4.0], [1]) for pool in "xy"]
    results.append(Result(Contest("p", "shared", "c", "ps_b"), [3.0], [3.0], [1]))
    tables = contests.document_tables(results)
    assert [row[0] for row in tables["pools.cases"].rows[:-1]] == ["g/c"]
    assert tables["pools.cases"].rows[-1][3] == "0.50"
    assert [row[0] for row in tables["pools.families"].rows[:-1]] == ["shared/c"]
    assert tables["pools.families"].rows[-1][3] == "0.75"
    assert {one.group for one in all_contests()} >= set(contests.FAMILIES)


def test_a_failed_contest_keeps_its_reason_and_no_figures() -> None:
    failed = Result(Contest("p", "g", "c", "x"), failure="ended by signal 11")
    section = contests.case_section(("g", "c"), [failed, result_of("ps_a", [1.0])])
    assert section.failures == [("x", "ended by signal 11")]
    assert [row[0] for row in section.rows] == ["ps_a"]


@pytest.mark.nightly
def test_instructions_of_passes_are_counted() -> None:
    require_valgrind()
    contest = Contest("nodes", "nodes", "single_8", "ps_pool")
    once, twice = (contests.count(BUILD_DIR, contest, scale, 120) for scale in (0.0009, 0.0019))
    assert once.failure == twice.failure == ""
    # 1024 pairs of a sample, of four instructions at least: the second scale makes two samples.
    assert 4096 < once.warm_ms[0] < once.cold_ms[0] < 1e6
    assert twice.warm_ms[0] == pytest.approx(2 * once.warm_ms[0], rel=0.1)


@pytest.mark.nightly
def test_a_program_that_fails_is_no_count() -> None:
    require_valgrind()
    result = contests.count(BUILD_DIR, Contest("nodes", "nodes", "none", "none"), 1, 120)
    assert result.failure.startswith("status 2")


@pytest.mark.nightly
def test_threads_that_wait_are_not_counted() -> None:
    assert not Contest("bounded", "bounded", "single", "ps_bounded").is_countable
    assert not Contest("list", "list", "contended", "ps_ring").is_countable
    assert Contest("list", "list", "short", "ps_ring").is_countable


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_captured([sys.executable, str(ROOT / "bench" / "pools.py"), *arguments], timeout=300)


@pytest.mark.nightly
def test_a_run_leaves_tables_and_figures(tmp_path: Path) -> None:
    result = run_command(
        "--only", "objects", "--passes", "2", "--scale", TINY, "--results", str(tmp_path),
        "--build", str(BUILD_DIR),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "The pools against the originals" in result.stdout
    content = json.loads(next(tmp_path.glob("pools-*.json")).read_text())
    assert {row["group"] for row in content["results"]} == {"objects"}
    assert all(len(row["warm_ms"]) == 2 for row in content["results"])
    assert "geometric mean" in next(tmp_path.glob("pools-*.md")).read_text()


@pytest.mark.nightly
def test_a_run_that_counts_leaves_tables(tmp_path: Path) -> None:
    require_valgrind()
    result = run_command(
        "--only", "objects", "--instructions", "--results", str(tmp_path), "--build", str(BUILD_DIR)
    )
    assert result.returncode == 0, result.stderr
    assert "objects: mixed, instructions" in result.stdout
    content = json.loads(next(tmp_path.glob("pools-instructions-*.json")).read_text())
    assert all(row["warm_ms"][0] > 0 for row in content["instructions"])


@pytest.mark.nightly
def test_families_are_named_by_one_option(tmp_path: Path) -> None:
    named = run_command("--families", "--list", "--build", str(BUILD_DIR))
    assert {row.split()[0] for row in named.stdout.splitlines()} == set(contests.FAMILIES)
    twice = run_command("--families", "--only", "slots", "--build", str(BUILD_DIR))
    assert twice.returncode == 2 and "--only" in twice.stderr
    counted = run_command(
        "--families", "--instructions", "--write-docs", "--results", str(tmp_path),
        "--build", str(BUILD_DIR),
    )  # fmt: skip
    assert counted.returncode == 2 and "--write-docs" in counted.stderr


@pytest.mark.nightly
def test_an_unknown_group_is_named() -> None:
    result = run_command("--only", "nothing", "--build", str(BUILD_DIR))
    assert result.returncode == 2
    assert "nothing" in result.stderr


def test_programs_are_set_against_malloc() -> None:
    variants = pool_programs.VARIANTS
    one = pool_programs.Program(
        "json_document",
        cpu_s={name: [2.0 - number * 0.5, 4.0 - number] for number, name in enumerate(variants)},
        rss_kib={name: [2048] for name in variants},
        instructions={"malloc": 8_000_000, "pmr": 6_000_000, "pools": 2_000_000},
        in_malloc=2_000_000,
    )
    rows = pool_programs.section([one]).rows
    assert [row[0] for row in rows] == [f"json_document: {name}" for name in variants]
    assert rows[0][1:4] == ["8", "1.00", "25%"]
    assert [row[2] for row in rows[1:]] == ["–", "0.75", "0.25"]
    assert [row[4] for row in rows] == ["1.00", "0.75", "0.50", "0.25"]


@pytest.mark.nightly
def test_every_program_is_measured() -> None:
    found = pool_programs.find_programs(BUILD_DIR)
    sources = (ROOT / "pools" / "examples" / "programs").glob("*.cpp")
    assert set(found) == {path.stem for path in sources}
    one = pool_programs.Program("order_book")
    for variant in pool_programs.VARIANTS:
        pool_programs.run_once(one, found["order_book"], variant, BUILD_DIR, 120)
    assert len(one.results) == 1 and set(one.rss_kib) == set(pool_programs.VARIANTS)


@pytest.mark.nightly
@each_row("arguments", [["x"], ["pools", "0"], ["pools", "1x"], ["pools", "1", "2"]])
def test_a_shown_program_says_how_to_call_it(arguments: list[str]) -> None:
    done = run_captured([str(pool_programs.find_programs(BUILD_DIR)["order_book"]), *arguments])
    assert done.returncode == 2 and done.stderr.startswith("usage:")
    assert done.stderr.count("\n") == 1


def test_programs_go_with_no_group() -> None:
    done = run_command("--programs", "--only", "slots", "--build", str(BUILD_DIR))
    assert done.returncode == 2 and "--programs" in done.stderr


def test_an_article_has_its_rows_in_the_programs() -> None:
    """And rows of hundreds stay out of a run that compares."""
    here = {(one.group, one.case, one.pool) for one in all_contests()}
    if not here:
        pytest.skip("bench/pools is not built")
    for pool in ("after_nginx", "after_nginx_sized", "after_tfwpool", "ps_region"):
        for case in published_tables.TEMPESTA_CASES:
            assert ("requests", case, pool) in here
    rows = {case for group, case, pool in here if group == "profiling" and pool == "ps_pool"}
    assert {"single_256*1", "bulk_1024*256", "butterfly_512*8*8"} <= rows
    nodes = sum(row.count("*") == 1 for row in rows)
    assert (nodes, len(rows) - nodes) == (4 * 3 * 5, 4 * 2 * 9)
    steps = {case for group, case, pool in here if group == "enlarge" and pool == "ps_intrusive"}
    assert steps == {f"{pattern}_{step}" for pattern in published_tables.PATTERNS
                     for step in published_tables.STEPS}  # fmt: skip
    listed = run_command("--list", "--build", str(BUILD_DIR)).stdout
    assert not {line.split()[0] for line in listed.splitlines()} & set(published_tables.GROUPS)


def test_curves_have_a_line_for_each_contestant() -> None:
    curve = {step: 10.0 * step for step in published_tables.STEPS}
    patterns = {name: {"ps_intrusive": curve, "new": curve} for name in published_tables.PATTERNS}
    text = enlarge_plot.draw({"glibc": patterns, "jemalloc": patterns})
    assert text.count("<polyline") == 2 * 2 * 2
    assert "glibc, mixed" in text and "jemalloc, continuous" in text
    # Values beyond the scale end at its edges, inside of the panel.
    assert enlarge_plot.place_y(1) == enlarge_plot.PANEL_HEIGHT
    assert enlarge_plot.place_y(1e9) == 0


@pytest.mark.nightly
def test_calls_of_a_process_are_counted() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    program = BUILD_DIR / "bench" / "pools" / "requests"
    start = published_tables.count_calls(program, ("--list",))
    arguments = ("--case", "big", "--pool", "ps_region", "--scale", "0.01")
    assert published_tables.count_calls(program, arguments)["mmap"] > start["mmap"]


def test_published_tables_go_with_no_group() -> None:
    done = run_command("--published", "--only", "slots", "--build", str(BUILD_DIR))
    assert done.returncode == 2
