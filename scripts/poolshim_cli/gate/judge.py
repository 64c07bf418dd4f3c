# SPDX-License-Identifier: MIT
"""Whether live memory grows from round to round.

    judge.suspects(looks), judge.confirmed(looks, rounds, allow)

The blocks of each size are a series of their own: a leak of one size does not disappear in the
noise of others. Noise, a table that doubles and a cache that fills grow for some rounds, a leak in
each: growth has to be significant, in more than half of the rounds, and as large in as many rounds
again. The change of a round is estimated by a trimmed mean, whose interval compare/paired.py has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..compare.paired import LEVEL, interval_half
from ..compare.paired import estimate as trimmed
from .looks import Look

TOTAL = -1  # in place of a block size: all of them
LASTING_SHARE = 0.7  # of the growth before, that the rounds which confirm it have at least
RECENT_SHARE = 0.5  # likewise, of the last of these rounds


@dataclass(frozen=True)
class Change:
    """The mean change of a round."""

    mean: float
    error: float  # half of the interval

    @property
    def low(self) -> float:
        """The end of the interval below."""
        return self.mean - self.error

    @property
    def high(self) -> float:
        """The end of the interval above."""
        return self.mean + self.error


@dataclass(frozen=True)
class Verdict:
    """Of some rounds."""

    does_grow: bool
    nbytes: Change  # per round; of what grows, or of all
    blocks: Change
    sizes: dict[int, Change]  # blocks per round, of each size that grows
    rounds: int
    has_stopped: bool = False  # it grew in the first half


def change_of(steps: Sequence[float], level: float = LEVEL) -> Change:
    """The mean of steps, and its interval."""
    return Change(trimmed(steps)[0], interval_half(steps, level))


def steps_of(values: Sequence[float]) -> list[float]:
    """From each round to the next."""
    return [after - before for before, after in pairwise(values)]


def series_of(looks: Sequence[Look]) -> dict[int, list[float]]:
    """Bytes at each look by block size, and in all, of sizes that change."""
    sizes = {size for look in looks for size in look.nbytes}
    found = {size: [float(look.nbytes[size]) for look in looks] for size in sizes}
    found[TOTAL] = [float(look.total) for look in looks]
    return {size: values for size, values in found.items() if len(set(values)) > 1}


def grows_in_most(steps: Sequence[float]) -> bool:
    """Whether more than half of the rounds add some."""
    return sum(step > 0 for step in steps) * 2 > len(steps)


def suspects(looks: Sequence[Look]) -> set[int]:
    """Sizes whose blocks may grow."""
    steps = {size: steps_of(values) for size, values in series_of(looks).items()}
    return {size for size, one in steps.items()
            if change_of(one).low > 0 and grows_in_most(one)}  # fmt: skip


def is_lasting(steps: Sequence[float], level: float) -> bool:
    """Whether the second half grows as the first half did."""
    middle = len(steps) // 2
    first, second = steps[:middle], steps[middle:]
    recent = second[-(-len(second) * 2 // 3):]
    mean = trimmed(first)[0]
    return (change_of(steps, level).low > 0 and grows_in_most(second)
            and trimmed(second)[0] >= LASTING_SHARE * mean
            and sum(recent) >= RECENT_SHARE * mean * len(recent))  # fmt: skip


def verdict_of(looks: Sequence[Look], chosen: set[int], does_grow: bool) -> Verdict:
    """The sum of the chosen sizes; of all sizes where none is."""
    sizes = chosen - {TOTAL} or {size for look in looks for size in look.nbytes}
    nbytes = [float(sum(look.nbytes[size] for size in sizes)) for look in looks]
    blocks = [float(sum(look.blocks[size] for size in sizes)) for look in looks]
    by_size = {size: change_of(steps_of([float(look.blocks[size]) for look in looks]))
               for size in sorted(chosen - {TOTAL})}  # fmt: skip
    return Verdict(does_grow, change_of(steps_of(nbytes)), change_of(steps_of(blocks)), by_size,
                   len(looks) - 1)  # fmt: skip


def calm(looks: Sequence[Look], has_stopped: bool = False) -> Verdict:
    """Nothing grows."""
    found = verdict_of(looks, set(), False)
    return Verdict(False, found.nbytes, found.blocks, {}, found.rounds, has_stopped)


def confirmed(looks: Sequence[Look], allow: float) -> Verdict:
    """The second half of the looks confirms what the first half suggests, or does not. Blocks that
    move from one size to another add nothing: sizes that shrink count, too."""
    middle = (len(looks) - 1) // 2
    found = suspects(looks[: middle + 1])
    steps = {size: steps_of(values) for size, values in series_of(looks).items()}
    level = 1 - (1 - LEVEL) / max(len(steps), 1)
    growing = {size for size, one in steps.items() if size in found and is_lasting(one, level)}
    if not growing:
        return calm(looks, bool(found))
    sizes = growing - {TOTAL}
    shrinking = {size for size, one in steps.items() if size != TOTAL and change_of(one).high < 0}
    net = verdict_of(looks, sizes | shrinking if sizes else {TOTAL}, True)
    if net.nbytes.low <= allow:
        return calm(looks)
    by_size = {size: one for size, one in net.sizes.items() if size in sizes}
    return Verdict(True, net.nbytes, net.blocks, by_size, net.rounds)
