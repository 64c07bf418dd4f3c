# SPDX-License-Identifier: MIT
"""Options before a command to run, whose own options are not ours: advise, explain, gate, profile.

    request.command = read(words, request, {"--json": "is_json"}, ("--top",), set_value)
    read_with_folds(words, request, FLAGS, VALUED, set_value, check)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeVar

from .errors import BadRequest
from .folds import Folds

Request = TypeVar("Request")


class Folding(Protocol):
    """A request that names call sites."""

    command: list[str]
    folded: list[str]
    folds: Folds
    is_unfolded: bool


FoldingRequest = TypeVar("FoldingRequest", bound=Folding)


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


def read_with_folds(
    words: list[str],
    request: FoldingRequest,
    flags: Mapping[str, str],
    valued: Collection[str],
    set_value: Callable[[FoldingRequest, str, str], None],
    check: Callable[[FoldingRequest], None],
) -> FoldingRequest:
    """The same for a command that names call sites: checks the options, and reads the patterns."""
    request.command = read(words, request, flags, valued, set_value)
    check(request)
    request.folds = Folds(request.folded, request.is_unfolded)
    return request
