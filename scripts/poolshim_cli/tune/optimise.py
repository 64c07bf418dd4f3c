# SPDX-License-Identifier: MIT
"""The best table of size classes, exactly, for every number of classes.

cost(p, c) is what the class at point c costs when the next class below is at point p (see cost.py).
It depends on nothing else, so the best table of k classes that ends at c is

    best(k, c) = min over legal p of best(k - 1, p) + cost(p, c)

Every multiple of 16 is a candidate, live or not. Fewer would do if a table never became worse when
a class sinks to the largest size it serves. But that takes the next class out of reach of the
backbone, and a shorter block can mean a longer slab, half of which is the price of a part-filled
one. Nor is it needed: few p are legal below a c, since all powers of two are classes and p + 1 must
not waste more than a quarter. There are 1.5 million pairs up to 64 KiB. Layer k tries the pairs
from which the top can still be reached: 4 s in plain Python if every size is live. numpy saved a
third of that, and was left out; divide and conquer would need the quadrangle inequality, which
part-filled slabs break. candidates() saves most: a usual program takes 0.1 to 2 s.

Of equally good tables the one nearest to the table before is taken: each class added or dropped
costs a 64th of a byte beside.
"""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .cost import Workload, grid_points

CLASS_LIMIT = 63
INFINITE = float("inf")
CHANGE_BYTES = 1 / 64


@dataclass(frozen=True)
class Backbone:
    """What a table must have for sizes that were never seen.

    For every request of s bytes up to the largest class, the class has at most s / 4 bytes more, or
    no legal table has a smaller one: s is then up to 60 bytes, and the class the next multiple of
    16, or 8. And every power of two from 16 on is a class: aligned requests are served by
    classes that the alignment divides, and then never from further than the next power of two.
    """

    is_bounded: bool = True
    keeps_powers: bool = True

    def allows(self, below: int, upto: int) -> bool:
        """Whether a class of `upto` bytes may follow one of `below` bytes; 0: none."""
        if self.keeps_powers and upto > 16 and below < 1 << ((upto - 1).bit_length() - 1):
            return False
        is_next = upto <= below // 16 * 16 + 16
        return not self.is_bounded or is_next or 4 * (upto - below - 1) <= below + 1

    def lowest(self, points: Sequence[int]) -> list[int]:
        """Per point, the lowest point that may be the next class below. It never falls, so the
        legal ones of a point are all from there on."""
        result = [0]
        for upto in range(1, len(points)):
            below = result[-1]
            while not self.allows(points[below], points[upto]):
                below += 1
            result.append(below)
        return result


def candidates(live_sizes: Iterable[int], before: Sequence[int], top_bytes: int) -> list[int]:
    """The grid, but between two powers of two where nothing is live only the classes before.

    Nothing is lost. Both powers are classes in any table, so what lies between them can be
    exchanged alone. Where nothing is live, each choice costs 0 (and nothing serves a live size from
    further below), preserving the classes before changes least, and no choice has fewer classes if
    these are as few as the backbone allows; if they are not, or violate it, the whole grid
    remains. A table of a given number of classes may cost more where it has more classes than pay,
    the best of all does not.
    """
    live = sorted(set(live_sizes))
    kept = set(before)
    points = grid_points(min(128, top_bytes))
    low = 128
    while low < top_bytes:
        high = min(2 * low, top_bytes)
        inner = list(range(low + 16, high + 1, 16))
        few = [low, *(size for size in inner if size in kept)]
        is_live = bisect_right(live, high) > bisect_right(live, low)
        points += inner if is_live or not is_sparsest(few, [low, *inner]) else few[1:]
        low = high
    return points


def is_sparsest(few: list[int], whole: list[int]) -> bool:
    """Whether the first points satisfy the backbone, with as few classes as any of the whole."""
    backbone = Backbone()
    if few[-1] != whole[-1] or not all(map(backbone.allows, few, few[1:])):
        return False
    least, at = 0, whole[0]
    while at != whole[-1]:  # as far as is allowed, each time
        at = max(size for size in whole if size > at and backbone.allows(at, size))
        least += 1
    return len(few) - 1 == least


def least_class_count(top_bytes: int) -> int:
    """The least number of classes with which a table satisfies the backbone."""
    lowest = Backbone().lowest(grid_points(top_bytes))
    count, upto = 0, len(lowest) - 1
    while upto > 0:
        count, upto = count + 1, lowest[upto]
    return count


