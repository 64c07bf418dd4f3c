# SPDX-License-Identifier: MIT
"""The optimiser of size classes: against brute force, and against what it promises.

    scripts/test tests/cli/test_tune_optimise.py
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from itertools import combinations

import pytest
from conftest import ROOT, RunShim
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.tune import optimise as optimiser
from poolshim_cli.tune.cost import Workload, grid_points, slab_plan
from poolshim_cli.tune.optimise import (
    Backbone,
    candidates,
    choose,
    least_class_count,
    optimise,
)
from poolshim_cli.tune.recording import Peak, Recording

SEED = 20261121
SOLVED_TOP = 16384  # 64 KiB are no different, and take ten times as long
FREE = Backbone(is_bounded=False, keeps_powers=False)
BUILT_IN = (8, *range(16, 129, 16), *(n << k for k in range(9) for n in (160, 192, 224, 256)))


def recording(
    live: dict[int, int], churn: int = 0, peaks: Sequence[dict[int, int]] = ()
) -> Recording:
    """One process: the live blocks by size; churn more of each were freed."""
    requests = {size: count + churn for size, count in live.items()}
    return Recording(
        pid=1, command=("x",), page_bytes=4096, size_classes=BUILT_IN,
        slab_bytes=tuple(slab_plan(size)[0] for size in BUILT_IN), small_max_bytes=65536,
        usual_max_bytes=65536, peak_live_bytes=sum(s * n for s, n in live.items()),
        peaks=tuple(
            Peak(sum(s * n for s, n in peak.items()), tuple(peak.items()))
            for peak in (live, *peaks)
        ),
        requests=tuple(requests.items()),
    )  # fmt: skip


def random_recording(generator: random.Random, points: Sequence[int]) -> Recording:
    """A few sizes; now and then very many of one, or two peaks."""

    def sizes() -> dict[int, int]:
        chosen = generator.sample(points, generator.randint(1, min(8, len(points))))
        return {size: generator.choice((1, 3, 50, 700, 30_000)) for size in chosen}

    peaks = [sizes() for _ in range(generator.choice((0, 0, 1)))]
    return recording(sizes(), generator.choice((0, 0, 5, 100_000)), peaks)


def is_legal(table: Sequence[int], backbone: Backbone) -> bool:
    return all(backbone.allows(a, b) for a, b in zip((0, *table), table))


def brute_force(workload: Workload, backbone: Backbone) -> dict[int, float]:
    """The least cost of each number of classes, over all subsets of the grid with its top."""
    *inner, top = workload.points[1:]
    best: dict[int, float] = {}
    for count in range(len(inner) + 1):
        for chosen in combinations(inner, count):
            table = (*chosen, top)
            if is_legal(table, backbone):
                cost = workload.account(table).waste
                best[len(table)] = min(best.get(len(table), cost), cost)
    return best


def check_against_brute_force(
    generator: random.Random, points: Sequence[int], backbone: Backbone
) -> None:
    given = random_recording(generator, points[1:])
    workload = Workload([given], points)
    expected = brute_force(workload, backbone)
    solutions = optimise(workload, backbone)
    assert solutions.keys() == expected.keys()
    for count, solution in solutions.items():
        assert len(solution.table) == count and solution.table[-1] == points[-1]
        assert is_legal(solution.table, backbone)
        assert solution.cost == pytest.approx(expected[count], rel=1e-9, abs=1e-6), given
        assert workload.account(solution.table).waste == pytest.approx(solution.cost, abs=1e-3)
    assert choose(solutions).cost == pytest.approx(min(expected.values()), abs=1e-6)


@each_row(
    "top,backbone,rounds",
    [(144, FREE, 20), (256, Backbone(), 8), (160, Backbone(True, False), 5),
     (144, Backbone(False, True), 20)],
)  # fmt: skip
def test_no_subset_of_the_grid_is_cheaper(top: int, backbone: Backbone, rounds: int) -> None:
    generator = random.Random(SEED + top)
    for _ in range(rounds):
        check_against_brute_force(generator, grid_points(top), backbone)


def test_no_subset_of_ten_sizes_up_to_64_kib_is_cheaper() -> None:
    """There spans have one to eight granules, and a larger class may have shorter ones."""
    generator = random.Random(SEED)
    for _ in range(20):
        chosen = generator.sample(grid_points(65536)[1:-1], 9)
        check_against_brute_force(generator, [0, *sorted(chosen), 65536], FREE)


def dense_workload(generator: random.Random, top: int) -> Workload:
    """Every size is live."""
    points = grid_points(top)
    sizes = {size: generator.randint(1, 1 + int(4e7 / size**1.3)) for size in points[1:]}
    return Workload([recording(sizes)], points)


def waste_of_each_size(table: Sequence[int]) -> dict[int, int]:
    """For every size in bytes up to the largest class: the class's size minus it."""
    result, below = {}, 0
    for size in table:
        for requested in range(below + 1, size + 1):
            result[requested] = size - requested
        below = size
    return result


