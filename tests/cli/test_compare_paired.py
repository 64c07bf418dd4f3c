# SPDX-License-Identifier: MIT
"""The interval of a ratio contains the true ratio as often as it says, on data of known ratios.

scripts/test tests/cli/test_compare_paired.py
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from statistics import median

import pytest
from conftest import ROOT
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))
from poolshim_cli.compare import paired  # noqa: E402

SEED, EXPERIMENTS = 7, 1000
Noise = Callable[[random.Random], float]


def normal(generator: random.Random) -> float:
    return math.exp(generator.gauss(0, 0.03))


def skewed(generator: random.Random) -> float:
    return 1 + generator.expovariate(1 / 0.03)


def disturbed(generator: random.Random) -> float:
    return normal(generator) * (1.3 if generator.random() < 0.1 else 1)


def heavy(generator: random.Random) -> float:
    return math.exp(0.02 * generator.gauss(0, 1) / math.sqrt(generator.gammavariate(1.5, 2 / 3)))


def rounds(
    generator: random.Random, noise: Noise, count: int, ratio: float
) -> tuple[list[float], list[float]]:
    """A column and its base on a machine that becomes 30 % slower meanwhile."""
    drift = [math.exp(0.3 * at / count) for at in range(count)]
    return (
        [ratio * slow * noise(generator) for slow in drift],
        [slow * noise(generator) for slow in drift],
    )


def intervals(
    noise: Noise, count: int, ratio: float, experiments: int = EXPERIMENTS
) -> list[paired.Ratio]:
    print(f"seed {SEED}")
    generator = random.Random(SEED)
    return [
        paired.ratio_of(*rounds(generator, noise, count, ratio)) for _ in range(experiments)
    ]


def share_holding(found: list[paired.Ratio], ratio: float) -> float:
    return sum((one.low or 9) <= ratio <= (one.high or 0) for one in found) / len(found)


@each_row("count", [5, 8, 12, 30])
@each_row("noise", [normal, skewed, heavy, disturbed])
def test_interval_holds_the_true_ratio_in_95_of_100(noise: Noise, count: int) -> None:
    share = share_holding(intervals(noise, count, 1.03), 1.03)
    assert 0.92 <= share <= 0.985, share


@each_row("noise", [normal, skewed, heavy, disturbed])
def test_intervals_of_many_cells_hold_together(noise: Noise) -> None:
    """Twelve cells of one report: one of them is wrong in at most 5 of 100 reports."""
    generator = random.Random(SEED)
    cells, reports = 12, 400
    wrong = sum(
        any(
            not (one.low or 9) <= 1.03 <= (one.high or 0)
            for one in (
                paired.ratio_of(*rounds(generator, noise, 10, 1.03), cells) for _ in range(cells)
            )
        )
        for _ in range(reports)
    )
    assert wrong <= 0.06 * reports, wrong


@each_row(
    ("level", "freedom", "expected"),
    [(0.95, 1, 12.706), (0.95, 4, 2.776), (0.99, 5, 4.032), (0.95, 10, 2.228), (0.995, 17, 3.222),
     (0.999, 29, 3.659)],
)  # fmt: skip
def test_quantiles_are_students(level: float, freedom: int, expected: float) -> None:
    """Compares with printed tables."""
    assert paired.student_quantile(level, freedom) == pytest.approx(expected, abs=6e-4)


def test_column_is_not_taken_for_steadier_than_the_base_is_from_itself() -> None:
    steady = [1.29, 1.30, 1.31, 1.29, 1.30, 1.31], [1.0] * 6
    alone = paired.ratio_of(*steady)
    assert (alone.low or 0) > 1.2
    noise = paired.error_of([0.3, 3.0, 0.5, 2.0, 1.0, 4.0], [1.0] * 6)
    doubted = paired.ratio_of(*steady, least_error=noise)
    assert (doubted.low or 9) < 0.5 and doubted.ratio == alone.ratio


def test_few_rounds_make_the_interval_wide_rather_than_wrong() -> None:
    found = intervals(normal, 5, 1.03)
    assert share_holding(found, 1.03) >= 0.94
    assert median((one.high or 0) - (one.low or 0) for one in found) > 0.05


def test_equal_columns_are_found_different_in_5_of_100_at_most_8() -> None:
    wrong = 1 - share_holding(intervals(normal, 12, 1.0), 1.0)
    assert 0.02 <= wrong <= 0.08


def test_three_percent_are_found_with_thirty_rounds() -> None:
    found = intervals(normal, 30, 1.03, 100)
    seen = sum((one.low or 0) > 1 for one in found) / len(found)
    assert seen > 0.8, seen
    assert abs(median(one.ratio for one in found) - 1.03) < 0.002


def test_three_percent_are_not_claimed_with_five_rounds() -> None:
    found = intervals(normal, 5, 1.03)
    assert sum((one.low or 0) > 1 for one in found) / len(found) < 0.3


def test_drift_of_the_machine_cancels_out() -> None:
    """The same rounds with and without the drift give the same ratio."""
    generator = random.Random(SEED)
    measured, base = rounds(generator, normal, 10, 1.1)
    drift = [2.0**at for at in range(10)]
    slowed = [[value * slow for value, slow in zip(c, drift)] for c in (measured, base)]
    plain, drifted = paired.ratio_of(measured, base), paired.ratio_of(slowed[0], slowed[1])
    assert drifted.ratio == pytest.approx(plain.ratio)
    assert (drifted.low, drifted.high) == pytest.approx((plain.low, plain.high))


def test_one_disturbed_round_changes_little() -> None:
    base = [1 + 0.001 * (at % 3) for at in range(10)]
    calm = [2 * (1 + 0.001 * (at % 4)) for at in range(10)]
    hit = [*calm[:-1], 20.0]
    assert paired.ratio_of(hit, base).ratio == pytest.approx(2, rel=0.01)
    assert (paired.ratio_of(hit, base).high or 9) < 2.05


def test_fewer_than_five_rounds_give_no_interval() -> None:
    assert paired.ratio_of([2.0] * 4, [1.0] * 4) == paired.Ratio(pytest.approx(2), None, None)


def test_constant_values_give_a_point() -> None:
    found = paired.ratio_of([3.0] * 6, [2.0] * 6)
    assert (found.low, found.high, found.ratio) == pytest.approx((1.5, 1.5, 1.5))


def test_interval_is_finite_when_nearly_all_rounds_are_equal() -> None:
    for count in (5, 8, 20):
        found = paired.ratio_of([1.0] * (count - 1) + [1.5], [1.0] * count)
        assert 0.6 < (found.low or 0) <= found.ratio <= (found.high or 9) < 1.7


def test_same_rounds_give_the_same_interval() -> None:
    generator = random.Random(SEED)
    columns = rounds(generator, normal, 9, 1.0)
    assert paired.ratio_of(*columns) == paired.ratio_of(*columns)


@each_row(("measured", "base"), [([], []), ([1.0], [1.0, 2.0])])
def test_unequal_rounds_are_refused(measured: list[float], base: list[float]) -> None:
    with pytest.raises(ValueError, match="same rounds"):
        paired.ratio_of(measured, base)
