# SPDX-License-Identifier: MIT
"""Several profiles of a program: what differs between two, and what grew at every one of many.

Stacks are told apart by the names of their functions, so that profiles of two runs, which have
other addresses, can be compared.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..callsites import NO_STACK, CallSites
from ..pprof import Profile
from ..symbols import Symbols
from .sites import TWO_SIDED_95, error_of, functions_of

MINUTE_S = 60.0
BETWEEN_LEAST_S = 1.0  # below it, what grows in a minute is a guess


class Stack(NamedTuple):
    """What tells it from others."""

    functions: tuple[str, ...]  # innermost first
    site: str
    callers: tuple[str, ...]  # of the site


@dataclass
class Sums:
    """The sums of a stack in one profile."""

    live_bytes: int = 0
    live_blocks: int = 0
    made_bytes: int = 0
    made_blocks: int = 0
    live_variance: float = 0.0
    made_variance: float = 0.0
    freed_variance: float = 0.0


@dataclass(frozen=True)
class Change:
    """A call site whose bytes have changed; the callers are those of its heaviest stack."""

    name: str
    nbytes: int  # after less before
    blocks: int
    error_bytes: int  # half of the 95 % interval
    callers: tuple[str, ...]

    def to_json(self, seconds: float) -> dict[str, Any]:
        """With the rate, where so many seconds are between the profiles; 0: not known."""
        factor = MINUTE_S / seconds if seconds else None
        return vars(self) | {
            "bytes_per_minute": factor and round(self.nbytes * factor),
            "error_bytes_per_minute": factor and round(self.error_bytes * factor),
        }


@dataclass
class Group:
    """Stacks of one call site."""

    nbytes: int = 0
    blocks: int = 0
    variance: float = 0.0
    callers: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def add(self, stack: Stack, nbytes: int, blocks: int, variance: float) -> None:
        """Adds one."""
        self.nbytes += nbytes
        self.blocks += blocks
        self.variance += variance
        self.callers[stack.callers] += abs(nbytes)

    def change(self, name: str) -> Change:
        """The row."""
        error = round(TWO_SIDED_95 * math.sqrt(self.variance))
        return Change(name, self.nbytes, self.blocks, error, self.callers.most_common(1)[0][0])


def stacks_of(profile: Profile, symbols: Symbols, sites: CallSites) -> dict[Stack, Sums]:
    """Sums by stack."""
    live_objects, live_space = profile.index_of("inuse_objects"), profile.index_of("inuse_space")
    made_objects, made_space = profile.index_of("alloc_objects"), profile.index_of("alloc_space")
    found: defaultdict[Stack, Sums] = defaultdict(Sums)
    for sample in profile.samples:
        values = sample.values
        functions = tuple(functions_of(sample, symbols)) or (NO_STACK,)
        sums = found[Stack(functions, *sites.of(symbols.frames_of(sample.locations)))]
        sums.live_bytes += values[live_space]
        sums.live_blocks += values[live_objects]
        sums.made_bytes += values[made_space]
        sums.made_blocks += values[made_objects]
        sums.live_variance += error_of(values[live_space], values[live_objects], profile.period)
        sums.made_variance += error_of(values[made_space], values[made_objects], profile.period)
        sums.freed_variance += error_of(
            values[made_space] - values[live_space], values[made_objects] - values[live_objects],
            profile.period,
        )  # fmt: skip
    return dict(found)


def rows_by_site(groups: dict[str, Group]) -> list[Change]:
    """The largest growth first."""
    rows = [group.change(name) for name, group in groups.items()]
    return sorted(rows, key=lambda row: (-row.nbytes, row.name))


def variance_of(old: Sums, new: Sums, kind: str, is_same_run: bool) -> float:
    """Variance of a difference. Two profiles of one run have the same samples of blocks live in
    both, so that it is at most that of blocks that came and went; else that of both."""
    made, freed = new.made_variance - old.made_variance, new.freed_variance - old.freed_variance
    if is_same_run and made >= 0 and freed >= 0:
        return made if kind == "alloc" else made + freed
    if kind == "alloc":
        return old.made_variance + new.made_variance
    return old.live_variance + new.live_variance


def seconds_between(before: Profile, after: Profile) -> float:
    """Seconds from one profile of a process to the next. 0: not known, too few, or they are of two
    samplings of a running process, each of which knows its own blocks alone."""
    if not before.time_nanos or before.duration_nanos or after.duration_nanos:
        return 0.0
    seconds = (after.time_nanos - before.time_nanos) / 1e9
    return seconds if seconds >= BETWEEN_LEAST_S else 0.0


def changes(
    before: dict[Stack, Sums], after: dict[Stack, Sums], kind: str, is_same_run: bool
) -> list[Change]:
    """Call sites that have other bytes after than before."""
    groups: defaultdict[str, Group] = defaultdict(Group)
    for stack in before.keys() | after.keys():
        old, new = before.get(stack, Sums()), after.get(stack, Sums())
        nbytes, blocks = new.live_bytes - old.live_bytes, new.live_blocks - old.live_blocks
        if kind == "alloc":
            nbytes, blocks = new.made_bytes - old.made_bytes, new.made_blocks - old.made_blocks
        if nbytes != 0 or blocks != 0:
            groups[stack.site].add(stack, nbytes, blocks, variance_of(old, new, kind, is_same_run))
    return [row for row in rows_by_site(groups) if row.nbytes != 0]


def leaks(dumps: list[dict[Stack, Sums]]) -> list[Change]:
    """Stacks whose live bytes grew from each dump to the next, and whose sampled blocks were never
    freed: their growth from the first to the last."""
    groups: defaultdict[str, Group] = defaultdict(Group)
    for stack, last in dumps[-1].items():
        live = [dump[stack].live_bytes if stack in dump else 0 for dump in dumps]
        has_grown = all(after > before for before, after in zip(live, live[1:], strict=False))
        if has_grown and last.live_bytes == last.made_bytes:
            first = dumps[0].get(stack, Sums())
            variance = abs(last.live_variance - first.live_variance)
            groups[stack.site].add(
                stack, last.live_bytes - first.live_bytes, last.live_blocks - first.live_blocks,
                variance,
            )  # fmt: skip
    return rows_by_site(groups)
