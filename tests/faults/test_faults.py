# SPDX-License-Identifier: MIT
"""System calls of the library fail at every moment of a load, and nothing is harmed.

    scripts/test tests/faults/test_faults.py -rP                          # samples, with the counts
    POOLSHIM_FAULTS=all scripts/test --no-setup tests/faults/test_faults.py -rP    # every call

tests/faults/inject.c says how it makes calls fail, the loads beside it what they claim.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import RunShim
from huge_pages import SetAside, set_aside

__all__ = ["set_aside"]

IS_ALL = os.environ.get("POOLSHIM_FAULTS") == "all"
ERRORS = ("ENOMEM", "EINVAL", "EAGAIN")

# Many system calls for little memory: every large block a mapping, none cached, no delay of purges.
EAGER = {
    "POOLSHIM_MMAP_MIN": "128KiB",
    "POOLSHIM_CACHE_MAX": "0",
    "POOLSHIM_PURGE_DELAY_MS": "0",
}


@dataclass
class Sweep:
    """Calls first..last fail, one in each run; every `step`th of them unless all are wanted."""

    name: str
    call: str
    last: int
    step: int
    first: int = 1
    error: str = "ENOMEM"
    load: tuple[str, ...] = ("load", "900")
    env: dict[str, str] = field(default_factory=lambda: dict(EAGER))
    options: tuple[str, ...] = ()
    least: int = 1
    from_library: str = "libpoolshim"
    marks: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        step = 1 if IS_ALL else self.step
        nth = f"{self.first}-{self.last}:{step}"
        least = str(max(1, self.least // step))
        words = ["--call", self.call, "--nth", nth, "--errno", self.error, "--least", least]
        return [*words, *self.options]


ONWARD = ("--from-then-on",)
STARTING = ("--from-then-on", "--start-may-fail")
CXX = ("load_cxx",)
POOLS = ("load_pools", "pools.arena")
LONG = ("load", "3600")
ARMED = ("--armed",)


def most(rss_kib: int, addresses_kib: int) -> tuple[str, ...]:
    """What a fault may cost: memory hardly any; addresses where docs/trust.md says so."""
    return ("--rss-most", str(rss_kib), "--addresses-most", str(addresses_kib))


SWEEPS = [
    Sweep("mmap-once", "mmap", 500, 25, least=500),
    Sweep("mmap-once-1", "mmap", 250, 1, least=250, marks=("slow",)),
    # A run has about 500 calls: how many exactly depends on when its threads run.
    Sweep("mmap-once-2", "mmap", 500, 1, first=251, least=240, marks=("slow",)),
    Sweep("mmap-once-usual", "mmap", 40, 4, env={}, least=10),
    Sweep("mmap-onward", "mmap", 500, 50, options=STARTING, least=400),
    Sweep("mmap-onward-usual", "mmap", 20, 2, options=STARTING, env={}, least=5),
    Sweep("mmap-onward-cxx", "mmap", 300, 50, options=ARMED + ONWARD, load=CXX, least=200),
    Sweep("mmap-once-cxx", "mmap", 300, 50, options=ARMED, load=CXX, least=200),
    Sweep("munmap-onward", "munmap", 120, 60, options=ONWARD + most(2048, 700000), load=LONG),
    Sweep("madvise-onward", "madvise", 120, 60, options=ONWARD + most(2048, 300000), load=LONG),
    Sweep("mremap-onward", "mremap", 120, 60, options=ONWARD + most(2048, 50000), load=LONG),
    Sweep("munmap-madvise-onward", "munmap,madvise", 120, 60, options=ONWARD + most(2048, 800000)),
    Sweep("all-onward", "mmap,munmap,madvise,mremap", 1200, 120, options=STARTING, least=1000),
]
SWEEPS += [
    Sweep(
        f"{call}-{'onward' if options else 'once'}-pools",
        call, 300, step, env={}, load=POOLS, least=least, from_library="",
        options=ARMED + options + ("--rss-most", "2048"),
    )
    for call, step, least in (
        ("mmap", 50, 200), ("munmap", 90, 300), ("madvise", 9, 20), ("mprotect", 50, 180),
        ("mremap", 1, 1), ("fallocate", 1, 5), ("mbind", 3, 15),
    )
    for options in ((), ONWARD)
]  # fmt: skip
SWEEPS += [
    Sweep(
        f"{call}-once-{error}", call, 500, step, error=error, least=80, options=most(1024, 32768)
    )
    for call, step in (("munmap", 50), ("madvise", 50), ("mremap", 25))
    for error in ERRORS
]


HUGE = {**EAGER, "POOLSHIM_HUGE": "hugetlb"}
HUGE_SWEEPS = [
    Sweep("mmap-once-hugetlb", "mmap", 500, 25, env=HUGE, least=400),
    Sweep("mmap-onward-hugetlb", "mmap", 500, 100, options=STARTING, env=HUGE, least=300),
    Sweep("munmap-onward-hugetlb", "munmap", 120, 60, env=HUGE,
          options=ONWARD + most(2048, 1000000), load=LONG),
    Sweep("mincore-once-hugetlb", "mincore", 12, 3, env=HUGE, least=9),
]  # fmt: skip


@pytest.mark.preload
@pytest.mark.root
@pytest.mark.parametrize("sweep", [pytest.param(one, id=one.name) for one in HUGE_SWEEPS])
def test_faults_with_huge_pages_are_survived(
    sweep: Sweep,
    run_shim: RunShim,
    build_dir: Path,
    shim: Path,
    tmp_path: Path,
    set_aside: SetAside,
) -> None:
    set_aside(100)
    test_faults_are_survived(sweep, run_shim, build_dir, shim, tmp_path)


@pytest.mark.preload
@pytest.mark.parametrize(
    "sweep",
    [pytest.param(s, id=s.name, marks=[getattr(pytest.mark, m) for m in s.marks]) for s in SWEEPS],
)
def test_faults_are_survived(
    sweep: Sweep, run_shim: RunShim, build_dir: Path, shim: Path, tmp_path: Path
) -> None:
    programs = build_dir / "tests" / "faults"
    load = [programs / sweep.load[0], *sweep.load[1:]]
    command = [programs / "inject", *sweep.arguments]
    if sweep.from_library:
        command += ["--preload", shim, "--from", sweep.from_library]
    command += ["--", *load]
    result = run_shim(command, env=sweep.env, timeout=900, preload=False, cwd=tmp_path)
    print(f"{sweep.name}: {result.stdout.strip()}")
    if result.returncode == 77:
        pytest.skip(result.stdout.strip())
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"faults [1-9]", result.stdout)
