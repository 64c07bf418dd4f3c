# SPDX-License-Identifier: MIT
"""Figures of memory that the kernel has of a control group, in both versions.

    Groups().figures_of(containers.paths_of(1234))

They are of all processes of the group, on poolshim or not, and of the page cache of its files.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..foreign import files
from . import containers

FILE_BYTES_MAX = 1 << 16
MOUNTS_BYTES_MAX = 4 << 20
FOLDERS_MAX = 1 << 14  # that a search looks into
SEARCHED_MAX = 4096
UNLIMITED = 1 << 62  # version 1 has a number near this where there is no limit
ESCAPED = re.compile(r"\\([0-7]{3})")  # a blank in mountinfo


@dataclass(frozen=True)
class Figures:
    """Bytes, except the last; None: there is none, or it cannot be read."""

    current: int
    working_set: int
    anon: int
    file: int
    limit: int | None
    oom_kills: int | None


@dataclass(frozen=True)
class Mount:
    """A hierarchy with memory figures."""

    controller: str  # as of containers.paths_in
    root: str  # the group that is mounted
    point: Path


def mounts_in(text: str) -> list[Mount]:
    """Those that /proc/self/mountinfo names."""
    found = []
    for line in text.splitlines():
        words, _, rest = line.partition(" - ")
        fields, kinds = words.split(), rest.split()
        if len(fields) < 5 or len(kinds) < 3 or kinds[0] not in ("cgroup", "cgroup2"):
            continue
        is_unified = kinds[0] == "cgroup2"
        if is_unified or containers.MEMORY in kinds[2].split(","):
            root, point = (ESCAPED.sub(lambda one: chr(int(one[1], 8)), field)
                           for field in fields[3:5])  # fmt: skip
            name = containers.UNIFIED if is_unified else containers.MEMORY
            found.append(Mount(name, root, Path(point)))
    return found


def text_of(path: Path) -> str:
    """A short file of a group; "" where there is none."""
    try:
        descriptor = files.open_regular(path)
    except OSError:
        return ""
    try:
        return files.read_up_to(descriptor, FILE_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def number_in(text: str) -> int | None:
    """A number alone; None for "max"."""
    word = text.strip()
    return int(word) if word.isdigit() else None


def table_in(text: str) -> dict[str, int]:
    """Lines of a name and a number."""
    pairs = (line.split() for line in text.splitlines())
    return {words[0]: int(words[1]) for words in pairs if len(words) == 2 and words[1].isdigit()}


def is_below(path: str, root: str) -> bool:
    """Is a group in a tree of groups?"""
    return root == "/" or path == root or path.startswith(root + "/")


def ending_with(point: Path, tail: str) -> Path | None:
    """The one folder below a mount whose path ends so; None for none, and for several."""
    found = [
        Path(folder) for _, (folder, *_others) in zip(range(FOLDERS_MAX), os.walk(point))
        if folder.endswith("/" + tail)
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None


class Groups:
    """Finds the folders of groups, and reads them."""

    def __init__(self) -> None:
        self.mounts: list[Mount] = []
        self.searched: dict[str, Path | None] = {}
        try:
            descriptor = files.open_regular("/proc/self/mountinfo")
        except OSError:
            return
        try:
            text = files.read_up_to(descriptor, MOUNTS_BYTES_MAX).decode(errors="surrogateescape")
        finally:
            os.close(descriptor)
        self.mounts = mounts_in(text)

    def folder_of(self, controller: str, path: str) -> tuple[Mount, Path] | None:
        """Where a group is. A path with ".." is that of another namespace of groups: its end is
        searched, since the beginning is not known."""
        for mount in self.mounts:
            if mount.controller != controller:
                continue
            if ".." in path.split("/"):
                folder = self.search(mount, path)
                if folder is not None:
                    return mount, folder
            elif is_below(path, mount.root):
                rest = path[len(mount.root.rstrip("/")) :].lstrip("/")
                return mount, mount.point / rest
        return None

    def search(self, mount: Mount, path: str) -> Path | None:
        """Once for each path."""
        key = f"{mount.point}:{path}"
        if key not in self.searched:
            if len(self.searched) >= SEARCHED_MAX:
                self.searched.clear()
            tail = path.rpartition("../")[2]
            self.searched[key] = ending_with(mount.point, tail) if tail else None
        return self.searched[key]

    def figures_of(self, controller: str, path: str) -> Figures | None:
        """Now; None for the group of the whole machine, and for one that cannot be read."""
        found = self.folder_of(controller, path)
        if found is None or found[1] == found[0].point and found[0].root == "/":
            return None
        reader = version_1 if controller == containers.MEMORY else version_2
        return reader(*found)


def version_2(mount: Mount, folder: Path) -> Figures | None:
    """Figures of memory.current, memory.stat, memory.events and memory.max."""
    current = number_in(text_of(folder / "memory.current"))
    if current is None:
        return None
    stat = table_in(text_of(folder / "memory.stat"))
    limits = [number_in(text_of(one / "memory.max")) for one in (folder, *folder.parents)
              if one.is_relative_to(mount.point)]  # fmt: skip
    return Figures(
        current, max(0, current - stat.get("inactive_file", 0)), stat.get("anon", 0),
        stat.get("file", 0), min((one for one in limits if one is not None), default=None),
        table_in(text_of(folder / "memory.events")).get("oom_kill"),
    )  # fmt: skip


def version_1(mount: Mount, folder: Path) -> Figures | None:
    """The same of the older files; the kernel has computed the lowest limit."""
    current = number_in(text_of(folder / "memory.usage_in_bytes"))
    if current is None:
        return None
    stat = table_in(text_of(folder / "memory.stat"))
    limit = stat.get("hierarchical_memory_limit", UNLIMITED)
    return Figures(
        current, max(0, current - stat.get("total_inactive_file", 0)), stat.get("total_rss", 0),
        stat.get("total_cache", 0), limit if limit < UNLIMITED else None,
        table_in(text_of(folder / "memory.oom_control")).get("oom_kill"),
    )  # fmt: skip
