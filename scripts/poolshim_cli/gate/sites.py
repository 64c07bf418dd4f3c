# SPDX-License-Identifier: MIT
"""The call sites whose blocks grow, by the samples of two looks.

    rows = sites.growth(looks, first, last, rounds=20, sizes={64}, folds=folds)

A block that is live at both looks cancels out. So the error is that of blocks that came or went.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from .. import pprof, symbols
from ..callsites import CallSites, Frame
from ..folds import Folds
from ..live.memory import contradictions
from ..live.samples import Sample, Snapshot, Stack
from ..profile.live import sites_of
from ..profile.sites import TWO_SIDED_95
from .looks import LARGE, Look, Looks

Part = Callable[[list[Frame]], list[Frame]]
SHARE_LEAST = 0.05  # of the growth of all sites, of one that is listed


@dataclass(frozen=True)
class Row:
    """A call site, and its growth per round."""

    name: str
    nbytes: float
    error: float  # half of the 95 % interval
    blocks: float
    callers: tuple[str, ...]  # of the stack that grows most


@dataclass
class Sums:
    """Sums of a stack or site over all rounds."""

    nbytes: float = 0.0
    blocks: float = 0.0
    variance: float = 0.0
    callers: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def add(self, other: Sums, callers: tuple[str, ...]) -> None:
        """Adds a stack."""
        self.nbytes += other.nbytes
        self.blocks += other.blocks
        self.variance += other.variance
        self.callers[callers] += round(other.nbytes)


def keyed(snapshot: Snapshot) -> dict[tuple[int, int], Sample]:
    """Samples by what tells each from all others of the process."""
    return {(one.block, one.number): one for one in snapshot.live}


def came_and_went(before: Snapshot, after: Snapshot) -> Iterator[tuple[int, Sample, Snapshot]]:
    """Samples that one of two snapshots has, with 1 or -1."""
    old, new = keyed(before), keyed(after)
    for key in new.keys() - old.keys():
        yield 1, new[key], after
    for key in old.keys() - new.keys():
        yield -1, old[key], before


def stack_sums(
    looks: Looks, pid: int, first: Look, last: Look, sizes: set[int]
) -> dict[tuple[pprof.Location, ...], Sums]:
    """The growth of each stack of a process. sizes: only these; empty: all."""
    process, found = looks.process(pid), defaultdict[tuple[pprof.Location, ...], Sums](Sums)
    lost, classes = process.layout.place("lost_stack"), {size for size in last.nbytes if size}
    before, after = (look.samples.get(pid, Snapshot()) for look in (first, last))
    for sign, sample, snapshot in came_and_went(before, after):
        size = sample.nbytes if sample.nbytes in classes else LARGE
        if sizes and size not in sizes:
            continue
        weight = sample.weight / process.weight_one
        stack = snapshot.stacks.get(sample.stack, Stack())
        is_lost = sample.stack == lost
        sums = found[sites_of(stack, is_lost, process.code, snapshot.lines)]
        sums.nbytes += sign * weight * sample.nbytes
        sums.blocks += sign * weight
        sums.variance += weight * (weight - 1) * sample.nbytes**2
    return found


def growth(
    looks: Looks, first: Look, last: Look, rounds: float, sizes: set[int], folds: Folds,
    part: Part = list,
) -> tuple[list[Row], list[str]]:
    """Sites that grow, most first, and notes on missing names."""
    found = {}
    for pid in sorted(first.samples.keys() | last.samples.keys()):
        with contradictions(pid):
            found[pid] = stack_sums(looks, pid, first, last, sizes)
    return rows_of(looks, found, rounds, folds, part)


def rows_of(
    looks: Looks, stacks_of: Mapping[int, Mapping[tuple[pprof.Location, ...], Sums]],
    rounds: float, folds: Folds, part: Part,
) -> tuple[list[Row], list[str]]:
    """The sites of the stacks of processes, per round. part: that of a stack which is named."""
    notes: list[str] = []
    named, frames_of_all = [], []
    for pid, stacks in stacks_of.items():
        profile = pprof.Profile(samples=[pprof.Sample(stack, ()) for stack in stacks])
        process = looks.process(pid)
        names = symbols.names_of(profile, process.perf_map, process.root.folder)
        notes += [note for note in names.notes if note not in notes]
        pairs = [(part(names.frames_of(stack)), sums) for stack, sums in stacks.items()]
        named += pairs
        frames_of_all.append([frames for frames, _ in pairs])
    sites, found = CallSites(frames_of_all, folds, is_short=True), defaultdict[str, Sums](Sums)
    for frames, sums in named:
        name, callers = sites.of(frames)
        found[name].add(sums, callers)
    rows = [
        Row(name, one.nbytes / rounds, TWO_SIDED_95 * math.sqrt(one.variance) / rounds,
            one.blocks / rounds, one.callers.most_common(1)[0][0])
        for name, one in found.items() if one.nbytes > 0
    ]  # fmt: skip
    rows.sort(key=lambda row: -row.nbytes)
    least = SHARE_LEAST * sum(row.nbytes for row in rows)
    return [row for row in rows if row.nbytes >= max(least, row.error)] or rows[:1], notes
