# SPDX-License-Identifier: MIT
"""How fast a series of sizes grows, with an interval, and when it reaches a limit.

    rate = rate_of([(0.0, 1e6), (0.5, 2e6), ...]); rate.per_s, rate.low, rate.high

The rate is the median of the slopes of all pairs (Theil and Sen): a single swing does not move it.
Its interval of 95 % is that of Kendall's rank correlation. Growth counts as lasting by the rule of
`poolshim explain --pid`: the least of each part of the time is above that of the part before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from ..explain.growth import Floors
from ..sizes import MIB

POINTS_MAX = 120  # of a series: pairs are quadratic
POINTS_LEAST = 4
DEVIATIONS = 1.96
MINUTE_S = 60.0
SHOWN_LEAST = 0.05 * MIB

Series = list[tuple[float, float]]


@dataclass(frozen=True)
class Rate:
    """Bytes per second, and the ends of the interval."""

    per_s: float
    low: float
    high: float

    @property
    def is_growth(self) -> bool:
        """Whether the interval excludes that nothing grows."""
        return self.low > 0

    @property
    def is_shown(self) -> bool:
        """Whether a tenth of a MiB per minute, as reports have it, is not 0."""
        return abs(self.per_s) * MINUTE_S >= SHOWN_LEAST


def thinned(series: Series) -> Series:
    """At most POINTS_MAX points, evenly spread, the last one included."""
    if len(series) <= POINTS_MAX:
        return series
    step = (len(series) - 1) / (POINTS_MAX - 1)
    return [series[round(i * step)] for i in range(POINTS_MAX)]


def rate_of(series: Series) -> Rate | None:
    """The rate; None of fewer than four points."""
    points = thinned(series)
    count = len(points)
    slopes = sorted((b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points)
                    for b in points[i + 1 :] if b[0] > a[0])  # fmt: skip
    if count < POINTS_LEAST or not slopes:
        return None
    spread = DEVIATIONS * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, math.floor((len(slopes) - spread) / 2))
    high = min(len(slopes) - 1, math.ceil((len(slopes) + spread) / 2))
    return Rate(median(slopes), slopes[low], slopes[high])


def floors_of(series: Series) -> Floors:
    """The series for the rule on lasting growth."""
    span_s = series[-1][0] - series[0][0] if series else 0.0
    return Floors([value for _, value in series], span_s)


def seconds_until(left: float, rate: Rate | None) -> tuple[float, float, float] | None:
    """When so many bytes are used up: earliest, at the rate, latest (inf where it may never be);
    None without growth."""
    if rate is None or rate.per_s <= 0 or not rate.is_growth:
        return None
    return left / rate.high, left / rate.per_s, left / rate.low


def duration(seconds: float) -> str:
    """A time for people."""
    for limit, unit, divisor in ((90.0, "s", 1.0), (5400.0, "min", 60.0), (172800.0, "h", 3600.0),
                                 (86400.0 * 999, "days", 86400.0)):  # fmt: skip
        if seconds < limit:
            count = seconds / divisor
            return f"{count:.0f} {unit}" if count >= 10 else f"{count:.1f} {unit}"
    return "years"
