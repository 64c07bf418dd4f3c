#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a heap profile costs: instructions and peak memory at intervals, as multiples of off.

    .venv/bin/python bench/profile_price.py [--runs 5] [--scale 0.3] [python | perl | jq ...]

The last three are threaded servers of bench/servers, which the scale leaves alone.
Instructions are callgrind's, of the whole process, start and writing of the profile included: they
do not depend on what else the machine does. Memory is the peak of the resident set, the median of
the runs. Prints a table in Markdown.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench")]

from harness import processes  # noqa: E402
from harness.inputs import write_inputs  # noqa: E402
from harness.price import chosen_programs, parse_price_options  # noqa: E402

INTERVALS = {"2MiB": 2 << 20, "512KiB": 512 << 10, "64KiB": 64 << 10}
SERVERS = ROOT / "bench" / "servers"
PROGRAMS = {
    "python": [sys.executable, "-S", "work.py"],
    "perl": ["perl", "work.pl"],
    "jq": ["jq", "-c", "[.[] | .]", "data.json"],
    "sqlite3": ["sqlite3", ":memory:", ".read work.sql"],
    "gcc": ["gcc", "-x", "c++", "-std=c++17", "-fsyntax-only", "templates.cpp"],
    "ruby": ["ruby", str(SERVERS / "pages.rb"), "200"],
    "sockets": [sys.executable, "-S", str(SERVERS / "sockets.py"), "1000"],
    "node": ["node", "--expose-gc", str(SERVERS / "buffers.js"), "300"],
}


def environment_of(library: Path, folder: Path, interval: int) -> dict[str, str]:
    found = {"PATH": os.environ["PATH"], "LC_ALL": "C", "LD_PRELOAD": str(library)}
    found |= {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0"}
    if interval:
        found["POOLSHIM_PROFILE"] = str(folder / "profile.%p")
        found["POOLSHIM_PROFILE_INTERVAL"] = str(interval)
        found["POOLSHIM_PROFILE_SEED"] = "1"
    return found


def fail(program: str, what: str) -> None:
    sys.exit(f"profile_price: {program}: {what}")


def check(program: str, ended: processes.Ended, folder: Path, interval: int) -> None:
    """A run that was none of a profile is no measurement."""
    profiles = list(folder.glob("profile.*"))
    if ended.problem:
        fail(program, ended.problem)
    if bool(profiles) != bool(interval):
        fail(program, f"{len(profiles)} profiles at interval {interval}")
    for path in profiles:
        path.unlink()


def instructions(program: str, folder: Path, library: Path, interval: int) -> int:
    """Of all processes together."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
               "--trace-children=yes", "--log-file=log.%p", *PROGRAMS[program]]  # fmt: skip
    ended = processes.run(command, folder, environment_of(library, folder, interval))
    check(program, ended, folder, interval)
    total = 0
    for log in folder.glob("log.*"):
        found = re.search(r"I\s+refs:\s+([\d,]+)", log.read_text())
        total += int(found[1].replace(",", "")) if found else 0
        log.unlink()
    return total


def peak_kib(program: str, folder: Path, library: Path, interval: int) -> int:
    """Of the largest process."""
    environment = environment_of(library, folder, interval)
    ended = processes.run(PROGRAMS[program], folder, environment)
    check(program, ended, folder, interval)
    return ended.usage.ru_maxrss


def row_of(program: str, folder: Path, library: Path, runs: int) -> str:
    intervals = (0, *INTERVALS.values())
    counts = {interval: instructions(program, folder, library, interval) for interval in intervals}
    peaks: dict[int, list[int]] = {interval: [] for interval in intervals}
    for _ in range(runs):
        for interval in intervals:
            peaks[interval].append(peak_kib(program, folder, library, interval))
    off, off_kib = counts[0], statistics.median(peaks[0])
    cells = [f"{counts[interval] / off:.3f}" for interval in INTERVALS.values()]
    cells += [f"{statistics.median(peaks[one]) / off_kib:.3f}" for one in INTERVALS.values()]
    return f"| {program} | {off / 1e6:.0f} | {off_kib / 1024:.1f} | {' | '.join(cells)} |"


def main() -> int:
    options = parse_price_options(__doc__, runs=5)
    chosen = chosen_programs(options, PROGRAMS)
    print("| Program | off: M instructions | MiB | "
          + " | ".join(f"{what}, {name}" for what in ("instructions", "memory")
                       for name in INTERVALS) + " |")  # fmt: skip
    print("|---|---:|---:|" + "---:|" * 2 * len(INTERVALS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, options.scale)
        for program in chosen:
            print(row_of(program, folder, options.library, options.runs), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
