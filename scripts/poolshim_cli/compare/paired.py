# SPDX-License-Identifier: MIT
"""The ratio of two columns that were measured in the same rounds, and how sure it is.

The columns of a round ran within seconds of each other, so what the machine did in those seconds
went into both: the ratio is taken in every round, and the rounds are what is resampled. The
estimate is the trimmed mean of the logarithms; its interval is the studentised bootstrap's,
symmetric, with Winsorised standard errors. Chosen by simulation: with 5 to 30 rounds and normal,
skewed, heavy-tailed and contaminated noise it holds the true ratio in 94 to 99 of 100 experiments,
where percentiles of the ratio of medians are a third wider at 20 rounds, and the untrimmed mean's
are twice as wide as soon as one round in ten is disturbed. tests/cli/test_compare_paired.py.

Standard library only, and repeatable: one seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

SEED = 20140513
DRAWS = 2000
LEVEL = 0.95
ROUNDS_MIN = 5  # with fewer an interval would be a guess
TRIM, TRIM_ROUNDS_MIN = 0.2, 8  # from each end; below so many rounds nothing can be spared


@dataclass(frozen=True)
class Ratio:
    """How many times the base's; low and high are None with fewer than ROUNDS_MIN rounds."""

    ratio: float
    low: float | None
    high: float | None


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


def half_width(values: Sequence[float], level: float, draws: int, seed: int) -> float:
    """What is added to and taken from the trimmed mean; never more than the values' own spread."""
    mean, error = estimate(values)
    if error == 0:  # as memory often is: the same in every round
        return 0.0
    generator = random.Random(seed)
    errors = []
    for _ in range(draws):
        sample_mean, sample_error = estimate(generator.choices(values, k=len(values)))
        distance = abs(sample_mean - mean)
        errors.append(distance / sample_error if sample_error else math.inf if distance else 0.0)
    width = sorted(errors)[min(draws - 1, math.ceil(level * draws) - 1)] * error
    # Of nearly equal values some samples have next to no error of their own, and theirs decides.
    return min(width, max(values) - min(values))


def ratio_of(
    measured: Sequence[float],
    base: Sequence[float],
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Ratio:
    """Both in the order of their rounds, all positive."""
    if len(measured) != len(base) or not measured:
        raise ValueError("a ratio needs the same rounds of both columns")
    logs = [math.log(a / b) for a, b in zip(measured, base)]
    mean, _ = estimate(logs)
    if len(logs) < ROUNDS_MIN:
        return Ratio(math.exp(mean), None, None)
    half = half_width(logs, level, draws, seed)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
