# SPDX-License-Identifier: MIT
"""`poolshim set PID NAME=VALUE...`: changes settings of a running process.

    scripts/poolshim set $(pidof redis-server) purge-delay-ms=0

Exit status: 0 changed; 1 the process is not on poolshim, or has another version; 2 usage, another
setting, a wrong value; 126 not permitted; 127 no such process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from .. import control, limits
from ..errors import BadRequest, Failed
from ..live import layout, options
from ..live.memory import Memory
from ..sizes import size_of

HELP = """usage: poolshim set [OPTIONS] PID NAME=VALUE...

Changes settings of a running process on poolshim, by writing a word of its memory: the process is
not stopped and gets no signal. They take effect at its next calls of malloc and free, and last
until it ends.

  purge-delay-ms=N   milliseconds after which free memory is released; 0: at once
  cache-max=SIZE     most bytes of freed mappings to cache; such as 64MiB
  thread-bytes=1     count what each thread allocates and frees; 0: no more
  limit=LIMIT        soft limit of resident memory: a size; 80%, of what the process may have; off

  --json             print one JSON object
  -h, --help         print this text

Other settings are fixed at the start. Exit status: 0 done, 1 the process does not run on poolshim,
or on another version of it, 2 usage or a wrong value; nothing was changed then, 126 not permitted
(the right to trace the process is needed), 127 no such process.
"""
USAGE = "poolshim set PID NAME=VALUE"
PREFIX = "set."


def count(text: str) -> int:
    """A count, as the library reads it."""
    if not re.fullmatch(r"[0-9]+", text):
        raise ValueError("is not a number")
    return int(text)


def switch(text: str) -> int:
    """0 or 1, by any of the words of the library."""
    words = {"0": 0, "false": 0, "off": 0, "1": 1, "true": 1, "on": 1}
    if text.lower() not in words:
        raise ValueError("is neither 0 nor 1")
    return words[text.lower()]


@dataclass(frozen=True)
class Setting:
    """One that may change."""

    name: str
    read: Callable[[str], int]
    nbytes: int  # of its word
    is_plain: bool = False  # not of hardened processes, which have another value
    show: Callable[[int], int | str] = int


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("purge-delay-ms", count, 4),
        Setting("cache-max", size_of, 8, True),
        Setting("thread-bytes", switch, 4, True),
        Setting("limit", limits.word_of, 8, show=limits.shown),
    )
}


def change_of(word: str) -> tuple[Setting, int]:
    """NAME=VALUE; the name as the variable or the flag of `poolshim run` has it."""
    name, equals, text = word.partition("=")
    plain = name.strip().lower().replace("_", "-").removeprefix("--").removeprefix("poolshim-")
    if not equals:
        raise BadRequest(f"{word}: NAME=VALUE is expected")
    setting = SETTINGS.get(plain)
    if setting is None:
        raise BadRequest(f"{name}: no setting that may change in a running process; there are "
                         f"{', '.join(sorted(SETTINGS))}")  # fmt: skip
    try:
        value = setting.read(text.strip())
        if value >= 1 << 8 * setting.nbytes:
            raise ValueError("is too large")
    except ValueError as error:
        raise BadRequest(f"{plain}: {text!r} {error}") from None
    return setting, value


def places_of(
    memory: Memory, writer: control.Writer, changes: list[tuple[Setting, int]]
) -> list[int]:
    """The words, all of them before one is written."""
    found, places = layout.find(memory), []
    layout.check_writer(writer, found)
    level = memory.number(found.place("hard_level"), 4)
    for setting, _value in changes:
        places.append(found.place(PREFIX + setting.name))
        if found.places[PREFIX + setting.name][1] != setting.nbytes:
            raise layout.wrong_version(memory.pid, layout.VERSION + 1)
        if setting.is_plain and level != 0:
            raise Failed(f"process {memory.pid} is hardened: {setting.name} is fixed there")
    return places


def main(words: list[str]) -> int:
    """One process."""
    request = options.parse(words, {"--json"}, set())
    if request.is_help:
        print(HELP, end="")
        return 0
    if not request.rest:
        raise BadRequest(f"which process? {USAGE}")
    pid = int(options.number(request.rest[0], "PID"))
    changes = [change_of(word) for word in request.rest[1:]]
    if not changes:
        raise BadRequest(f"which setting? {USAGE}")
    writer = control.Writer(pid)
    with Memory(pid) as memory:
        places = places_of(memory, writer, changes)
        before = [memory.number(place, setting.nbytes)
                  for place, (setting, _) in zip(places, changes)]  # fmt: skip
        for place, (setting, value) in zip(places, changes):
            writer.write(place, value.to_bytes(setting.nbytes, "little"))
    if "--json" in request.switches:
        settings = {setting.name: {"before": setting.show(old), "after": setting.show(value)}
                    for old, (setting, value) in zip(before, changes)}  # fmt: skip
        print(json.dumps({"pid": pid, "settings": settings}))
        return 0
    for old, (setting, value) in zip(before, changes):
        print(f"{setting.name}: {setting.show(old)} before, {setting.show(value)} now")
    return 0
