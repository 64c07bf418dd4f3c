# SPDX-License-Identifier: MIT
"""What the command lines of bench/ share: choosing allocators, the bar, where results go."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar

from poolshim_cli import allocators as lookup
from poolshim_cli.errors import BadRequest

from .runner import Case, Runner
from .session import Progress, Session

# A second table of allocators, added to the first: what a machine has beyond the packages.
EXTRA_TABLE = "POOLSHIM_BENCH_ALLOCATORS"
# Wide enough for every table where there is no terminal.
PLAIN_WIDTH = 140


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
    extra = os.environ.get(EXTRA_TABLE)
    added = [(EXTRA_TABLE, entry) for entry in lookup.read_table(Path(extra))] if extra else []
    added += [("--add", lookup.parse_addition(text)) for text in additions]
    for origin, entry in added:
        if any(entry["name"] == other["name"] for other in entries):
            raise BadRequest(f"{origin}: {entry['name']} is in {table.name} already")
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
    """Runs the session; one line per process, on a terminal with a live bar below."""
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
            failed = "FAILED: " if is_failure else ""
            console.print(f"{case.name:<18} {allocator.name:<10} {failed}{outcome}", markup=False)

        session.run(runner, Progress(begin_pass, begin_step, end_step))


def write_file(path: Path, text: str) -> None:
    """Writes a result; a path that cannot be written is the user's mistake."""
    try:
        path.write_text(text)
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from error


def results_stem(folder: Path, kind: str) -> Path:
    """Where this run's files go: the folder, and a name that sorts by time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadRequest(f"{folder}: {error.strerror}") from error
    return folder / f"{kind}-{datetime.now(timezone.utc).strftime('%Y%m%dT%H%M%SZ')}"


def write_results(stem: Path, content: dict[str, Any], text: str, drawer: str) -> None:
    """The JSON and the Markdown of this run, and what harness.<drawer> draws of it if matplotlib is
    there; says what became of it."""
    write_file(stem.with_suffix(".json"), json.dumps(content, indent=1) + "\n")
    write_file(stem.with_suffix(".md"), text)
    try:
        made = importlib.import_module(f"harness.{drawer}").draw_all(stem.with_suffix(".json"))
        drawn = "Plots: " + ", ".join(path.name for path in made)
    except ModuleNotFoundError as error:
        drawn = f"No plots: no {error.name} here (.venv/bin/pip install matplotlib draws them)"
    print(f"Results: {stem}.json, {stem.name}.md. {drawn}.")


def plain_console() -> Console:
    """Standard output, with room for every table where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)


def run_command(name: str, command: click.Command) -> int:
    """click, but with one line per mistake. Returns the exit status."""
    run: Callable[..., int | None] = command.main
    try:
        return run(standalone_mode=False) or 0
    except click.ClickException as error:
        print(f"{name}: {error.format_message()}", file=sys.stderr)
    except BadRequest as error:
        print(f"{name}: {error}", file=sys.stderr)
    except click.Abort:
        return 130
    return 2
