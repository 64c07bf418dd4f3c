# SPDX-License-Identifier: MIT
"""The processes that a word of the command line names.

    pid_of("4711"), pid_of("redis-server"), pid_of("container:4f3c"), pids_of("container:4f3c")

A number is a process id. Another word is the exact name of a program, as `pgrep -x` takes it.
Processes on poolshim are preferred: a container, or a program of that name, may have others.
"""

from __future__ import annotations

import os

from ..errors import GIVING_UP, NOT_FOUND, BadRequest, OwnFailure
from ..foreign import files
from ..foreign.text import printable
from . import containers, report
from .processes import is_on_poolshim

PREFIX = "container:"
PID_MAX = 2**31


def process_id(text: str, what: str) -> int:
    """The number in a word of digits."""
    pid = int(text) if len(text) < 11 else PID_MAX
    if not 0 < pid < PID_MAX:
        raise BadRequest(f"{what}: {text} is out of range")
    return pid


def has_name(pid: int, name: str) -> bool:
    """Is that the name of its program, or the one that it has given itself?"""
    try:
        comm = files.read_proc(pid, "comm").rstrip(b"\n").decode(errors="replace")
        return name in (comm, report.program_of(pid))
    except (OSError, *GIVING_UP):
        return False


def named(name: str) -> list[int]:
    """The processes of a program; the command itself is none."""
    own = os.getpid()
    found = [pid for pid in containers.all_pids() if pid != own and has_name(pid, name)]
    if not found:
        raise OwnFailure(f"no process has the name {printable(name)}", NOT_FOUND)
    return found


def pids_of(word: str, what: str = "PID") -> list[int]:
    """All processes that a word names; of a container or a program those on poolshim, if any."""
    if word.isascii() and word.isdigit():
        return [process_id(word, what)]
    if not word:
        raise BadRequest(f"{what} needs a value")
    text = word.removeprefix(PREFIX)
    if text != word:
        if not text:
            raise BadRequest(f"{what}: the id of a container is missing")
        found = containers.processes_of(text)
    else:
        found = named(word)
    return [pid for pid in found if is_on_poolshim(pid)] or found


def pid_in(container: str) -> int:
    """The one process of a container, for --container."""
    return pid_of(PREFIX + container, "--container")


def pid_of(word: str, what: str = "PID") -> int:
    """The one process that a word names; one line that lists several."""
    found = pids_of(word, what)
    if len(found) > 1:
        names = [f"{pid} ({shown(pid)})" for pid in found[: containers.LISTED_MAX + 1]]
        names += ["…"] * (len(found) - len(names))
        raise BadRequest(f"{word} names {len(found)} processes, {what} names one: "
                         f"{containers.listed(names)}")  # fmt: skip
    return found[0]


def shown(pid: int) -> str:
    """Its program; a question mark where that cannot be read."""
    try:
        return report.program_of(pid)
    except GIVING_UP:
        return "?"
