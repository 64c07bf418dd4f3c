# SPDX-License-Identifier: MIT
"""The ratio of two columns that were measured in the same rounds, and how sure it is.

The columns of a round ran within seconds of each other, so what the machine did in those seconds
went into both: the ratio is taken in every round. The estimate is the trimmed mean of the
logarithms, its interval Student's with Winsorised standard errors (Yuen). Rounds run their columns
in a random order, so that between equal columns the logarithms are symmetric about 0 whatever the
noise, and heavy tails make the interval wider rather than wrong.

A report has many cells, and one interval in twenty is wrong: with `cells` the intervals of a report
are simultaneous: all of them are right in 95 of 100 reports (Bonferroni). Lost: the studentised
bootstrap, which has too few resamples of 5 to 10 rounds for such levels; at 95 % it called 9 of 92
equal cells different on a machine that others were using. tests/cli/test_compare_paired.py.

Standard library only, and repeatable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

LEVEL = 0.95
ROUNDS_MIN = 5  # with fewer an interval would be a guess
TRIM, TRIM_ROUNDS_MIN = 0.15, 8  # from each end; below so many rounds nothing can be spared
QUANTILE_STEPS = 60  # of the bisection: more than a double's bits


@dataclass(frozen=True)
class Ratio:
    """How many times the base's; low and high are None with fewer than ROUNDS_MIN rounds."""

    ratio: float
    low: float | None
    high: float | None


def student_share(t: float, freedom: int) -> float:
    """The probability of -t to t, for a whole number of degrees (Abramowitz and Stegun 26.7.3)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, is_odd = math.cos(angle), freedom % 2
    term = cosine if is_odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(3 if is_odd else 2, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if is_odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


@cache
def student_quantile(level: float, freedom: int) -> float:
    """The t whose -t to t has that probability."""
    low, high = 0.0, 1.0
    while student_share(high, freedom) < level:
        high *= 2
    for _ in range(QUANTILE_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if student_share(middle, freedom) < level else (low, middle)
    return high


def trimmed_count(count: int) -> int:
    """Values left out at each end."""
    return int(TRIM * count) if count >= TRIM_ROUNDS_MIN else 0


def estimate(values: Sequence[float]) -> tuple[float, float]:
    """The trimmed mean, and its standard error: Winsorised, as Yuen has it."""
    count, cut = len(values), trimmed_count(len(values))
    ordered = sorted(values)
    kept = ordered[cut : count - cut]
    mean = sum(kept) / len(kept)
    if count < 2:
        return mean, 0.0
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    centre = sum(winsorised) / count
    variance = sum((value - centre) ** 2 for value in winsorised) / (count - 1)
    return mean, math.sqrt(variance / count) / (1 - 2 * cut / count)


def freedom_of(count: int) -> int:
    """Yuen's degree of freedom less one where values were trimmed: far out in the tail, where the
    levels of many cells lie, Yuen's own is wrong up to 1.7 times as often as its level."""
    cut = trimmed_count(count)
    return count - 2 * cut - (2 if cut else 1)


def interval_half(values: Sequence[float], level: float = LEVEL) -> float:
    """Half of the interval of the trimmed mean; at least two values."""
    return student_quantile(level, freedom_of(len(values))) * estimate(values)[1]


def logarithms(measured: Sequence[float], base: Sequence[float]) -> list[float]:
    """The logarithm of the ratio in each round."""
    if len(measured) != len(base) or not measured:
        raise ValueError("a ratio needs the same rounds of both columns")
    return [math.log(a / b) for a, b in zip(measured, base)]


def error_of(measured: Sequence[float], base: Sequence[float]) -> float:
    """The standard error of the ratio's logarithm; 0 with fewer than ROUNDS_MIN rounds."""
    logs = logarithms(measured, base)
    return estimate(logs)[1] if len(logs) >= ROUNDS_MIN else 0.0


def ratio_of(
    measured: Sequence[float], base: Sequence[float], cells: int = 1, least_error: float = 0.0
) -> Ratio:
    """Both in the order of their rounds, all positive. cells: the number of intervals that are
    simultaneous.

    least_error: as error_of gives it of the base against itself. A column that happened to be
    steadier than the base is from itself was lucky.
    """
    logs = logarithms(measured, base)
    mean, error = estimate(logs)
    if len(logs) < ROUNDS_MIN:
        return Ratio(math.exp(mean), None, None)
    half = student_quantile(1 - (1 - LEVEL) / max(cells, 1), freedom_of(len(logs)))
    half *= max(error, least_error)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
