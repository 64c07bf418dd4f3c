#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the pools library against the originals of its families, on the originals' benchmarks.

    scripts/bench --pools                       # everything
    scripts/bench --pools --quick               # a fiftieth of the work, for a first look
    scripts/bench --pools --only requests,list --passes 5
    scripts/bench --pools --families            # slots, fixed, bounded, retire and shared alone
    scripts/bench --pools --instructions        # counted by callgrind, on a busy machine too
    scripts/bench --pools --programs            # four programs on malloc, std::pmr and the pools
    scripts/bench --pools --published           # the originals' own tables, row by row

Tables on standard output, progress on standard error, everything measured into bench/results/.
Exit status: 0; 1 if a process failed; 2 for a request that cannot be met; 130 after Ctrl-C.
"""
# /// script
# requires-python = ">=3.10"
# dependencies = ["click>=8.1", "rich>=13", "tomli>=2; python_version < '3.11'"]
# ///

from __future__ import annotations

import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from harness import (
    contests,
    document,
    enlarge_plot,
    pool_programs,
    published_tables,
    report,
)
from harness.command import (
    plain_console,
    results_stem,
    run_command,
    split_names,
    write_file,
    write_results,
)
from harness.runner import Runner
from poolshim_cli import allocators as lookup
from poolshim_cli.errors import BadRequest, RunFailed
from poolshim_cli.machine import describe, one_line
from poolshim_cli.places import REPOSITORY
from rich.console import Console

RESULTS = REPOSITORY / "bench" / "results"
PASSES, QUICK_PASSES, QUICK_SCALE = 3, 2, 0.02
# Of the work, when instructions are counted: 10,000 small objects, one sample of nodes.
COUNT_SCALE = 0.0005
CONTEXT = {"help_option_names": ["-h", "--help"]}
POSITIVE = click.IntRange(1, 100)


def run_all(
    runner: Runner, chosen: list[contests.Contest], passes: int, scale: float
) -> list[contests.Result]:
    """Measures; one line of progress per process."""
    console = Console(stderr=True)
    results: dict[contests.Contest, contests.Result] = {}
    for result, number in contests.measure(runner, chosen, passes, scale):
        results[result.contest] = result
        outcome = result.failure or f"{result.warm_ms[-1]:.1f} ms"
        name = f"{result.contest.group}/{result.contest.case}"
        console.print(
            f"pass {number + 1}: {name:<24} {result.contest.pool:<16} {outcome}",
            markup=False, highlight=False,
        )  # fmt: skip
    return [results[contest] for contest in chosen]


def count_all(
    build: Path, chosen: list[contests.Contest], scale: float, timeout: float
) -> list[contests.Result]:
    """Counts instructions, on all processors at once; one line of progress per process."""
    if shutil.which("valgrind") is None:
        raise BadRequest("--instructions: valgrind is not installed")
    results = []
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        counted = [one for one in chosen if one.is_countable]
        for result in executor.map(lambda one: contests.count(build, one, scale, timeout), counted):
            results.append(result)
            name = f"{result.contest.group}/{result.contest.case}"
            outcome = result.failure or f"{result.warm_ms[0]:.0f}"
            print(f"{name:<24} {result.contest.pool:<16} {outcome}", file=sys.stderr)
    return results


def show_counts(
    done: list[contests.Result], results: Path, scale: float, write_docs: bool
) -> int:  # fmt: skip
    """Tables and files of counted instructions."""
    made = [contests.count_section(key, ones) for key, ones in contests.by_case(done).items()]
    made.append(contests.sums_section(done))
    below = [f"Instructions at scale {scale:g}. Machine: {one_line(describe())}."]
    report.print_tables(plain_console(), made, below)
    content = {"schema": 1, "machine": describe(), "instructions": contests.as_json(done)}
    stem = results_stem(results, "pools-instructions")
    write_file(stem.with_suffix(".json"), json.dumps(content, indent=1) + "\n")
    write_file(stem.with_suffix(".md"), report.markdown(made, below))
    if write_docs and not any(one.failure for one in done):
        document.store({"pools.instructions": made[-1]}, "scripts/bench --pools --instructions")
    return 1 if any(one.failure for one in done) else 0


def show_programs(
    build: Path, results: Path, runs: int, timeout: float, write_docs: bool
) -> int:  # fmt: skip
    """Table and files of the four programs."""
    if shutil.which("valgrind") is None:
        raise BadRequest("--programs: valgrind is not installed")
    try:
        done = pool_programs.measure_all(build, runs, timeout)
    except RunFailed as error:
        print(f"bench/pools.py: {error}", file=sys.stderr)
        return 1
    table = pool_programs.section(done)
    below = [f"{runs} processes of each by turns. Machine: {one_line(describe())}."]
    report.print_tables(plain_console(), [table], below)
    stem = results_stem(results, "pools-programs")
    content = {"schema": 1, "machine": describe(), "programs": pool_programs.as_json(done)}
    write_file(stem.with_suffix(".json"), json.dumps(content, indent=1) + "\n")
    write_file(stem.with_suffix(".md"), report.markdown([table], below))
    if write_docs:
        document.store({"pools.programs": table}, "scripts/bench --pools --programs")
    return 0


def show_published(
    build: Path, found: list[contests.Contest], results: Path, runs: int, scale: float,
    timeout: float, write_docs: bool,
) -> int:  # fmt: skip
    """The originals' tables, and the picture of the enlarge steps."""
    if shutil.which("strace") is None:
        raise BadRequest("--published: strace is not installed")
    entries = [entry for entry in lookup.read_table(lookup.DEFAULT_TABLE)
               if entry["name"] in published_tables.MALLOCS]  # fmt: skip
    resolved = [lookup.resolve(entry, build) for entry in entries]
    mallocs = [one for one in resolved if isinstance(one, lookup.Allocator)]
    runner = Runner(build, mallocs, timeout, sorted({f"pools/{one.program}" for one in found}))
    try:
        tables = {"pools.published.tempesta": published_tables.tempesta(runner, found, scale, runs)}
        tables["pools.published.list"] = published_tables.long_list(runner, found, scale, runs)
        profiling = published_tables.profiling(runner, found, scale, runs)
        for name, section in zip(("nodes", "arrays"), profiling):
            tables[f"pools.published.{name}"] = section
        section, curves = published_tables.enlarge(runner, found, scale, runs, mallocs)
        tables["pools.published.enlarge"] = section
    except RunFailed as error:
        print(f"bench/pools.py: {error}", file=sys.stderr)
        return 1
    below = [f"The best of {runs} processes. Machine: {one_line(describe())}."]
    report.print_tables(plain_console(), list(tables.values()), below)
    stem = results_stem(results, "pools-published")
    write_file(stem.with_suffix(".md"), report.markdown(list(tables.values()), below))
    picture = enlarge_plot.draw(curves)
    write_file(stem.with_suffix(".svg"), picture)
    if write_docs:
        document.store(tables, f"scripts/bench --pools --published --scale {scale:g}")
        write_file(REPOSITORY / "docs" / "pictures" / "enlarge-steps.svg", picture)
    return 0


