# SPDX-License-Identifier: MIT
"""`poolshim doctor [--run] [--json] -- command`: would a preload take effect, and if not, why not.

    scripts/poolshim doctor -- redis-server

Exit status: 0 it takes effect, 1 it does not, 2 usage, 125 own failure, 126 and 127 the command
cannot be executed, was not found.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import places
from ..errors import BadRequest, OwnFailure
from . import elf, family, loading, program, surroundings, target
from .findings import FATAL, FINE, NOTE, WARNING, Diagnosis

STYLES = {FATAL: "bold red", WARNING: "yellow", NOTE: "dim", FINE: "green"}
WORDS = {FATAL: "no effect", WARNING: "warning", NOTE: "note", FINE: "fine"}


def own_environment() -> dict[str, str]:
    """The environment that the command would get, without what only this package reads."""
    return {name: value for name, value in os.environ.items() if name != places.BUILD_VARIABLE}


def preload_with(library: Path, env: Mapping[str, str]) -> str:
    """LD_PRELOAD as `poolshim run` sets it: behind what is there."""
    before = env.get("LD_PRELOAD", "")
    parts = before.replace(" ", ":").split(":")
    return before if str(library) in parts else f"{before}:{library}".lstrip(":")


def diagnose(command: tuple[str, ...], library: Path, env: Mapping[str, str]) -> Diagnosis:
    """Everything that can be seen without running anything but the loader."""
    diagnosis = Diagnosis(command, str(library))
    found = target.follow(diagnosis, env)
    try:
        ours = elf.read(library)
        if found is not None:
            look_into(diagnosis, found, ours, env)
    except elf.Malformed as error:
        diagnosis.add("malformed", FATAL, str(error))
    if diagnosis.takes_effect:
        surroundings.check_others(diagnosis, env)
    surroundings.check_settings(diagnosis, places.find().run, env)
    return diagnosis


def look_into(
    diagnosis: Diagnosis, found: elf.Elf, ours: elf.Elf, env: Mapping[str, str]
) -> None:
    """The checks of one program file."""
    if not program.check_kind(diagnosis, found, ours):
        return
    program.check_privileges(diagnosis, found)
    program.check_own_allocator(diagnosis, found)
    program.check_own_interfaces(diagnosis, found)
    libraries = loading.list_libraries(diagnosis, found, preload_with(ours.path, env), env)
    if libraries:
        loading.check_order(diagnosis, found, libraries, ours.path)
        loading.check_bindings(diagnosis, libraries, ours.path)


def print_plain(diagnosis: Diagnosis) -> None:
    """A line for each finding, for each setting that is no default, and the verdict last."""
    print(f"program: {diagnosis.program}")
    for finding in diagnosis.findings:
        print(f"{WORDS[finding.level]}: {finding.message}")
        if finding.advice:
            print(f"  advice: {finding.advice}")
    for setting in diagnosis.settings:
        print(f"setting: {setting.name} {setting.value} ({setting.origin})")
    print(verdict(diagnosis))


def print_tables(diagnosis: Diagnosis, console: Console) -> None:
    """The same for a terminal."""
    table = Table(title=diagnosis.program, show_header=False, title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in diagnosis.findings:
        text = Text(finding.message)
        if finding.advice:
            text.append(f"\n{finding.advice}", style="italic")
        table.add_row(Text(WORDS[finding.level], style=STYLES[finding.level]), text)
    console.print(table)
    changed = [setting for setting in diagnosis.settings if setting.origin != "default"]
    if changed:
        settings = Table("setting", "value", "from")
        for setting in changed:
            settings.add_row(setting.name, setting.value, setting.origin)
        console.print(settings)
    else:
        console.print("settings: all at their defaults (poolshim run --help lists them)")
    style = STYLES[FINE if diagnosis.takes_effect else FATAL]
    console.print(Text(verdict(diagnosis), style=style))


def verdict(diagnosis: Diagnosis) -> str:
    """The last line."""
    if not diagnosis.takes_effect:
        return "the preload has no effect"
    doubts = sum(finding.level == WARNING for finding in diagnosis.findings)
    return "the preload takes effect" + (f", with {doubts} warnings" if doubts > 1 else
                                         ", with a warning" if doubts else "")  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"],
                                 "allow_interspersed_args": False})  # fmt: skip
@click.option("--run", "is_run", is_flag=True,
              help="Also run the command and look into every program that it starts. Its output "
                   "goes to standard error.")  # fmt: skip
@click.option("--json", "is_json", is_flag=True, help="One JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit status tells.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT...]")
def command(is_run: bool, is_json: bool, quiet: bool, words: tuple[str, ...]) -> int:
    """Say whether poolshim takes effect in a command, and if not, why not.

    Looks at the program and at what its loader would load, with this environment; nothing of the
    command runs unless --run is given. Exit status: 0 it takes effect, 1 it does not.
    """
    if not words:
        raise BadRequest("no command given; poolshim doctor -- COMMAND [ARGUMENT...]")
    here = places.find()
    if not here.library.exists():
        raise OwnFailure(f"{here.library} is missing: build first")
    library, env = here.library.resolve(), own_environment()
    diagnosis = diagnose(words, library, env)
    if is_run:
        follower = here.programs / "family"
        family.run(diagnosis, follower, library, preload_with(library, env), env)
    console = Console()
    if is_json:
        print(json.dumps(diagnosis.as_json(), indent=1))
    elif console.is_terminal and not quiet:
        print_tables(diagnosis, console)
    elif not quiet:
        print_plain(diagnosis)
    return 0 if diagnosis.takes_effect else 1
