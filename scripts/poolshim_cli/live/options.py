# SPDX-License-Identifier: MIT
"""The command lines of the commands for running processes: switches, values, process ids.

    found = parse(words, {"--json"}, {"--timeout"}); found.rest, found.values.get("--timeout")
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import BadRequest

HELP = ("-h", "--help")
PID_MAX = 2**31


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
    if not 0 < value < PID_MAX:
        raise BadRequest(f"{what}: {text} is out of range")
    return value


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
    """The rest as process ids, each once."""
    return list(dict.fromkeys(int(number(word, "PID")) for word in words.rest))


def pid_of(words: Words, usage: str) -> int:
    """The one process that is left."""
    if not words.rest:
        raise BadRequest(f"which process? {usage}")
    if len(words.rest) > 1:
        raise BadRequest("one process at a time")
    return pids_of(words)[0]
