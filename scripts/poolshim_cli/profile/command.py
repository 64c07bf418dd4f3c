# SPDX-License-Identifier: MIT
"""`poolshim profile [OPTIONS] [--] COMMAND`: a sampled heap profile of a command, or of a file.

    scripts/poolshim profile -- jq . big.json
    scripts/poolshim profile --read heap.pb.gz

The report goes to standard error, because standard output is the command's. Exit status: that of
the command; of --read 0.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from .. import files, places, pprof, symbols
from ..errors import CANNOT_EXECUTE, NOT_FOUND, BadRequest, Failed, OwnFailure
from ..machine import HARNESS_PREFIXES
from ..sizes import mib
from .sites import Row, rows_of

HELP = """usage: poolshim profile [OPTIONS] [--] COMMAND [ARGUMENT...]
       poolshim profile [OPTIONS] --read FILE

Runs a command on poolshim, samples its allocations (POOLSHIM_PROFILE) and lists the call sites that
hold the memory, on standard error.

  -o, --output FILE    keep the profile here, for go tool pprof; %p: the process id
  --read FILE          list what an earlier profile says
  --interval SIZE      mean bytes between two samples [512KiB]
  --alloc              what was allocated since the start, not what is live at the end
  --top N              list so many call sites [20]
  --json               print JSON on standard output, with all call sites
  -h, --help           print this text

