# SPDX-License-Identifier: MIT
"""Terminals of 80 columns and fewer: every figure and every mark is there, nothing is cut off.

    scripts/test tests/cli/test_cli_narrow.py
"""

from __future__ import annotations

import io

from compare_lab import made_up
from conftest import ROOT
from poolshim_cli.compare import results as keeping
from poolshim_cli.compare import table
from poolshim_cli.compare.summary import METRICS, Summary, summarise
from poolshim_cli.tune import report
from poolshim_cli.tune.verify import Check, interval_text
from rich.console import Console
from table import each_row

RESULTS = ROOT / "tests" / "cli" / "golden" / "compare.json"


def many() -> keeping.Results:
    """Names as long as people give them, figures as long as they become."""
    names = {"glibc": 1.0, "poolshim-with-many-options": 1.0004, "a.very-long_name+of.20": 123.4}
    return made_up({**names, "glibc again": 1.0}, rounds=6, noise=0.5, memory=0.5)


def shown(results: keeping.Results, summary: Summary, width: int) -> list[str]:
    out = io.StringIO()
    table.print_table(results, summary, Console(file=out, width=width, no_color=True))
    return out.getvalue().splitlines()


@each_row("width", [120, 100, 80, 60, 50])
@each_row("make", [many, lambda: keeping.read(RESULTS)])
def test_table_keeps_its_figures_and_marks(make: object, width: int) -> None:
    assert callable(make)
    results = make()
    summary = summarise(results)
    lines = shown(results, summary, width)
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert "…" not in text
    for row in table.shown_rows(summary):
        assert row.name in text
        for metric in METRICS if row.failure is None else ():
            assert table.value_cell(row, metric) in text
            assert table.ratio_cell(row, metric, is_short=True) in text


@each_row("width", [80, 50])
def test_figure_stands_beside_its_name(width: int) -> None:
    """The line of a metric has the median and the ratio of it, below its allocator's name."""
    results = keeping.read(RESULTS)
    lines = shown(results, summarise(results), width)
    at = next(at for at, line in enumerate(lines) if line.startswith("poolshim"))
    words = [line.split() for line in lines[at : at + 3]]
    assert words[0] == ["poolshim", "time", "460", "ms", "0.913", "±", "1.7", "%", "▼"]
    assert words[2] == ["peak", "RSS", "37.2", "MiB", "0.930", "±", "0.1", "%", "▼"]


@each_row("width", [120, 80, 50])
def test_tunes_measurement_is_complete(width: int) -> None:
    row = summarise(keeping.read(RESULTS)).row("poolshim")
    assert row.rss and row.time
    checks = [Check("jq '[.[]|.name]|length' big.json", held, 8, row.rss, row.time, 1e8, ())
              for held in (False, True)]  # fmt: skip
    out = io.StringIO()
    report.show_checks(Console(file=out, width=width, soft_wrap=True, no_color=True), checks)
    lines = out.getvalue().splitlines()
    assert all(len(line.rstrip()) <= width for line in lines)
    text = "\n".join(lines)
    assert text.count(interval_text(row.rss)) == text.count(interval_text(row.time)) == 2
    assert "(held out)" in text and "…" not in text
