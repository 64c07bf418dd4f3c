# SPDX-License-Identifier: MIT
"""Which processes a word of the command line names: a number, a program, or a container.

    target = resolve("redis-server"); target.pid, target.place

A container is a control group: its id, or the beginning of it, is in the group's name, whichever
runtime made that (docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope, ID). A
path of a group, the name of a unit, and the host name of a pod are names, too.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from .. import control
from ..errors import NOT_FOUND, BadRequest, Failed, OwnFailure
from ..explain.mappings import command_of
from ..foreign import files
from ..foreign.text import printable
from . import group
from .group import Place

PROCESS_MAX = 1 << 22  # the kernel's highest process id
ID = re.compile(r"[0-9a-f]{4,64}")
FULL_ID = re.compile(r"(?:^|[-.:_])([0-9a-f]{32,64})(?:\.scope|\.service|\.slice)?$")
LISTED = 6
KERNEL_THREAD = 0x00200000  # PF_KTHREAD


@dataclass
class Target:
    """One process, or a container with the processes in it."""

    pid: int = 0  # 0: the largest of the container
    place: Place | None = None
    is_container: bool = False
    pids: list[int] = field(default_factory=list)


def proc_pids(root: Path) -> list[int]:
    """All processes."""
    return sorted(int(name) for name in os.listdir(root / "proc") if name.isdigit())


def is_kernel_thread(pid: int) -> bool:
    """Whether a process is the kernel's own."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        words = files.read_proc(pid, "stat").rpartition(b")")[2].split()
        return bool(int(words[6]) & KERNEL_THREAD)
    return False


def comm_of(pid: int) -> str:
    """The name that the kernel has of it."""
    with contextlib.suppress(OSError):
        return printable(os.fsdecode(files.read_proc(pid, "comm").strip()))
    return ""


def named(word: str) -> list[int]:
    """Processes of a program's name, this one and those that started it left out."""
    skipped = {os.getpid(), os.getppid()}
    return [pid for pid in proc_pids(Path("/")) if pid not in skipped
            and word in (command_of(pid), comm_of(pid))]  # fmt: skip


def ids_of(name: str) -> str:
    """The container's id in the name of a group; "" without."""
    found = FULL_ID.search(name)
    return found[1] if found else ""


def matches(folder: Path, word: str) -> bool:
    """Whether a word names a group by the last part of its path."""
    found = ids_of(folder.name)
    return folder.name == word or folder.name.rpartition(".")[0] == word or (
        bool(ID.fullmatch(word)) and found.startswith(word))  # fmt: skip


def containers(word: str, root: Path = Path("/")) -> list[Place]:
    """Groups that a word names; of groups in one another the highest."""
    found: list[Place] = []
    for top in group.hierarchies(root):
        if "/" in word:
            path = word if (top.mount / word.lstrip("/")).is_dir() else ""
            path = path or below_mount(word, top)
            if path and ".." not in path.split("/"):
                found.append(Place(top.version, top.mount, "/" + path.strip("/")))
            continue
        for folder in group.folders(top):
            if folder != top.mount and matches(folder, word):
                path = "/" + str(folder.relative_to(top.mount))
                if not any(path.startswith(one.path + "/") for one in found):
                    found.append(Place(top.version, top.mount, path))
    return [one for one in found if group.has_memory(one.folder, one.version)]


def below_mount(word: str, top: Place) -> str:
    """A path of the file system that leads to a group, as one of the group."""
    folder = Path(word)
    if folder.is_absolute() and folder.is_relative_to(top.mount) and folder.is_dir():
        return str(folder.relative_to(top.mount))
    return ""


def pods(word: str) -> list[Place]:
    """Groups of processes whose host name is the word: in a pod that is its name."""
    wanted, found = f"HOSTNAME={word}".encode(), []
    own = {group.place_of(os.getpid())}
    for pid in proc_pids(Path("/")):
        with contextlib.suppress(OSError):
            if wanted in files.read_proc(pid, "environ").split(b"\0"):
                place = group.place_of(pid)
                if place is not None and place not in own and ids_of(place.folder.name):
                    found.append(place)
    return list(dict.fromkeys(found))


def described(pids: list[int]) -> str:
    """Processes in a line."""
    text = ", ".join(f"{pid} ({command_of(pid) or comm_of(pid)})" for pid in pids[:LISTED])
    return text + (f" and {len(pids) - LISTED} more" if len(pids) > LISTED else "")


def of_process(pid: int) -> Target:
    """A process by its number."""
    if not Path(f"/proc/{pid}").exists():
        raise control.gone(pid)
    if is_kernel_thread(pid):
        raise Failed(f"process {pid} ({comm_of(pid)}) is a thread of the kernel: it has no memory "
                     "of its own")  # fmt: skip
    return Target(pid, group.place_of(pid))


def of_container(places: list[Place], word: str) -> Target:
    """The container that a word names."""
    if len(places) > 1:
        names = ", ".join(printable(one.path) for one in places[:LISTED])
        raise BadRequest(f"{word} names {len(places)} groups: {names}")
    pids = [pid for pid in group.processes_of(places[0]) if not is_kernel_thread(pid)]
    if not pids:
        raise Failed(f"{printable(places[0].path)} has no process")
    return Target(0, places[0], True, pids)


def resolve(word: str) -> Target:
    """The process or the container; BadRequest where there are several."""
    shown = printable(word)
    if word.isdecimal() and len(word) < 12 and 0 < int(word) <= PROCESS_MAX:
        return of_process(int(word))
    if not word or (word.isdecimal() and int(word) == 0):
        raise BadRequest(f"{shown or 'an empty word'} is no process")
    is_group = "/" in word or (ID.fullmatch(word) and len(word) >= 12)
    pids = [] if is_group else named(word)
    if len(pids) == 1:
        return of_process(pids[0])
    if pids:
        raise BadRequest(f"{len(pids)} processes are called {shown}: {described(pids)}; "
                         "name one by its number")  # fmt: skip
    places = containers(word) or pods(word)
    if not places:
        raise OwnFailure(f"no process and no container is called {shown}", NOT_FOUND)
    return of_container(places, shown)
