# SPDX-License-Identifier: MIT
"""The memory control group of a process: its usage, its limits, what the usage consists of.

    place = place_of(1234); group = read(place)

Versions 1 and 2. /proc/PID/cgroup names the group in each hierarchy, /proc/self/mountinfo says
which part of a hierarchy is mounted where: pools/engine/os/cgroup.c has the same rules. `root` is
another root of files, for tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..foreign import files
from ..foreign.text import printable

FILE_BYTES_MAX = 1 << 16  # of a file of a group
TEXT_BYTES_MAX = 4 << 20  # of mountinfo
NO_LIMIT = 1 << 62  # version 1 writes a number near 2^63
LEVELS_MAX = 64
FOLDERS_MAX = 100_000  # of a hierarchy that are searched
ESCAPE = re.compile(r"\\([0-3][0-7]{2})")
PRESSURE = re.compile(r"^(some|full) avg10=([0-9.]+)", re.M)
# What a file is called in version 1 and in version 2.
FILES = {
    1: {"current": "memory.usage_in_bytes", "limit": "memory.limit_in_bytes",
        "peak": "memory.max_usage_in_bytes"},
    2: {"current": "memory.current", "limit": "memory.max", "high": "memory.high",
        "peak": "memory.peak", "swap": "memory.swap.current"},
}  # fmt: skip
# A figure of memory.stat -> the words that add up to it, less those with a minus.
STATS = {
    1: {"anon": "total_rss", "file": "total_cache", "shmem": "total_shmem", "swap": "total_swap",
        "inactive_file": "total_inactive_file", "mapped": "total_mapped_file"},
    2: {"anon": "anon", "file": "file", "shmem": "shmem", "inactive_file": "inactive_file",
        "mapped": "file_mapped", "slab": "slab", "slab_reclaimable": "slab_reclaimable",
        "kernel": "kernel", "kernel_stack": "kernel_stack", "pagetables": "pagetables",
        "sock": "sock", "percpu": "percpu"},
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where the files of a group are."""

    version: int
    mount: Path  # the highest folder that is visible
    path: str  # of the group below it; "" is the mount itself

    @property
    def folder(self) -> Path:
        """Of its files."""
        return self.mount / self.path.lstrip("/")


@dataclass(frozen=True)
class Level:
    """The group or one above it that has a limit. Bytes."""

    path: str
    limit: int
    current: int
    source: str  # the file that sets the limit

    @property
    def left(self) -> int:
        """Until the limit."""
        return max(0, self.limit - self.current)


@dataclass
class Group:
    """One group at one moment. Bytes; a figure that the kernel does not report is 0."""

    path: str
    version: int
    current: int = 0
    peak: int = 0
    swap: int = 0
    anon: int = 0
    file: int = 0  # page cache, with shared memory
    shmem: int = 0
    inactive_file: int = 0
    kernel: int = 0
    levels: list[Level] = field(default_factory=list)
    kills: int = 0
    hits: int = 0  # times that the limit was reached
    pressure: dict[str, float] = field(default_factory=dict)  # percent of the last ten seconds

    @property
    def cache(self) -> int:
        """Page cache, which the kernel drops before it kills."""
        return max(0, self.file - self.shmem)

    @property
    def unreclaimable(self) -> int:
        """What the kernel cannot drop."""
        return max(self.anon + self.shmem, self.current - self.cache)

    @property
    def tightest(self) -> Level | None:
        """The level whose limit is reached first; of nearly equal ones the group's own. high
        throttles, the others kill."""
        least = min((one.left for one in self.levels), default=0)
        near = least + least // 50 + (1 << 20)
        return next((one for one in self.levels if one.left <= near), None)


def text_of(path: Path, limit: int = FILE_BYTES_MAX) -> str:
    """What a file says; "" where it is missing."""
    try:
        descriptor = os.open(path, files.FLAGS)
    except OSError:
        return ""
    try:
        return os.fsdecode(files.read_up_to(descriptor, limit))
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def number_in(path: Path) -> int:
    """The number; 0 for "max", for garbage and without a file."""
    word = text_of(path).strip()
    return int(word) if word.isdecimal() and len(word) < 20 else 0


def words_of(path: Path) -> dict[str, int]:
    """Lines of a word and a number."""
    found = {}
    for line in text_of(path).splitlines():
        word, _, value = line.partition(" ")
        if value.isdecimal() and len(value) < 20:
            found[word] = int(value)
    return found


