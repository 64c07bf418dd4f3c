#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures every workload under every allocator and sets poolshim against the best of the others.

    scripts/bench --suite                          # all groups
    scripts/bench --suite --quick                  # all groups in two minutes, for a first look
    scripts/bench --suite --only pair,mix --allocators poolshim,mimalloc --passes 5

Tables on standard output, progress on standard error, everything measured into bench/results/.
Exit status: 0; 1 if a process failed or its library was not mapped; 2 for a request that cannot be
met; 130 after Ctrl-C.
"""
# /// script
# requires-python = ">=3.10"
# dependencies = ["click>=8.1", "rich>=13", "tomli>=2; python_version < '3.11'"]
# ///

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click
from harness import document, report, suite_report
from harness.command import (
    choose,
    plain_console,
    results_stem,
    run_command,
    run_with_bar,
    split_names,
    write_results,
)
from harness.programs import DEFAULT_PROGRAMS, SuiteRunner, read_programs
from harness.session import Session
from harness.suite_cases import DEFAULT_SUITE, Group, read_suite
from harness.summary import FLOOR
from harness.verdict import judge
from poolshim_cli import allocators as lookup
from poolshim_cli.errors import BadRequest
from poolshim_cli.machine import describe
from poolshim_cli.places import REPOSITORY
from rich.console import Console

RESULTS = REPOSITORY / "bench" / "results"
PASSES, QUICK_PASSES, QUICK_SCALE = 5, 2, 0.02
CONTEXT = {"help_option_names": ["-h", "--help"]}


def choose_groups(
    path: Path, scale: float, only: tuple[str, ...]
) -> tuple[list[Group], list[lookup.Missing]]:
    """The requested groups, in the order of the file, real programs last; programs that lack."""
    programs, missing = read_programs(DEFAULT_PROGRAMS)
    groups = [*read_suite(path, scale), programs]
    names = split_names(only, [group.name for group in groups], "--only")
    chosen = [group for group in groups if group.name in names]
    return chosen, missing if programs in chosen else []


@click.command(help=(__doc__ or "").split("\n\n")[0], context_settings=CONTEXT)
@click.option("--only", multiple=True, metavar="GROUP", help="Only these groups [all].")
@click.option("--allocators", "names", multiple=True, metavar="A,B", help="Only these [all found].")
@click.option("--add", "additions", multiple=True, metavar="NAME=LIBRARY", help="One more.")
@click.option("--passes", type=click.IntRange(1, 100), help="Processes per case and allocator [5].")
@click.option("--scale", type=click.FloatRange(0.0001, 1000), help="Times the work [1].")
@click.option("--budget", type=click.FloatRange(min=0), default=3600, show_default=True,
              help="Seconds after which cases get no more processes.")
@click.option("--quick", is_flag=True, help="A fiftieth of the work, 2 passes: a first look.")
@click.option("--full", "is_full", is_flag=True, help="Also a table of all figures.")
@click.option("--list", "is_list", is_flag=True, help="Name the groups and cases, run nothing.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS,
              help="Folder for JSON, Markdown and plots [bench/results].")
@click.option("--write-docs", is_flag=True,
              help="Store the sums in docs/figures.json for the documents.")
@click.option("--build", type=click.Path(path_type=Path),
              default=REPOSITORY / "build" / "release", help="Build folder [build/release].")
@click.option("--table", type=click.Path(path_type=Path), default=lookup.DEFAULT_TABLE,
              help="List of allocators [that of poolshim].")
@click.option("--cases", type=click.Path(path_type=Path), default=DEFAULT_SUITE,
              help="List of cases [bench/suite.toml].")
@click.option("--timeout", type=click.FloatRange(min=1), default=300, show_default=True,
              help="Seconds that one process may take.")
def command(
    only: tuple[str, ...], names: tuple[str, ...], additions: tuple[str, ...], passes: int | None,
    scale: float | None, budget: float, quick: bool, is_full: bool, is_list: bool, results: Path,
    write_docs: bool, build: Path, table: Path, cases: Path, timeout: float,
) -> int:  # fmt: skip
    build = build.resolve()
    scale = scale or (QUICK_SCALE if quick else 1)
    if write_docs and (scale != 1 or only):
        raise BadRequest("--write-docs: only of all groups at full size")
    groups, absent = choose_groups(cases, scale, only)
    if is_list:
        for group in groups:
            print(f"{group.name}: {', '.join(row.short_name for row in group.cases)}")
        return 0
    chosen, missing, here = choose(table, additions, names, build)
    chosen = [allocator for allocator in chosen if allocator.name != FLOOR]
    if not chosen:
        raise BadRequest(f"--allocators: {FLOOR} gives nothing back, bench/run.py measures it")
    rows = [row for group in groups for row in group.cases]
    stem = results_stem(results, "suite")
    machine = describe()
    passes = passes or (QUICK_PASSES if quick else PASSES)
    session = Session([row.case for row in rows], chosen, passes, budget)
    with tempfile.TemporaryDirectory(prefix="poolshim-bench-") as inputs:
        runner = SuiteRunner(build, here, timeout, rows, Path(inputs), scale)
        run_with_bar(session, runner, Console(stderr=True))

    verdicts = [judge(session, group) for group in groups]
    content = {**report.raw_json(session, missing + absent, machine),
               "groups": suite_report.as_json(verdicts)}  # fmt: skip
    below = [
        *suite_report.not_ahead(verdicts),
        *report.surroundings(session, missing + absent, machine),
    ]
    everything = suite_report.sections(verdicts, session, is_full=True)
    shown = everything if is_full else suite_report.sections(verdicts, session, is_full=False)
    report.print_tables(plain_console(), shown, below)
    write_results(stem, content, report.markdown(everything, below), "plots")
    if write_docs and not session.is_interrupted and not session.failures:
        document.store({"suite.sums": everything[-1]}, "scripts/bench --suite")
    if session.is_interrupted:
        return 130
    return 1 if session.failures else 0


if __name__ == "__main__":
    sys.exit(run_command("suite.py", command))