Exit status: the command's; 2 usage or an unreadable file, 126 and 127 as of env. A command that
wrote no profile, since it ended by a signal or _exit, or cannot be preloaded: its own, or 1.
"""
TOP = 20
LIVE_SHARE_LEAST = 0.01  # of what was allocated: below it, what is live says little
NAME_COLUMNS = 60


@dataclass
class Request:
    """The command line."""

    command: list[str] = field(default_factory=list)
    output: Path | None = None
    read: Path | None = None
    interval: str = ""
    top: int = TOP
    is_alloc: bool = False
    is_json: bool = False
    is_help: bool = False


def value_of(name: str, equals: str, value: str, rest: list[str]) -> str:
    """The value of an option, behind = or in the next word."""
    if equals:
        return value
    if not rest:
        raise BadRequest(f"{name} needs a value")
    return rest.pop(0)


def parse(words: list[str]) -> Request:
    """The options, up to the first word that is none."""
    request, rest = Request(), list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            break
        if word in ("-h", "--help"):
            request.is_help = True
        elif word == "--json":
            request.is_json = True
        elif word == "--alloc":
            request.is_alloc = True
        elif name in ("-o", "--output"):
            request.output = Path(value_of(name, equals, value, rest))
        elif name == "--read":
            request.read = Path(value_of(name, equals, value, rest))
        elif name == "--interval":
            request.interval = value_of(name, equals, value, rest)
        elif name == "--top":
            request.top = count_of(value_of(name, equals, value, rest))
        else:
            raise BadRequest(f"no option {word}; the command's own come behind --")
    request.command = rest
    check(request)
    return request


def count_of(text: str) -> int:
    """A number of rows."""
    if not text.isdigit() or not 0 < int(text) < 10**6:
        raise BadRequest(f"--top: {text} is no number of call sites")
    return int(text)


def check(request: Request) -> None:
    """What goes together."""
    if request.is_help:
        return
    if request.read is not None and (request.command or request.output or request.interval):
        raise BadRequest("--read lists a file: no command, --output or --interval")
    if request.read is None and not request.command:
        raise BadRequest("which command? poolshim profile -- COMMAND")


def shortened(name: str) -> str:
    """A name that leaves the table a table."""
    return name if len(name) <= NAME_COLUMNS else name[: NAME_COLUMNS - 1] + "…"


def print_rows(rows: list[Row], top: int, stream: TextIO) -> None:
    """The table."""
    total = sum(row.nbytes for row in rows)
    print(f"{'MiB':>10} {'±':>8} {'%':>6} {'blocks':>10}  call site", file=stream)
    for row in rows[:top]:
        share = 100 * row.nbytes / total
        print(f"{mib(row.nbytes):>10} {mib(row.error_bytes):>8} {share:6.1f} {row.blocks:10d}  "
              f"{shortened(row.name)}", file=stream)  # fmt: skip
        if row.callers:
            callers = " < ".join(shortened(name) for name in row.callers)
            print(f"{'':37}  < {callers}", file=stream)
    rest = rows[top:]
    if rest:
        print(f"{mib(sum(row.nbytes for row in rest)):>10} {'':8} {'':6} "
              f"{sum(row.blocks for row in rest):10d}  {len(rest)} more", file=stream)  # fmt: skip


def kind_of(request: Request, profile: pprof.Profile) -> str:
    """What is listed: what is live, unless nearly nothing is."""
    least = LIVE_SHARE_LEAST * profile.total("alloc_space")
    return "alloc" if request.is_alloc or profile.total("inuse_space") < least else "inuse"


def report(request: Request, profile: pprof.Profile, pid: int | None) -> None:
    """One profile."""
    perf_map = Path(f"/tmp/perf-{pid}.map") if pid is not None else None
    names = symbols.names_of(profile, perf_map)
    kind = kind_of(request, profile)
    rows = rows_of(profile, names, kind)
    if request.is_json:
        found = {"kind": kind, "interval_bytes": profile.period, "comments": profile.comments,
                 "notes": names.notes, "sites": [vars(row) for row in rows]}  # fmt: skip
        print(json.dumps(found))
        return
    stream = sys.stdout if request.read is not None else sys.stderr
    what = "live at the end" if kind == "inuse" else "allocated since the start"
    total = profile.total(f"{kind}_space")
    print(f"{mib(total)} MiB {what}, {mib(profile.total('alloc_space'))} MiB allocated; a "
          f"sample every {profile.period / 1024:g} KiB", file=stream)  # fmt: skip
    if kind == "alloc" and not request.is_alloc:
        print("nearly nothing was live at the end: this is what was allocated", file=stream)
    print_rows(rows, request.top, stream)
    for line in (*profile.comments, *names.notes):
        print(f"note: {line}", file=stream)


def environment_of(request: Request, pattern: str) -> dict[str, str]:
    """Ours, with the profile on; other modes exclude it."""
    found = {
        name: value for name, value in os.environ.items() if not name.startswith(HARNESS_PREFIXES)
    }
    found["LD_PRELOAD"] = places.preload_with(places.find().library, found)
    found["POOLSHIM_PROFILE"] = pattern
    if request.interval:
        found["POOLSHIM_PROFILE_INTERVAL"] = request.interval
    for name in ("POOLSHIM_HARDEN", "POOLSHIM_GUARD_SAMPLE", "POOLSHIM_RECORD"):
        found.pop(name, None)
    return found


def run(command: list[str], environment: dict[str, str]) -> tuple[int, int]:
    """Runs it with our standard streams; its process id and exit status as a shell has it."""
    if not places.find().library.exists():
        raise OwnFailure(f"{places.find().library}: build first")
    try:
        process = subprocess.Popen(command, env=environment)
    except FileNotFoundError:
        raise OwnFailure(f"{command[0]}: no such command", NOT_FOUND) from None
    except OSError as error:
        raise OwnFailure(f"{command[0]}: {error.strerror}", CANNOT_EXECUTE) from None
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the command's
    try:
        status = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return process.pid, status if status >= 0 else 128 - status


def largest(paths: list[Path]) -> tuple[Path, pprof.Profile]:
    """The process that allocated most."""
    profiles = [(path, pprof.read(path)) for path in paths]
    return max(profiles, key=lambda one: one[1].total("alloc_space"))


def pid_of(path: Path) -> int | None:
    """Of a file that was named for its process."""
    digits = path.name.partition(".")[0]
    return int(digits) if digits.isdigit() else None


def keep(source: Path, output: Path, pid: int) -> Path:
    """Copies the profile to where it is wanted."""
    target = Path(str(output).replace("%p", str(pid)))
    files.write_whole(target, source.read_bytes())
    return target


def profile_command(request: Request) -> int:
    """Runs the command, reports of the process that allocated most."""
    if request.output is not None:
        files.check_writable(Path(str(request.output).replace("%p", "0")))
    with tempfile.TemporaryDirectory(prefix="poolshim-") as folder:
        pattern = str(Path(folder) / "%p.pb.gz")
        pid, status = run(request.command, environment_of(request, pattern))
        paths = sorted(Path(folder).glob("*.pb.gz"))
        if not paths:
            message = (
                "no profile was written: the command ended by a signal or _exit, or cannot be "
                f"preloaded (poolshim doctor -- {request.command[0]} says more)"
            )
            if status == 0:
                raise Failed(message)
            print(f"poolshim profile: {message}", file=sys.stderr)
            return status
        path, profile = largest(paths)
        found = pid_of(path)
        if len(paths) > 1:
            print(f"{len(paths)} processes wrote a profile; this is process {found}, which "
                  "allocated most", file=sys.stderr)  # fmt: skip
        report(request, profile, found)
        if request.output is not None:
            target = keep(path, request.output, found or pid)
            print(f"profile: {target}", file=sys.stderr)
    return status


def main(words: list[str]) -> int:
    """A command, or a file."""
    request = parse(words)
    if request.is_help:
        print(HELP, end="")
        return 0
    if request.read is not None:
        report(request, pprof.read(request.read), pid_of(request.read))
        return 0
    return profile_command(request)
