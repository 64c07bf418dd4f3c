# SPDX-License-Identifier: MIT
"""Reads bench/suite.toml: which cases there are, their command lines at a scale, their goals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poolshim_cli.allocators import tomllib
from poolshim_cli.errors import BadRequest
from poolshim_cli.places import REPOSITORY

from .figures import FIGURES
from .runner import Case

DEFAULT_SUITE = REPOSITORY / "bench" / "suite.toml"
CASE_KEYS = {"name", "program", "options", "figure", "goal", "sample_ms"}
GROUP_KEYS = {"title", "goals", "rss", "cases", "program", "options", "figure"}
GOAL_KEYS = {"cell", "mean", "single"}
# Where a program's report calls an option by another name.
REPORT_KEYS = {"list100m": {"size": "block_bytes"}, "page_blocks": {"align": "alignment"}}


@dataclass(frozen=True)
class SuiteCase:
    """One row: the case, the compared figure, the goal of the ratio to the best peer."""

    case: Case
    figure: str
    goal: float | None

    @property
    def short_name(self) -> str:
        """The name without its group."""
        return self.case.name.partition("/")[2]


@dataclass(frozen=True)
class Group:
    """One table: its rows and its goals."""

    name: str
    title: str
    cases: tuple[SuiteCase, ...]
    goals: dict[str, float] = field(default_factory=dict)
    has_rss: bool = True


def check_keys(where: str, found: Iterable[str], known: set[str]) -> None:
    """BadRequest for a key that is not read: a misspelt one would change nothing, silently."""
    for key in found:
        if key not in known:
            raise BadRequest(f"{where}: unknown key {key!r} (known: {', '.join(sorted(known))})")


def command_line(options: dict[str, Any]) -> tuple[str, ...]:
    """{"slots": 5, "log": 1} -> --slots 5 --log 1."""
    return tuple(word for name, value in options.items() for word in (f"--{name}", str(value)))


def build_case(group: str, row: dict[str, Any], scaled: dict[str, Any], scale: float) -> Case:
    """The command line of one row, and what its report must repeat of it."""
    options = {**scaled, **row["options"]}
    for name in scaled:
        options[name] = max(1, round(options[name] * scale))
    keys = REPORT_KEYS.get(row["program"], {})
    echoed = [(keys.get(key, key), value) for key, value in options.items() if key != "rounds"]
    return Case(
        name=f"{group}/{row['name']}",
        program=row["program"],
        arguments=command_line(options),
        expected=(("benchmark", row["program"]), *echoed),
        rounds=options.get("rounds"),
        sample_ms=row.get("sample_ms", 0),
    )


def read_group(
    name: str, table: dict[str, Any], programs: dict[str, Any], scale: float, where: str
) -> Group:
    """One [group.*] with its cases."""
    where = f"{where}: group {name}"
    check_keys(where, table, GROUP_KEYS)
    check_keys(f"{where}: goals", table.get("goals", {}), GOAL_KEYS)
    cases = []
    for own in table["cases"]:
        check_keys(f"{where}: {own.get('name')}", own, CASE_KEYS)
        options = {**table.get("options", {}), **own.get("options", {})}
        defaults = {key: table[key] for key in ("program", "figure") if key in table}
        row = {"figure": "round", **defaults, **own, "options": options}
        if row.get("program") not in programs:
            raise BadRequest(f"{where}: {own.get('name')}: no [program.{row.get('program')}]")
        if row["figure"] not in FIGURES:
            raise BadRequest(f"{where}: {row['name']}: no figure {row['figure']!r}")
        scaled = programs[row["program"]].get("scaled", {})
        goal = row.get("goal", table.get("goals", {}).get("cell"))
        cases.append(SuiteCase(build_case(name, row, scaled, scale), row["figure"], goal))
    return Group(name, table["title"], tuple(cases), table.get("goals", {}), table.get("rss", True))


def read_suite(path: Path, scale: float = 1.0) -> list[Group]:
    """All groups in the order of the file."""
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadRequest(f"{path}: {error}") from error
    programs = content.get("program", {})
    try:
        groups = [
            read_group(name, table, programs, scale, str(path))
            for name, table in content.get("group", {}).items()
        ]
    except KeyError as error:
        raise BadRequest(f"{path}: {error.args[0]!r} is missing") from error
    names = [row.case.name for group in groups for row in group.cases]
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"{path}: {name} is there twice")
    return groups
