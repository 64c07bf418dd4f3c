# SPDX-License-Identifier: MIT
"""Measures the calls of a site by malloc and by the pool that fits, in turn, in fresh processes.

    cost = cost_of(trace, site)                      # malloc's part, by one process
    gain = measure(trace, site)
    gain.saved_ns, gain.low_ns, gain.high_ns         # per block, with the 95 % interval
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from .. import places
from ..errors import OwnFailure
from ..intervals import Clusters, pooled_median, ratio_interval
from ..machine import HARNESS_PREFIXES
from .patterns import Site
from .streams import Pair, streams_of
from .trace import Trace

PROCESSES = 5
PROCESSES_MOST = 15  # where the interval of fewer has 1 in it
OPERATIONS = 600_000  # of a process, about
ROUNDS_LEAST, ROUNDS_MOST = 3, 100
MALLOC = "malloc"


@dataclass(frozen=True)
class Cost:
    """What malloc takes at one site: more than that no pool can save."""

    malloc_ns: float  # per block
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

    @property
    def saved_ns(self) -> float:
        """Per block."""
        return self.malloc_ns - self.pool_ns

    @property
    def low_ns(self) -> float:
        """The least that is plausible."""
        return self.malloc_ns * (1 - self.high)

    @property
    def high_ns(self) -> float:
        """The most that is plausible."""
        return self.malloc_ns * (1 - self.low)


def environment() -> dict[str, str]:
    """Ours without settings, and with the library."""
    found = {
        name: value for name, value in os.environ.items() if not name.startswith(HARNESS_PREFIXES)
    }
    found["LD_PRELOAD"] = str(places.find().library)
    return found


def without_loop(answer: dict[str, Any]) -> list[float]:
    """Nanoseconds of each round's calls, without the replayer's own work between them: that of a
    free is about half of what malloc needs for it, and a pool's stream has no frees."""
    loop = median(answer["loop_ns"])
    return [max(float(one) - loop, 1.0) for one in answer["round_ns"]]


def run_once(pool: str, path: Path, rounds: int) -> tuple[list[float], float]:
    """Nanoseconds of each round, and the peak in KiB."""
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
    answer = json.loads(done.stdout)
    return without_loop(answer), float(answer["peak_kib"])


def rounds_of(pair: Pair) -> int:
    """How often a process makes the calls."""
    return min(max(OPERATIONS // max(pair.operations, 1), ROUNDS_LEAST), ROUNDS_MOST)


def cost_of(trace: Trace, site: Site) -> Cost:
    """By one process: a tenth or less of the time that measure() takes."""
    pair = streams_of(trace, site)
    with tempfile.TemporaryDirectory(prefix="poolshim-") as folder:
        path = Path(folder) / MALLOC
        path.write_bytes(pair.malloc)
        found, peak = run_once(MALLOC, path, rounds_of(pair))
    return Cost(median(found) / pair.blocks, peak, pair.blocks)


def peaks_interval(pool: list[float], malloc: list[float]) -> tuple[float, float]:
    """Of their ratio; a peak below a KiB counts as one."""
    clusters = [[[max(one, 1.0)] for one in peaks] for peaks in (pool, malloc)]
    found = ratio_interval(clusters[0], clusters[1])
    assert found is not None
    return found


def measure(trace: Trace, site: Site) -> Gain:
    """Both, alternating, so that a change of the machine's pace meets both."""
    assert site.pattern is not None
    pair = streams_of(trace, site)
    rounds = rounds_of(pair)
    times: dict[str, Clusters] = {MALLOC: [], site.pattern.pool: []}
    peaks: dict[str, list[float]] = {MALLOC: [], site.pattern.pool: []}
    with tempfile.TemporaryDirectory(prefix="poolshim-") as folder:
        paths = {MALLOC: Path(folder) / "malloc", site.pattern.pool: Path(folder) / "pool"}
        paths[MALLOC].write_bytes(pair.malloc)
        paths[site.pattern.pool].write_bytes(pair.pool)
        interval = None
        for turn in range(1, PROCESSES_MOST + 1):
            for pool, path in paths.items():
                found, peak = run_once(pool, path, rounds)
                times[pool].append([one / pair.blocks for one in found])
                peaks[pool].append(peak)
            if turn % PROCESSES == 0:
                interval = ratio_interval(times[site.pattern.pool], times[MALLOC])
                assert interval is not None
                if not interval[0] < 1 < interval[1]:
                    break
    assert interval is not None
    return Gain(
        pooled_median(times[MALLOC]), pooled_median(times[site.pattern.pool]), *interval,
        median(peaks[MALLOC]), median(peaks[site.pattern.pool]), pair.blocks,
        *peaks_interval(peaks[site.pattern.pool], peaks[MALLOC]),
    )  # fmt: skip
