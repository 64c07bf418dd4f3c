# SPDX-License-Identifier: MIT
"""How fast a call site allocates, and how long its blocks live.

    rate = rates.of(live, made, period, seconds); rate.bytes_per_s, rate.lifetime_s

Little's law: live memory is on average the rate of allocation times the mean lifetime. What is
live at the end stands for the average, so the law says something of sites in balance alone: those
that have freed more than half of what they allocated. The mean is over bytes: a block of twice the
size counts twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

TWO_SIDED_95 = 1.96
NONE_MOST = 3.0  # samples that are expected where none was seen, at most (95 %)


@dataclass(frozen=True)
class Sum:
    """A sampled sum."""

    nbytes: int = 0
    blocks: int = 0
    variance: float = 0.0


@dataclass(frozen=True)
class Rate:
    """Of one call site. The errors are halves of 95 % intervals."""

    bytes_per_s: float
    bytes_per_s_error: float
    blocks_per_s: float
    lifetime_s: float | None  # None: not in balance, or nothing allocated
    lifetime_error_s: float | None


def lifetime_of(live: Sum, freed: Sum, period: int, seconds: float) -> tuple[float, float] | None:
    """The mean lifetime and its error, by the delta method: live and freed samples are independent.
    Without a live sample 0, and the end of the interval above."""
    made = live.nbytes + freed.nbytes
    if made <= 0 or freed.nbytes * 2 <= made:
        return None
    if live.nbytes <= 0:
        return 0.0, seconds * min(1.0, NONE_MOST * period / made)
    variance = (freed.nbytes / made**2) ** 2 * live.variance
    variance += (live.nbytes / made**2) ** 2 * freed.variance
    return seconds * live.nbytes / made, TWO_SIDED_95 * seconds * math.sqrt(variance)


def of(live: Sum, made: Sum, freed_variance: float, period: int, seconds: float) -> Rate:
    """The rate over so many seconds, from the start of sampling."""
    freed = Sum(made.nbytes - live.nbytes, made.blocks - live.blocks, freed_variance)
    found = lifetime_of(live, freed, period, seconds)
    return Rate(
        made.nbytes / seconds, TWO_SIDED_95 * math.sqrt(made.variance) / seconds,
        made.blocks / seconds, *(found or (None, None)),
    )  # fmt: skip


def seconds_text(seconds: float) -> str:
    """Two or three digits and a unit."""
    units = (("h", 3600.0, 7200.0), ("min", 60.0, 120.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1e-3))
    unit, factor = next(((unit, factor) for unit, factor, least in units if seconds >= least),
                        ("µs", 1e-6))  # fmt: skip
    value = seconds / factor
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.2g} {unit}"


def lifetime_text(rate: Rate | None) -> str:
    """With its interval: "4.1 s ± 7 %"; "-" where it is not known."""
    if rate is None or rate.lifetime_s is None or rate.lifetime_error_s is None:
        return "-"
    if rate.lifetime_s == 0:
        return f"< {seconds_text(rate.lifetime_error_s)}"
    share = 100 * rate.lifetime_error_s / rate.lifetime_s
    return f"{seconds_text(rate.lifetime_s)} ± {min(share, 999):.0f} %"
