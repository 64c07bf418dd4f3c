# SPDX-License-Identifier: MIT
"""What a profile says of each function: the rows of the report of `poolshim profile`."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

from ..callsites import CallSites
from ..folds import Folds
from ..pprof import Profile, Sample
from ..symbols import Symbols

TWO_SIDED_95 = 1.96


@dataclass(frozen=True)
class Row:
    """A call site: the innermost function that is no layer of allocation."""

    name: str
    nbytes: int
    blocks: int
    error_bytes: int  # half of the 95 % interval
    callers: tuple[str, ...]  # of the heaviest stack, innermost first


def functions_of(sample: Sample, symbols: Symbols) -> list[str]:
    """All functions of a stack, innermost first."""
    return [name for location in sample.locations for name in symbols.of(location)]


def error_of(nbytes: int, blocks: int, interval: int) -> float:
    """The variance of a sampled sum over blocks of the mean size."""
    if blocks == 0:
        return 0.0
    size = nbytes / blocks
    hit = -math.expm1(-size / interval)
    return blocks * size * size * (1 - hit) / hit


def rows_of(profile: Profile, symbols: Symbols, kind: str, folds: Folds) -> list[Row]:
    """The rows by bytes, the largest first. kind: inuse or alloc."""
    frames = [symbols.frames_of(sample.locations) for sample in profile.samples]
    sites = CallSites([frames], folds)
    counts, spaces = profile.index_of(f"{kind}_objects"), profile.index_of(f"{kind}_space")
    nbytes: Counter[str] = Counter()
    blocks: Counter[str] = Counter()
    variance: defaultdict[str, float] = defaultdict(float)
    stacks: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for sample, stack in zip(profile.samples, frames, strict=True):
        name, callers = sites.of(stack)
        space, count = sample.values[spaces], sample.values[counts]
        nbytes[name] += space
        blocks[name] += count
        variance[name] += error_of(space, count, profile.period)
        stacks[name][callers] += space
    return [
        Row(name, space, blocks[name], round(TWO_SIDED_95 * math.sqrt(variance[name])),
            stacks[name].most_common(1)[0][0])
        for name, space in nbytes.most_common()
        if space > 0
    ]  # fmt: skip