@dataclass(frozen=True)
class Solution:
    """The best table of one number of classes."""

    table: tuple[int, ...]
    cost: float


class Problem:
    """cost(p, c) of every legal pair, in rows by c."""

    def __init__(
        self, workload: Workload, backbone: Backbone = Backbone(), before: Sequence[int] = ()
    ) -> None:
        self.points = workload.points
        self.lowest = backbone.lowest(self.points)
        self.rows = [array("d")]
        sums = workload.owner_sums()
        for upto in range(1, len(self.points)):
            sums.advance(upto)
            owners = sums.owners_above_each(self.lowest[upto])
            self.rows.append(cost_row(workload, self.lowest[upto], upto, owners))
        if before:
            self.add_changes(set(before))

    def add_changes(self, before: set[int]) -> None:
        """The price of an added class, and of the classes dropped between it and the next one
        below."""
        kept_upto = list(accumulate(point in before for point in self.points))
        for upto in range(1, len(self.points)):
            is_added = self.points[upto] not in before
            most = is_added + kept_upto[upto - 1]
            kept = kept_upto[self.lowest[upto] : upto]
            self.rows[upto] = array(
                "d", [cost + CHANGE_BYTES * (most - k) for cost, k in zip(self.rows[upto], kept)]
            )

    def least_counts(self) -> list[int]:
        """Per point, how few classes a table that ends there can have."""
        counts = [0]
        for upto in range(1, len(self.points)):
            counts.append(1 + counts[self.lowest[upto]])
        return counts

    def least_counts_above(self) -> list[int]:
        """Per point, how few classes must follow one there. The highest point within reach is the
        best next one, because the lower end of the legal ones never falls."""
        counts = [0] * len(self.points)
        top = len(self.points) - 1
        reach = top
        for below in range(top - 1, -1, -1):
            while self.lowest[reach] > below:
                reach -= 1
            counts[below] = 1 + counts[reach]
        return counts


def cost_row(workload: Workload, lowest: int, upto: int, owners: list[float]) -> array[float]:
    """cost(p, upto) for p from lowest to upto - 1; 0 throughout where nothing was live."""
    if workload.blocks_upto[upto] == workload.blocks_upto[lowest]:
        return array("d", bytes(8 * (upto - lowest)))
    return array("d", workload.cost_row(lowest, upto, owners))


def best_costs(problem: Problem, limit: int) -> list[list[float]]:
    """best(k, c) of every k up to the limit; infinite where the top cannot be reached from c."""
    count = len(problem.points)
    least, above = problem.least_counts(), problem.least_counts_above()
    layers = [[0.0] + [INFINITE] * (count - 1)]
    for k in range(1, limit + 1):
        before = layers[-1]
        layer = [INFINITE] * count
        for upto in range(1, count):
            if least[upto] <= k <= limit - above[upto]:
                window = before[problem.lowest[upto] : upto]
                layer[upto] = min(map(operator.add, window, problem.rows[upto]))
        layers.append(layer)
    return layers


def trace(problem: Problem, layers: list[list[float]], classes: int) -> tuple[int, ...]:
    """The table of best(classes, top): of equally good classes below, the lowest."""
    table = []
    upto = len(problem.points) - 1
    for k in range(classes, 0, -1):
        table.append(problem.points[upto])
        lowest = problem.lowest[upto]
        sums = list(map(operator.add, layers[k - 1][lowest:upto], problem.rows[upto]))
        upto = lowest + sums.index(min(sums))
    return tuple(reversed(table))


def optimise(
    workload: Workload,
    backbone: Backbone = Backbone(),
    limit: int = CLASS_LIMIT,
    before: Sequence[int] = (),
) -> dict[int, Solution]:
    """The best table of each number of classes for which there is one; all end at the top point."""
    problem = Problem(workload, backbone, before)
    layers = best_costs(problem, limit)
    return {
        classes: Solution(trace(problem, layers, classes), layers[classes][-1])
        for classes in range(1, limit + 1)
        if layers[classes][-1] < INFINITE
    }


def choose(solutions: dict[int, Solution]) -> Solution:
    """The cheapest; of equally cheap ones the one with fewest classes."""
    return min(solutions.values(), key=lambda s: (s.cost, len(s.table)))
