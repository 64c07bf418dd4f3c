# SPDX-License-Identifier: MIT
"""The folders of control groups that count memory, in both versions and where both are mounted.

    groups = Groups(); place = groups.place_of(containers.paths_of(1234)); place.folder

/proc/PID/cgroup names the group in each hierarchy, /proc/self/mountinfo says which part of a
hierarchy is mounted where. `root` is another root of files, for tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..foreign import files
from . import containers

FILE_BYTES_MAX = 1 << 16  # of a file of a group
TEXT_BYTES_MAX = 4 << 20  # of mountinfo, and of a list of processes
FOLDERS_MAX = 1 << 17  # that a search looks into
SEARCHED_MAX = 4096
ESCAPED = re.compile(r"\\([0-3][0-7]{2})")  # a blank in mountinfo
VERSIONS = {containers.MEMORY: 1, containers.UNIFIED: 2}
CURRENT = {1: "memory.usage_in_bytes", 2: "memory.current"}


@dataclass(frozen=True)
class Mount:
    """A hierarchy that may count memory."""

    controller: str  # as of containers.paths_in
    root: str  # the group that is mounted
    point: Path

    @property
    def version(self) -> int:
        """Of control groups."""
        return VERSIONS[self.controller]


@dataclass(frozen=True)
class Place:
    """Where the files of a group are."""

    mount: Mount
    path: str  # of the group below the mount; "" is the mount itself

    @property
    def folder(self) -> Path:
        """Of its files."""
        return self.mount.point / self.path.lstrip("/")

    @property
    def version(self) -> int:
        """Of control groups."""
        return self.mount.version

    @property
    def has_memory(self) -> bool:
        """Does the kernel count memory there? The root of version 2 has statistics only."""
        names = (CURRENT[self.version], "memory.stat")
        return any((self.folder / name).exists() for name in names)

    @property
    def is_machine(self) -> bool:
        """Is it the group of the whole machine, as far as the path says?"""
        return self.mount.root == "/" and not self.path


def text_of(path: Path, limit: int = FILE_BYTES_MAX) -> str:
    """A file of a group; "" where there is none."""
    try:
        descriptor = files.open_regular(path)
    except OSError:
        return ""
    try:
        return os.fsdecode(files.read_up_to(descriptor, limit))
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def mounts_in(text: str, root: Path = Path("/")) -> list[Mount]:
    """Those that /proc/self/mountinfo names; version 1 first, which has memory where both are."""
    found = []
    for line in text.splitlines():
        words, _, rest = line.partition(" - ")
        fields, kinds = words.split(), rest.split()
        if len(fields) < 5 or len(kinds) < 3 or kinds[0] not in ("cgroup", "cgroup2"):
            continue
        is_unified = kinds[0] == "cgroup2"
        if is_unified or containers.MEMORY in kinds[2].split(","):
            part, point = (ESCAPED.sub(lambda one: chr(int(one[1], 8)), field)
                           for field in fields[3:5])  # fmt: skip
            name = containers.UNIFIED if is_unified else containers.MEMORY
            found.append(Mount(name, part, root / point.lstrip("/")))
    return sorted(found, key=lambda one: one.version)


def below(path: str, root: str) -> str | None:
    """The path of a group below the mounted one; "" is that one, None: it is not below."""
    prefix = "" if root == "/" else root
    rest = path.removeprefix(prefix)
    is_below = path.startswith(prefix) and (not rest or rest.startswith("/"))
    return rest.rstrip("/") if is_below and ".." not in rest.split("/") else None


def folders(top: Path) -> Iterator[Path]:
    """A folder and those below it."""
    for _, (name, below_it, _files) in zip(range(FOLDERS_MAX), os.walk(top)):
        below_it.sort()
        yield Path(name)


def ending_with(point: Path, tail: str) -> Path | None:
    """The one folder below a mount whose path ends so; None for none, and for several."""
    found = [folder for folder in folders(point) if str(folder).endswith("/" + tail)]
    return found[0] if len(found) == 1 else None


def processes_of(place: Place) -> list[int]:
    """All processes of a group and of the groups in it."""
    found: set[int] = set()
    for folder in folders(place.folder):
        words = text_of(folder / "cgroup.procs", TEXT_BYTES_MAX).split()
        found.update(int(word) for word in words if word.isdecimal() and len(word) < 10)
    found.discard(0)  # of another namespace
    return sorted(found)


class Groups:
    """Finds the folders of groups."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.mounts = mounts_in(text_of(root / "proc" / "self" / "mountinfo", TEXT_BYTES_MAX), root)
        self.searched: dict[str, Path | None] = {}

    def place_at(self, controller: str, path: str) -> Place | None:
        """Where a group is; None where no mount shows it."""
        for mount in self.mounts:
            if mount.controller == controller:
                rest = self.below_mount(mount, path)
                if rest is not None:
                    return Place(mount, rest)
        return None

    def below_mount(self, mount: Mount, path: str) -> str | None:
        """A path below a mount. One with ".." is that of another namespace of groups: its end is
        searched where its beginning is not that of the mount."""
        rest = below(path, mount.root)
        if ".." not in path.split("/") or rest and (mount.point / rest.lstrip("/")).is_dir():
            return rest
        folder = self.search(mount, path)
        return None if folder is None else "/" + str(folder.relative_to(mount.point))

    def search(self, mount: Mount, path: str) -> Path | None:
        """Once for each path."""
        key = f"{mount.point}:{path}"
        if key not in self.searched:
            if len(self.searched) >= SEARCHED_MAX:
                self.searched.clear()
            tail = path.rpartition("../")[2]
            self.searched[key] = ending_with(mount.point, tail) if tail else None
        return self.searched[key]

    def place_of(self, paths: Mapping[str, str]) -> Place | None:
        """The group that counts the memory of a process; None where none is visible."""
        for controller in VERSIONS:
            place = self.place_at(controller, paths[controller]) if controller in paths else None
            if place is not None and place.has_memory:
                return place
        return None

    def named(self, path: str) -> list[Place]:
        """The groups that a path names: below a mount, of the hierarchy, or of the file system."""
        found = []
        for mount in self.mounts:
            for rest in (path, below(path, mount.root), below(path, str(mount.point))):
                rest = below("/" + rest.strip("/"), "/") if rest else rest
                place = Place(mount, rest) if rest is not None else None
                if place is not None and place.has_memory:
                    found.append(place)
                    break
        return found
