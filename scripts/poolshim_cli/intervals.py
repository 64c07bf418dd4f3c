# SPDX-License-Identifier: MIT
"""The sums: median, best, and how sure a ratio is. Standard library only, and repeatable: one seed.

A process is the unit of measurement: its rounds share one address space and one moment in time, so
the bootstrap draws whole processes first and rounds inside them second.
"""

from __future__ import annotations

import random
from statistics import median

SEED = 20140513
DRAWS = 2000

Clusters = list[list[float]]


def best(values: list[float]) -> float:
    """The least of the values: noise only ever adds time."""
    return min(values)


def pooled_median(clusters: Clusters) -> float:
    """The median of all rounds of all processes."""
    return median(value for cluster in clusters for value in cluster)


def draw(clusters: Clusters, generator: random.Random) -> Clusters:
    """One resample: processes with replacement, then rounds with replacement inside each."""
    chosen = generator.choices(clusters, k=len(clusters))
    return [generator.choices(cluster, k=len(cluster)) for cluster in chosen]


def ratio_interval(
    numerator: Clusters,
    denominator: Clusters,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = SEED,
) -> tuple[float, float] | None:
    """Bootstrap interval of median(numerator) / median(denominator), by percentiles.

    None with fewer than two processes a side. With two or three it shows the spread that was seen,
    no more than that.
    """
    if len(numerator) < 2 or len(denominator) < 2:
        return None
    generator = random.Random(seed)
    ratios = sorted(
        pooled_median(draw(numerator, generator)) / pooled_median(draw(denominator, generator))
        for _ in range(draws)
    )
    tail = (1 - level) / 2
    return ratios[int(tail * draws)], ratios[min(draws - 1, int((1 - tail) * draws))]


def is_difference(interval: tuple[float, float] | None) -> bool | None:
    """Whether the interval excludes 1; None when there is no interval."""
    return None if interval is None else not interval[0] <= 1.0 <= interval[1]
