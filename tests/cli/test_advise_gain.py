# SPDX-License-Identifier: MIT
"""What `poolshim advise` predicts of a site: never more than the program's time, and an interval
that says how far replayed calls tell of a program.

    scripts/test tests/cli/test_advise_gain.py
"""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
from conftest import ROOT
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.advise import patterns, replay, report  # noqa: E402
from poolshim_cli.advise.order import facts_of  # noqa: E402
from poolshim_cli.advise.report import Advice  # noqa: E402
from test_advise import made_by, sizes  # noqa: E402

BLOCKS = 100
# Replayed, without and with the replayer's own work: nanoseconds of a block by malloc and by the
# pool, and measured: a program and its copy with the pool, in nanoseconds a block.
PROGRAMS = {
    "documents to a region": (11.8, 7.6, 21.2, 11.1, 6.1),
    "objects in no order to a pool": (8.8, 2.9, 28.1, 21.4, 1.5),
    "messages to a queue": (20.6, 12.6, 32.7, 25.1, 8.0),
    "short lists to a region": (3.8, 1.3, 13.8, 4.6, 4.0),
    "a long list to a region": (15.0, 17.9, 28.1, 22.7, 3.4),
}


def runs(net: float, whole: float) -> list[replay.Run]:
    """Five processes that differ by two in a hundred."""
    loop = (whole - net) * BLOCKS
    return [replay.Run([whole * BLOCKS * (1 + at / 100) for at in range(-2, 3)], loop, 0.0)
            for _ in range(5)]  # fmt: skip


def gain_of(net_malloc: float, net_pool: float, malloc: float, pool: float) -> replay.Gain:
    return replay.gain_of(runs(net_malloc, malloc), runs(net_pool, pool), BLOCKS)


def advice_of(gain: replay.Gain, program_ns: float | None) -> Advice:
    found = made_by(sizes(BLOCKS))
    site = patterns.Site((10,), facts_of(found, list(range(BLOCKS))), patterns.POOL, "")
    cost = replay.Cost(gain.malloc_ns, gain.whole_malloc_ns, 0, BLOCKS)
    return Advice(site, cost, gain, ["f"], [], program_ns)


@each_row("name", PROGRAMS)
def test_the_interval_holds_what_programs_showed(name: str) -> None:
    *replayed, measured = PROGRAMS[name]
    low, high = gain_of(*replayed).span_ns
    assert low <= measured <= high
    advice = advice_of(gain_of(*replayed), 1e9)
    assert advice.span_ns == (low * BLOCKS, high * BLOCKS)


def test_a_site_takes_no_more_than_the_program() -> None:
    gain = gain_of(20.0, 8.0, 30.0, 12.0)
    replayed_ns = gain.malloc_ns * BLOCKS
    for program_ns in (replayed_ns / 2, replayed_ns, 2 * replayed_ns):
        advice = advice_of(gain, program_ns)
        assert advice.most_ns <= program_ns
        low, high = advice.span_ns
        assert 0 < low <= advice.saved_ns <= high < program_ns
        assert advice.saved_ns / min(program_ns, replayed_ns) == pytest.approx(0.6, abs=0.01)
        stream = io.StringIO()
        report.print_advice(1, advice, stream)
        assert ("longer than the whole program" in stream.getvalue()) == (program_ns < replayed_ns)
    assert advice_of(gain, None).saved_ns == pytest.approx(gain.saved_ns * BLOCKS)


def test_a_pool_that_is_clearly_faster_stays_worthwhile() -> None:
    gain = gain_of(20.0, 8.0, 30.0, 12.0)
    assert advice_of(gain, 1e4).is_worthwhile and gain.span_ns[0] > 0
    slower = replace(gain, high=1.05)
    assert slower.span_ns[0] < 0 and not advice_of(slower, 1e4).is_worthwhile
