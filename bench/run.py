#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures malloc implementations side by side and prints the tables.

    .venv/bin/python bench/run.py                     # the main job: full size, under five minutes
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
from harness import allocators as lookup
from harness import report
from harness.errors import BadRequest
from harness.machine import describe
from harness.runner import Case, Runner, list_case, page_case
from harness.session import Progress, Session
from harness.summary import summarise
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar

CASES = ("uncontended", "contended", "page_blocks")
# Wide enough for every table where there is no terminal to ask.
PLAIN_WIDTH = 140
CONTEXT = {"help_option_names": ["-h", "--help"]}


def make_cases(only: list[str], count: int, rounds: int, page_count: int) -> list[Case]:
    """The cases by name, in the order of the tables."""
    cases = [
        list_case(mode, count, rounds) for mode in ("uncontended", "contended") if mode in only
    ]
    if "page_blocks" in only:
        cases += [page_case(alignment, page_count, max(rounds, 2) + 2) for alignment in (16, 4096)]
    return cases


def split_names(texts: tuple[str, ...], known: list[str], option: str) -> list[str]:
    """The names of a repeatable, comma-separated option, checked; none given: all known."""
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise BadRequest(f"{option}: no {name!r} here (known: {', '.join(known)})")
    return [name for name in known if name in names] if texts else known


def choose(
    table: Path, additions: tuple[str, ...], names: tuple[str, ...], build: Path
) -> tuple[list[lookup.Allocator], list[lookup.Missing], list[lookup.Allocator]]:
    """The allocators to measure, those that are missing, and every one that is installed."""
    entries = lookup.read_table(table)
    for entry in (lookup.parse_addition(text) for text in additions):
        if any(entry["name"] == other["name"] for other in entries):
            raise BadRequest(f"--add: {entry['name']} is in {table.name} already")
        entries.append(entry)
    wanted = split_names(names, [entry["name"] for entry in entries], "--allocators")
    found = [lookup.resolve(entry, build) for entry in entries]
    here = [a for a in found if isinstance(a, lookup.Allocator)]
    chosen = [a for a in here if a.name in wanted]
    missing = [a for a in found if isinstance(a, lookup.Missing) and a.name in wanted]
    if not chosen:
        raise BadRequest("; ".join(f"{gone.name}: {gone.reason}" for gone in missing))
    return chosen, missing, here


def run_with_bar(session: Session, runner: Runner, console: Console) -> None:
    """Runs the session; a live bar on a terminal, one line per process elsewhere."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(),
               MofNCompleteColumn(), TimeElapsedColumn())  # fmt: skip
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=0)
        planned = 0

        def begin_pass(number: int, steps: int) -> None:
            nonlocal planned
            planned += steps
            bar.update(task, total=planned)

        def begin_step(case: Case, allocator: lookup.Allocator, number: int) -> None:
            bar.update(task, description=f"pass {number + 1}: {case.name}, {allocator.name}")

        def end_step(
            case: Case, allocator: lookup.Allocator, outcome: str, is_failure: bool
        ) -> None:
            bar.advance(task)
            if is_failure or not console.is_terminal:
                failed = "FAILED: " if is_failure else ""
                console.print(
                    f"{case.name:<18} {allocator.name:<10} {failed}{outcome}", markup=False
                )

        session.run(runner, Progress(begin_pass, begin_step, end_step))


def write_file(path: Path, text: str) -> None:
    """Writes a result; a path that cannot be written is the user's mistake."""
    try:
        path.write_text(text)
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from error


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
    default=200,
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
    "--build",
    type=click.Path(path_type=Path),
    default=lookup.REPOSITORY / "build" / "release",
    help="Build folder [build/release].",
)
@click.option(
    "--table",
    type=click.Path(path_type=Path),
    default=lookup.DEFAULT_TABLE,
    help="List of allocators [bench/allocators.toml].",
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
    markdown_path: Path | None, build: Path, table: Path, timeout: float,
) -> int:  # fmt: skip
    build = build.resolve()
    cases = make_cases(
        split_names(only, list(CASES), "--only"),
        count or (2_000_000 if quick else 100_000_000),
        rounds,
        20_000 if quick else 100_000,
    )
    chosen, missing, here = choose(table, additions, names, build)
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
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    report.print_tables(console, made, below)
    if session.is_interrupted:
        return 130
    return 1 if session.failures else 0


def main() -> int:
    """click, but with one line per mistake."""
    try:
        return command.main(standalone_mode=False) or 0
    except click.ClickException as error:
        print(f"run.py: {error.format_message()}", file=sys.stderr)
    except BadRequest as error:
        print(f"run.py: {error}", file=sys.stderr)
    except click.Abort:
        return 130
    return 2


if __name__ == "__main__":
    sys.exit(main())