@click.command(context_settings=CONTEXT, help=(__doc__ or "").split("\n\n")[0])
@click.option("--only", multiple=True, metavar="GROUP", help="Only these groups [all].")
@click.option("--families", is_flag=True,
              help=f"Only {', '.join(contests.FAMILIES)}, which have a table of their own.")
@click.option("--passes", type=POSITIVE, help=f"Processes per contestant [{PASSES}].")
@click.option("--scale", type=click.FloatRange(0.0001, 100), help="Times the work [1].")
@click.option("--quick", is_flag=True, help="A fiftieth of the work, 2 passes.")
@click.option("--instructions", is_flag=True,
              help=f"Count instructions by callgrind instead; --scale {COUNT_SCALE:g}, one pass.")
@click.option("--programs", is_flag=True,
              help=f"The programs of pools/examples/programs; --passes [{pool_programs.RUNS}].")
@click.option("--published", is_flag=True,
              help="The originals' tables under their own names; --passes [1].")
@click.option("--list", "is_list", is_flag=True, help="Name the contests, run nothing.")
@click.option("--results", type=Path, default=RESULTS, help="Folder for JSON and Markdown.")
@click.option("--write-docs", is_flag=True,
              help="Store the ratios in docs/figures.json for the documents.")
@click.option("--build", type=Path, default=REPOSITORY / "build" / "release",
              help="Build folder [build/release].")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(1), default=300.0, help="Seconds per process.")
def command(
    only: tuple[str, ...], families: bool, passes: int | None, scale: float | None, quick: bool,
    instructions: bool, programs: bool, published: bool, is_list: bool, results: Path,
    write_docs: bool, build: Path, timeout: float,
) -> int:  # fmt: skip
    """See the module's text, which is the help."""
    if programs:
        if only or families or instructions or quick or scale or is_list:
            raise BadRequest("--programs: goes with --passes, --results, --build, --timeout and "
                             "--write-docs alone")  # fmt: skip
        return show_programs(build, results, max(passes or pool_programs.RUNS, 2), timeout,
                             write_docs)  # fmt: skip
    found = contests.discover(build)
    known = list(dict.fromkeys(one.group for one in found))
    if published:
        if only or families or instructions or quick or is_list:
            raise BadRequest("--published: goes with --scale, --passes, --results, --build, "
                             "--timeout and --write-docs alone")  # fmt: skip
        return show_published(build, found, results, passes or 1, scale or 1, timeout, write_docs)
    if families and only:
        raise BadRequest("--families: names the groups itself, so --only is not allowed")
    groups = split_names(contests.FAMILIES if families else only, known, "--only")
    if not only:
        groups = [group for group in groups if group not in published_tables.GROUPS]
    chosen = [one for one in found if one.group in groups]
    if is_list:
        for one in chosen:
            print(one.group, one.case, one.pool)
        return 0
    if write_docs and (quick or only or (families and instructions)):
        raise BadRequest("--write-docs: only of all groups or --families, without --quick")
    if instructions:
        factor = scale or COUNT_SCALE
        return show_counts(count_all(build, chosen, factor, timeout), results, factor, write_docs)
    stem = results_stem(results, "pools")
    runner = Runner(build, [], timeout, sorted({f"pools/{one.program}" for one in chosen}))
    done = run_all(
        runner, chosen, passes or (QUICK_PASSES if quick else PASSES),
        scale or (QUICK_SCALE if quick else 1),
    )  # fmt: skip
    made = [contests.case_section(key, ones) for key, ones in contests.by_case(done).items()]
    made.append(contests.sums_section(done))
    below = [f"Machine: {one_line(describe())}."]
    report.print_tables(plain_console(), made, below)
    content = {"schema": 1, "machine": describe(), "results": contests.as_json(done)}
    write_results(stem, content, report.markdown(made, below), "pool_plots")
    if write_docs and not any(one.failure for one in done):
        words = f"scripts/bench --pools{' --families' if families else ''} --scale {scale or 1:g}"
        document.store(contests.document_tables(done), words)
    return 1 if any(one.failure for one in done) else 0


if __name__ == "__main__":
    sys.exit(run_command("bench/pools.py", command))
