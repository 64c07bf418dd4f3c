# SPDX-License-Identifier: MIT
"""The comparison as one HTML file: no scripts, no network, for phones, wide screens and paper.

Gathers what report.html.j2 shows; the figures are those of the table, the pictures' coordinates
come from pictures.py. jinja2 is an extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import need
from . import pictures, table
from .results import Results
from .summary import Row, Summary

TEMPLATE = Path(__file__).with_name("report.html.j2")
RATIO_HEADS = {"time": "Time", "cpu": "CPU time", "rss": "Peak RSS"}


def table_row(results: Results, row: Row, metrics: Sequence[str]) -> dict[str, Any]:
    """One line of the report's first table."""
    cells = []
    for metric in metrics:
        figure = row.figure(metric)
        if figure is None:
            continue
        cells.append(
            {
                "value": table.value_cell(row, metric),
                "ratio": "1" if row.is_base else table.ratio_text(figure.ratio),
                "interval": "" if row.is_base else table.interval_text(figure),
                "mark": "" if row.is_base else table.mark(figure),
            }
        )
    colour, shape = pictures.look(results, row.name)
    return {"row": row, "cells": cells, "colour": colour, "shape": shape}


def rounds_rows(summary: Summary, metric: str) -> list[tuple[str, list[str]]]:
    """Least, median and greatest of every column."""
    found = []
    for row in summary.rows:
        figure = row.figure(metric)
        if figure is not None:
            values = (figure.least, figure.median, figure.greatest)
            found.append((row.name, [table.value_text(metric, value) for value in values]))
    return found


def facts(results: Results, summary: Summary) -> list[tuple[str, str]]:
    """The machine, the versions, the settings of the measurement."""
    about = results.about
    seen = about.get("machine", {})
    settings = ", ".join(f"{key}={value}" for key, value in seen.get("tuning", {}).items())
    virtual = ", virtual" if seen.get("is_virtual") else ""
    return [
        (name, str(text))
        for name, text in (
            ("Made", about.get("made", "")),
            ("Processor", f"{seen.get('cpu', '')}, {seen.get('cores', '?')} cores{virtual}"),
            ("Memory", f"{seen.get('memory_gib', '?')} GiB, huge pages: {seen.get('huge_pages')}"),
            ("System", f"{seen.get('system', '')}, Linux {seen.get('kernel', '')}"),
            ("Versions", ", ".join(f"{k} {v}" for k, v in about.get("versions", {}).items() if v)),
            ("Rounds", f"{summary.rounds} after {about.get('warmup', 0)} of warm-up, order by "
                       f"seed {about.get('seed')}, {table.time_text(about.get('took_s') or 0)}"),
            ("Time", table.clock_line(summary).removeprefix("time: ")),
            ("Memory", table.outside_line(results).removeprefix("peak RSS: ")),
            ("Noise", table.noise_line(summary).removeprefix("noise: ")),
            ("Variables set", settings),
            ("Folder", about.get("cwd", "")),
        )
        if text
    ]  # fmt: skip


def commands(results: Results) -> list[tuple[str, str]]:
    """The commands that were run, and how to run them again."""
    about = results.about
    if about.get("mode") == "server":
        run = [("Server", about.get("server")), ("Load", about.get("load")),
               ("Ready", about.get("ready"))]  # fmt: skip
    elif about.get("mode") == "trace":
        run = [("Trace", about.get("trace"))]
    else:
        run = [("Command", table.title(results)), ("Standard input", about.get("stdin"))]
    run += [("Before each run", about.get("prepare")), ("Again", about.get("reproduce"))]
    return [(name, text) for name, text in run if text]


def to_html(results: Results, summary: Summary) -> str:
    """The whole file."""
    jinja2 = need("jinja2", "plot")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    metrics = summary.metrics
    shown = (metrics[0], "rss")
    template = environment.from_string(TEMPLATE.read_text())
    html: str = template.render(
        title=table.title(results),
        summary=summary,
        verdict=summary.verdict.replace(" %", "\u00a0%"),
        results=results,
        metrics=[RATIO_HEADS[metric] for metric in metrics],
        rows=[table_row(results, row, metrics) for row in table.shown_rows(summary)],
        scatter=pictures.scatter(results, summary),
        forests=[(RATIO_HEADS[m], pictures.forest(results, summary, m)) for m in shown],
        strips=[
            (RATIO_HEADS[m], pictures.strips(results, summary, m), rounds_rows(summary, m))
            for m in shown
        ],
        curves=pictures.curves(results, summary),
        facts=facts(results, summary),
        commands=commands(results),
        columns=[column for column in results.columns if not column.is_again],
        width=pictures.WIDTH,
        speed=RATIO_HEADS[metrics[0]],
        is_trace="time" not in metrics,
        legend=table.LEGEND,
    )
    return html.lstrip()
