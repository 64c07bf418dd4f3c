# SPDX-License-Identifier: MIT
"""`poolshim profile [OPTIONS] [--] COMMAND`: a sampled heap profile of a command, or of files.

    scripts/poolshim profile -- jq . big.json
    scripts/poolshim profile --flame heap.html --read heap.pb.gz
    scripts/poolshim profile --leaks heap.*.pb.gz

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
from . import dumps, flame
from .sites import Row, functions_of, rows_of

HELP = """usage: poolshim profile [OPTIONS] [--] COMMAND [ARGUMENT...]
       poolshim profile [OPTIONS] --read FILE
       poolshim profile [OPTIONS] --diff BEFORE AFTER
       poolshim profile [OPTIONS] --leaks FILE FILE...

Runs a command on poolshim, samples its allocations (POOLSHIM_PROFILE) and lists the call sites that
hold the memory, on standard error.

  -o, --output FILE    keep the profile here, for go tool pprof; %p: the process id
  --read FILE          list what an earlier profile says
  --diff               list by how much each call site has grown or shrunk between two profiles
  --leaks              list call sites that grew from each profile to the next and freed nothing
  --flame FILE         also draw a flame graph, as one HTML file
  --names              let CPython from 3.12 on, and node, name their functions
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
    flame: Path | None = None
    is_diff: bool = False
    is_leaks: bool = False
    is_named: bool = False
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
        elif word == "--diff":
            request.is_diff = True
        elif word == "--leaks":
            request.is_leaks = True
        elif word == "--names":
            request.is_named = True
        elif name == "--flame":
            request.flame = Path(value_of(name, equals, value, rest))
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
    if request.is_diff or request.is_leaks:
        check_files(request)
        return
    if request.read is not None and (request.command or request.output or request.interval):
        raise BadRequest("--read lists a file: no command, --output or --interval")
    if request.read is None and not request.command:
        raise BadRequest("which command? poolshim profile -- COMMAND")


def shortened(name: str) -> str:
    """A name that leaves the table a table."""
    return name if len(name) <= NAME_COLUMNS else name[: NAME_COLUMNS - 1] + "…"


def check_files(request: Request) -> None:
    """Of --diff and --leaks, whose words are files."""
    name = "--diff" if request.is_diff else "--leaks"
    if (request.is_diff and request.is_leaks) or request.read or request.output or request.interval:
        raise BadRequest(f"{name} reads profiles: no command, and no option about one")
    if request.is_diff and len(request.command) != 2:
        raise BadRequest("--diff needs two profiles: poolshim profile --diff BEFORE AFTER")
    if request.is_leaks and len(request.command) < 2:
        raise BadRequest("--leaks needs two profiles or more: poolshim profile --leaks FILE FILE")
    if request.is_leaks and (request.flame or request.is_alloc):
        raise BadRequest("--leaks lists what is live: no --alloc, no --flame")


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


def perf_map_of(pid: int | None) -> Path | None:
    """The names of functions that a virtual machine has made, if it wrote them."""
    return Path(f"/tmp/perf-{pid}.map") if pid is not None else None


def report(request: Request, profile: pprof.Profile, pid: int | None) -> None:
    """One profile."""
    names = symbols.names_of(profile, perf_map_of(pid))
    kind = kind_of(request, profile)
    draw_profile(request, profile, names)
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


def draw(path: Path, node: flame.Node, title: str, note: str, is_difference: bool = False) -> None:
    """The flame graph."""
    files.write_whole(path, flame.page(node, title, note, is_difference).encode())


def draw_profile(request: Request, profile: pprof.Profile, names: symbols.Symbols) -> None:
    """Of one profile, if one is wanted."""
    if request.flame is None:
        return
    kind = kind_of(request, profile)
    index = profile.index_of(f"{kind}_space")
    root = flame.Node()
    for sample in profile.samples:
        if sample.values[index] > 0:
            root.add(reversed(functions_of(sample, names)), sample.values[index], 0)
    what = "live" if kind == "inuse" else "allocated since the start"
    title = " ".join(request.command) or str(request.read)
    draw(request.flame, root, title, f"{mib(root.value)} MiB {what}, by call stack")


