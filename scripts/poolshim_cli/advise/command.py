# SPDX-License-Identifier: MIT
"""`poolshim advise [OPTIONS] [--] COMMAND`: which call site should use which pool.

    scripts/poolshim advise -- jq . big.json
    scripts/poolshim advise --json --read program.trace

The report goes to standard error, because standard output is the command's. Exit status: that of
the command; of --read 0.
"""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from .. import files, places
from ..errors import BadRequest, Failed
from ..machine import HARNESS_PREFIXES
from ..profile.command import run
from . import replay, report
from .patterns import sites_of
from .together import joined
from .trace import Trace, read

HELP = """usage: poolshim advise [OPTIONS] [--] COMMAND [ARGUMENT...]
       poolshim advise [OPTIONS] --read FILE

Runs a command on poolshim with each allocation and free traced, finds call sites whose blocks have
a pattern that a pool of the pools library serves better than malloc, measures both on the trace,
and lists what pays, best first, on standard error.

  -o, --output FILE    keep the trace here, for --read; %p: the process id
  --read FILE          advise on an earlier trace
  --size SIZE          length of the trace's file [64MiB]
  --once               do not run the command again to measure its processor time
  --top N              list so many call sites [10]
  --json               print JSON on standard output, with all call sites
  -h, --help           print this text

Exit status: the command's; 2 usage or an unreadable file, 126 and 127 as of env. A command that
left no trace, since it cannot be preloaded: its own, or 1.
"""
TOP = 10
RUNS_MOST = 5  # without a trace
RUNS_NS = 1e9  # of processor time, after which there is no other
OTHER_MODES = ("HARDEN", "GUARD_SAMPLE", "RECORD", "PROFILE")


@dataclass
class Request:
    """The command line."""

    command: list[str] = field(default_factory=list)
    output: Path | None = None
    read: Path | None = None
    size: str = ""
    top: int = TOP
    is_once: bool = False
    is_json: bool = False
    is_help: bool = False


def parse(words: list[str]) -> Request:
    """The options, up to the first word that is none."""
    request, rest = Request(), list(words)
    switches = {"-h": "is_help", "--help": "is_help", "--json": "is_json", "--once": "is_once"}
    values = {"-o": "output", "--output": "output", "--read": "read", "--size": "size",
              "--top": "top"}  # fmt: skip
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            break
        if word in switches:
            setattr(request, switches[word], True)
        elif name in values:
            if not equals and not rest:
                raise BadRequest(f"{name} needs a value")
            set_value(request, values[name], value if equals else rest.pop(0))
        else:
            raise BadRequest(f"no option {word}; the command's own come behind --")
    request.command = rest
    check(request)
    return request


def set_value(request: Request, name: str, text: str) -> None:
    """One option with a value."""
    if name == "top":
        if not text.isdigit() or not 0 < int(text) < 10**6:
            raise BadRequest(f"--top: {text} is no number of call sites")
        request.top = int(text)
    elif name == "size":
        request.size = text
    else:
        setattr(request, name, Path(text))


def check(request: Request) -> None:
    """What goes together."""
    if request.is_help:
        return
    if request.read is not None and (request.command or request.output or request.size):
        raise BadRequest("--read takes a file: no command, --output or --size")
    if request.read is None and not request.command:
        raise BadRequest("which command? poolshim advise -- COMMAND")


def environment_of(request: Request, pattern: str | None) -> dict[str, str]:
    """Ours, with the trace on; other modes exclude it. None: the library alone."""
    found = {
        name: value for name, value in os.environ.items() if not name.startswith(HARNESS_PREFIXES)
    }
    found["LD_PRELOAD"] = places.preload_with(places.find().library, found)
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


def can_run_again() -> bool:
    """Whether standard input would be the same: a pipe's is used up."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return True
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not sys.stdin.isatty())


def run_untraced(request: Request, status: int, place: int | None) -> float | None:
    """Processor time of the command without a trace; None where it ends otherwise than before."""
    if place is not None:
        os.lseek(sys.stdin.fileno(), place, os.SEEK_SET)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        request.command, env=environment_of(request, None), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = done.returncode if done.returncode >= 0 else 128 - done.returncode
    if ended != status:
        return None
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent * 1e9


def processor_ns(request: Request, status: int, place: int | None) -> float | None:
    """The same, of a short command the median of several runs."""
    found: list[float] = []
    while len(found) < RUNS_MOST and sum(found) < RUNS_NS:
        spent = run_untraced(request, status, place)
        if spent is None:
            return None
        found.append(spent)
    return median(found)


def place_of_input() -> int | None:
    """Where standard input is read next; None where it has no place."""
    try:
        return os.lseek(sys.stdin.fileno(), 0, os.SEEK_CUR)
    except (OSError, ValueError, AttributeError):
        return None


def find(trace: Trace, program_ns: float | None) -> report.Findings:
    """All that the trace says, measured."""
    found = report.Findings(trace)
    sites = joined(trace, sites_of(trace))
    names = report.names_for(trace, sites)
    for site in sites:
        made = report.made_at(trace, site, names)
        if site.pattern is None:
            found.others.append((site, made))
            continue
        gain = replay.measure(trace, site)
        freed = report.freed_at(trace, site, names)
        parts = [(part.facts.weight, report.made_at(trace, part, names)) for part in site.parts]
        found.advice.append(report.Advice(site, gain, made, freed, program_ns, parts))
    found.advice.sort(key=lambda one: -one.saved_ns)
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


def advise_command(request: Request) -> int:
    """Runs the command, reports on the process that allocated most."""
    if request.output is not None:
        files.check_writable(Path(str(request.output).replace("%p", "0")))
    check_size(request)
    place = place_of_input()
    with tempfile.TemporaryDirectory(prefix="poolshim-") as folder:
        pattern = folder.replace("%", "%%") + "/%p.trace"
        _, status = run(request.command, environment_of(request, pattern))
        paths = [path for path in sorted(Path(folder).glob("*.trace")) if path.stat().st_size]
        if not paths:
            message = (
                "no trace was written: the command cannot be preloaded "
                f"(poolshim doctor -- {request.command[0]} says more)"
            )
            if status == 0:
                raise Failed(message)
            print(f"poolshim advise: {message}", file=sys.stderr)
            return status
        path, trace = largest(paths)
        program_ns = None
        if not request.is_once and can_run_again():
            program_ns = processor_ns(request, status, place)
        if len(paths) > 1:
            print(f"{len(paths)} processes left a trace; this is process {path.stem}, which "
                  "allocated most", file=sys.stderr)  # fmt: skip
        tell(request, find(trace, program_ns))
        if request.output is not None:
            target = Path(str(request.output).replace("%p", path.stem))
            files.write_whole(target, path.read_bytes())
            print(f"trace: {target}", file=sys.stderr)
    return status


def main(words: list[str]) -> int:
    """A command, or a file."""
    request = parse(words)
    if request.is_help:
        print(HELP, end="")
        return 0
    if request.read is not None:
        tell(request, find(read(request.read), None))
        return 0
    return advise_command(request)
