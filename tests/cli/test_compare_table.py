# SPDX-License-Identifier: MIT
"""The conclusions from results, and their tables, compared with golden outputs.

    scripts/test tests/cli/test_compare_table.py

With WRITE_GOLDEN=1 the outputs are written anew; read the difference before it is committed.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
from pathlib import Path

import pytest
from compare_lab import made_up
from conftest import ROOT
from poolshim_cli.compare import results as keeping
from poolshim_cli.compare import table
from poolshim_cli.compare.paired import Ratio
from poolshim_cli.compare.summary import is_different, percent, summarise
from poolshim_cli.errors import BadRequest
from rich.console import Console
from table import each_row

GOLDEN = ROOT / "tests" / "cli" / "golden"
RESULTS = GOLDEN / "compare.json"


def as_terminal(results: keeping.Results) -> str:
    out = io.StringIO()
    table.print_table(results, summarise(results), Console(file=out, width=100))
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def as_markdown(results: keeping.Results) -> str:
    return table.to_markdown(results, summarise(results))


def as_csv(results: keeping.Results) -> str:
    return table.to_csv(results, summarise(results))


def as_json(results: keeping.Results) -> str:
    return results.to_json()


@each_row(
    ("name", "render"),
    [("txt", as_terminal), ("md", as_markdown), ("csv", as_csv), ("json", as_json)],
)
def test_outputs_are_the_golden_ones(name: str, render: object) -> None:
    assert callable(render)
    found, path = render(keeping.read(RESULTS)), GOLDEN / f"compare.{name}"
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(found)
    assert found == path.read_text()


def test_verdict_names_what_differs_and_what_does_not() -> None:
    made = made_up({"glibc": 1.0, "jemalloc": 1.06, "mimalloc": 1.0, "poolshim": 0.9}, rounds=20)
    for runs in (made.columns[1].runs, made.columns[3].runs):
        runs[:] = [dataclasses.replace(run, peak_rss_kib=3 * run.peak_rss_kib) for run in runs]
    found = summarise(made)
    assert found.verdict.startswith("poolshim is 9.9 % ± ")
    assert " faster than glibc and uses 3.0 times the memory; jemalloc is " in found.verdict
    assert found.verdict.endswith("; no difference: mimalloc.")
    assert summarise(made_up({"a": 1.0, "b": 1.0})).verdict == "No difference between a and b."
    wide = summarise(made_up({"a": 1.0, "b": 1.0}, rounds=6, noise=0.3)).verdict
    assert wide.startswith("Cannot tell b from a. Too noisy to see differences in time below ")
    heavy = summarise(made_up({"a": 1.0, "b": 1.0}, rounds=6, noise=0.3, memory=1.07)).verdict
    assert heavy.startswith("Cannot tell about time; b uses 7 % more memory. Too noisy to see ")
    assert summarise(made_up({"a": 1.0, "b": 2.0}, rounds=4)).verdict.startswith("Too few rounds")
    mixed = made_up({"a": 1.0, "b": 1.0, "c": 1.0}, rounds=6, noise=0.3)
    heavy_runs = [dataclasses.replace(r, peak_rss_kib=2 * r.peak_rss_kib)
                  for r in mixed.columns[2].runs]  # fmt: skip
    mixed.columns[2].runs[:] = heavy_runs
    said = summarise(mixed).verdict
    assert said.startswith("Cannot tell about time; c uses 2.0 times the memory; no difference in "
                           "memory: b. Too noisy to see differences in time below ")  # fmt: skip
    memory = summarise(made_up({"a": 1.0, "b": 1.0}, memory=1.07)).verdict
    assert memory == "No difference in time; b uses 7 % more memory."


def test_base_that_differs_from_itself_raises_the_bar() -> None:
    ratios = {"glibc": 1.0, "near": 1.03, "far": 1.2, "glibc again": 1.05}
    found = summarise(made_up(ratios, rounds=20, noise=0.003))
    assert any("the base differs from itself by" in line for line in found.warnings)
    near, far = found.row("near").time, found.row("far").time
    assert near and not near.is_different and (near.low or 0) > 1
    assert far and far.is_different is True


def test_verdict_goes_by_cpu_time_where_others_used_the_machine() -> None:
    """The clock says 27 % faster, the program's own time 6 % slower; and the other way round."""
    made = made_up({"glibc": 1.0, "a": 0.73, "b": 1.0, "glibc again": 1.0}, rounds=20)
    for column in made.columns[1:2]:
        column.runs[:] = [dataclasses.replace(r, cpu_s=r.cpu_s / 0.73 * 1.06) for r in column.runs]
    calm = summarise(made)
    assert calm.speed == "time" and calm.verdict.startswith("a is 27 % ± ")
    made.about["foreign_cpu_share"] = 1.8
    busy = summarise(made)
    assert busy.speed == "cpu" and busy.verdict.startswith("a uses 6.")
    assert "more CPU time than glibc" in busy.verdict and "faster" not in busy.verdict
    assert any(
        line.startswith("other processes were using 1.8 cores; timings are unreliable")
        for line in busy.warnings
    )


