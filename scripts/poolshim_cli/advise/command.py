# SPDX-License-Identifier: MIT
"""`poolshim advise [OPTIONS] [--] COMMAND`: which call site should use which pool.

    scripts/poolshim advise -- jq . big.json
    scripts/poolshim advise --server 'redis-server --port {port}' --load 'redis-benchmark -p {port}'
    scripts/poolshim advise --json --read program.trace

The report goes to standard error, because standard output is the command's. Exit status: that of
the command; of --read and --server 0.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from .. import files, option_words, places, preload
from ..compare.processes import descendants, read_family
from ..errors import BadRequest, Failed, OwnFailure
from ..explain import runs
from ..machine import HARNESS_PREFIXES
from ..profile.command import run
from ..sizes import mib, size_of
from . import again, replay, report
from .patterns import sites_of
from .together import joined
from .trace import Trace, read, read_mappings

HELP = """usage: poolshim advise [OPTIONS] [--] COMMAND [ARGUMENT...]
       poolshim advise [OPTIONS] --server CMD --load CMD
       poolshim advise [OPTIONS] --read FILE

Runs a command on poolshim with each allocation and free traced, finds call sites whose blocks have
a pattern that a pool of the pools library serves better than malloc, measures both on the trace,
and lists what pays, best first, on standard error.

  -o, --output FILE    store the trace here, for --read; %p: the process id
  --read FILE          advise on an earlier trace
  --size SIZE          length of the trace's file [64MiB]
  --once               do not run the command again to measure its processor time
  --server CMD         start a server; {port}, {dir}: a free port, a folder
  --load CMD           load the server by this; then stop it
  --ready CMD          wait until CMD succeeds [until the port accepts]
  --top N              measure and list so many call sites [10]
  --json               print JSON on standard output, with all call sites
  -h, --help           print this text

