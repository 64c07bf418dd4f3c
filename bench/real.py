#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which allocator suits real programs: tunes and compares each, and writes the tables.

    scripts/bench --real                     # all of bench/real.toml: a quarter of an hour
    scripts/bench --real --only jq,gs        # these anew, the others as they were
    scripts/bench --real --table-only        # the tables from earlier measurements

For each program `poolshim tune` records it and writes the size classes that suit it, and `poolshim
compare` runs it under every allocator and with those classes. bench/results/real/ gets <name>.json,
what the tables need, <name>.toml, the profile, and README.md, the tables; scripts/dev/gen-overview
draws the picture of the README from them. A program that is missing or fails is skipped, with the
reason; exit status 1.
"""
# /// script
# requires-python = ">=3.10"
# dependencies = ["click>=8.1", "rich>=13", "tomli>=2; python_version < '3.11'"]
# ///

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from harness import answers
from harness.command import run_command, split_names
from harness.inputs import write_inputs
from harness.suite_cases import check_keys
from poolshim_cli.allocators import tomllib
from poolshim_cli.compare import results as stored
from poolshim_cli.compare.table import machine_line, to_markdown
from poolshim_cli.errors import BadRequest
from poolshim_cli.places import REPOSITORY

TABLE = REPOSITORY / "bench" / "real.toml"
PROGRAMS = REPOSITORY / "bench" / "programs.toml"
RESULTS = REPOSITORY / "bench" / "results" / "real"
INPUTS = REPOSITORY / "build" / "real"
COMMAND = str(REPOSITORY / "scripts" / "poolshim")
KEPT_OF_A_RUN = ("round", "position", "wall_s", "hyperfine_s", "cpu_s", "peak_rss_kib")
KEYS = {"name", "program", "command", "server", "load", "version", "note", "package"}
CONTEXT = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True)
class Program:
    """A row of the table. work: what tune and compare run."""

    name: str
    work: tuple[str, ...]
    version: tuple[str, ...]  # a command that says it
    note: str
    package: str

    @property
    def path(self) -> Path:
        return RESULTS / f"{self.name}.json"


def entries(path: Path) -> list[dict[str, Any]]:
    try:
        return list(tomllib.loads(path.read_text())["program"])
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise BadRequest(f"{path}: {error}") from error


def read_programs() -> list[Program]:
    """All of bench/real.toml."""
    known = {entry["name"]: entry for entry in entries(PROGRAMS)}
    found = []
    for entry in entries(TABLE):
        check_keys(f"{TABLE}: {entry.get('name')}", entry, KEYS)
        named = known[entry["program"]] if "program" in entry else {}
        if "server" in entry:
            work = ["--server", entry["server"], "--load", entry["load"]]
        else:
            command = [*entry.get("command", named.get("command", ()))]
            variables = [f"{key}={value}" for key, value in named.get("env", {}).items()]
            command = ["env", *variables, *command] if variables else command
            stdin = ["--stdin", named["stdin"]] if "stdin" in named else []
            work = [*stdin, "--", *command]
        found.append(
            Program(
                entry["name"], tuple(work), tuple(entry["version"]), entry.get("note", ""),
                entry.get("package", named.get("package", "")),
            )  # fmt: skip
        )
    return found


def in_place(text: str) -> str:
    """Without the folder that this checkout happens to lie in."""
    return text.replace(f"{REPOSITORY}/", "").replace(str(REPOSITORY), ".")


def ask(words: list[str]) -> None:
    """poolshim, in the folder of the inputs, with its own progress; BadRequest if it fails."""
    done = subprocess.run([COMMAND, *words], cwd=INPUTS, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise BadRequest(f"poolshim {words[0]}: exit status {done.returncode}")


def version_of(program: Program) -> str:
    """The first line that says so."""
    done = subprocess.run(program.version, capture_output=True, text=True, check=False)
    return next((line.strip() for line in done.stdout.splitlines() if line.strip()), "")


def compact(results: stored.Results) -> str:
    """What the tables need of them, as stored.read has it: an allocator with its runs on a line."""
    whole = {"poolshim_compare": stored.FORMAT, **asdict(results)}
    columns = whole.pop("columns")
    for column in columns:
        column["runs"] = [{key: run[key] for key in KEPT_OF_A_RUN} for run in column["runs"]]
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in whole.items()]
    shown = ",\n  ".join(json.dumps(column) for column in columns)
    return "{\n" + ",\n".join([*lines, f' "columns": [\n  {shown}\n ]']) + "\n}\n"


def measure(program: Program, runs: int) -> None:
    """Its profile and its results."""
    profile, report = RESULTS / f"{program.name}.toml", INPUTS / "report.json"
    ask(["tune", "--no-verify", "-q", "-o", str(profile), *program.work])
    options = ["--runs", str(runs), "--tuned", f"{answers.TUNED}={profile}"]
    ask(["compare", "-q", *options, "--json", str(report), *program.work])
    profile.write_text(in_place(profile.read_text()))
    results = stored.read(report)
    results.about["program_version"] = version_of(program)
    program.path.write_text(in_place(compact(results)))


def read_answers(programs: list[Program]) -> list[answers.Answer]:
    """Of all that have been measured, in the order of the table."""
    return [
        answers.answer(p.name, p.note, stored.read(p.path)) for p in programs if p.path.exists()
    ]


def summary_text(found: list[answers.Answer]) -> str:
    """The table and what it needs beside it."""
    machine = machine_line(found[0].results)
    notes = "".join(f"{one.name}: {one.note}. " for one in found if one.note)
    return f"{answers.table(found)}\n{machine}.\n{notes}".rstrip() + "\n"


def write_tables(found: list[answers.Answer]) -> None:
    """bench/results/real/README.md."""
    parts = ["<!-- made by scripts/bench --real -->\n\n# Real programs\n\n" + summary_text(found)]
    for one in found:
        version = one.results.about.get("program_version", "")
        parts.append(f"## {one.name}\n\n{version}\n\n{to_markdown(one.results, one.summary)}")
    (RESULTS / "README.md").write_text("\n".join(parts))


@click.command(context_settings=CONTEXT, help=(__doc__ or "").split("\n\n")[0])
@click.option("--only", multiple=True, metavar="A,B", help="these programs")
@click.option("--runs", default=15, type=click.IntRange(5, 1000), show_default=True)
@click.option("--scale", default=1.0, show_default=True, help="of their work")
@click.option("--table-only", is_flag=True, help="measure nothing")
def main(only: tuple[str, ...], runs: int, scale: float, table_only: bool) -> int:
    programs = read_programs()
    names = split_names(only, [program.name for program in programs], "--only")
    failed = 0
    RESULTS.mkdir(parents=True, exist_ok=True)
    if not table_only:
        INPUTS.mkdir(parents=True, exist_ok=True)
        write_inputs(INPUTS, scale)
    for program in programs if not table_only else []:
        if program.name not in names:
            continue
        if shutil.which(program.version[0]) is None:
            hint = f" (Debian package {program.package})" if program.package else ""
            click.echo(f"{program.name}: {program.version[0]} is not installed{hint}", err=True)
            failed += 1
            continue
        click.echo(f"{program.name}: measuring", err=True)
        try:
            measure(program, runs)
        except BadRequest as error:
            click.echo(f"{program.name}: {error}", err=True)
            failed += 1
    found = read_answers(programs)
    if not found:
        raise BadRequest("nothing was measured yet")
    write_tables(found)
    click.echo(summary_text(found), nl=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_command("real.py", main))
