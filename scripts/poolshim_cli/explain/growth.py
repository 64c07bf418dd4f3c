# SPDX-License-Identifier: MIT
"""Whether the memory of a process that was running before grows while it is watched.

    verdict = growth(history)

Its live bytes are known exactly at every look, whatever was sampled. The time is cut into pieces;
memory that comes and goes with requests does not move the least of a piece, a leak moves each. The
call sites are those of blocks that were allocated meanwhile: of older ones nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .account import Account
from .history import PIECES, RECENT_SHARE, Course, History

FLOORS_LEAST = 4  # in a row that rises: by chance 1 time in 24, and 1 in 720 of all PIECES
LEAST_BYTES = 1 << 20  # of growth: below it nothing is worth a word
LEAST_SHARE = 0.005  # of the resident memory
SITE_DEVIATIONS = 3.0  # of the changes that a site's allocations and frees make by chance
SITE_SHARE = 0.05  # of the growth, of a site that is named


class Floors:
    """The least value of each of up to PIECES equal parts of a series."""

    def __init__(self, values: list[float], span_s: float) -> None:
        self.span_s = span_s
        self.floors: list[float] = []
        count = min(PIECES, len(values))
        if count >= FLOORS_LEAST and span_s > 0:
            cut = [round(i * len(values) / count) for i in range(count + 1)]
            self.floors = [min(values[a:b]) for a, b in zip(cut, cut[1:], strict=False)]
        self.last = values[-1] if values else 0.0
        self.gained = self.floors[-1] - self.floors[0] if self.floors else 0.0

    @property
    def rises(self) -> int:
        """Pieces whose least is above that of the piece before."""
        return sum(b > a for a, b in zip(self.floors, self.floors[1:], strict=False))

    def is_lasting(self, rss: int) -> bool:
        """Whether it grew in each piece, still in the last third, and enough to report."""
        if not self.floors or self.rises < len(self.floors) - 1:
            return False
        steps = len(self.floors) - 1
        recent = self.floors[-1] - self.floors[-1 - -(-steps // 3)]
        return (self.gained >= max(LEAST_BYTES, LEAST_SHARE * rss)
                and recent >= RECENT_SHARE * self.gained)  # fmt: skip


class Growth(Floors):
    """Growth of a part of the memory during the watch."""

    def __init__(self, history: History, amount: Callable[[Account], float]) -> None:
        moments = [one for one in history.watch.moments if history.pid in one.accounts]
        span_s = moments[-1].at_s - moments[0].at_s if moments else 0.0
        super().__init__([amount(one.accounts[history.pid]) for one in moments], span_s)


def live_of(account: Account) -> float:
    """Bytes of malloc's live blocks, with their rounding."""
    return account.parts["live"] + account.parts["rounding"]


def part_of(name: str) -> Callable[[Account], float]:
    """A function that returns one part of an account."""
    return lambda account: account.parts[name]


def grown_sites(history: History, gained: float) -> list[tuple[float, Course]]:
    """Sites that still have blocks allocated during the watch, the largest first."""
    found = []
    for course in history.courses:
        if len(course.live) < 2:
            continue
        more, made = course.live[-1] - course.live[0], course.made[-1] - course.made[0]
        freed = max(0.0, made - more)
        size = course.site.live / course.site.blocks if course.site.blocks else 1.0
        noise = math.sqrt((max(made, 0) + freed) * max(history.account.interval, size))
        if more >= SITE_SHARE * gained and more >= SITE_DEVIATIONS * noise:
            found.append((more, course))
    return sorted(found, key=lambda one: -one[0])


OUTSIDE = ("other", "stacks", "shared", "files", "pools", "pinned")


def growths(history: History) -> list[tuple[str, Growth]]:
    """The parts that grow, most first."""
    rss = history.account.rss
    found = [("live", Growth(history, live_of))]
    found += [(name, Growth(history, part_of(name))) for name in OUTSIDE]
    return sorted(
        ((name, one) for name, one in found if one.is_lasting(rss)), key=lambda one: -one[1].gained
    )


def can_be_judged(history: History) -> bool:
    """Whether there were looks enough."""
    return bool(Growth(history, live_of).floors)
