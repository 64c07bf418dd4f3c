# SPDX-License-Identifier: MIT
"""What the moments of a run say together: when to look, and how each call site's memory went.

Stacks of the same call site are added up.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from ..callsites import CallSites
from .account import Account
from .heap import Site
from .watch import Moment, Watch

STAY_SHARE = 0.7  # of the usual resident memory: the last such moment is the one explained
LATE_SHARE = 0.5  # of the time until then, in which what still grows is growth
PIECES = 6  # of that time
PIECES_LEAST = 3  # where little was sampled
PIECE_SAMPLES = 8  # mean of a piece: a steady growth then has an empty one 1 time in 3,000
RECENT_SHARE = 1 / 6  # of the growth: with less in the last third of the pieces it has stopped,
RECENT_DEVIATIONS = 3.0  # if that is also so far below what a steady growth would have there
DRIFT = 0.02  # of what a reading found, by which it may differ from the mappings read before


@dataclass
class Course:
    """A call site over time."""

    name: str
    callers: tuple[str, ...]
    site: Site  # at the moment explained
    live: list[float] = field(default_factory=list)  # at each moment of the late time, as counted
    made: list[int] = field(default_factory=list)
    peak: float = 0.0  # likewise, of all moments

    @property
    def title(self) -> str:
        """The function with its callers."""
        return " < ".join((self.name, *self.callers))


class History:
    """The history of one run: the process to explain, and the moment."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        moments = watch.moments
        usual = usual_bytes(moments)
        steady = [one for one in moments if is_steady(one)]
        self.is_steady = bool(steady)
        steady = steady or moments
        late = [one for one in steady if one.pss >= STAY_SHARE * usual] or steady
        self.moment = late[-1]
        self.pid = max(self.moment.accounts, key=lambda pid: self.moment.accounts[pid].rss)
        self.account = self.moment.accounts[self.pid]
        self.before = [one for one in moments
                       if one.at_s <= self.moment.at_s and self.pid in one.accounts]  # fmt: skip
        own = self.accounts(moments)
        self.seen_peak = max(one.rss for one in own)
        self.peak = max(self.seen_peak, *(one.peak for one in own))
        if self.peak >= max(one.peak for each in moments for one in each.accounts.values()):
            self.peak = max(self.peak, watch.kernel_peak)  # the kernel's is of the largest process
        begin = self.before[0].at_s if self.before else 0.0
        late_share = 1.0 if self.account.is_recent else LATE_SHARE
        since = begin + (self.moment.at_s - begin) * (1 - late_share)
        self.late = [one for one in self.before if one.at_s >= since]
        self.courses = self.make_courses()

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.watch.commands.get(self.pid, "") or f"process {self.pid}"

    def accounts(self, moments: list[Moment]) -> list[Account]:
        """The accounts of the process."""
        return [one.accounts[self.pid] for one in moments if self.pid in one.accounts]

    def make_courses(self) -> list[Course]:
        """Courses by live and pinned bytes, the largest first."""
        stacks = {stack for one in self.accounts(self.before) for stack in one.sites}
        frames = self.watch.frames(self.pid, stacks)
        sites = CallSites([frames.values()], self.watch.folds, is_short=True)
        named = {stack: sites.of(frames[stack]) for stack in stacks}
        courses: dict[str, Course] = {}
        weights: defaultdict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
        for stack, site in self.account.sites.items():
            name, callers = named[stack]
            course = courses.setdefault(name, Course(name, callers, Site()))
            course.site.add(site)
            weight = site.live + site.pinned
            weights[name][callers] = weights[name].get(callers, 0.0) + weight
        for name, course in courses.items():
            course.callers = max(weights[name], key=lambda one: weights[name][one])
        late = {id(one.accounts[self.pid]) for one in self.late}
        for account in self.accounts(self.before):
            sums = {name: [0.0, 0] for name in courses}
            for stack, site in account.sites.items():
                entry = sums.get(named[stack][0])
                if entry is not None:
                    entry[0] += site.counted
                    entry[1] += site.made
            for name, (live, made) in sums.items():
                courses[name].peak = max(courses[name].peak, live)
                if id(account) in late:
                    courses[name].live.append(live)
                    courses[name].made.append(int(made))
        return sorted(courses.values(), key=lambda one: -(one.site.live + one.site.pinned))


def usual_bytes(moments: list[Moment]) -> int:
    """The median over time of the resident memory in the second half of a run: what a program frees
    before it exits is not in it, nor a peak that did not last."""
    begin, end = moments[0].at_s, moments[-1].at_s
    late = [one for one in moments if one.at_s >= (begin + end) / 2]
    spans = [b.at_s - a.at_s for a, b in zip(late, late[1:], strict=False)] + [0.0]
    half, passed = sum(spans) / 2, 0.0
    for pss, span in sorted((one.pss, span) for one, span in zip(late, spans, strict=True)):
        passed += span
        if passed >= half:
            return pss
    return late[-1].pss


def is_steady(moment: Moment) -> bool:
    """Whether little changed while it was read."""
    rss = sum(one.rss for one in moment.accounts.values())
    surplus = sum(one.surplus for one in moment.accounts.values())
    return abs(surplus) <= DRIFT * max(rss, 1)


def growth_of(course: Course, interval: int) -> tuple[float, int, int, float]:
    """Bytes that a site gained in the late time, in how many of how many pieces of it, and how many
    standard deviations that is of what its allocations and frees would do by chance."""
    live, made = course.live, course.made
    if len(live) < 3:
        return 0.0, 0, 0, 0.0
    gained = live[-1] - live[0]
    sampled = int(gained / (PIECE_SAMPLES * max(interval, 1)))
    pieces = min(PIECES, len(live) - 1, max(PIECES_LEAST, sampled))
    points = [live[round(i * (len(live) - 1) / pieces)] for i in range(pieces + 1)]
    rises = sum(b > a for a, b in zip(points, points[1:], strict=False))
    added = max(made[-1] - made[0], 0)
    freed = max(added - gained, 0.0)
    size = course.site.live / course.site.blocks if course.site.blocks else 1.0
    noise = math.sqrt((added + freed) * max(interval, size))
    last = -(-pieces // 3)
    recent, share = points[-1] - points[-1 - last], last / pieces
    least = gained * share - RECENT_DEVIATIONS * noise * math.sqrt(share * (1 - share))
    if recent < min(gained * RECENT_SHARE, least):
        return gained, 0, pieces, 0.0  # it grew earlier, and has stopped
    return gained, rises, pieces, gained / noise if noise else 0.0
