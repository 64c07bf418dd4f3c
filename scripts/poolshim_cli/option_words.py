# SPDX-License-Identifier: MIT
"""Options before a command to run, whose own options are not ours: advise, explain, profile.

    request.command = read(words, request, {"--json": "is_json"}, ("--top",), set_value)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from .errors import BadRequest

Request = TypeVar("Request")


def read(
    words: list[str],
    request: Request,
    flags: Mapping[str, str],
    valued: Collection[str],
    set_value: Callable[[Request, str, str], None],
) -> list[str]:
    """Sets the options, up to the first word that is none; returns the remaining words.

    flags: the field that each sets. A value follows = or is the next word.
    """
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            break
        if word in flags:
            setattr(request, flags[word], True)
        elif name not in valued:
            raise BadRequest(f"no option {word}; the command's own options come after --")
        elif not equals and not rest:
            raise BadRequest(f"{name} needs a value")
        else:
            set_value(request, name, value if equals else rest.pop(0))
    return rest
