# SPDX-License-Identifier: MIT
"""The profile: a small TOML file with the table that was found, for which command, and what it won.

`poolshim run --tuned` reads it too, by lines: the variables in the table [environment]; and both
read what people write by hand, settings under their options' names before the first table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadRequest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef]

VERSION = 1
PREFIX = "POOLSHIM_"
VARIABLE = PREFIX + "SIZE_CLASSES"
TABLE_LIMIT = 63


@dataclass(frozen=True)
class Profile:
    """What the file says. settings: variables; predicted and verified: numbers, for people."""

    command: tuple[str, ...]
    settings: dict[str, str]
    predicted: dict[str, float | int]
    verified: dict[str, float | int | str]

    @property
    def table(self) -> tuple[int, ...]:
        """The size classes."""
        return parse_table(self.settings[VARIABLE])


def setting(table: Sequence[int]) -> str:
    """The value of the variable."""
    return ",".join(map(str, table))


def quoted(text: str) -> str:
    """A TOML basic string. JSON's escapes are TOML's too; DEL and lone surrogates it has not."""
    clean = text.encode("utf-8", "replace").decode()
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")


def section(name: str, values: dict[str, Any]) -> list[str]:
    """A TOML table of strings and numbers; nothing if it is empty."""
    if not values:
        return []
    lines = (
        f"{key} = {quoted(value) if isinstance(value, str) else repr(value)}"
        for key, value in values.items()
    )
    return ["", f"[{name}]", *lines]


def to_toml(profile: Profile) -> str:
    """The text of the file."""
    return "\n".join(
        [
            "# Size classes for one program, found by poolshim tune. With this file:",
            "#   poolshim run --tuned FILE -- COMMAND     runs it with them",
            "#   poolshim tune --tuned FILE -- COMMAND    measures whether they still pay",
            f"poolshim_profile = {VERSION}",
            f"command = [{', '.join(map(quoted, profile.command))}]",
            *section("environment", dict(profile.settings)),
            *section("predicted", profile.predicted),
            *section("verified", profile.verified),
            "",
        ]
    )


def settings_in(value: dict[str, Any]) -> dict[str, str]:
    """The variables that a file sets; a list may be a text or an array."""
    by_hand = {
        PREFIX + name.upper(): one
        for name, one in value.items()
        if name not in ("poolshim_profile", "command") and not isinstance(one, dict)
    }
    return {
        name: ",".join(map(str, one)) if isinstance(one, list) else str(one)
        for name, one in {**by_hand, **value.get("environment", {})}.items()
    }


def parse_table(text: str) -> tuple[int, ...]:
    """A table as the library takes it; ValueError if it would not."""
    table = tuple(int(word) for word in text.split(","))
    is_legal = all(size % 16 == 0 or (size == 8 and i == 0) for i, size in enumerate(table))
    is_ascending = all(a < b for a, b in zip(table, table[1:], strict=False))
    if not (is_legal and is_ascending and 0 < table[0] and table[-1] <= 65536):
        raise ValueError("not a legal table")
    if len(table) > TABLE_LIMIT:
        raise ValueError(f"more than {TABLE_LIMIT} classes")
    return table


def read(path: Path) -> Profile:
    """The profile in a file; BadRequest with one line if there is none."""
    try:
        value = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None
    except ValueError:
        raise BadRequest(f"{path}: not a profile of poolshim: no TOML") from None
    version = value.get("poolshim_profile")
    if version is None:
        raise BadRequest(f"{path}: not a profile of poolshim")
    if version != VERSION:
        raise BadRequest(f"{path}: format {version!r}; this poolshim reads {VERSION}")
    try:
        settings = settings_in(value)
        parse_table(settings[VARIABLE])
        return Profile(
            tuple(map(str, value.get("command", ()))),
            settings,
            dict(value.get("predicted", {})),
            dict(value.get("verified", {})),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"no {VARIABLE}" if isinstance(error, KeyError) else error
        raise BadRequest(f"{path}: not a profile of poolshim: {what}") from None