def test_no_call_is_within_the_noise_that_stands_beside_it() -> None:
    """A column that was steady by luck, beside a base that is far from itself."""
    made = made_up({"glibc": 1.0, "lucky": 1.29, "glibc again": 1.0}, rounds=8)
    for at, run in enumerate(made.columns[2].runs):
        made.columns[2].runs[at] = dataclasses.replace(
            run, wall_s=run.wall_s * (0.4, 3.0)[at % 2], hyperfine_s=None
        )
    found = summarise(made)
    lucky, noise = found.row("lucky").time, found.noise
    assert lucky and noise and lucky.is_different is None
    assert (lucky.high or 0) / lucky.ratio >= (noise.high or 9) / noise.ratio * 0.999


def test_no_difference_is_said_where_none_that_matters_is_left() -> None:
    """Told apart, within 5 %, or neither; less than half a percent is no difference."""
    assert is_different(Ratio(1.004, 1.003, 1.005), 0) is False
    assert is_different(Ratio(1.006, 1.005, 1.007), 0) is True
    assert is_different(Ratio(1.2, 0.9, 1.5), 0) is None
    assert is_different(Ratio(1.0, 0.96, 1.045), 0) is False
    assert is_different(Ratio(1.0, 0.94, 1.06), 0) is None
    assert is_different(Ratio(1.2, 1.1, 1.3), 0.3) is None
    assert is_different(Ratio(1.2, None, None), 0) is None


def test_clock_is_the_launchers_where_hyperfines_overhead_would_show() -> None:
    made = made_up({"a": 1.0, "b": 1.1})
    assert summarise(made).clock == "hyperfine"
    for column in made.columns:
        slow = [dataclasses.replace(run, hyperfine_s=run.wall_s + 0.02) for run in column.runs]
        column.runs = slow
    found = summarise(made)
    assert found.clock == "launcher" and found.overhead_s == pytest.approx(0.02)
    assert found.row("a").time == summarise(made).row("a").time
    del made.columns[1].runs[0]
    assert summarise(made).rounds == 12


def test_rounds_are_matched_by_their_number() -> None:
    """A round that one column lacks is left out for both."""
    made = made_up({"a": 1.0, "b": 1.0})
    made.columns[0].runs = made.columns[0].runs[3:]
    full = summarise(made).row("b").time
    made.columns[1].runs = made.columns[1].runs[3:]
    short = summarise(made).row("b").time
    assert full and short and full.ratio == short.ratio


def test_failed_column_has_no_figures_and_says_why() -> None:
    made = made_up({"a": 1.0, "b": 1.0, "c": 1.0})
    made.columns[1].failure, made.columns[1].runs = "ended by signal 6: poolshim: double free", []
    assert "b: FAILED: ended by signal 6" in as_terminal(made)
    assert "| b | failed |" in as_markdown(made)
    assert summarise(made).verdict == "No difference between a and c."


def test_names_cannot_break_the_markdown() -> None:
    made = made_up({"a": 1.0, "b": 1.0})
    made.columns[1].note = "a | b <script>"
    made.about["command"] = ["echo", "```"]
    text = as_markdown(made)
    assert "b: a \\| b \\<script>" in text and "\n````sh\n" in text


@each_row(
    ("value", "text"), [(0.04, "4 %"), (0.043, "4.3 %"), (0.2, "20 %"), (0.0996, "10 %")]
)
def test_percents(value: float, text: str) -> None:
    assert percent(value) == text


@each_row(
    ("seconds", "text"),
    [(4e-7, "0 µs"), (0.00025, "250 µs"), (0.0123, "12.3 ms"), (1.5, "1.50 s"), (612, "612 s")],
)
def test_times(seconds: float, text: str) -> None:
    assert table.time_text(seconds) == text


@each_row(
    ("text", "complaint"),
    [
        ("", "Expecting value"),
        ("[]", "compare --json"),
        ('{"poolshim_compare": 99}', "compare --json"),
        ('{"poolshim_compare": 1}', "no 'columns'"),
        ('{"poolshim_compare": 1, "columns": 3}', "not iterable"),
        ('{"poolshim_compare": 1, "columns": [], "about": {}, "base": "x"}', "no runs of the base"),
    ],
)
def test_files_that_are_no_results(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(BadRequest, match="not a result file") as error:
        keeping.read(path)
    assert complaint in str(error.value) and "\n" not in str(error.value)


@each_row("field", ["wall_s", "cpu_s", "peak_rss_kib", "round"])
@each_row("value", [None, "x"])
def test_damaged_runs_are_refused(field: str, value: object, tmp_path: Path) -> None:
    data = json.loads(RESULTS.read_text())
    data["columns"][0]["runs"][0][field] = value
    path = tmp_path / "results.json"
    path.write_text(json.dumps(data))
    with pytest.raises(BadRequest, match="not a result file"):
        keeping.read(path)


def test_results_of_a_newer_version_may_have_more(tmp_path: Path) -> None:
    data = json.loads(RESULTS.read_text())
    data["more"] = data["columns"][0]["more"] = data["columns"][0]["runs"][0]["more"] = 1
    path = tmp_path / "results.json"
    path.write_text(json.dumps(data))
    assert keeping.read(path) == keeping.read(RESULTS)
