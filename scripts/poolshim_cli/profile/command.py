# SPDX-License-Identifier: MIT
"""`poolshim profile [OPTIONS] [--] COMMAND`: a sampled heap profile of a command, or of files.

    scripts/poolshim profile -- jq . big.json
    scripts/poolshim profile --pid $(pidof redis-server)
    scripts/poolshim profile --flame heap.html --read heap.pb.gz
    scripts/poolshim profile --leaks heap.*.pb.gz

The report goes to standard error, because standard output is the command's. Exit status: that of
the command; of --read and --pid 0.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

from .. import files, flight, places, pprof, pprof_write, preload, symbols, terminal
from ..callsites import CallSites
from ..errors import CANNOT_EXECUTE, NOT_FOUND, BadRequest, Failed, OwnFailure
from ..folds import Folds
from ..foreign.perf_map import PerfMap
from ..machine import HARNESS_PREFIXES
from ..sizes import mib
from . import dumps, flame, live, rates, table
from .arguments import HELP, SECONDS, Request, interval_of, parse
from .sites import functions_of, rows_of

LIVE_SHARE_LEAST = 0.01  # of the allocated bytes: below it, the live ones say little
PROFILE_SUFFIX, STATS_SUFFIX = ".pb.gz", ".json"
FLIGHT_RECORDS, FLIGHT_SUFFIX = "poolshim-*-*[0-9].pb", ".pb"  # of those that had no exit


def kind_of(request: Request, profile: pprof.Profile) -> str:
    """The kind to list: live blocks, unless nearly none are."""
    least = LIVE_SHARE_LEAST * profile.total("alloc_space")
    return "alloc" if request.is_alloc or profile.total("inuse_space") < least else "inuse"


def perf_map_of(pid: int | None) -> PerfMap | None:
    """The names of functions that a virtual machine has made, if it wrote them."""
    return PerfMap(Path(f"/tmp/perf-{pid}.map")) if pid is not None else None


def what_of(kind: str, seconds: float) -> str:
    """Which memory is listed. seconds: of a profile of a process that ran before it."""
    if kind == "inuse":
        return "live at the end"
    return f"allocated in {seconds:.1f} s" if seconds else "allocated since the start"


def report(
    request: Request, profile: pprof.Profile, names: symbols.Symbols, stream: TextIO,
    more: dict[str, object] | None = None, run_s: float = 0.0,
) -> None:  # fmt: skip
    """One profile. run_s: of a command, how long it had run; a file of --pid has its own time."""
    kind, sampled_s = kind_of(request, profile), profile.duration_nanos / 1e9
    seconds = sampled_s or run_s
    draw_profile(request, profile, names)
    rows = rows_of(profile, names, kind, request.folds, seconds, not request.is_json)
    if request.is_json:
        found = {"kind": kind, "interval_bytes": profile.period, "comments": profile.comments,
                 "notes": names.notes, "sites": [row.to_json() for row in rows],
                 "seconds": round(seconds, 3) if seconds else None, **(more or {})}
        print(json.dumps(found))  # fmt: skip
        return
    total = profile.total(f"{kind}_space")
    made = f"{mib(profile.total('alloc_space'))} MiB allocated"
    duration = f"{seconds:.1f} s" if seconds >= 1 else rates.seconds_text(seconds)
    made += f" in {duration}" if seconds else " since the start" * (kind == "alloc")
    live = f"{mib(total)} MiB live at the end, " if kind == "inuse" else ""
    head = f"{live}{made}; a sample every {profile.period / 1024:g} KiB"
    print(terminal.folded(head, stream), file=stream)
    if kind == "alloc" and not request.is_alloc:
        text = "nearly nothing was live at the end: these are all allocations"
        print(terminal.folded(text, stream), file=stream)
    table.print_rows(rows, request.top, stream)
    for line in (*profile.comments, *names.notes):
        print(terminal.folded(f"note: {line}", stream), file=stream)


def draw(path: Path, node: flame.Node, title: str, note: str, is_difference: bool = False) -> None:
    """The flame graph."""
    files.write_whole(path, flame.page(node, title, note, is_difference).encode())


def draw_profile(request: Request, profile: pprof.Profile, names: symbols.Symbols) -> None:
    """Draws the flame graph of one profile, if it is requested."""
    if request.flame is None:
        return
    kind = kind_of(request, profile)
    index = profile.index_of(f"{kind}_space")
    root = flame.Node()
    for sample in profile.samples:
        if sample.values[index] > 0:
            root.add(reversed(functions_of(sample, names)), sample.values[index], 0)
    what = what_of(kind, profile.duration_nanos / 1e9)
    title = " ".join(request.command) or str(request.read or f"process {request.pid}")
    draw(request.flame, root, title, f"{mib(root.value)} MiB {what}, by call stack")


def named(
    paths: list[str], folds: Folds, is_short: bool
) -> tuple[list[pprof.Profile], list[dict[dumps.Stack, dumps.Sums]], list[str]]:
    """Profiles, their stacks, and notes on missing names. Names are looked up once for all of
    them."""
    profiles = [pprof.read(Path(path)) for path in paths]
    every = pprof.Profile(samples=[sample for one in profiles for sample in one.samples])
    names = symbols.names_of(every, perf_map_of(pid_of(Path(paths[0]))))
    frames = ([names.frames_of(sample.locations) for sample in one.samples] for one in profiles)
    sites = CallSites(frames, folds, is_short)
    return profiles, [dumps.stacks_of(one, names, sites) for one in profiles], names.notes


def report_changes(
    request: Request, rows: list[dumps.Change], head: str, notes: list[str], seconds: float = 0.0
) -> None:
    """Reports the changes between several profiles; with rates if so many seconds are between."""
    if request.is_json:
        sites = [row.to_json(seconds) for row in rows]
        print(json.dumps({"sites": sites, "notes": notes, "seconds": round(seconds, 3) or None}))
        return
    print(terminal.folded(head, sys.stdout))
    if rows:
        table.print_changes(rows, request.top, sys.stdout, seconds)
    for line in notes:
        print(terminal.folded(f"note: {line}", sys.stdout))


def diff(request: Request) -> None:
    """Two profiles."""
    (before, after), (old, new), notes = named(
        request.command, request.folds, not request.is_json
    )
    kind = "alloc" if request.is_alloc else "inuse"
    # Loaded at the same addresses, and the later one counts no less: a run of its own differs.
    is_same = (
        before.is_same_process(after)
        and before.total("alloc_space") <= after.total("alloc_space")
    )
    rows = dumps.changes(old, new, kind, is_same)
    growth = after.total(f"{kind}_space") - before.total(f"{kind}_space")
    what = "live" if kind == "inuse" else "allocated since the start"
    head = (
        f"{mib(before.total(f'{kind}_space'))} MiB {what} in {request.command[0]}, "
        f"{mib(after.total(f'{kind}_space'))} in {request.command[1]}: "
        f"{table.signed(growth)} MiB"
    )
    seconds = dumps.seconds_between(before, after) if is_same else 0.0
    if seconds:
        error = math.sqrt(sum(row.error_bytes**2 for row in rows))
        head += (f" in {seconds:.1f} s, {table.signed(growth * table.MINUTE_S / seconds)} MiB per "
                 f"minute ± {mib(round(error * table.MINUTE_S / seconds))}")  # fmt: skip
    report_changes(request, rows, head, notes, seconds)
    if request.flame is not None:
        root = flame.Node()
        for stack in old.keys() | new.keys():
            was, now = old.get(stack, dumps.Sums()), new.get(stack, dumps.Sums())
            pair = (was.made_bytes, now.made_bytes) if kind == "alloc" else (
                was.live_bytes, now.live_bytes
            )  # fmt: skip
            root.add(reversed(stack.functions), pair[1], pair[1] - pair[0])
        note = f"{head}. Width: after; red: grown, blue: shrunk."
        draw(request.flame, root, " and ".join(request.command), note, True)


def check_one_process(paths: list[str], profiles: list[pprof.Profile]) -> None:
    """Memory of another process is no growth of this one."""
    for path, profile in zip(paths, profiles):
        if not profiles[0].is_same_process(profile):
            pids = [profiles[0].pid, profile.pid]
            ids = f" ({pids[0]}, {pids[1]})" if None not in pids and pids[0] != pids[1] else ""
            raise BadRequest(f"{paths[0]} and {path} are of two processes{ids}: --leaks follows "
                             "one, give its profiles; --diff compares two")  # fmt: skip


def leaks(request: Request) -> None:
    """Two profiles or more of one process, by their times."""
    profiles, found, notes = named(request.command, request.folds, not request.is_json)
    check_one_process(request.command, profiles)
    order = sorted(range(len(found)), key=lambda at: profiles[at].time_nanos)
    found = [found[at] for at in order]
    rows = dumps.leaks(found)
    grown = sum(row.nbytes for row in rows)
    head = (
        f"{mib(grown)} MiB more in the last than in the first, at call sites that grew in each of "
        f"{len(found)} profiles and freed nothing"
        if rows
        else f"no call site grew in each of {len(found)} profiles and freed nothing"
    )
    report_changes(request, rows, head, notes)


def flight_folder(pattern: str) -> Path:
    """Where processes write their flight records, beside the profiles."""
    return Path(pattern).parent / "flight"


def of_processes(folder: Path) -> list[Path]:
    """A profile of each process: the one that it wrote at its exit, or its flight record."""
    written = {pid_of(path): path for path in folder.glob(f"*{PROFILE_SUFFIX}")}
    for path in flight_folder(str(folder / PROFILE_SUFFIX)).glob(FLIGHT_RECORDS):
        pid = int(path.stem.rpartition("-")[2])
        written.setdefault(pid, path.rename(folder / f"{pid}{FLIGHT_SUFFIX}"))
    return sorted(written.values())


def environment_of(request: Request, pattern: str) -> dict[str, str]:
    """Ours, with the profile on; other modes exclude it."""
    found = {
        name: value for name, value in os.environ.items() if not name.startswith(HARNESS_PREFIXES)
    }
    found["LD_PRELOAD"] = preload.with_first(places.find().library, found)
    found["POOLSHIM_PROFILE"] = pattern
    found["POOLSHIM_FLIGHT"] = str(flight_folder(pattern))  # of those that end otherwise
    found.setdefault("POOLSHIM_STATS", pattern.replace(PROFILE_SUFFIX, STATS_SUFFIX))
    if request.is_named:
        found["NODE_OPTIONS"] = f"{found.get('NODE_OPTIONS', '')} --perf-basic-prof".strip()
    if request.interval:
        found["POOLSHIM_PROFILE_INTERVAL"] = request.interval
    for name in ("POOLSHIM_HARDEN", "POOLSHIM_GUARD_SAMPLE", "POOLSHIM_RECORD", "POOLSHIM_TRACE"):
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


def has_calls(path: Path, profile: pprof.Profile) -> bool:
    """Whether the process of this profile has called the library at all. The statistics beside the
    profile count the calls; they are elsewhere if the environment says where."""
    try:
        name = path.name.replace(PROFILE_SUFFIX, STATS_SUFFIX)
        counts = json.loads(path.with_name(name).read_text())
        return bool(counts["calls"]["malloc_count"] or counts["memory"]["live_bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return bool(profile.samples)


def largest(paths: list[Path]) -> tuple[Path, pprof.Profile]:
    """The process that allocated most."""
    profiles = [(path, pprof.read(path)) for path in paths]
    return max(profiles, key=lambda one: one[1].total("alloc_space"))


def pid_of(path: Path) -> int | None:
    """The process id in the name of a profile."""
    digits = path.name.partition(".")[0]
    return int(digits) if digits.isdigit() else None


def keep(source: Path, output: Path, pid: int) -> Path:
    """Copies the profile to the requested place."""
    target = Path(str(output).replace("%p", str(pid)))
    files.write_whole(target, source.read_bytes())
    return target


def missing(command: list[str], paths: list[Path]) -> str:
    """Why there is nothing to list; "" if there is something."""
    more = f"(poolshim doctor --run -- {command[0]} says more)"
    if not paths:
        return ("no profile was written: the command ended by a signal or _exit before its first "
                f"sample, or cannot be preloaded {more}")  # fmt: skip
    if not has_calls(*largest(paths)):
        return ("the command made no call of poolshim: it allocates nothing, or another allocator "
                f"serves it {more}")  # fmt: skip
    return ""


def profile_command(request: Request) -> int:
    """Runs the command, reports of the process that allocated most."""
    if request.output is not None:
        files.check_writable(Path(str(request.output).replace("%p", "0")))
    if request.flame is not None:
        files.check_writable(request.flame)
    preload.announce("profile", places.find().library, os.environ)
    with tempfile.TemporaryDirectory(prefix="poolshim-") as folder:
        pattern = str(Path(folder) / f"%p{PROFILE_SUFFIX}")
        flight_folder(pattern).mkdir()
        begun_nanos = time.time_ns()
        pid, status = run(request.command, environment_of(request, pattern))
        paths = of_processes(Path(folder))
        message = missing(request.command, paths)
        if message:
            if status == 0:
                raise Failed(message)
            print(f"poolshim profile: {message}", file=sys.stderr)
            return status
        path, profile = largest(paths)
        found = pid_of(path)
        if len(paths) > 1:
            text = (f"{len(paths)} processes wrote a profile; this is process {found}, which "
                    "allocated most")  # fmt: skip
            print(terminal.folded(text, sys.stderr), file=sys.stderr)
        names = symbols.names_of(profile, perf_map_of(found))
        run_s = max(profile.time_nanos - begun_nanos, 0) / 1e9
        report(request, profile, names, sys.stderr, run_s=run_s)
        if request.output is not None:
            target = keep(path, request.output, found or pid)
            print(f"profile: {target}", file=sys.stderr)
    return status


def profile_process(request: Request) -> int:
    """Samples a process that runs."""
    for path in (request.output, request.flame):
        if path is not None:
            files.check_writable(Path(str(path).replace("%p", str(request.pid))))
    seconds = request.seconds if request.seconds is not None else SECONDS
    if sys.stderr.isatty():
        text = f"sampling for {seconds:g} s; Ctrl-C ends it early"
        print(terminal.folded(text, sys.stderr), file=sys.stderr)
    found = live.sample(request.pid, seconds, interval_of(request))
    found.profile.comments.insert(0, f"process {request.pid}, {found.program}: sampled for "
                                  f"{found.seconds:.1f} s; blocks allocated before are unknown"
                                  )  # fmt: skip
    found.profile.comments += found.notes
    if request.output is not None:
        target = Path(str(request.output).replace("%p", str(request.pid)))
        files.write_whole(target, pprof_write.encode(found.profile, found.names))
    more = {"pid": request.pid, "program": found.program, "seconds": round(found.seconds, 3)}
    report(request, found.profile, found.names, sys.stdout, more)
    if request.output is not None and not request.is_json:
        print(f"profile: {target}")
    return 0


def read_file(request: Request, path: Path) -> None:
    """Lists the content of a file."""
    profile = pprof.read(path)
    history = flight.history_of(profile, str(path))
    if history is not None:
        profile.comments = [one for one in profile.comments if not flight.GROWTH.match(one)]
        profile.comments += flight.remarks(history)
    more: dict[str, object] = {"flight": history.to_json() if history is not None else None}
    names = symbols.names_of(profile, perf_map_of(pid_of(path)))
    report(request, profile, names, sys.stdout, more)


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
        read_file(request, request.read)
        return 0
    if request.pid:
        return profile_process(request)
    return profile_command(request)
