# SPDX-License-Identifier: MIT
"""Looks at one process and its group for some seconds.

    watch = Watch(target); watch.run(10.0); watch.last.parts, watch.series("live")

A look divides the memory. Chunks and pools cost most: they are read at the first look, at the last,
and as often in between as a third of one core allows.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from .. import control
from ..compare.processes import descendants, read_family
from ..errors import GIVING_UP, NOT_FOUND, Failed, OwnFailure
from ..explain.account import Book, copied_bytes
from ..explain.mappings import command_of, read as read_mappings
from ..live import usage
from ..live.targets import Target, shown
from .growth import Series
from .parts import Look, Reader, rollup_of

LOOKS = 24  # in the time that was asked for
PAUSE_LEAST_S, PAUSE_MOST_S = 0.1, 2.0
COST_SHARE = 0.33
LOOKS_MAX = 960  # in memory; every second one is dropped then
FAMILY_MAX = 32  # processes whose copies are counted
MEMBERS_MAX = 256  # of a container
FAILURES_MAX = 3
LISTED = 5


@dataclass
class Member:
    """Another process of the container, or a child."""

    pid: int
    name: str
    rss: int
    pss: int
    copied: int = 0


class Watch:
    """The looks at one target."""

    def __init__(self, target: Target) -> None:
        self.target, self.pid = target, target.pid
        self.members: list[Member] = []
        self.notes: list[str] = []
        if target.is_container:
            self.members = members_of(target.pids, self.notes)
            self.pid = self.members[0].pid
        self.name = command_of(self.pid) or shown(self.pid)
        self.reader = Reader(self.pid)
        self.looks: list[Look] = []
        self.groups: list[tuple[float, usage.Group]] = []
        self.copied = self.family_pss = self.family_anonymous = 0
        self.children = 0
        self.has_ended = self.was_interrupted = False
        self.start_s = time.monotonic()
        self.full_cost_s = self.last_full_s = 0.0
        self.pause_s = PAUSE_LEAST_S

    @property
    def last(self) -> Look:
        """The newest look."""
        return self.looks[-1]

    @property
    def group(self) -> usage.Group | None:
        """The group at the newest look."""
        return self.groups[-1][1] if self.groups else None

    @property
    def span_s(self) -> float:
        """Between the first look and the last one."""
        return self.looks[-1].at_s - self.looks[0].at_s if self.looks else 0.0

    def series(self, amount: Callable[[Look], float]) -> Series:
        """A figure of each look."""
        return [(one.at_s, amount(one)) for one in self.looks]

    def group_series(self, amount: Callable[[usage.Group], float]) -> Series:
        """A figure of the group at each look."""
        return [(at_s, amount(one)) for at_s, one in self.groups]

    def may_divide(self) -> bool:
        """Whether the cost so far allows to read all chunks again."""
        used_s = time.monotonic() - self.start_s
        return not self.looks or self.full_cost_s + self.last_full_s <= COST_SHARE * used_s

    def look(self, is_last: bool = False) -> None:
        """One more."""
        is_full = is_last or self.may_divide()
        at_s = time.monotonic() - self.start_s
        one = self.reader.look(is_full)
        one.at_s = at_s
        if is_full:
            self.full_cost_s += one.cost_s
            self.last_full_s = one.cost_s
        self.looks.append(one)
        if self.target.place is not None:
            self.groups.append((at_s, usage.read(self.target.place)))
        if len(self.looks) > LOOKS_MAX:
            self.looks, self.groups = self.looks[::2], self.groups[::2]
            self.pause_s *= 2

    def run(self, seconds: float) -> None:
        """Looks for so long. Ctrl-C ends it early; so does the end of the process."""
        self.pause_s = max(self.pause_s, min(seconds / LOOKS, PAUSE_MOST_S))
        try:
            self.look_until(time.monotonic() + seconds)
        except KeyboardInterrupt:
            if not self.looks:
                raise
            self.was_interrupted = True
            self.notes.append(f"interrupted after {self.span_s:.1f} of {seconds:g} s")
        if not self.has_ended:
            with contextlib.suppress(*GIVING_UP):
                self.look(is_last=True)
                self.count_family()

    def look_until(self, end_s: float) -> None:
        """The looks but the last."""
        failures = 0
        while (now_s := time.monotonic()) < end_s:
            try:
                self.look()
                failures = 0
            except OwnFailure as error:
                if not self.looks or error.status != NOT_FOUND:
                    raise
                self.has_ended = True
                return
            except Failed:
                failures += 1
                if failures >= FAILURES_MAX and not self.looks:
                    raise
            wait_s = max(PAUSE_LEAST_S, self.pause_s - (time.monotonic() - now_s))
            time.sleep(max(0.0, min(wait_s, end_s - time.monotonic())))

    def count_family(self) -> None:
        """Counts private copies of pages after forks: of the process, its children, its parent
        where that runs the same program."""
        self.copied = self.family_pss = self.family_anonymous = self.children = 0
        if not self.target.is_container:
            self.members = []
        family = read_family()
        chain = [self.pid, *sorted(descendants(self.pid, family))]
        parent = family.get(self.pid, (0, False))[0]
        if parent > 1 and is_same_program(parent, self.pid):
            chain.insert(0, parent)
        books: dict[int, Book] = {}
        for pid in chain[:FAMILY_MAX]:
            with contextlib.suppress(*GIVING_UP, OSError):
                book = books[pid] = self.reader.book if pid == self.pid else Book(pid)
                book.mappings = book.mappings if pid == self.pid else read_mappings(pid)
                self.add_relative(pid, book, books.get(family.get(pid, (0, False))[0]))
        for pid, book in books.items():
            if pid != self.pid:
                book.close()

    def add_relative(self, pid: int, book: Book, parent: Book | None) -> None:
        """Adds one process of the family."""
        rss = sum(one.rss for one in book.mappings)
        pss = sum(one.pss for one in book.mappings)
        self.family_pss += pss
        self.family_anonymous += sum(one.figures.get("anonymous", 0) for one in book.mappings)
        copied = copied_bytes(book, parent) if parent is not None else 0
        self.copied += copied
        self.children += copied > 0
        if pid != self.pid and not self.target.is_container:
            self.members.append(Member(pid, command_of(pid), rss, pss, copied))


def is_same_program(one: int, other: int) -> bool:
    """Whether two processes run one file."""
    try:
        return os.path.samefile(f"/proc/{one}/exe", f"/proc/{other}/exe")
    except OSError:
        return False


def members_of(pids: list[int], notes: list[str]) -> list[Member]:
    """The processes of a container, the largest first. Those of others may not be readable."""
    found, refused = [], None
    for pid in pids[:MEMBERS_MAX]:
        try:
            sums = rollup_of(pid)
            found.append(Member(pid, command_of(pid) or shown(pid), sums.get("rss", 0),
                                sums.get("pss", 0)))  # fmt: skip
        except GIVING_UP as error:
            refused = error
    if not found:
        raise refused or control.gone(pids[0])
    if len(pids) > MEMBERS_MAX:
        notes.append(f"{len(pids) - MEMBERS_MAX} more processes were not read")
    return sorted(found, key=lambda one: -one.pss)