def groups_of(pid: int, root: Path) -> dict[int, str]:
    """Version -> the group that has the memory of a process."""
    found = {}
    for line in text_of(root / "proc" / str(pid) / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path.startswith("/"):
            if not controllers:
                found[2] = path
            elif "memory" in controllers.split(","):
                found[1] = path
    return found


def mounts(root: Path) -> Iterator[tuple[int, str, Path]]:
    """Version, mounted part and folder of each hierarchy that may have memory."""
    for line in text_of(root / "proc" / "self" / "mountinfo", TEXT_BYTES_MAX).splitlines():
        head, _, tail = line.partition(" - ")
        words, kinds = head.split(" "), tail.split(" ")
        if len(words) < 6 or len(kinds) < 3:
            continue
        version = {"cgroup": 1, "cgroup2": 2}.get(kinds[0], 0)
        if version == 2 or (version == 1 and "memory" in kinds[2].split(",")):
            part, folder = (ESCAPE.sub(lambda one: chr(int(one[1], 8)), word)
                            for word in words[3:5])  # fmt: skip
            yield version, part, root / folder.lstrip("/")


def below(group: str, part: str) -> str:
    """The path of a group below the mounted part of its hierarchy; "": the mount itself."""
    prefix = "" if part == "/" else part
    rest = group.removeprefix(prefix)
    is_below = group.startswith(prefix) and rest.startswith("/") and not rest.startswith("/..")
    return rest if is_below and rest != "/" else ""


def has_memory(folder: Path, version: int) -> bool:
    """Whether the kernel counts memory there: the root of version 2 has statistics only."""
    names = (FILES[version]["current"], "memory.stat")
    return any((folder / name).exists() for name in names)


def place_of(pid: int, root: Path = Path("/")) -> Place | None:
    """The group of a process; None where none counts its memory, or none is visible."""
    groups = groups_of(pid, root)
    for version, part, folder in sorted(mounts(root), key=lambda one: one[0]):
        if version in groups:
            place = Place(version, folder, below(groups[version], part))
            if has_memory(place.folder, version):
                return place
    return None


def levels_of(place: Place) -> list[Level]:
    """The limits of the group and of those above it, up to the mount."""
    found, folder, path = [], place.folder, place.path
    for _ in range(LEVELS_MAX):
        current = number_in(folder / FILES[place.version]["current"])
        for key in ("limit", "high"):
            name = FILES[place.version].get(key)
            value = number_in(folder / name) if name else 0
            if 0 < value < NO_LIMIT:
                found.append(Level(printable(path) or "/", value, current, name or ""))
        if folder == place.mount or not path:
            break
        folder, path = folder.parent, path.rpartition("/")[0]
    return found


def figure(stats: dict[str, int], version: int, name: str) -> int:
    """One figure of memory.stat."""
    return stats.get(STATS[version].get(name, ""), 0)


def kernel_of(stats: dict[str, int], folder: Path, version: int) -> int:
    """Memory of the kernel for the group; older kernels of version 2 report its parts only."""
    if version == 1:
        return number_in(folder / "memory.kmem.usage_in_bytes")
    parts = ("slab", "kernel_stack", "pagetables", "percpu")
    return figure(stats, 2, "kernel") or sum(figure(stats, 2, one) for one in parts)


def read(place: Place) -> Group:
    """The group now."""
    folder, version = place.folder, place.version
    stats, names = words_of(folder / "memory.stat"), FILES[version]
    group = Group(printable(place.path) or "/", version, levels=levels_of(place))
    for name in ("anon", "file", "shmem", "inactive_file"):
        setattr(group, name, figure(stats, version, name))
    group.kernel = kernel_of(stats, folder, version)
    group.current = number_in(folder / names["current"]) or group.anon + group.file + group.kernel
    group.peak = number_in(folder / names["peak"])
    if version == 1:
        group.swap = figure(stats, 1, "swap")
        group.kills = words_of(folder / "memory.oom_control").get("oom_kill", 0)
        group.hits = number_in(folder / "memory.failcnt")
    else:
        events = words_of(folder / "memory.events")
        group.swap = number_in(folder / names["swap"])
        group.kills, group.hits = events.get("oom_kill", 0), events.get("max", 0)
    group.pressure = {name: float(value) for name, value in
                      PRESSURE.findall(text_of(folder / "memory.pressure"))
                      if re.fullmatch(r"\d+(\.\d+)?", value)}  # fmt: skip
    return group


def folders(place: Place) -> Iterator[Path]:
    """The folder of a group and those of all groups in it."""
    count = 0
    for name, below_it, _ in os.walk(place.folder):
        below_it.sort()
        yield Path(name)
        count += 1
        if count >= FOLDERS_MAX:
            return


def processes_of(place: Place) -> list[int]:
    """All processes of a group and of the groups in it."""
    found: set[int] = set()
    for folder in folders(place):
        words = text_of(folder / "cgroup.procs", TEXT_BYTES_MAX).split()
        found.update(int(word) for word in words if word.isdecimal() and len(word) < 10)
    found.discard(0)  # of another namespace
    return sorted(found)


def hierarchies(root: Path = Path("/")) -> list[Place]:
    """The top of each mounted hierarchy with memory."""
    return [Place(version, folder, "") for version, _, folder in
            sorted(mounts(root), key=lambda one: one[0])]  # fmt: skip
