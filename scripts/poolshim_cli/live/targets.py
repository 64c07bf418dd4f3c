# SPDX-License-Identifier: MIT
"""The processes that a word of the command line names.

    pid_of("4711"), pid_of("redis-server"), pid_of("container:4f3c"), pids_of("container:4f3c")
    target_of("3f2a9c41d07e").place

A number is a process id. Another word is the exact name of a program, as `pgrep -x` takes it, or of
the script that an interpreter runs, if no program has that name. Processes on poolshim are
preferred: a container, or a program of that name, may have others. A target is any process, or a
whole container; a plain word may name the container, too.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from .. import control
from ..errors import GIVING_UP, NOT_FOUND, BadRequest, Failed, OwnFailure
from ..foreign import files
from ..foreign.text import printable
from . import containers, groups, report, scripts
from .processes import is_on_poolshim

PREFIX = "container:"
PID_MAX = 2**31
KERNEL_MAX = 1 << 22  # the highest process id of the kernel
KERNEL_THREAD = 0x00200000  # PF_KTHREAD


@dataclass
class Target:
    """One process, or a container with the processes in it."""

    pid: int = 0  # 0: one of the container
    place: groups.Place | None = None  # of the group that counts the memory
    is_container: bool = False
    pids: list[int] = field(default_factory=list)


def is_number(word: str) -> bool:
    """Digits only."""
    return word.isascii() and word.isdigit()


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


def runs_script(pid: int, name: str) -> bool:
    """Is it an interpreter that runs the script of that name?"""
    with contextlib.suppress(OSError):
        words = os.fsdecode(files.read_proc(pid, "cmdline")).split("\0")
        return scripts.name_of(words[:-1]) == name
    return False


def named(name: str) -> list[int]:
    """The processes of a program or script; the command itself is none."""
    pids = [pid for pid in containers.all_pids() if pid != os.getpid()]
    found = [pid for pid in pids if has_name(pid, name)]
    return found or [pid for pid in pids if runs_script(pid, name)]


def in_container(text: str, what: str) -> list[int]:
    """The processes of a container, by the beginning of its id."""
    if not text:
        raise BadRequest(f"{what}: the id of a container is missing")
    return containers.processes_of(text)


def pids_of(word: str, what: str = "PID") -> list[int]:
    """All processes that a word names; of a container or a program those on poolshim, if any."""
    if is_number(word):
        return [process_id(word, what)]
    if not word:
        raise BadRequest(f"{what} needs a value")
    text = word.removeprefix(PREFIX)
    found = in_container(text, what) if text != word else named(word)
    if not found:
        raise OwnFailure(f"no process has the name {printable(word)}", NOT_FOUND)
    return [pid for pid in found if is_on_poolshim(pid)] or found


def pid_in(container: str) -> int:
    """The one process of a container, for --container."""
    return pid_of(PREFIX + container, "--container")


def pid_of(word: str, what: str = "PID") -> int:
    """The one process that a word names; one line that lists several."""
    found = pids_of(word, what)
    if len(found) > 1:
        raise BadRequest(f"{word} names {len(found)} processes, and {what} has to be one of them: "
                         f"{described(found)}")  # fmt: skip
    return found[0]


def shown(pid: int) -> str:
    """Its program; a question mark where that cannot be read."""
    try:
        return report.program_of(pid)
    except GIVING_UP:
        return "?"


def described(pids: list[int]) -> str:
    """The first of many processes, with their programs."""
    names = [f"{pid} ({shown(pid)})" for pid in pids[: containers.LISTED_MAX]]
    return containers.listed(names + [""] * (len(pids) - len(names)))


def is_kernel_thread(pid: int) -> bool:
    """Whether a process is the kernel's own."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        words = files.read_proc(pid, "stat").rpartition(b")")[2].split()
        return bool(int(words[6]) & KERNEL_THREAD)
    return False


def process_target(pid: int) -> Target:
    """A process by its number."""
    if not Path(f"/proc/{pid}").exists():
        raise control.gone(pid)
    if is_kernel_thread(pid):
        raise Failed(f"process {pid} ({shown(pid)}) is a thread of the kernel: it has no memory "
                     "of its own")  # fmt: skip
    return Target(pid, groups.Groups().place_of(containers.paths_of(pid)))


def container_target(text: str, what: str) -> Target:
    """A container, or a pod by its uid."""
    pids = in_container(text, what)
    found = containers.group_of(containers.paths_of(pids[0]))
    group = containers.group_asked_for(found[1], text) if found else ""
    place = groups.Groups().place_at(found[0], group) if found and group else None
    if place is None or not place.has_memory:
        return Target(0, None, True, pids)  # the groups of the machine are not mounted here
    return group_target(place)


def group_target(place: groups.Place) -> Target:
    """A group with all processes in it."""
    pids = [pid for pid in groups.processes_of(place) if not is_kernel_thread(pid)]
    if not pids:
        raise Failed(f"{printable(place.path) or '/'} has no process")
    return Target(0, place, True, pids)


def groups_named(word: str, finder: groups.Groups) -> list[groups.Place]:
    """The groups that a plain word names: by a path, an id, a name, or the host name of a pod."""
    if "/" in word:
        return finder.named(word)
    paths = {pid: containers.paths_of(pid) for pid in containers.all_pids()}
    every = {found for one in paths.values() if (found := containers.group_of(one)) is not None}
    parts = {(controller, part) for controller, path in every
             if (part := containers.part_named(path, word))}  # fmt: skip
    if not parts:
        own = paths.get(os.getpid())
        parts = {found for pid, one in paths.items()
                 if one != own and has_host_name(pid, word)
                 and (found := container_group(one)) is not None}  # fmt: skip
    places = [finder.place_at(*part) for part in sorted(parts)]
    return [one for one in dict.fromkeys(places) if one is not None and one.has_memory]


def has_host_name(pid: int, word: str) -> bool:
    """Does its environment say so? In a pod the host name is that of the pod."""
    with contextlib.suppress(OSError):
        return f"HOSTNAME={word}".encode() in files.read_proc(pid, "environ").split(b"\0")
    return False


def container_group(paths: dict[str, str]) -> tuple[str, str] | None:
    """The group of the container that a process is in."""
    found = containers.group_of(paths)
    group = containers.identity_of(found[1]).group if found else ""
    return (found[0], group) if found and group else None


def target_of(word: str, what: str = "PID") -> Target:
    """The process, or the container with all its processes; one line that lists several."""
    name = printable(word)
    if word.startswith(PREFIX):
        return container_target(word.removeprefix(PREFIX), what)
    is_short = len(word) < containers.SHORT_DIGITS
    if not word or is_number(word) and is_short and int(word) == 0:
        raise BadRequest(f"{name or 'an empty word'} is no process")
    if is_number(word) and is_short and int(word) <= KERNEL_MAX:
        return process_target(int(word))
    pids = [] if "/" in word or containers.is_id(word) else named(word)
    if len(pids) == 1:
        return process_target(pids[0])
    if pids:
        raise BadRequest(f"{len(pids)} processes are called {name}: {described(pids)}; "
                         "name one by its number")  # fmt: skip
    places = groups_named(word, groups.Groups())
    if not places:
        raise OwnFailure(f"no process and no container is called {name}", NOT_FOUND)
    if len(places) > 1:
        paths = containers.listed([printable(one.path) for one in places])
        raise BadRequest(f"{name} names {len(places)} groups: {paths}")
    return group_target(places[0])