def named(paths: list[str]) -> tuple[list[pprof.Profile], list[dict[dumps.Stack, dumps.Sums]],
                                   list[str]]:  # fmt: skip
    """Profiles, their stacks, and what is missing. Names are looked up once for all of them."""
    profiles = [pprof.read(Path(path)) for path in paths]
    every = pprof.Profile(samples=[sample for one in profiles for sample in one.samples])
    names = symbols.names_of(every, perf_map_of(pid_of(Path(paths[0]))))
    return profiles, [dumps.stacks_of(one, names) for one in profiles], names.notes


def print_changes(rows: list[dumps.Change], top: int) -> None:
    """The table."""
    print(f"{'MiB':>10} {'±':>8} {'blocks':>10}  call site")
    for row in rows[:top]:
        sign = "+" if row.nbytes > 0 else "-"
        print(f"{sign + mib(abs(row.nbytes)):>10} {mib(row.error_bytes):>8} {row.blocks:+10d}  "
              f"{shortened(row.name)}")  # fmt: skip
        if row.callers:
            print(f"{'':30}  < " + " < ".join(shortened(name) for name in row.callers))
    if rows[top:]:
        rest = sum(row.nbytes for row in rows[top:])
        sign = "+" if rest >= 0 else "-"
        print(f"{sign + mib(abs(rest)):>10} {'':8} {'':10}  {len(rows) - top} more")


def report_changes(request: Request, rows: list[dumps.Change], head: str, notes: list[str]) -> None:
    """Of several profiles."""
    if request.is_json:
        print(json.dumps({"sites": [vars(row) for row in rows], "notes": notes}))
        return
    print(head)
    if rows:
        print_changes(rows, request.top)
    for line in notes:
        print(f"note: {line}")


def diff(request: Request) -> None:
    """Two profiles."""
    (before, after), (old, new), notes = named(request.command)
    kind = "alloc" if request.is_alloc else "inuse"
    # Loaded at the same addresses, and the later one counts no less: a run of its own differs.
    is_same = (
        before.mappings[:1] == after.mappings[:1]
        and before.total("alloc_space") <= after.total("alloc_space")
    )
    rows = dumps.changes(old, new, kind, is_same)
    growth = after.total(f"{kind}_space") - before.total(f"{kind}_space")
    what = "live" if kind == "inuse" else "allocated since the start"
    head = (
        f"{mib(before.total(f'{kind}_space'))} MiB {what} in {request.command[0]}, "
        f"{mib(after.total(f'{kind}_space'))} in {request.command[1]}: "
        f"{'+' if growth >= 0 else '-'}{mib(abs(growth))} MiB"
    )
    report_changes(request, rows, head, notes)
    if request.flame is not None:
        root = flame.Node()
        for stack in old.keys() | new.keys():
            was, now = old.get(stack, dumps.Sums()), new.get(stack, dumps.Sums())
            pair = (was.made_bytes, now.made_bytes) if kind == "alloc" else (
                was.live_bytes, now.live_bytes
            )  # fmt: skip
            root.add(reversed(stack), pair[1], pair[1] - pair[0])
        note = f"{head}. Width: after; red: grown, blue: shrunk."
        draw(request.flame, root, " and ".join(request.command), note, True)


def leaks(request: Request) -> None:
    """Two profiles or more, in the order of time."""
    _, found, notes = named(request.command)
    rows = dumps.leaks(found)
    grown = sum(row.nbytes for row in rows)
    head = (
        f"{mib(grown)} MiB more in the last than in the first, at call sites that grew in each of "
        f"{len(found)} profiles and freed nothing"
        if rows
        else f"no call site grew in each of {len(found)} profiles and freed nothing"
    )
    report_changes(request, rows, head, notes)


def environment_of(request: Request, pattern: str) -> dict[str, str]:
    """Ours, with the profile on; other modes exclude it."""
    found = {
        name: value for name, value in os.environ.items() if not name.startswith(HARNESS_PREFIXES)
    }
    found["LD_PRELOAD"] = places.preload_with(places.find().library, found)
    found["POOLSHIM_PROFILE"] = pattern
    if request.is_named:
        found["PYTHONPERFSUPPORT"] = "1"
        found["NODE_OPTIONS"] = f"{found.get('NODE_OPTIONS', '')} --perf-basic-prof".strip()
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
    if request.flame is not None:
        files.check_writable(request.flame)
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
    if request.is_diff or request.is_leaks:
        (diff if request.is_diff else leaks)(request)
        return 0
    if request.read is not None:
        report(request, pprof.read(request.read), pid_of(request.read))
        return 0
    return profile_command(request)
