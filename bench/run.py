#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures malloc implementations side by side and prints the tables.

    .venv/bin/python bench/run.py                     # the main job: full size, about four minutes
    .venv/bin/python bench/run.py --quick             # the same in seconds, for a first look
    .venv/bin/python bench/run.py --only uncontended --allocators glibc,poolshim --json result.json

Tables on standard output, progress on standard error. Exit status: 0; 1 if a process failed or its
library was not mapped (its row says so); 2 for a request that cannot be met; 130 after Ctrl-C.
"""
# /// script
# requires-python = ">=3.10"
# dependencies = ["click>=8.1", "rich>=13", "tomli>=2; python_version < '3.11'"]
# ///

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from harness import document, report
from harness.command import (
    choose,
    plain_console,
    run_command,
    run_with_bar,
    split_names,
    write_file,
)
from harness.runner import Case, Runner, list_case, page_case
from harness.session import Session
from harness.summary import summarise
from poolshim_cli import allocators as lookup
from poolshim_cli.errors import BadRequest
from poolshim_cli.machine import describe
from poolshim_cli.places import REPOSITORY
from rich.console import Console

CASES = ("uncontended", "contended", "page_blocks")
# The tables' names in docs/figures.json, by the end of their titles.
NAMES_IN_DOCUMENTS = {
    " uncontended": "list.uncontended",
    " contended": "list.contended",
    " aligned to 16 and to 4096": "pages",
}
CONTEXT = {"help_option_names": ["-h", "--help"]}


def make_cases(only: list[str], count: int, rounds: int, page_count: int) -> list[Case]:
    """The cases by name, in the order of the tables."""
    cases = [
        list_case(mode, count, rounds) for mode in ("uncontended", "contended") if mode in only
    ]
    if "page_blocks" in only:
        cases += [page_case(alignment, page_count, max(rounds, 2) + 2) for alignment in (16, 4096)]
    return cases


@click.command(help=(__doc__ or "").split("\n\n")[0], context_settings=CONTEXT)
@click.option(
    "--count", type=click.IntRange(1000, 1_000_000_000), help="List nodes per round [100000000]."
)
@click.option(
    "--rounds", type=click.IntRange(1, 64), default=3, show_default=True, help="Rounds per process."
)
@click.option(
    "--processes", type=click.IntRange(1, 100), help="Processes per row, if time allows [3]."
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    default=120,
    show_default=True,
    help="Seconds after which rows get no more processes.",
)
@click.option(
    "--allocators", "names", multiple=True, metavar="A,B", help="Only these [all that are found]."
)
@click.option(
    "--only", multiple=True, metavar="CASE", help=f"Only these cases: {', '.join(CASES)}."
)
@click.option(
    "--add", "additions", multiple=True, metavar="NAME=LIBRARY", help="One more allocator."
)
@click.option(
    "--quick", is_flag=True, help="2,000,000 nodes, 20,000 pages, 2 processes: a first look."
)
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), help="Write everything here as JSON."
)
@click.option(
    "--markdown", "markdown_path", type=click.Path(path_type=Path), help="Write the tables here."
)
@click.option(
    "--write-docs", is_flag=True, help="Store full tables in docs/figures.json for the documents."
)
@click.option(
    "--build",
    type=click.Path(path_type=Path),
    default=REPOSITORY / "build" / "release",
    help="Build folder [build/release].",
)
@click.option(
    "--table",
    type=click.Path(path_type=Path),
    default=lookup.DEFAULT_TABLE,
    help="List of allocators [that of poolshim].",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=600,
    show_default=True,
    help="Seconds that one process may take.",
)
def command(
    count: int | None, rounds: int, processes: int | None, budget: float, names: tuple[str, ...],
    only: tuple[str, ...], additions: tuple[str, ...], quick: bool, json_path: Path | None,
    markdown_path: Path | None, write_docs: bool, build: Path, table: Path, timeout: float,
) -> int:  # fmt: skip
    build = build.resolve()
    if write_docs and (quick or count is not None or names or only or additions):
        raise BadRequest("--write-docs: only of the full size, all cases and all allocators")
    cases = make_cases(
        split_names(only, list(CASES), "--only"),
        count or (2_000_000 if quick else 100_000_000),
        rounds,
        20_000 if quick else 100_000,
    )
    chosen, missing, here = choose(table, additions, names, build)
    if write_docs and missing:
        raise BadRequest(f"--write-docs: {missing[0].name} is missing, {missing[0].reason}")
    for path in (json_path, markdown_path):
        if path is not None:
            write_file(path, "")
    runner = Runner(build, here, timeout)
    machine = describe()
    session = Session(cases, chosen, processes or (2 if quick else 3), budget)
    run_with_bar(session, runner, Console(stderr=True))

    made = report.sections(session, summarise(session))
    below = report.notes(session, missing, machine)
    if json_path is not None:
        write_file(
            json_path, json.dumps(report.as_json(session, missing, machine), indent=1) + "\n"
        )
    if markdown_path is not None:
        write_file(markdown_path, report.markdown(made, below))
    report.print_tables(plain_console(), made, below)
    if write_docs and not session.is_interrupted and not session.failures:
        document.store(
            {NAMES_IN_DOCUMENTS[section.title.rpartition(",")[2]]: section for section in made},
            "scripts/bench",
        )
    if session.is_interrupted:
        return 130
    return 1 if session.failures else 0


if __name__ == "__main__":
    sys.exit(run_command("run.py", command))
