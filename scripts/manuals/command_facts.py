# SPDX-License-Identifier: MIT
"""The subcommands of poolshim and their options, from their own parsers and help texts.

For make_manuals.py, which writes manual pages and completions.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import option_table
import stand_in

ROOT = Path(__file__).resolve().parents[2]
RUN_SOURCE = ROOT / "scripts" / "native" / "run.c"
SUMMARY = "a drop-in malloc, with commands that check, compare and tune it"
FILE_WORDS = re.compile(r"\b(FILE|PATH|LIB)\b")
FOLDER_WORDS = re.compile(r"\bDIR\b")


@dataclass(frozen=True)
class Option:
    """One option of a subcommand, with all its names."""

    names: tuple[str, ...]
    metavar: str
    help: str
    choices: tuple[str, ...] = ()

    @property
    def takes(self) -> str:
        """What a shell completes after the option: nothing, a file, a folder, or a word."""
        if not self.metavar or self.metavar.startswith("["):
            return "nothing"
        if FOLDER_WORDS.search(self.metavar):
            return "folder"
        return "file" if FILE_WORDS.search(self.metavar) else "word"


@dataclass
class Command:
    """One subcommand."""

    name: str
    summary: str
    usage: str
    text: list[str]  # paragraphs; one that starts with a blank is an example
    options: list[Option] = field(default_factory=list)
    settings: list[Option] = field(default_factory=list)  # of `run`: the options of the library
    status: str = ""

    @property
    def runs_a_program(self) -> bool:
        """Are its words a command line?"""
        return "PID" not in self.usage


def joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)


def read_option_lines(lines: list[str]) -> list[Option]:
    """Lines of "  -q, --quiet VALUE  what it does", continued by deeper ones."""
    options: list[Option] = []
    for line in lines:
        found = re.match(r"  (-[^\s,]+(?:, -[^\s,]+)*)(?: (\S+))?(?:  +(.*))?$", line)
        if found and line[2] == "-":
            names = tuple(re.split(r", ", found[1]))
            options.append(Option(names, found[2] or "", found[3] or ""))
        elif options and line.strip():
            last = options.pop()
            text = joined([last.help, line]).strip()
            options.append(Option(last.names, last.metavar, text, last.choices))
    return options


def of_help(name: str, summary: str, text: str) -> Command:
    """Reads a help text of our own: usage, paragraphs, options, exit status."""
    usage, *paragraphs = text.strip().split("\n\n")
    command = Command(name, summary, usage.partition(": ")[2], [])
    for paragraph in paragraphs:
        lines = paragraph.splitlines()
        if paragraph.startswith("  -"):
            command.options = read_option_lines(lines)
        elif paragraph.startswith("Exit status: "):
            command.status = joined(lines).partition(": ")[2]
        elif not paragraph.startswith("Settings"):
            command.text.append(joined(lines))
    return command


def of_click(name: str, summary: str, parser: Any) -> Command:
    """Reads the options that a command declares for click."""
    command = Command(name, summary, f"poolshim {name} [OPTIONS] -- COMMAND...", [])
    for paragraph in inspect.cleandoc(parser.help or "").split("\n\n"):
        if paragraph.startswith("Exit status: "):
            command.status = joined(paragraph.splitlines()).partition(": ")[2]
        elif paragraph.startswith("\b"):
            command.text += [f" {line.strip()}" for line in paragraph[1:].strip().splitlines()]
        else:
            command.text.append(joined(paragraph.splitlines()))
    for one in parser.params:
        metavar = "" if one.is_flag else one.metavar or metavar_of(one.type)
        text = one.help or ""
        if one.show_default and one.default is not None and not one.is_flag:
            text += f" [default: {one.default}]"
        names = tuple([*one.opts, *one.secondary_opts])
        command.options.append(Option(names, metavar, re.sub(r"\s+", " ", text)))
    command.options.append(Option(("--help",), "", "Show a summary of the options and exit."))
    return command


def metavar_of(kind: Any) -> str:
    """A word for a value whose option names none."""
    words = {"integer": "N", "integer range": "N", "float": "N", "float range": "N",
             "path": "PATH", "duration": "TIME"}  # fmt: skip
    return words.get(kind.name, "TEXT")


def run_help() -> str:
    """What `poolshim run --help` prints about itself, from the source of the program."""
    text = RUN_SOURCE.read_text()
    body = text[text.index('printf("usage: poolshim run') :]
    literals = re.findall(r'"((?:[^"\\]|\\.)*)"', body[: body.index("\n}\n")])
    printed = "".join(literals).replace("\\n", "\n").replace('\\"', '"').replace("%%", "%")
    return printed.replace("%s", "glibc, jemalloc, tcmalloc, mimalloc, poolshim, system", 1)


def of_run(summary: str, rows: list[option_table.Option]) -> Command:
    """`run` is a C program; its settings are the rows of shim/config.def."""
    command = of_help("run", summary, run_help())
    taken = {name for option in command.options for name in option.names}
    for row in rows:
        name = "--" + row.name.lower().replace("_", "-")
        if name in taken:
            continue
        choices: tuple[str, ...] = ()
        metavar = {"SWITCH": "[=off]", "REPORT": "[=FILE]"}.get(row.type, "VALUE")
        if row.type in ("WORD", "HUGE"):
            choices = tuple(row.range.split("|"))
            metavar = "WORD"
        elif row.type == "PATH":
            metavar = "FILE"
        note = option_table.values_of(row).replace("`", "")
        text = row.help if row.type in ("SWITCH", "REPORT", "PATH") else f"{row.help} ({note})"
        command.settings.append(Option((name,), metavar, text, choices))
    return command


def commands() -> list[Command]:
    """All of them, in alphabetical order."""
    sys.path.insert(0, str(ROOT / "scripts"))
    with stand_in.packages():
        from poolshim_cli import __main__ as entry

        return [of_name(name, entry.summary_of(name)) for name in entry.names()]


def of_name(name: str, summary: str) -> Command:
    """One subcommand; `run` is no Python."""
    if name == "run":
        return of_run(summary, option_table.read_options(option_table.TABLE.read_text()))
    module = importlib.import_module(f"poolshim_cli.{name}.command")
    if hasattr(module, "HELP"):
        return of_help(name, summary, module.HELP)
    return of_click(name, summary, module.command)
