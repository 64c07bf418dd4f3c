# SPDX-License-Identifier: MIT
"""The plan of a measurement: the columns, the work, how many rounds. Judges no results.

    plan = Plan(columns, CommandWork(("jq", ".", "big.json")), runs=10)
    results = measure(plan)                       # measure.py; `tune` calls it the same way

A column is an allocator with its environment. The columns are those of allocators.toml that this
machine has, the additions of the command line, and settings of any of them.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from .. import allocators
from ..errors import BadRequest

NAME = allocators.NAME_PATTERN
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# It never frees: a limit to measure against by name, nothing that a program could run on.
ONLY_BY_NAME = {"floor"}
DEFAULT_BASE = "glibc"
DEFAULT_SEED = 20140513
SETTINGS_OF = "poolshim"  # what a --setting without @ALLOCATOR belongs to


# One allocator as it is run; library None: nothing is preloaded.
Column = allocators.Allocator


@dataclass(frozen=True)
class CommandWork:
    """A command that does its work and ends."""

    command: tuple[str, ...]
    cwd: Path | None = None
    stdin: Path | None = None  # None: /dev/null
    prepare: str | None = None  # by sh before each run, not timed, nothing preloaded
    ignore_failure: bool = False
    is_output_kept: bool = True  # compared between the columns; False: goes to /dev/null


@dataclass(frozen=True)
class ServerWork:
    """A server that runs until it is stopped, and what loads it. {port}, {dir}: new ones."""

    server: str
    load: str
    ready: str | None = None  # a command that succeeds when the server is ready
    cwd: Path | None = None
    prepare: str | None = None
    ready_timeout_s: float = 30
    stop_timeout_s: float = 10
    ignore_failure: bool = False  # of the load


@dataclass(frozen=True)
class Plan:
    """The whole of one comparison."""

    columns: tuple[Column, ...]
    work: CommandWork | ServerWork
    base: str = DEFAULT_BASE
    runs: int | None = None  # rounds; None: as many as fit into the time budget, 5 at least
    warmup: int = 1  # rounds that are not counted; the first one proves every column
    time_budget_s: float | None = None
    seed: int = DEFAULT_SEED  # of the order within the rounds
    has_again: bool = True  # the base once more, as a column of its own: the noise
    curve_ms: int = 0  # RSS every so often; 0: never
    timeout_s: float = 600  # for one process

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        for name in names:
            if names.count(name) > 1:
                raise BadRequest(f"two columns are called {name}")
        if self.base not in names:
            raise BadRequest(f"--base: no {self.base} among {', '.join(names) or 'no columns'}")
        if len(names) < 2 and not self.has_again:
            raise BadRequest(f"there is nothing to compare {self.base} with")


def parse_setting(text: str) -> tuple[str, str, dict[str, str]]:
    """'NAME[@ALLOCATOR]:VAR=VALUE VAR=VALUE' -> name, allocator, environment."""
    head, separator, assignments = text.partition(":")
    name, _, allocator = head.partition("@")
    try:
        words = shlex.split(assignments)
    except ValueError as error:
        raise BadRequest(f"--setting {text!r}: {error}") from None
    env = dict(word.split("=", 1) for word in words if "=" in word)
    if not separator or not NAME.fullmatch(name) or len(env) != len(words) or not env:
        raise BadRequest(f"--setting needs 'NAME:VARIABLE=VALUE ...', not {text!r}")
    for variable in env:
        if not VARIABLE.fullmatch(variable) or variable == "LD_PRELOAD":
            raise BadRequest(f"--setting {name}: {variable} cannot be set")
    return name, allocator or SETTINGS_OF, env


def find_columns(
    build: Path,
    table: Path = allocators.DEFAULT_TABLE,
    only: tuple[str, ...] = (),
    additions: tuple[str, ...] = (),
    settings: tuple[tuple[str, str, dict[str, str]], ...] = (),
) -> tuple[list[Column], list[allocators.Missing]]:
    """The columns of this machine, and the allocators not found. `only` is exact."""
    added = [allocators.parse_addition(text) for text in additions]
    entries = allocators.read_table(table) + added
    found = [allocators.resolve(entry, build) for entry in entries]
    known = {one.name: one for one in found}
    demanded = set(only) | {entry["name"] for entry in added}
    for name in only:
        if name not in known and name not in {setting[0] for setting in settings}:
            raise BadRequest(f"--allocators: no {name}; known: {', '.join(known)}")
    missing = [one for one in found if isinstance(one, allocators.Missing)]
    for one in missing:
        if one.name in demanded:
            raise BadRequest(f"{one.name}: {one.reason}")
    columns = [one for one in found if isinstance(one, Column)]
    chosen = [c for c in columns if is_chosen(c.name, only, demanded)]
    chosen += [apply_setting(columns, *setting) for setting in settings]
    return chosen, [one for one in missing if not only and one.name not in ONLY_BY_NAME]


def is_chosen(name: str, only: tuple[str, ...], demanded: set[str]) -> bool:
    """Whether a column that is there is measured."""
    return name in demanded or (not only and name not in ONLY_BY_NAME)


def apply_setting(columns: list[Column], name: str, allocator: str, env: dict[str, str]) -> Column:
    """The allocator's column once more, with more environment and a name of its own."""
    for column in columns:
        if column.name == allocator:
            shown = " ".join(f"{key}={value}" for key, value in env.items())
            return replace(column, name=name, env={**column.env, **env}, note=shown)
    raise BadRequest(f"--setting {name}: there is no {allocator} here")


def check_folder(folder: Path | None) -> Path | None:
    """--cwd, if it is one."""
    if folder is not None and not folder.is_dir():
        raise BadRequest(f"--cwd: {folder}: no such folder")
    return folder


def check_input(path: Path | None) -> Path | None:
    """--stdin, absolute: each run opens it anew, from another folder perhaps."""
    if path is None:
        return None
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise BadRequest(f"--stdin: {path}: {error.strerror}") from None
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        raise BadRequest(f"--stdin: {path}: can be read only once, and each run reads it anew")
    if stat.S_ISDIR(mode) or not os.access(path, os.R_OK):
        raise BadRequest(f"--stdin: {path}: cannot be read")
    return path.resolve()


def split_command(option: str, text: str) -> list[str]:
    """The words of a command given as one text; no shell runs."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadRequest(f"{option}: {error}") from None
    if not words:
        raise BadRequest(f"{option}: no command given")
    return words
