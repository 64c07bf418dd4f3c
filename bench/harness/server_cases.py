# SPDX-License-Identifier: MIT
"""Reads bench/servers.toml: which threaded programs are measured, what loads them, the goals."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poolshim_cli.allocators import Missing, tomllib
from poolshim_cli.errors import BadRequest
from poolshim_cli.places import REPOSITORY

from .suite_cases import check_keys

DEFAULT_SERVERS = REPOSITORY / "bench" / "servers.toml"
KEYS = {"name", "title", "command", "work", "env", "ended", "ready", "load", "once", "before",
        "needs", "package", "version", "links", "group", "goal"}  # fmt: skip
KEPT_KEYS = {"case", "title", "mib", "glibc", "peak"}
GOAL_KEYS = {"cpu", "mean", "peak", "rest", "program"}
LOAD_ENDED = "load ended"
Words = tuple[str, ...]


@dataclass(frozen=True)
class Server:
    """A row of the table; its words still have their braces."""

    name: str
    title: str
    command: Words
    work: int
    env: dict[str, str] = field(default_factory=dict)
    ended: str = LOAD_ENDED
    ready: str | None = None
    load: tuple[Words, ...] = ()
    once: Words = ()
    before: Words = ()
    needs: Words = ()
    package: str = ""
    version: Words = ()
    links: str | None = None
    group: str = ""
    goal: float | None = None

    @property
    def is_in_means(self) -> bool:
        return not self.group

    @property
    def is_kept(self) -> bool:
        """About memory that is retained after the load."""
        return self.group == "kept"

    def lacks(self) -> str | None:
        """The program that is not installed here."""
        own = [self.command[0]] if "{" not in self.command[0] else []
        return next((one for one in (*own, *self.needs) if shutil.which(one) is None), None)


@dataclass(frozen=True)
class KeptGoal:
    """A case of the suite's group "kept", and its goal."""

    case: str
    title: str
    mib: float | None = None
    glibc: float | None = None
    peak: float | None = None

    @property
    def text(self) -> str:
        if self.mib is not None:
            return f"{self.mib:g} MiB"
        if self.glibc is not None:
            return f"{self.glibc:g} of glibc's"
        return f"{100 * (self.peak or 0):g} % of its peak"


@dataclass(frozen=True)
class Table:
    """The whole file."""

    servers: tuple[Server, ...]
    kept: tuple[KeptGoal, ...]
    goals: dict[str, float]


def as_words(entry: dict[str, Any]) -> dict[str, Any]:
    """Lists as tuples, those inside them too."""
    made = {}
    for key, value in entry.items():
        if isinstance(value, list):
            value = tuple(tuple(one) if isinstance(one, list) else one for one in value)
        made[key] = value
    return made


def read_servers(path: Path = DEFAULT_SERVERS) -> Table:
    """BadRequest where a row lacks a key or has an unknown one."""
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadRequest(f"{path}: {error}") from error
    for kind, keys in (("server", KEYS), ("kept", KEPT_KEYS)):
        for entry in content.get(kind, []):
            check_keys(f"{path}: {entry.get('name', entry.get('case'))}", entry, keys)
    check_keys(f"{path}: goals", content.get("goals", {}), GOAL_KEYS)
    try:
        servers = tuple(Server(**as_words(entry)) for entry in content.get("server", []))
        kept = tuple(KeptGoal(**entry) for entry in content.get("kept", []))
    except TypeError as error:
        raise BadRequest(f"{path}: {error}") from error
    names = [server.name for server in servers]
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"{path}: {name} is there twice")
    for server in servers:
        if bool(server.ready) != bool(server.load):
            raise BadRequest(f"{path}: {server.name}: ready and load belong together")
    return Table(servers, kept, content.get("goals", {}))


def installed(servers: list[Server]) -> tuple[list[Server], list[Missing]]:
    """Those that can be measured here, and the others with the reason."""
    missing = []
    for server in servers:
        lack = server.lacks()
        if lack is not None:
            hint = f"; Debian packages {server.package}" if server.package else ""
            missing.append(Missing(server.name, f"not found: {lack}{hint}"))
    gone = {one.name for one in missing}
    return [server for server in servers if server.name not in gone], missing
