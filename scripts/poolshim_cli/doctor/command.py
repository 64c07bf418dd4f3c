# SPDX-License-Identifier: MIT
"""`poolshim doctor [--run] [--json] -- command`: would a preload take effect, and if not, why not.

    scripts/poolshim doctor -- redis-server

Exit status: 0 it takes effect, 1 it does not, 2 usage, 125 own failure, 126 and 127 the command
cannot be executed, was not found. Needs no package but Python: rich, where it is installed, draws
the tables of a terminal.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import elf, places, preload
from ..errors import BadRequest, OwnFailure
from . import family, loading, program, set_aside, surroundings, target
from .findings import FATAL, FINE, NOTE, WARNING, Diagnosis, Setting

STYLES = {FATAL: "bold red", WARNING: "yellow", NOTE: "dim", FINE: "green"}
WORDS = {FATAL: "no effect", WARNING: "warning", NOTE: "note", FINE: "fine"}
HELP = """usage: poolshim doctor [OPTIONS] -- COMMAND [ARGUMENT...]

Checks whether poolshim takes effect in a command, and gives the reason if not. It reads the program
file and has the program's loader list what it would load in this environment; nothing runs unless
--run is given.

  --run        also run the command, its output on standard error, and check every program that it
               starts
  --settings   list all settings of the library, also those at their defaults
  --json       print one JSON object on standard output
  -q, --quiet  print nothing; the exit status has the result
  -h, --help   print this text

Exit status: 0 it takes effect, 1 it does not, 2 usage, 125 own failure, 126 the command cannot be
executed, 127 it is not found.
"""


@dataclass(frozen=True)
class Request:
    """The command line."""

    words: tuple[str, ...]
    flags: frozenset[str]

    def has(self, flag: str) -> bool:
        """Was it given?"""
        return flag in self.flags


FLAGS = {"--run": "run", "--settings": "settings", "--json": "json", "--quiet": "quiet",
         "-q": "quiet", "--help": "help", "-h": "help"}  # fmt: skip


def parse(words: list[str]) -> Request:
    """Flags up to -- or to the command, whose own words are left alone."""
    flags, at = set(), 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if word not in FLAGS:
            near = difflib.get_close_matches(word, list(FLAGS), 1)
            raise BadRequest(f"no option {word}" + (f"; did you mean {near[0]}?" if near else ""))
        flags.add(FLAGS[word])
    return Request(tuple(words[at:]), frozenset(flags))


def own_environment() -> dict[str, str]:
    """The environment that the command would get, without what only this package reads."""
    return {name: value for name, value in os.environ.items() if name != places.BUILD_VARIABLE}


def diagnose(command: tuple[str, ...], library: Path, env: Mapping[str, str]) -> Diagnosis:
    """Everything that can be seen without running anything but the loader."""
    diagnosis = Diagnosis(command, str(library))
    found = target.follow(diagnosis, env)
    try:
        ours = elf.read(library)
        probes = ours.probes
        if found is not None and diagnosis.takes_effect:
            look_into(diagnosis, found, ours, env)
    except elf.Malformed as error:
        diagnosis.add("malformed", FATAL, str(error))
    if diagnosis.takes_effect:
        surroundings.check_others(diagnosis, env)
    surroundings.check_settings(diagnosis, places.find().run, env)
    if diagnosis.takes_effect:
        surroundings.check_probes(diagnosis, probes)
        surroundings.check_limit(diagnosis, places.find().programs / "limit")
        set_aside.check_set_aside(diagnosis)
    return diagnosis


def look_into(
    diagnosis: Diagnosis, found: elf.Elf, ours: elf.Elf, env: Mapping[str, str]
) -> None:
    """The checks of one program file."""
    if program.note_linked(diagnosis, found) or not program.check_kind(diagnosis, found, ours):
        return
    program.check_privileges(diagnosis, found)
    program.check_own_allocator(diagnosis, found)
    program.check_own_interfaces(diagnosis, found, ours)
    program.check_plugins(diagnosis, found)
    libraries = loading.list_libraries(
        diagnosis, found, preload.present(ours.path, env), env
    )
    if libraries:
        loading.check_order(diagnosis, found, libraries, ours.path)
        loading.check_bindings(diagnosis, libraries, ours.path)
        program.check_controls(diagnosis, found, libraries, ours)


def shown_settings(diagnosis: Diagnosis, is_all: bool) -> list[Setting]:
    """All settings, or those that are not at their defaults."""
    return [one for one in diagnosis.settings if is_all or one.origin != "default"]


def print_plain(diagnosis: Diagnosis, is_all: bool) -> None:
    """The verdict first, then a line for each finding and each setting that is no default."""
    print(verdict(diagnosis))
    print(f"program: {diagnosis.program}")
    for finding in diagnosis.findings:
        print(f"{WORDS[finding.level]}: {finding.message}")
        if finding.advice:
            print(f"  advice: {finding.advice}")
    for setting in shown_settings(diagnosis, is_all):
        print(f"setting: {setting.name} {setting.value} ({setting.origin})")


def print_tables(diagnosis: Diagnosis, is_all: bool) -> None:
    """The same for a terminal, the verdict last; plain where rich is not installed."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError:
        print_plain(diagnosis, is_all)
        return
    console: Any = Console()
    table = Table(title=diagnosis.program, show_header=False, title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in diagnosis.findings:
        text = Text(finding.message)
        if finding.advice:
            text.append(f"\n{finding.advice}", style="italic")
        table.add_row(Text(WORDS[finding.level], style=STYLES[finding.level]), text)
    console.print(table)
    changed = shown_settings(diagnosis, is_all)
    if changed:
        settings = Table("setting", "value", "from")
        for setting in changed:
            settings.add_row(Text(setting.name), Text(setting.value), setting.origin)
        console.print(settings)
    else:
        console.print("settings: all at their defaults (--settings lists them)")
    style = STYLES[FINE if diagnosis.takes_effect else FATAL]
    console.print(Text(verdict(diagnosis), style=style))


def verdict(diagnosis: Diagnosis) -> str:
    """The result in a line, and the program that it is about."""
    name = Path(diagnosis.program).name
    if diagnosis.has("started-elsewhere", "cleared"):
        return f"the preload has no effect in what {name} starts"
    if not diagnosis.takes_effect:
        return "the preload has no effect"
    if diagnosis.has("linked"):
        return f"poolshim takes effect in {name}, which it is linked into"
    if diagnosis.has("only-starts"):
        return f"the preload takes effect in {name}, which only starts other programs"
    doubts = sum(finding.level == WARNING for finding in diagnosis.findings)
    return f"the preload takes effect in {name}" + (
        f", with {doubts} warnings" if doubts > 1 else ", with a warning" if doubts else ""
    )


def main(words: list[str]) -> int:
    """The exit status."""
    request = parse(words)
    if request.has("help"):
        print(HELP, end="")
        return 0
    if not request.words:
        raise BadRequest("no command given; poolshim doctor -- COMMAND [ARGUMENT...]")
    here = places.find()
    if not here.library.exists():
        raise OwnFailure(f"{here.library} is missing: build first")
    library, env = here.library.resolve(), own_environment()
    diagnosis = diagnose(request.words, library, env)
    if request.has("run"):
        follower = here.programs / "family"
        family.run(diagnosis, follower, library, preload.present(library, env), env)
    if request.has("json"):
        print(json.dumps(diagnosis.as_json(), indent=1))
    elif not request.has("quiet"):
        show = print_tables if sys.stdout.isatty() else print_plain
        show(diagnosis, request.has("settings"))
    return 0 if diagnosis.takes_effect else 1