Exit status: the command's; 2 usage or an unreadable file, 126 and 127 as of env. A command that
left no trace, since it cannot be preloaded: its own, or 1.
"""
TOP = 10
TRACE_SIZE = "64MiB"  # without --size
LOOK_S = 0.25  # between two looks at a server's mappings
FLAGS = {"-h": "is_help", "--help": "is_help", "--json": "is_json", "--once": "is_once"}
VALUED = ("-o", "--output", "--read", "--size", "--top", "--server", "--load", "--ready")
OTHER_MODES = ("HARDEN", "GUARD_SAMPLE", "RECORD", "PROFILE")


@dataclass
class Request:
    """The command line."""

    command: list[str] = field(default_factory=list)
    output: Path | None = None
    read: Path | None = None
    server: str = ""
    load: str = ""
    ready: str = ""
    size: str = ""
    top: int = TOP
    is_once: bool = False
    is_json: bool = False
    is_help: bool = False


def set_value(request: Request, name: str, text: str) -> None:
    """One option with a value."""
    if name == "--top":
        if not text.isdigit() or not 0 < int(text) < 10**6:
            raise BadRequest(f"--top: {text} is no number of call sites")
        request.top = int(text)
    elif name in ("-o", "--output"):
        request.output = Path(text)
    elif name == "--read":
        request.read = Path(text)
    else:
        setattr(request, name[2:], text)


def parse(words: list[str]) -> Request:
    """The options, up to the first word that is none."""
    request = Request()
    request.command = option_words.read(words, request, FLAGS, VALUED, set_value)
    check(request)
    return request


def check(request: Request) -> None:
    """What goes together."""
    if request.is_help:
        return
    if request.read is not None and (request.command or request.output or request.size):
        raise BadRequest("--read takes a file: no command, --output or --size")
    if sum((request.read is not None, bool(request.command), bool(request.server))) > 1:
        raise BadRequest("a command, --server or --read: one of them")
    runs.check_serving(request.server, request.load, request.ready)
    if request.read is None and not request.command and not request.server:
        raise BadRequest("which command? poolshim advise -- COMMAND")


def environment_of(request: Request, pattern: str | None) -> dict[str, str]:
    """Ours, with the trace on; other modes exclude it. None: the library alone."""
    found = {
        name: value for name, value in os.environ.items() if not name.startswith(HARNESS_PREFIXES)
    }
    found["LD_PRELOAD"] = preload.with_first(places.find().library, found)
    for name in OTHER_MODES:
        found.pop(f"POOLSHIM_{name}", None)
    if pattern is not None:
        found["POOLSHIM_TRACE"] = pattern
        if request.size:
            found["POOLSHIM_TRACE_MAX"] = request.size
    return found


def check_size(request: Request) -> None:
    """The library's own parser judges it, before anything runs."""
    if request.size:
        words = [str(places.find().run), "--trace-max", request.size, "--", "true"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            message = done.stderr.strip().removeprefix("poolshim run: ")
            raise BadRequest(message.replace("--trace-max", "--size", 1))


def check_room(request: Request, folder: str) -> None:
    """The library takes the trace's bytes on disk at the start of each process."""
    with contextlib.suppress(ValueError):  # the library's parser has accepted it
        wanted = size_of(request.size or TRACE_SIZE)
        state = os.statvfs(folder)
        free = state.f_bavail * state.f_frsize
        if free < wanted:
            raise OwnFailure(f"{Path(folder).parent}: {mib(free)} MiB are free, a trace takes "
                             f"{mib(wanted)}: --size N, or another folder in TMPDIR")  # fmt: skip


def find(trace: Trace, program_ns: float | None, top: int) -> report.Findings:
    """All that the trace says; measured where it can pay, so many sites."""
    found = report.Findings(trace)
    sites = joined(trace, sites_of(trace))
    names = report.names_for(trace, sites)
    for site in sites:
        made = report.made_at(trace, site, names)
        if site.pattern is None:
            found.others.append((site, made))
            continue
        cost = replay.cost_of(trace, site)
        freed = report.freed_at(trace, site, names)
        parts = [(part.facts.weight, report.made_at(trace, part, names)) for part in site.parts]
        found.advice.append(report.Advice(site, cost, None, made, freed, program_ns, parts))
    candidates = [one for one in found.advice if one.can_pay]
    candidates.sort(key=lambda one: -one.most_ns)
    for one in candidates[:top]:
        one.gain = replay.measure(trace, one.site)
    found.advice.sort(key=lambda one: (-one.saved_ns, -one.most_ns))
    if len(candidates) > top:
        found.notes.append(f"of {len(candidates)} call sites with a pattern, the {top} at which "
                           "malloc takes most time were measured: more with --top")  # fmt: skip
    found.notes += names.notes
    if not trace.mappings and sites:
        found.notes.append("call sites have no names: the process did not end by exit")
    if trace.lost_stacks > trace.made_count * 0.01:
        found.notes.append(f"{trace.lost_stacks} calls had no stack, or one that did not fit: "
                           "more fit with --size")  # fmt: skip
    return found


def tell(request: Request, found: report.Findings) -> None:
    """The report."""
    if request.is_json:
        print(json.dumps(report.to_json(found)))
        return
    report.show(found, request.top, sys.stdout if request.read is not None else sys.stderr)


def largest(paths: list[Path]) -> tuple[Path, Trace]:
    """The trace of the process that allocated most."""
    traces = [(path, read(path)) for path in paths]
    return max(traces, key=lambda pair: pair[1].made_count)


def missing(paths: list[Path], program: str) -> str:
    """Why there is nothing to advise on; "" if there is something."""
    more = f"(poolshim doctor --run -- {program} says more)"
    if not paths:
        return f"no trace was written: the command cannot be preloaded {more}"
    if largest(paths)[1].made_count == 0:
        return ("the command made no call of poolshim: it allocates nothing, or another allocator "
                f"serves it {more}")  # fmt: skip
    return ""


def written(folder: Path, program: str, status: int) -> tuple[Path, Trace] | None:
    """The trace to report on; None where there is none, and the command says why by its status."""
    paths = [path for path in sorted(folder.glob("*.trace")) if path.stat().st_size]
    message = missing(paths, program)
    if message:
        if status == 0:
            raise Failed(message)
        print(f"poolshim advise: {message}", file=sys.stderr)
        return None
    path, trace = largest(paths)
    if len(paths) > 1:
        print(f"{len(paths)} processes left a trace; this is process {path.stem}, which "
              "allocated most", file=sys.stderr)  # fmt: skip
    return path, trace


def keep(request: Request, path: Path) -> None:
    """Copies the trace to the requested place."""
    if request.output is not None:
        target = Path(str(request.output).replace("%p", path.stem))
        files.write_whole(target, path.read_bytes())
        print(f"trace: {target}", file=sys.stderr)


def advise_command(request: Request) -> int:
    """Runs the command, reports on the process that allocated most."""
    place = again.place_of_input()
    with tempfile.TemporaryDirectory(prefix="poolshim-") as folder:
        check_room(request, folder)
        pattern = folder.replace("%", "%%") + "/%p.trace"
        started_s = time.monotonic()
        _, status = run(request.command, environment_of(request, pattern))
        took_s = time.monotonic() - started_s
        found = written(Path(folder), request.command[0], status)
        if found is None:
            return status
        path, trace = found
        program_ns, note = None, ""
        if not request.is_once and again.can_run_again():
            untraced = environment_of(request, None)
            repeat = again.Again(request.command, untraced, status, place, took_s)
            program_ns, note = repeat.processor_ns(), repeat.note
        findings = find(trace, program_ns, request.top)
        findings.notes += [note] if note else []
        tell(request, findings)
        keep(request, path)
    return status


def advise_server(request: Request) -> int:
    """Runs a server under its load, reports on its process that allocated most."""
    serving = runs.Serving(request.server, request.load, request.ready, 0.0)
    maps: dict[int, str] = {}

    def read_maps(server: "subprocess.Popen[bytes]") -> float:
        """A server that a signal ends does not write them."""
        for pid in {server.pid, *descendants(server.pid, read_family())}:
            with contextlib.suppress(OSError):
                maps[pid] = Path(f"/proc/{pid}/maps").read_text() or maps.get(pid, "")
        return LOOK_S

    with tempfile.TemporaryDirectory(prefix="poolshim-") as folder:
        check_room(request, folder)
        pattern = folder.replace("%", "%%") + "/%p.trace"
        runs.go_through(serving, environment_of(request, pattern), read_maps)
        found = written(Path(folder), shlex.split(request.server)[0], 0)
        assert found is not None
        path, trace = found
        if not trace.mappings:
            trace.mappings = read_mappings(maps.get(int(path.stem), ""))
        program_ns = None
        if not request.is_once:
            program_ns = runs.sample_server(serving, {}, LOOK_S)[1] * 1e9
        tell(request, find(trace, program_ns, request.top))
        keep(request, path)
    return 0


def main(words: list[str]) -> int:
    """A command, a server, or a file."""
    request = parse(words)
    if request.is_help:
        print(HELP, end="")
        return 0
    if request.read is not None:
        tell(request, find(read(request.read), None, request.top))
        return 0
    if request.output is not None:
        files.check_writable(Path(str(request.output).replace("%p", "0")))
    check_size(request)
    preload.announce("advise", places.find().library, os.environ)
    return advise_server(request) if request.server else advise_command(request)
