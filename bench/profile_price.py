#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a heap profile costs, and a flight record: instructions and peak memory as multiples of off.

    .venv/bin/python bench/profile_price.py [--runs 5] [--scale 0.3] [--only memory] [PROGRAM ...]

The last three are threaded servers of bench/servers, which the scale leaves alone.
Instructions are callgrind's, of the whole process, start and writing of the profile included: they
do not depend on what else the machine does. Memory is the peak of the resident set, the median of
the runs, each with samples of its own. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench")]

from harness import processes  # noqa: E402
from harness.inputs import write_inputs  # noqa: E402
from harness.price import chosen_programs, parse_price_options  # noqa: E402

from poolshim_cli.errors import RunFailed  # noqa: E402
from poolshim_cli.launcher import Launch, check_exit, measure  # noqa: E402
from poolshim_cli.places import of_build  # noqa: E402

# Intervals of a profile; the record has its own.
OFF, RECORD = "off", "record"
SETTINGS = ("2MiB", "512KiB", "64KiB", RECORD)
INSTRUCTIONS, MEMORY = "instructions", "memory"
OFF_HEADS = {INSTRUCTIONS: "off: M instructions", MEMORY: "off: MiB"}
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


def environment_of(folder: Path, setting: str, seed: int) -> dict[str, str]:
    found = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    found |= {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0"}
    if setting == RECORD:
        found["POOLSHIM_FLIGHT"] = str(folder)
    elif setting != OFF:
        found["POOLSHIM_PROFILE"] = str(folder / "profile.%p")
        found["POOLSHIM_PROFILE_INTERVAL"] = setting
    found["POOLSHIM_PROFILE_SEED"] = str(seed)
    return found


def fail(program: str, what: str) -> NoReturn:
    sys.exit(f"profile_price: {program}: {what}")


def check(program: str, folder: Path, setting: str) -> None:
    """A run that wrote no profile or record is no measurement."""
    profiles = list(folder.glob("poolshim-*.pb" if setting == RECORD else "profile.*"))
    if bool(profiles) != (setting != OFF):
        fail(program, f"{len(profiles)} files at setting {setting}")
    for path in profiles:
        path.unlink()


def instructions(program: str, folder: Path, library: Path, setting: str) -> int:
    """Of all processes together."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
               "--trace-children=yes", "--log-file=log.%p", *PROGRAMS[program]]  # fmt: skip
    environment = {**environment_of(folder, setting, 1), "LD_PRELOAD": str(library)}
    ended = processes.run(command, folder, environment)
    if ended.problem:
        fail(program, ended.problem)
    check(program, folder, setting)
    total = 0
    for log in folder.glob("log.*"):
        found = re.search(r"I\s+refs:\s+([\d,]+)", log.read_text())
        total += int(found[1].replace(",", "")) if found else 0
        log.unlink()
    return total


def peak_kib(program: str, folder: Path, build: Path, setting: str, seed: int) -> int:
    """Of the largest process. By the launcher: ru_maxrss of a child that Python starts is Python's
    own at least."""
    library = build / "libpoolshim.so"
    launch = Launch(tuple(PROGRAMS[program]), library, environment_of(folder, setting, seed))
    try:
        done = measure(launch, launcher=of_build(build).launcher, cwd=folder)
        check_exit(done.report, done.stderr)
    except RunFailed as failed:
        fail(program, str(failed))
    check(program, folder, setting)
    return int(done.report["max_rss_kib"])


def median_kib(program: str, folder: Path, build: Path, runs: int) -> dict[str, float]:
    """Of the runs at each setting, which are interleaved."""
    peaks: dict[str, list[int]] = {setting: [] for setting in (OFF, *SETTINGS)}
    for run in range(runs):
        for setting, found in peaks.items():
            found.append(peak_kib(program, folder, build, setting, run + 1))
    return {setting: statistics.median(found) for setting, found in peaks.items()}


def row_of(program: str, folder: Path, options: argparse.Namespace) -> str:
    cells, multiples = [], []
    if options.only in (None, INSTRUCTIONS):
        library = options.build / "libpoolshim.so"
        counts = {one: instructions(program, folder, library, one) for one in (OFF, *SETTINGS)}
        cells.append(f"{counts[OFF] / 1e6:.0f}")
        multiples += [f"{counts[one] / counts[OFF]:.3f}" for one in SETTINGS]
    if options.only in (None, MEMORY):
        peaks = median_kib(program, folder, options.build, options.runs)
        cells.append(f"{peaks[OFF] / 1024:.1f}")
        multiples += [f"{peaks[one] / peaks[OFF]:.3f}" for one in SETTINGS]
    return f"| {' | '.join([program, *cells, *multiples])} |"


def head_of(kinds: Sequence[str]) -> str:
    heads = ["Program", *(OFF_HEADS[kind] for kind in kinds)]
    heads += [f"{kind}, {name}" for kind in kinds for name in SETTINGS]
    return f"| {' | '.join(heads)} |\n|---|" + "---:|" * (len(heads) - 1)


def main() -> int:
    options = parse_price_options(__doc__, runs=5, kinds=tuple(OFF_HEADS))
    chosen = chosen_programs(options, PROGRAMS)
    print(head_of([options.only] if options.only else list(OFF_HEADS)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, options.scale)
        for program in chosen:
            print(row_of(program, folder, options), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
