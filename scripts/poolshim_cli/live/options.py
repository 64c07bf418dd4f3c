# SPDX-License-Identifier: MIT
"""The command lines of the commands for running processes: switches, values, process ids.

    found = parse(words, {"--json"}, {"--timeout"}); found.rest, found.values.get("--timeout")
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import BadRequest
from . import targets

HELP = ("-h", "--help")
TIME = re.compile(r"([0-9]*\.?[0-9]+)(ms|s|m|min|h|)")
UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
TIME_MAX_S = 1e7
CONTAINER = "--container"


@dataclass
class Words:
    """A command line, read."""

    switches: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)

    @property
    def is_help(self) -> bool:
        """Nothing else counts then."""
        return "--help" in self.switches


def number(text: str, what: str, kind: type[int] | type[float] = int) -> float:
    """A positive number of the command line."""
    try:
        value = kind(text)
    except ValueError:
        raise BadRequest(f"{what}: {text} is no number") from None
    if not 0 < value < targets.PID_MAX:
        raise BadRequest(f"{what}: {text} is out of range")
    return value


def seconds_of(name: str, text: str) -> float:
    """A time on the command line."""
    found = TIME.fullmatch(text)
    seconds = float(found.group(1)) * UNITS[found.group(2)] if found else 0.0
    if not 0 < seconds <= TIME_MAX_S:
        raise BadRequest(f"{name}: {text!r} is no time, such as 10s, 500ms or 2m")
    return seconds


def parse(words: list[str], switches: set[str], valued: set[str]) -> Words:
    """Options may come anywhere, with = or in two words."""
    found, left = Words(), list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if word in HELP:
            found.switches.add("--help")
        elif word in switches:
            found.switches.add(word)
        elif name in valued:
            if not equals and not left:
                raise BadRequest(f"{name} needs a value")
            found.values[name] = value if equals else left.pop(0)
        elif word.startswith("-") and word != "-":
            raise BadRequest(f"no option {word}")
        else:
            found.rest.append(word)
    return found


def pids_of(words: Words) -> list[int]:
    """The processes that the rest names, and those of a container, each once."""
    found = [pid for word in words.rest for pid in targets.pids_of(word)]
    if CONTAINER in words.values:
        found += targets.pids_of(targets.PREFIX + words.values[CONTAINER], CONTAINER)
    return list(dict.fromkeys(found))


def one_of(words: Words, usage: str, kind: str = "process") -> tuple[str, str]:
    """The one word that names a process, and what a message calls it."""
    container = words.values.get(CONTAINER)
    if not words.rest and container is None:
        raise BadRequest(f"which process? {usage}")
    if len(words.rest) + (container is not None) > 1:
        raise BadRequest(f"one {kind} at a time")
    return (words.rest[0], "PID") if container is None else (targets.PREFIX + container, CONTAINER)


def pid_of(words: Words, usage: str) -> int:
    """The one process that is left."""
    return targets.pid_of(*one_of(words, usage))
