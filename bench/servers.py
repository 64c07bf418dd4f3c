#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Memory over time of threaded programs under load and after it, under every allocator.

    scripts/bench --servers                            # all of bench/servers.toml
    scripts/bench --servers --quick                    # a tenth of the work, once
    scripts/bench --servers --only ruby,kept --allocators glibc,poolshim,jemalloc
    scripts/bench --servers --publish                  # into bench/results/servers and the README

Mean of the resident memory while the load lasts, peak, the rest three seconds after its end,
CPU time: medians of rounds in which the allocators take turns. `kept` names the small
workloads about retained memory. Tables on standard output, figures, curves and pictures into
build/servers. A program that is missing is skipped with one line; exit status 1 if one failed.
"""
# /// script
# requires-python = ">=3.10"
# dependencies = ["click>=8.1", "rich>=13", "tomli>=2; python_version < '3.11'"]
# ///

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from harness import document, server_figures, server_plots, server_report
from harness.command import choose, run_command, split_names
from harness.figures import FIGURES
from harness.runner import Runner
from harness.server_cases import Server, Table, installed, read_servers
from harness.server_figures import REST_MS, ServerRun
from harness.server_report import KEPT
from harness.server_runs import ServerRunner
from harness.suite_cases import DEFAULT_SUITE, SuiteCase, read_suite
from harness.summary import FLOOR
from poolshim_cli import allocators as lookup
from poolshim_cli.allocators import Allocator
from poolshim_cli.errors import BadRequest, RunFailed
from poolshim_cli.machine import describe, foreign_cpu_s, one_line
from poolshim_cli.places import REPOSITORY

PUBLISHED = REPOSITORY / "bench" / "results" / "servers"
COMMAND, MEANS = "scripts/bench --servers", "threaded.means"  # in docs/figures.json
SCRATCH = REPOSITORY / "build" / "servers"
README = REPOSITORY / "bench" / "README.md"
PEERS = REPOSITORY / "build" / "peers" / "allocators.toml"
BEGIN, END = "<!-- begin: made by scripts/bench --servers -->\n", "<!-- end -->\n"
ROUNDS, QUICK_SCALE, QUICK_REST_MS = 3, 0.1, 400.0
CONTEXT = {"help_option_names": ["-h", "--help"]}


def tell(text: str) -> None:
    click.echo(text, err=True)


def turn(allocators: list[Allocator], number: int) -> list[Allocator]:
    """Each round begins with another one: no allocator always comes first."""
    first = number % len(allocators)
    return allocators[first:] + allocators[:first]


class Busy:
    """The number of cores that others use from now on."""

    def __init__(self) -> None:
        self.start_s, self.start_cpu_s = time.monotonic(), foreign_cpu_s()

    def cores(self) -> float:
        passed_s = max(time.monotonic() - self.start_s, 0.001)
        return round(max(0.0, (foreign_cpu_s() - self.start_cpu_s) / passed_s), 2)


def about(
    allocators: list[Allocator], rounds: int, version: str, busy: Busy
) -> dict[str, Any]:
    """The entries beside the runs in every file."""
    entries = [{"name": a.name, "version": a.version, "note": a.note} for a in allocators]
    return {"machine": one_line(describe()), "version": version, "rounds": rounds,
            "busy_cores": busy.cores(), "allocators": entries}  # fmt: skip


def version_of(server: Server) -> str:
    """The first line that says so."""
    if not server.version:
        return ""
    done = subprocess.run(server.version, capture_output=True, text=True, check=False)
    return next((line.strip() for line in done.stdout.splitlines() if line.strip()), "")


def measure_server(
    runner: ServerRunner, server: Server, allocators: list[Allocator], rounds: int
) -> tuple[dict[str, Any], int]:
    """The rounds of one program, and how many rows failed; a row that fails once is left out."""
    runs: list[ServerRun] = []
    courses: dict[tuple[str, int], server_figures.Course] = {}
    failed: set[str] = set()
    busy = Busy()
    for number in range(rounds):
        for allocator in turn(allocators, number):
            if allocator.name in failed:
                continue
            try:
                run, course = runner.run(server, allocator, number)
            except RunFailed as failure:
                failed.add(allocator.name)
                tell(f"{server.name} {allocator.name}: {failure}")
                continue
            runs.append(run)
            courses[run.allocator, number] = course
            mib = [f"{kib / 1024:.1f}" for kib in (run.mean, run.peak, run.rest)]
            tell(f"{server.name} {allocator.name}: mean {mib[0]}, peak {mib[1]}, "
                 f"at rest {mib[2]} MiB, {run.cpu:.2f} s")  # fmt: skip
    runs = [run for run in runs if run.allocator not in failed]
    kept = [allocator for allocator in allocators if allocator.name not in failed]
    curves = {}
    for allocator in kept:
        shown = server_figures.typical([run for run in runs if run.allocator == allocator.name])
        course = server_figures.thin(courses[shown.allocator, shown.round])
        curves[allocator.name] = [[round(at), round(kib)] for at, kib in course]
    content = about(kept, rounds, version_of(server), busy)
    content |= {"runs": [run.as_json() for run in runs], "curves": curves}
    return content, len(failed)


def measure_kept(
    build: Path, rows: list[SuiteCase], allocators: list[Allocator], here: list[Allocator],
    rounds: int, timeout: float,
) -> tuple[dict[str, Any], int]:  # fmt: skip
    """The small workloads: what they say is resident at the moment that they are about."""
    runner = Runner(build, here, timeout, sorted({row.case.program for row in rows}))
    runs, failed, busy = [], 0, Busy()
    for row in rows:
        for number in range(rounds):
            for allocator in turn(allocators, number):
                try:
                    run = runner.run(row.case, allocator)
                except RunFailed as failure:
                    failed += 1
                    tell(f"{row.case.name} {allocator.name}: {failure}")
                    continue
                rss = FIGURES[row.figure].values(run)[0] * 1024
                runs.append({"case": row.short_name, "allocator": allocator.name, "round": number,
                             "rss": rss, "peak": run.peak_rss_kib})  # fmt: skip
                tell(f"{row.case.name} {allocator.name}: {rss / 1024:.1f} MiB")
    return about(allocators, rounds, "", busy) | {"runs": runs}, failed


def write_json(path: Path, content: dict[str, Any]) -> None:
    """A run or a curve on a line of its own."""
    lines = []
    for key, value in content.items():
        if key == "runs":
            text = "[\n  " + ",\n  ".join(json.dumps(run) for run in value) + "\n ]"
        elif key == "curves":
            curves = [f"{json.dumps(name)}: {json.dumps(curve, separators=(',', ':'))}"
                      for name, curve in value.items()]  # fmt: skip
            text = "{\n  " + ",\n  ".join(curves) + "\n }"
        else:
            text = json.dumps(value)
        lines.append(f" {json.dumps(key)}: {text}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def published_text(text: str, folder: Path, servers: tuple[Server, ...]) -> str:
    """The file beside the published results; the site draws what its last lines lead to."""
    results = "\n".join(
        f"[{server.title}]({server.name}.json)\n"
        for server in servers
        if (folder / f"{server.name}.json").exists()
    )
    head = "<!-- made by scripts/bench --servers --publish -->\n\n# Threaded programs\n\n"
    return f"{head}{text}\n{results}"


def publish(text: str, folder: Path, servers: tuple[Server, ...]) -> None:
    """The file beside the results, and the part of bench/README.md between the marks."""
    (folder / "README.md").write_text(published_text(text, folder, servers))
    before, mark, rest = README.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise BadRequest(f"{README}: the marks for the tables are gone")
    README.write_text(before + BEGIN + text + END + after)


def show(table: Table, folder: Path, is_published: bool) -> None:
    """Tables of all that the folder has; pictures, or what is published."""
    names = [KEPT, *(server.name for server in table.servers)]
    text = server_report.summary_text(table, server_report.read_stored(folder, names))
    if is_published:
        publish(text, folder, table.servers)
        stored = server_report.read_stored(folder, names)
        document.store({MEANS: server_report.means_section(table, stored)}, COMMAND)
    else:
        made = server_plots.draw_all(folder, {one.name: one.title for one in table.servers})
        tell(f"Pictures: {', '.join(path.name for path in made)}")
    click.echo(text, nl=False)


@click.command(context_settings=CONTEXT, help=(__doc__ or "").split("\n\n")[0])
@click.option("--only", multiple=True, metavar="A,B", help="These programs; kept [all].")
@click.option("--allocators", "names", multiple=True, metavar="A,B", help="Only these [all found].")
@click.option("--add", "additions", multiple=True, metavar="NAME=LIBRARY", help="One more.")
@click.option("--rounds", type=click.IntRange(1, 1000), help="Runs of each [3].")
@click.option("--scale", type=click.FloatRange(0.001, 1000), help="Times the work [1].")
@click.option("--quick", is_flag=True, help="A tenth of the work, 1 round, a short rest.")
@click.option("--publish", "is_published", is_flag=True,
              help="Into bench/results/servers, bench/README.md, docs/figures.json.")  # fmt: skip
@click.option("--table-only", is_flag=True, help="Measure nothing: tables of what there is.")
@click.option("--list", "is_list", is_flag=True, help="Name the programs, run nothing.")
@click.option("--results", type=click.Path(path_type=Path), help="Folder [build/servers].")
@click.option("--build", type=click.Path(path_type=Path),
              default=REPOSITORY / "build" / "release", help="Build folder [build/release].")
@click.option("--table", "allocator_table", type=click.Path(path_type=Path),
              default=lookup.DEFAULT_TABLE, help="List of allocators [that of poolshim].")
@click.option("--timeout", type=click.FloatRange(min=1), default=180, show_default=True,
              help="Seconds that one run may take.")  # fmt: skip
def main(
    only: tuple[str, ...], names: tuple[str, ...], additions: tuple[str, ...], rounds: int | None,
    scale: float | None, quick: bool, is_published: bool, table_only: bool, is_list: bool,
    results: Path | None, build: Path, allocator_table: Path, timeout: float,
) -> int:  # fmt: skip
    table = read_servers()
    known = [*(server.name for server in table.servers), KEPT]
    wanted = split_names(only, known, "--only")
    if is_list:
        click.echo("\n".join(f"{server.name}: {server.title}" for server in table.servers))
        click.echo(f"{KEPT}: {', '.join(goal.case for goal in table.kept)}")
        return 0
    if is_published and quick:
        raise BadRequest("--publish: --quick figures are none")
    folder = results or (PUBLISHED if is_published else SCRATCH)
    folder.mkdir(parents=True, exist_ok=True)
    if table_only:
        show(table, folder, is_published)
        return 0
    scale = scale or (QUICK_SCALE if quick else 1.0)
    rounds = rounds or (1 if quick else ROUNDS)
    build = build.resolve()
    if "POOLSHIM_BENCH_ALLOCATORS" not in os.environ and PEERS.exists():
        os.environ["POOLSHIM_BENCH_ALLOCATORS"] = str(PEERS)
    chosen, missing, here = choose(allocator_table, additions, names, build)
    chosen = [allocator for allocator in chosen if allocator.name != FLOOR]
    servers, absent = installed([s for s in table.servers if s.name in wanted])
    for gone in [*missing, *absent]:
        tell(f"without {gone.name}: {gone.reason}")
    failed = 0
    libraries = [a.library for a in here if a.library is not None]
    with tempfile.TemporaryDirectory(prefix="poolshim-servers-") as shared:
        rest_ms = QUICK_REST_MS if quick else REST_MS
        runner = ServerRunner(build, libraries, timeout, scale, Path(shared), rest_ms)
        for server in servers:
            content, count = measure_server(runner, server, chosen, rounds)
            failed += count
            if content["runs"]:
                write_json(folder / f"{server.name}.json", content)
    if KEPT in wanted:
        groups = {group.name: group for group in read_suite(DEFAULT_SUITE, scale)}
        rows = list(groups[KEPT].cases)
        content, count = measure_kept(build, rows, chosen, here, rounds, timeout)
        failed += count
        if content["runs"]:
            write_json(folder / f"{KEPT}.json", content)
    show(table, folder, is_published)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_command("servers.py", main))
