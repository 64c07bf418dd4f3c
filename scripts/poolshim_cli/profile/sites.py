# SPDX-License-Identifier: MIT
"""What a profile says of each function: the rows of the report of `poolshim profile`."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import astuple, dataclass, field, fields
from typing import Any

from ..callsites import CallSites, site_of
from ..folds import Folds
from ..pprof import Pool, Profile, Sample
from ..symbols import Symbols
from . import rates
from .rates import TWO_SIDED_95, Rate, Sum

NO_POOL = Pool("", "")

@dataclass(frozen=True)
class Row:
    """A call site: the innermost function that is no layer of allocation."""

    name: str
    nbytes: int
    blocks: int
    error_bytes: int  # half of the 95 % interval
    callers: tuple[str, ...]  # of the heaviest stack, innermost first
    rate: Rate | None = None  # None: for how long it was sampled is not known
    file: str = ""  # with its folders, where the function is of an interpreted program
    line: int = 0
    pool_family: str = ""  # "region"; "" of memory that no pool took
    pool: str = ""  # its name, if it has one

    def to_json(self) -> dict[str, Any]:
        """The figures of the rate beside the others."""
        found = {name: value for name, value in vars(self).items() if name != "rate"}
        names = [one.name for one in fields(Rate)]
        return found | {name: getattr(self.rate, name, None) for name in names}


def functions_of(sample: Sample, symbols: Symbols) -> list[str]:
    """All functions of a stack, innermost first."""
    return [name for location in sample.locations for name in symbols.of(location)]


def error_of(nbytes: int, blocks: int, interval: int) -> float:
    """The variance of a sampled sum over blocks of the mean size."""
    if blocks <= 0 or nbytes <= 0:
        return 0.0
    size = nbytes / blocks
    hit = -math.expm1(-size / interval)
    return blocks * size * size * (1 - hit) / hit


@dataclass
class Sums:
    """Sums of a call site."""

    values: Counter[str] = field(default_factory=Counter)  # by sample type
    variances: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    stacks: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def add(self, values: dict[str, int], period: int) -> None:
        """Adds a stack."""
        self.values.update(values)
        freed = {what: values[f"alloc_{what}"] - values[f"inuse_{what}"]
                 for what in ("space", "objects")}  # fmt: skip
        for kind, space, count in (
            ("alloc", values["alloc_space"], values["alloc_objects"]),
            ("inuse", values["inuse_space"], values["inuse_objects"]),
            ("freed", freed["space"], freed["objects"]),
        ):
            self.variances[kind] += error_of(space, count, period)

    def sum_of(self, kind: str) -> Sum:
        """inuse or alloc."""
        values = self.values
        return Sum(values[f"{kind}_space"], values[f"{kind}_objects"], self.variances[kind])


def rows_of(
    profile: Profile, symbols: Symbols, kind: str, folds: Folds, seconds: float = 0.0,
    is_short: bool = False,
) -> list[Row]:  # fmt: skip
    """The rows by bytes, the largest first. kind: inuse or alloc. seconds: for which it was
    sampled; 0: not known. is_short: without arguments,
    where no other function has that name."""
    frames = [symbols.frames_of(sample.locations) for sample in profile.samples]
    sites = CallSites([frames], folds, is_short)
    types = [name for name, _ in profile.types]
    found: defaultdict[str, Sums] = defaultdict(Sums)
    places: dict[str, tuple[str, int]] = {}
    pools: dict[str, Pool] = {}
    for sample, stack in zip(profile.samples, frames, strict=True):
        name, callers = sites.of(stack)
        values = dict(zip(types, sample.values, strict=True))
        found[name].add(values, profile.period)
        found[name].stacks[callers] += values[f"{kind}_space"]
        line = site_of(stack, folds).function.line
        pool = stack[0].pool if stack else None
        if pool is not None:
            pools[name] = pool
        if line is not None and line.pool is None:
            places[name] = line.file, line.number
    rows = []
    for name, sums in found.items():
        one = sums.sum_of(kind)
        rate = None if seconds <= 0 else rates.of(
            sums.sum_of("inuse"), sums.sum_of("alloc"), sums.variances["freed"], profile.period,
            seconds,
        )  # fmt: skip
        error = round(TWO_SIDED_95 * math.sqrt(one.variance))
        callers = sums.stacks.most_common(1)[0][0]
        place, pool = places.get(name, ("", 0)), pools.get(name, NO_POOL)
        rows.append(Row(name, one.nbytes, one.blocks, error, callers, rate, *place, *astuple(pool)))
    return sorted((row for row in rows if row.nbytes > 0), key=lambda row: -row.nbytes)
