# SPDX-License-Identifier: MIT
"""The memory that the kernel counts for a control group: its kinds, its limits, kills.

    place = Groups().place_of(containers.paths_of(1234)); usage.read(place).anon

It is of all processes of the group, on poolshim or not, and of the page cache of its files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from ..foreign.text import printable
from .groups import CURRENT, Groups, Place, text_of

NO_LIMIT = 1 << 62  # version 1 has a number near this where there is no limit
LEVELS_MAX = 64
PRESSURE = re.compile(r"^(some|full) avg10=(\d+(?:\.\d+)?) ", re.M)
# What a file is called in version 1 and in version 2.
HARD, HIGH = "memory.max", "memory.high"
LIMITS = {1: ("memory.limit_in_bytes",), 2: (HARD, HIGH)}
PEAK = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}
EVENTS = {1: "memory.oom_control", 2: "memory.events"}
# A figure -> its word in memory.stat.
STATS = {
    1: {"anon": "total_rss", "file": "total_cache", "shmem": "total_shmem",
        "inactive_file": "total_inactive_file"},
    2: {"anon": "anon", "file": "file", "shmem": "shmem", "inactive_file": "inactive_file"},
}  # fmt: skip
KERNEL_PARTS = ("slab", "kernel_stack", "pagetables", "percpu")


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
    lowest: int = NO_LIMIT  # of version 1, with groups above that are not mounted
    oom_kills: int | None = None  # None: not reported
    hits: int = 0  # times that the limit was reached
    pressure: dict[str, float] = field(default_factory=dict)  # percent of the last ten seconds

    @property
    def kills(self) -> int:
        """Processes that the kernel has killed at the limit."""
        return self.oom_kills or 0

    @property
    def cache(self) -> int:
        """Page cache, which the kernel drops before it kills."""
        return max(0, self.file - self.shmem)

    @property
    def working_set(self) -> int:
        """The usage without page cache that can be dropped at once."""
        return max(0, self.current - self.inactive_file)

    @property
    def unreclaimable(self) -> int:
        """What the kernel cannot drop."""
        return max(self.anon + self.shmem, self.current - self.cache)

    @property
    def limit(self) -> int | None:
        """The lowest at which the kernel kills, of the group and those above."""
        hard = [one.limit for one in self.levels if one.source != HIGH]
        limit = min([*hard, self.lowest])
        return limit if limit < NO_LIMIT else None

    @property
    def tightest(self) -> Level | None:
        """The level whose limit is reached first; of nearly equal ones the group's own. high
        throttles, the others kill."""
        least = min((one.left for one in self.levels), default=0)
        near = least + least // 50 + (1 << 20)
        return next((one for one in self.levels if one.left <= near), None)


def figure_of(word: str) -> int | None:
    """The number; None for "max" and for garbage."""
    is_number = word.isascii() and word.isdigit() and len(word) < 20
    return int(word) if is_number else None


def number_in(path: Path) -> int | None:
    """A file of one number."""
    return figure_of(text_of(path).strip())


def table_in(path: Path) -> dict[str, int]:
    """Lines of a word and a number."""
    found = {}
    for line in text_of(path).splitlines():
        word, _, value = line.partition(" ")
        number = figure_of(value)
        if number is not None:
            found[word] = number
    return found


def levels_of(place: Place) -> list[Level]:
    """The limits of the group and of those above it, up to the mount."""
    found, folder, path = [], place.folder, place.path
    for _ in range(LEVELS_MAX):
        for name in LIMITS[place.version]:
            limit = number_in(folder / name) or 0
            if 0 < limit < NO_LIMIT:
                current = number_in(folder / CURRENT[place.version]) or 0
                found.append(Level(printable(path) or "/", limit, current, name))
        if folder == place.mount.point or not path:
            break
        folder, path = folder.parent, path.rpartition("/")[0]
    return found


def current_of(place: Place) -> int | None:
    """The usage; None where the kernel reports none, as of the root of version 2."""
    return number_in(place.folder / CURRENT[place.version])


def main_figures(place: Place, current: int | None) -> Group:
    """What the exporter shows, in few reads for each of many groups."""
    folder, version = place.folder, place.version
    stats, events = table_in(folder / "memory.stat"), table_in(folder / EVENTS[version])
    group = Group(printable(place.path) or "/", version, oom_kills=events.get("oom_kill"))
    for name, word in STATS[version].items():
        setattr(group, name, stats.get(word, 0))
    if version == 1:
        group.swap = stats.get("total_swap", 0)
        group.lowest = stats.get("hierarchical_memory_limit", NO_LIMIT)
    else:
        group.kernel = stats.get("kernel") or sum(stats.get(name, 0) for name in KERNEL_PARTS)
        group.hits = events.get("max", 0)
        group.levels = levels_of(place)
    group.current = current or group.anon + group.file + group.kernel
    return group


def read(place: Place) -> Group:
    """The group now. Older kernels of version 2 report parts of the kernel's memory only."""
    group, folder = main_figures(place, current_of(place)), place.folder
    group.peak = number_in(folder / PEAK[place.version]) or 0
    if place.version == 1:
        group.levels = levels_of(place)
        group.kernel = number_in(folder / "memory.kmem.usage_in_bytes") or 0
        group.hits = number_in(folder / "memory.failcnt") or 0
    else:
        group.swap = number_in(folder / "memory.swap.current") or 0
    group.pressure = {name: float(value) for name, value in
                      PRESSURE.findall(text_of(folder / "memory.pressure"))}  # fmt: skip
    return group


def counted(groups: Groups, controller: str, path: str) -> Group | None:
    """A group by its path; None for that of the whole machine, and for one that cannot be read."""
    place = groups.place_at(controller, path)
    if place is None or place.is_machine:
        return None
    current = current_of(place)
    return None if current is None else main_figures(place, current)
