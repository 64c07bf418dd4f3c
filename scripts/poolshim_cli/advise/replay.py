# SPDX-License-Identifier: MIT
"""Measures the calls of a site by malloc and by the pool that fits, in turn, in fresh processes.

    cost = cost_of(trace, site)                      # malloc's part, by one process
    gain = measure(trace, site)
    gain.saved_ns, gain.low_ns                       # per block, and by the 95 % interval
    gain.span_ns                                     # what a program may save of it
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from .. import places
from ..errors import OwnFailure
from ..intervals import pooled_median, ratio_interval
from ..machine import HARNESS_PREFIXES
from .patterns import Site
from .streams import Pair, streams_of
from .trace import Trace

PROCESSES = 5
PROCESSES_MOST = 15  # where the interval of fewer has 1 in it
OPERATIONS = 600_000  # of a process, about
ROUNDS_LEAST, ROUNDS_MOST = 3, 100
# The least part of a replayed saving that a program showed: a call costs less where the processor
# overlaps it with the program's own cache misses and branches. docs/advise.md has the programs.
PART_LEAST = 0.2
MALLOC = "malloc"


@dataclass(frozen=True)
class Cost:
    """What malloc takes at one site."""

    malloc_ns: float  # per block
    whole_ns: float  # with the replayer's own work for each call: more than that no pool can save
    malloc_kib: float  # grown resident memory at the peak of the calls
    blocks: int  # that were replayed


@dataclass(frozen=True)
class Gain:
    """What the pool saves at one site."""

    malloc_ns: float  # per block
    pool_ns: float
    low: float  # of pool_ns / malloc_ns
    high: float
    malloc_kib: float  # grown resident memory at the peak of the calls
    pool_kib: float
    blocks: int  # that were replayed
    kib_low: float = 1.0  # of pool_kib / malloc_kib
    kib_high: float = 1.0
    # Likewise, with the replayer's own work for each call: that of a free which a pool does not
    # need represents the program's walk to the block.
    whole_malloc_ns: float = 0.0
    whole_pool_ns: float = 0.0
    whole_low: float = 1.0
    whole_high: float = 1.0

    @property
    def saved_ns(self) -> float:
        """Per block."""
        return self.malloc_ns - self.pool_ns

    @property
    def low_ns(self) -> float:
        """The least that is plausible of the replayed calls."""
        return self.malloc_ns * (1 - self.high)

    @property
    def span_ns(self) -> tuple[float, float]:
        """The least and the most that a program may save of a block. The replay's own error is the
        smaller part of that: the program makes its calls among others, with caches in another
        state, and may save the walk that frees, too."""
        low = min(self.low_ns, self.whole_malloc_ns * (1 - self.whole_high))
        high = max(self.malloc_ns * (1 - self.low), self.whole_malloc_ns * (1 - self.whole_low))
        return low * (PART_LEAST if low > 0 else 1), high


def environment() -> dict[str, str]:
    """Ours without settings, and with the library."""
    found = {
        name: value for name, value in os.environ.items() if not name.startswith(HARNESS_PREFIXES)
    }
    found["LD_PRELOAD"] = str(places.find().library)
    return found


@dataclass(frozen=True)
class Run:
    """One process of the replayer: nanoseconds of each round, the peak in KiB."""

    whole_ns: list[float]  # with the replayer's own work between the calls
    loop_ns: float  # that work
    peak_kib: float

    @property
    def calls_ns(self) -> list[float]:
        """The calls without that work, which is about half of malloc's for a free; a pool's stream
        has no frees."""
        return [max(one - self.loop_ns, 1.0) for one in self.whole_ns]


def run_once(pool: str, path: Path, rounds: int) -> Run:
    """A fresh process."""
    program = places.find().programs / "replay"
    try:
        done = subprocess.run(
            [str(program), "-n", str(rounds), pool, str(path)], capture_output=True, text=True,
            check=False, env=environment(),
        )  # fmt: skip
    except OSError as error:
        raise OwnFailure(f"{program}: {error.strerror}: build first") from None
    if done.returncode != 0:
        raise OwnFailure(f"{program.name} {pool}: {done.stderr.strip() or done.returncode}")
    return run_of(json.loads(done.stdout))


def run_of(answer: dict[str, Any]) -> Run:
    """What the replayer printed."""
    whole = [float(one) for one in answer["round_ns"]]
    return Run(whole, median(answer["loop_ns"]), float(answer["peak_kib"]))


def rounds_of(pair: Pair) -> int:
    """How often a process makes the calls."""
    return min(max(OPERATIONS // max(pair.operations, 1), ROUNDS_LEAST), ROUNDS_MOST)


def cost_of(trace: Trace, site: Site) -> Cost:
    """Measures with one process, in a tenth or less of the time that measure() takes."""
    pair = streams_of(trace, site)
    with tempfile.TemporaryDirectory(prefix="poolshim-") as folder:
        path = Path(folder) / MALLOC
        path.write_bytes(pair.malloc)
        found = run_once(MALLOC, path, rounds_of(pair))
    calls_ns, whole_ns = (median(ns) / pair.blocks for ns in (found.calls_ns, found.whole_ns))
    return Cost(calls_ns, whole_ns, found.peak_kib, pair.blocks)


def peaks_interval(pool: list[float], malloc: list[float]) -> tuple[float, float]:
    """The interval of the ratio of peaks; a peak below a KiB counts as one."""
    clusters = [[[max(one, 1.0)] for one in peaks] for peaks in (pool, malloc)]
    found = ratio_interval(clusters[0], clusters[1])
    assert found is not None
    return found


def measure(trace: Trace, site: Site) -> Gain:
    """Both, alternating, so that a change of the machine's pace meets both."""
    assert site.pattern is not None
    pair, pool = streams_of(trace, site), site.pattern.pool
    rounds = rounds_of(pair)
    runs: dict[str, list[Run]] = {MALLOC: [], pool: []}
    with tempfile.TemporaryDirectory(prefix="poolshim-") as folder:
        paths = {MALLOC: Path(folder) / "malloc", pool: Path(folder) / "pool"}
        paths[MALLOC].write_bytes(pair.malloc)
        paths[pool].write_bytes(pair.pool)
        for turn in range(1, PROCESSES_MOST + 1):
            for name, path in paths.items():
                runs[name].append(run_once(name, path, rounds))
            if turn % PROCESSES == 0:
                gain = gain_of(runs[MALLOC], runs[pool], pair.blocks)
                if not gain.low < 1 < gain.high:
                    break
    return gain


def gain_of(malloc: list[Run], pool: list[Run], blocks: int) -> Gain:
    """The gain, from the runs of both sides."""

    def compared(part: Callable[[Run], list[float]]) -> tuple[float, float, float, float]:
        """Nanoseconds of a block by malloc and by the pool, the interval of their ratio."""
        ours, theirs = ([[one / blocks for one in part(run)] for run in runs]
                        for runs in (pool, malloc))  # fmt: skip
        interval = ratio_interval(ours, theirs)
        assert interval is not None
        return pooled_median(theirs), pooled_median(ours), *interval

    peaks = [[run.peak_kib for run in runs] for runs in (malloc, pool)]
    return Gain(
        *compared(lambda run: run.calls_ns), median(peaks[0]), median(peaks[1]), blocks,
        *peaks_interval(peaks[1], peaks[0]), *compared(lambda run: run.whole_ns),
    )  # fmt: skip