@pytest.fixture(scope="module")
def solved() -> dict[int, optimiser.Solution]:
    return optimise(dense_workload(random.Random(SEED), SOLVED_TOP))


def test_no_unseen_size_wastes_more_than_a_quarter(solved: dict[int, optimiser.Solution]) -> None:
    for solution in solved.values():
        for size, waste in waste_of_each_size(solution.table).items():
            assert waste <= size / 4 or size + waste in (8, (size + 15) // 16 * 16), (size, waste)
        assert {1 << k for k in range(4, 15)} <= set(solution.table)


def test_aligned_requests_find_a_class_within_the_next_power_of_two(
    solved: dict[int, optimiser.Solution],
) -> None:
    table = choose(solved).table
    for align in (1 << k for k in range(5, 15)):
        for size in range(16, SOLVED_TOP + 1, 16):
            reach = max(align, 1 << (size - 1).bit_length())
            assert any(size <= c <= reach and c % align == 0 for c in table), (size, align)


def test_a_class_more_never_costs_where_part_filled_spans_are_free() -> None:
    workload = dense_workload(random.Random(SEED + 1), 8192)
    workload.owners = [[] for _ in workload.points]
    solutions = optimise(workload)
    costs = [solutions[count].cost for count in sorted(solutions)]
    assert sorted(solutions) == list(range(8 + 6 * 4, 64))
    assert all(b <= a for a, b in zip(costs, costs[1:]))
    assert costs[-1] < costs[0] / 2


def test_the_built_in_table_is_never_better() -> None:
    """It satisfies the backbone itself, so the best table of as many classes is at least as
    good."""
    assert is_legal(BUILT_IN, Backbone())
    generator = random.Random(SEED + 2)
    built_in = BUILT_IN[: BUILT_IN.index(8192) + 1]
    for _ in range(5):
        points = generator.sample(grid_points(8192)[1:], 40)
        workload = Workload([random_recording(generator, points)], grid_points(8192))
        solutions = optimise(workload)
        waste = workload.account(built_in).waste
        assert solutions[len(built_in)].cost <= waste * (1 + 1e-12) + 1e-6
        assert choose(solutions).cost <= solutions[len(built_in)].cost


def test_many_processes_make_classes_dear() -> None:
    """A hundred processes with some blocks each want fewer classes than one with all."""
    sizes = {size: 40 for size in range(144, 1025, 16)}
    points = grid_points(1024)
    alone = Workload([recording({s: 100 * n for s, n in sizes.items()}, churn=10**6)], points)
    many = Workload([recording(sizes, churn=10**6)] * 100, points)
    assert alone.live_bytes == many.live_bytes
    assert len(choose(optimise(many)).table) < len(choose(optimise(alone)).table)


def test_one_size_gets_its_own_class_and_the_gain_is_known() -> None:
    workload = Workload([recording({1040: 1_000_000})], grid_points(8192))
    table = choose(optimise(workload)).table
    built_in = [size for size in BUILT_IN if size <= 8192]
    assert 1040 in table
    before, after = workload.account(built_in), workload.account(table)
    assert before.rounding == 240e6 and after.rounding == 0
    # 51 blocks of 1280 in a span of 64 KiB, 63 of 1040.
    assert before.tails == pytest.approx(1e6 * (65536 / 51 - 1280))
    assert after.tails == pytest.approx(1e6 * (65536 / 63 - 1040))
    assert after.part_filled == 2048, "half a page: nothing was ever freed"


def test_what_nobody_asked_for_stays_as_it_was() -> None:
    """Only classes near 1040 bytes change; cost is the same to less than a byte."""
    workload = Workload([recording({1040: 1_000_000})], grid_points(8192))
    built_in = [size for size in BUILT_IN if size <= 8192]
    table = choose(optimise(workload, before=built_in)).table
    assert set(table) ^ set(built_in) == {1040}
    alone, near = (optimise(workload, before=before)[60].cost for before in ((), built_in))
    assert near == pytest.approx(alone + (60 - len(built_in)) / 64, abs=1e-3), "27 are added"


def test_leaving_out_candidates_loses_nothing() -> None:
    """Between powers of two where nothing is live only the classes before are tried."""
    generator = random.Random(SEED + 4)
    built_in = [size for size in BUILT_IN if size <= 4096]
    odd = sorted({*built_in, 528, 544, 560, 1040} - {1280, 1792})
    full = grid_points(4096)
    for _ in range(8):
        sizes = generator.sample(full[1:], generator.randint(1, 4))
        given = random_recording(generator, sizes)
        for before in (built_in, odd, []):
            live = [size for p in given.peaks for size, _ in p.sizes]
            few = candidates(live, before, 4096)
            assert few[-1] == 4096 and set(few) <= set(full)
            assert before is not built_in or len(few) < len(full) * 0.9
            costs = [
                choose(optimise(Workload([given], points), before=before)).cost
                for points in (few, full)
            ]
            assert costs[0] == pytest.approx(costs[1], abs=1e-6)


def test_least_class_count_is_what_the_optimiser_finds() -> None:
    workload = dense_workload(random.Random(SEED), 4096)
    assert least_class_count(4096) == min(optimise(workload))


def test_terms_of_a_class_by_hand() -> None:
    """100 and 300 live blocks of 136 and 144 bytes in one class, 1000 requests."""
    points, table = grid_points(256), (128, 144, 256)
    account = Workload([recording({136: 100, 144: 300}, churn=300)], points).account(table)
    assert account.live == 136 * 100 + 144 * 300
    assert account.rounding == 8 * 100
    # 455 blocks fit; a class with hot runs leaves out the first.
    assert slab_plan(144) == (65536, 454)
    assert account.tails == pytest.approx(400 * (65536 - 454 * 144) / 454)
    assert account.part_filled == 32768, "half a slab: 600 freed blocks reach as far"
    few = Workload([recording({136: 100, 144: 300}, churn=5)], points).account(table)
    assert few.part_filled == 2048 + 10 * 144


def test_rows_are_the_sums_of_the_terms() -> None:
    generator = random.Random(SEED + 3)
    points = grid_points(2048)
    workload = Workload([random_recording(generator, points[1:]) for _ in range(3)], points)
    problem = optimiser.Problem(workload)
    for upto in range(1, len(points)):
        sums = workload.owner_sums()
        sums.advance(upto)
        for below, cost in enumerate(problem.rows[upto], problem.lowest[upto]):
            terms = workload.terms(below, upto, sums.owners_above(below))
            assert cost == pytest.approx(sum(terms), abs=1e-6)


def test_peaks_of_one_process_share_its_weight() -> None:
    def rounding(*recordings: Recording) -> float:
        return Workload(recordings, grid_points(256)).account((128, 256)).rounding

    once = recording({160: 1000})
    assert rounding(once) == rounding(recording({160: 1000}, peaks=[{160: 1000}])) == 96_000
    assert rounding(once, once) == 192_000
    low = recording({160: 3000}, peaks=[{192: 1000}])  # 480 and 192 kB
    assert rounding(low) == pytest.approx((480 * 3000 * 96 + 192 * 1000 * 64) / (480 + 192))


@pytest.mark.preload
def test_the_library_takes_every_table(
    run_shim: RunShim, solved: dict[int, optimiser.Solution]
) -> None:
    def run(table: Sequence[int]) -> tuple[int, str]:
        settings = {"POOLSHIM_STRICT": "1", "POOLSHIM_SIZE_CLASSES": ",".join(map(str, table))}
        done = run_shim(["true"], env=settings)
        return done.returncode, done.stderr

    for solution in solved.values():
        assert run(solution.table) == (0, "")
    assert run((*solved[max(solved)].table[:-1], 65552))[0] == 78
    assert run((*solved[max(solved)].table, 65552))[0] == 78
