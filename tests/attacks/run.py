# SPDX-License-Identifier: MIT
"""Plays the attacks of tests/attacks/ against the installed allocators and against poolshim.

    scripts/dev/attacks                                     table on standard output
    scripts/dev/attacks --allocator mine=/opt/libmine.so    one more allocator; may be repeated
    scripts/dev/attacks --only poolshim,glibc --levels 0,2 --missed
    scripts/dev/attacks --json results.json --write-docs --write-expected

Every attack is a process. Its outcome is one of

    detected   the allocator ended the process, by abort or trap, or exited with a message
    faulted    the process ended by a fault in the very call or access that broke the rules
    contained  it went on, the goal was not reached, and 500 random calls found no damage
    reached    the attacker's goal was reached, or the heap was broken for the program
    crashed    a fault later, somewhere else, without a word
    hung       no end within 30 seconds

poolshim's level "mte" takes part where the machine has memory tags, or the emulator of
TEST_EMULATOR="/usr/bin/qemu-aarch64 -L /usr/aarch64-linux-gnu", with --build build/aarch64.

The first two count as detected, the last three as missed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).parent)]

import expected  # noqa: E402
import report  # noqa: E402
from poolshim_cli.allocators import DEFAULT_TABLE, Missing, read_table, resolve  # noqa: E402

# Another processor's programs run under an emulator, as in tests/conftest.py.
EMULATOR = shlex.split(os.environ.get("TEST_EMULATOR", ""))
TIMEOUT_S = 30 * int(os.environ.get("TEST_SLOWNESS", 1))
JOBS = 2
JOBS_UNDER_LOAD = 12  # some allocators act on time; slow processes show what they do then
ABORTS = {signal.SIGABRT, signal.SIGTRAP, signal.SIGILL}
FAULTS = {signal.SIGSEGV, signal.SIGBUS}
RANK = {"detected": 2, "faulted": 2, "contained": 1, "reached": 0, "crashed": 0, "hung": 0}
SCUDO = {
    "name": "scudo",
    "files": [
        f"/usr/lib/llvm-{version}/lib/clang/{version}/lib/linux/"
        f"libclang_rt.scudo_standalone-{os.uname().machine}.so"
        for version in (19, 18, 17, 16)
    ],
    "package": "libclang-rt-16-dev",
}


@dataclass(frozen=True)
class Attack:
    """One row of attacks --list."""

    name: str
    goal: str
    story: str

    @property
    def family(self) -> str:
        return self.name.split("/")[0]


@dataclass
class Contestant:
    """What the attacks are played against."""

    name: str
    library: Path | None
    env: dict[str, str] = field(default_factory=dict)
    version: str = ""


@dataclass(frozen=True)
class Outcome:
    """How one attack ended, and its messages."""

    kind: str
    detail: str

    @property
    def rank(self) -> int:
        return RANK[self.kind]


class BrokenAttack(Exception):
    """An attack that did not get as far as its misuse: nothing can be said."""


def attacks_program(build: Path) -> Path:
    return build / "tests" / "attacks" / "attacks"


def read_attacks(build: Path) -> list[Attack]:
    """The list that the program prints."""
    listing = started([attacks_program(build), "--list"], None, {}).stdout.decode()
    return [Attack(*line.split("\t")) for line in listing.splitlines()]


def messages(stderr: str) -> list[str]:
    """Messages about the misuse: loader, options and emulator also write to standard error."""
    lines = [line.strip() for line in stderr.splitlines()]
    others = ("POOLSHIM_", "ld.so:", "qemu: uncaught target signal")
    return [line for line in lines if line and not any(other in line for other in others)]


def classify(returncode: int, stdout: str, stderr: str) -> Outcome:
    """The outcome of a process that ended. BrokenAttack if it ended before the misuse."""
    lines = stdout.splitlines()
    last = lines[-1] if lines else ""
    said = messages(stderr)
    if returncode == 0 and last.startswith(("reached: ", "contained: ")):
        kind, _, detail = last.partition(": ")
        return Outcome(kind, detail)
    if "misuse" not in lines:
        raise BrokenAttack(f"status {returncode}, {last!r}, {said}")
    if returncode == 2 and last.startswith("broken: "):
        raise BrokenAttack(last)
    if -returncode in ABORTS or (returncode > 0 and said):
        return Outcome("detected", said[0] if said else signal.Signals(-returncode).name)
    if -returncode in FAULTS and last == "misuse":
        return Outcome("faulted", said[0] if said else "in the misusing call or access")
    if -returncode in FAULTS and said:
        return Outcome("detected", said[0])
    return Outcome("crashed", f"status {returncode}")


def started(
    command: list[Path | str], library: Path | None, env: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """A program with a library preloaded and these variables, under the emulator if any."""
    own = {**env, **({"LD_PRELOAD": str(library)} if library is not None else {})}
    if EMULATOR:  # whose own libraries are the machine's
        options = [word for name, value in own.items() for word in ("-E", f"{name}={value}")]
        command, own = [*EMULATOR, *options, *command], {}
    return subprocess.run(
        command, env={"PATH": "/usr/bin:/bin", **own}, capture_output=True, timeout=TIMEOUT_S,
        check=False,
    )  # fmt: skip


def play(program: Path, attack: str, contestant: Contestant) -> Outcome:
    """One attack against one allocator."""
    try:
        done = started([program, attack], contestant.library, contestant.env)
    except subprocess.TimeoutExpired:
        return Outcome("hung", f"{TIMEOUT_S} s")
    try:
        return classify(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))
    except BrokenAttack as error:
        raise BrokenAttack(f"{attack} against {contestant.name}: {error}") from error


def play_all(
    build: Path, names: Iterable[str], contestant: Contestant, jobs: int = JOBS
) -> dict[str, Outcome]:
    """Every attack, so many at a time."""
    program = attacks_program(build)
    names = list(names)
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = pool.map(lambda name: play(program, name, contestant), names)
        return dict(zip(names, outcomes, strict=True))


def is_known(library: Path, build: Path, level: str) -> bool:
    """True where the library serves at this level and does not complain about it."""
    env = {"POOLSHIM_HARDEN": level}
    told = started([attacks_program(build), "--list"], library, env)
    return told.returncode == 0 and b"POOLSHIM_HARDEN" not in told.stderr


def poolshim_levels(build: Path, levels: Iterable[str]) -> list[Contestant]:
    """poolshim at those of the levels that it knows here; 0 is what it does unasked."""
    library = build / "libpoolshim.so"
    return [
        Contestant(f"poolshim {level}", library, {"POOLSHIM_HARDEN": level} if level != "0" else {})
        for level in levels
        if level == "0" or is_known(library, build, level)
    ]


def contestants(build: Path, options: argparse.Namespace) -> list[Contestant]:
    """All requested ones that are found; names the missing ones on standard error."""
    found = []
    entries = [e for e in read_table(DEFAULT_TABLE) if e["name"] not in ("floor", "poolshim")]
    for entry in [*entries, SCUDO]:
        allocator = resolve(entry, build)
        if isinstance(allocator, Missing):
            print(f"{allocator.name}: {allocator.reason}", file=sys.stderr)
        else:
            found.append(Contestant(allocator.name, allocator.library, {}, allocator.version))
    for addition in options.allocator:
        name, _, path = addition.partition("=")
        if not Path(path).is_file():
            sys.exit(f"--allocator needs NAME=LIBRARY, not {addition!r}")
        found.append(Contestant(name, Path(path).resolve()))
    found += poolshim_levels(build, options.levels.split(","))
    only = set(options.only.split(",")) if options.only else None
    return [c for c in found if only is None or c.name in only or c.name.split()[0] in only]


def write_expected(results: list[dict[str, dict[str, Outcome]]]) -> None:
    """Every outcome that poolshim showed in one of the runs."""
    table = expected.read()
    for name in results[0]:
        if name.startswith("poolshim "):
            table.setdefault(name, {}).update(
                (attack, "|".join(sorted({run[name][attack].kind for run in results})))
                for attack in results[0][name]
            )
    expected.FILE.write_text(expected.text_of(table))


def as_held(results: dict[str, dict[str, Outcome]]) -> dict[str, dict[str, Outcome]]:
    """The same with poolshim's outcomes from expected.txt, of several the worst, at all levels: the
    table of the document then agrees with the figures that gen-docs takes from there."""
    held = {
        name: {
            attack: Outcome(min(kinds.split("|"), key=lambda kind: RANK[kind]), "held")
            for attack, kinds in outcomes.items()
        }
        for name, outcomes in expected.read().items()
    }
    return {name: held.get(name, outcomes) for name, outcomes in results.items()} | held


def differences(
    outcomes: dict[str, Outcome], held: dict[str, str]
) -> tuple[list[str], list[str]]:
    """What ended worse than the table of expected.txt says, and what better: a line each."""
    worse, better = [], []
    for attack, outcome in outcomes.items():
        ranks = [RANK[kind] for kind in held.get(attack, expected.UNKNOWN).split("|")]
        line = f"{attack}: {outcome.kind} ({outcome.detail}), expected {held.get(attack)}"
        if outcome.rank < min(ranks):
            worse.append(line)
        elif outcome.rank > max(ranks):
            better.append(line)
    return worse, better


def worst(results: list[dict[str, dict[str, Outcome]]]) -> dict[str, dict[str, Outcome]]:
    """The outcomes of several runs that count: an attacker may try again."""
    return {
        name: {
            attack: min((run[name][attack] for run in results), key=lambda outcome: outcome.rank)
            for attack in results[0][name]
        }
        for name in results[0]
    }


def tell_unstable(results: list[dict[str, dict[str, Outcome]]]) -> None:
    """Names the attacks whose outcome was not the same in all runs."""
    for name in results[0]:
        for attack in results[0][name]:
            kinds = [run[name][attack].kind for run in results]
            if len(set(kinds)) > 1:
                print(f"{name}: {attack}: {' '.join(kinds)}", file=sys.stderr)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--allocator", action="append", default=[], metavar="NAME=LIBRARY")
    parser.add_argument("--only", help="names of allocators, separated by commas")
    parser.add_argument(
        "--levels", default=",".join(expected.LEVELS), help="of POOLSHIM_HARDEN, as far as known"
    )
    parser.add_argument("--match", default="", help="only attacks with this in their name")
    parser.add_argument("--runs", type=int, default=1, help="every second under load")
    parser.add_argument("--missed", action="store_true", help="list the missed attacks, and how")
    parser.add_argument("--all", action="store_true", help="list every outcome")
    parser.add_argument("--json", type=Path, help="write every outcome there")
    parser.add_argument("--markdown", action="store_true", help="print the tables of the docs")
    parser.add_argument("--write-docs", action="store_true", help="put them in docs/hardening.md")
    parser.add_argument("--write-expected", action="store_true", help="make expected.txt anew")
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    attacks = read_attacks(options.build)
    if options.match and (options.write_docs or options.markdown):
        sys.exit("--match leaves rows out: no tables of the docs")
    field_of = contestants(options.build, options)
    names = [attack.name for attack in attacks if options.match in attack.name]
    runs = options.runs if not options.write_expected else max(options.runs, 5)
    try:
        results = [
            {
                c.name: play_all(options.build, names, c, JOBS_UNDER_LOAD if turn % 2 else JOBS)
                for c in field_of
            }
            for turn in range(runs)
        ]
    except BrokenAttack as error:
        sys.exit(str(error))
    tell_unstable(results)
    if options.write_expected:
        write_expected(results)
    final = worst(results)
    if options.json:
        report.write_json(options.json, field_of, final)
    if options.write_docs:
        report.write_docs(ROOT / "docs" / "hardening.md", attacks, field_of, as_held(final))
    print(report.markdown(attacks, field_of, as_held(final)) if options.markdown else "", end="")
    played = [attack for attack in attacks if attack.name in names]
    print("" if options.markdown else report.text(played, final), end="")
    if options.missed or options.all:
        print(report.details(final, everything=options.all), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
