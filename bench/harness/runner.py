# SPDX-License-Identifier: MIT
"""Runs one benchmark program once, under one allocator, by the launcher, and believes nothing.

The launcher preloads the library into the program only, proves that it was mapped, measures RSS.
The program's own report is checked against the request.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolshim_cli.allocators import Allocator
from poolshim_cli.errors import BadRequest, RunFailed
from poolshim_cli.launcher import Launch, check_exit, check_mapping, first_line, measure
from poolshim_cli.machine import memory_kib
from poolshim_cli.places import of_build

MIB = 1 << 20
# Touched before a process whose needs are not known yet: the payload and some more.
FIRST_WARM_FACTOR = 1.15


@dataclass(frozen=True)
class Case:
    """One benchmark program and its arguments; its report must repeat the `expected` values."""

    name: str
    program: str
    arguments: tuple[str, ...]
    expected: tuple[tuple[str, Any], ...]
    rounds: int | None  # None: as many as the program makes
    payload_bytes: int = 0
    sample_ms: int = 0  # RSS every so often, for workloads whose point is memory; 0: never


@dataclass(frozen=True)
class Run:
    """One process that did its work: the program's report, the launcher's, and what it all took."""

    case: str
    allocator: str
    report: dict[str, Any]
    launcher: dict[str, Any]
    cost_s: float

    @property
    def peak_rss_kib(self) -> int:
        """VmHWM, which exec starts afresh; ru_maxrss where it could not be read."""
        return int(self.launcher["peak_rss_kib"] or self.launcher["max_rss_kib"])


def list_case(mode: str, count: int, rounds: int) -> Case:
    """The 100M-pointer benchmark, uncontended or contended."""
    return Case(
        name=mode,
        program="list100m",
        arguments=("--mode", mode, "--count", str(count), "--rounds", str(rounds)),
        expected=(("benchmark", "list100m"), ("mode", mode), ("count", count), ("block_bytes", 8)),
        rounds=rounds,
        payload_bytes=8 * (count + 1),
    )


def page_case(alignment: int, count: int, rounds: int) -> Case:
    """The page-alignment benchmark at one alignment."""
    return Case(
        name=f"page_blocks/{alignment}",
        program="page_blocks",
        arguments=("--align", str(alignment), "--count", str(count), "--rounds", str(rounds)),
        expected=(("benchmark", "page_blocks"), ("alignment", alignment), ("count", count)),
        rounds=rounds,
        payload_bytes=4096 * count,
    )


class Runner:
    """Starts measured processes. One at a time: two would fight for cores and memory."""

    def __init__(
        self,
        build_dir: Path,
        allocators: Iterable[Allocator],
        timeout_s: float = 600,
        programs: Iterable[str] = ("list100m", "page_blocks"),
    ) -> None:
        self.bench_dir = build_dir / "bench"
        self.launcher = of_build(build_dir).launcher
        self.timeout_s = timeout_s
        self.libraries = {a.library for a in allocators if a.library is not None}
        self.peaks_kib: dict[tuple[str, str], int] = {}
        for program in (self.launcher, *(self.bench_dir / name for name in programs)):
            if not os.access(program, os.X_OK):
                raise BadRequest(
                    f"{program} is missing: build first "
                    "(cmake --preset release && cmake --build --preset release)"
                )

    def warm_mib(self, case: Case, allocator: Allocator) -> int:
        """Memory to touch beforehand: what the last such process needed, half of all at most."""
        known = self.peaks_kib.get((case.name, allocator.name))
        wanted = known * 1024 if known else case.payload_bytes
        return int(min(wanted * FIRST_WARM_FACTOR, memory_kib("MemAvailable") * 1024 / 2) / MIB)

    def launch(self, case: Case, allocator: Allocator) -> Launch:
        """The arguments of the launcher."""
        return Launch(
            (str(self.bench_dir / case.program), *case.arguments, "--json"),
            allocator.library, allocator.env, case.sample_ms, self.warm_mib(case, allocator),
        )  # fmt: skip

    def run(self, case: Case, allocator: Allocator) -> Run:
        """One process; RunFailed with one line saying why if it was not a valid measurement."""
        start = time.monotonic()
        done = measure(self.launch(case, allocator), self.timeout_s, self.launcher)
        check_exit(done.report, done.stderr)
        check_mapping(done.report, allocator.library, self.libraries, done.stderr)
        report = parse_report(case, done.stdout)
        run = Run(case.name, allocator.name, report, done.report, time.monotonic() - start)
        self.peaks_kib[case.name, allocator.name] = run.peak_rss_kib
        return run


def parse_report(case: Case, stdout: str) -> dict[str, Any]:
    """The program's own report, checked: the right work, every round, times that can be."""
    try:
        report: dict[str, Any] = json.loads(stdout)
    except json.JSONDecodeError:
        raise RunFailed(f"its report is not JSON: {first_line(stdout)}") from None
    for key, value in case.expected:
        if report.get(key) != value:
            raise RunFailed(f"its report says {key} = {report.get(key)!r}, asked was {value!r}")
    rounds = report.get("rounds", [])
    if case.rounds is not None and len(rounds) != case.rounds:
        raise RunFailed(f"it reports {len(rounds)} rounds, asked were {case.rounds}")
    if any(r.get(phase, 1) <= 0 for r in rounds for phase in ("ms", "alloc_ms", "free_ms")):
        raise RunFailed("it reports a phase that took no time; use a larger --count")
    return report
