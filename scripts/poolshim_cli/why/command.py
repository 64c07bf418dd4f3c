# SPDX-License-Identifier: MIT
"""`poolshim why [OPTIONS] PID|NAME|CONTAINER|FILE.pb`: why the memory of a process is resident,
whatever allocator it has, and what to do next.

    scripts/poolshim why $(pidof redis-server)
    scripts/poolshim why --seconds 60 3f2a9c41d07e
    scripts/poolshim why /var/log/flight/poolshim-20261129T165700-1.pb

Exit status: 0 there is a report; 1 the process ended before it was read, or is the kernel's own; 2
usage, a file that is no flight record, or several processes of the name; 126 not permitted; 127 no
such process or container.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from .. import terminal
from ..errors import BadRequest
from ..live import options
from ..live.core import Core
from ..live.targets import Target, target_of
from . import core as core_report
from . import flight, report
from .verdict import judge, outlook
from .watching import Watch

HELP = """usage: poolshim why [OPTIONS] PID|NAME|CONTAINER
       poolshim why [OPTIONS] --container ID
       poolshim why --core FILE
       poolshim why FILE.pb

Says why the memory of a process or a container is resident: its parts, whether it grows, when the
limit is reached, and one next step. The process may run on any allocator, and need not be prepared:
it is read from outside, not stopped, and gets no signal. FILE.pb is a flight record
(POOLSHIM_FLIGHT): why the memory of a process that has ended was resident.

  --container ID     a container, by the beginning of its id, or a pod, by its uid
  --seconds SECONDS  watch for so long; Ctrl-C ends it early, with the report until then [10]
  --watch            report again and again, each time with the growth since the beginning
  --core FILE        of a core file: the blocks that had the memory at the end
  --top N            with --core and FILE.pb: list so many call sites and sizes [10]
  --json             print JSON; with --watch an object per line
  -q, --quiet        print only the verdict, the outlook and the next step
  -h, --help         print this text

Exit status: 0 done, 1 the process ended before it was read, or is a thread of the kernel, 2 usage,
a file that is no flight record, or several processes have the name, 126 not permitted (the right to
trace the process is needed), 127 no such process or container.
"""
USAGE = "poolshim why PID|NAME|CONTAINER"
SECONDS = 10.0
AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.M)


def available() -> int:
    """Bytes that the machine can still give out."""
    try:
        found = AVAILABLE.search(Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    return int(found[1]) * 1024 if found else 0


def show(watch: Watch, switches: set[str], is_line: bool) -> None:
    """One report on standard output."""
    verdict = judge(watch)
    later = outlook(watch, available())
    width = shutil.get_terminal_size((report.COLUMNS_MOST, 24)).columns
    if "--json" in switches:
        print(json.dumps(report.to_json(watch, verdict, later), indent=None if is_line else 1))
    elif switches & {"-q", "--quiet"}:
        print("\n".join(report.closing(watch, verdict, later, min(width, report.COLUMNS_MOST))))
    else:
        print(report.text(watch, verdict, later, width))
    sys.stdout.flush()


def watch_on(watch: Watch, seconds: float, switches: set[str]) -> None:
    """Reports until Ctrl-C or the end of the process."""
    count = 0
    while not watch.has_ended and not watch.was_interrupted:
        watch.run(seconds)
        if count and not switches & {"--json", "-q", "--quiet"}:
            print()
        show(watch, switches, is_line=True)
        count += 1


def announce(target: Target, seconds: float, switches: set[str]) -> None:
    """A line on a terminal, where nothing else appears for seconds."""
    if sys.stderr.isatty() and not switches & {"-q", "--quiet"}:
        what = "the container" if target.is_container else f"process {target.pid}"
        text = f"watching {what} for {seconds:g} s; Ctrl-C ends it early"
        print(terminal.folded(text, sys.stderr), file=sys.stderr)


def show_core(request: options.Words) -> int:
    """A core file."""
    others = {"--seconds", options.CONTAINER} & set(request.values)
    if request.rest or others or "--watch" in request.switches:
        raise BadRequest("--core takes no process and no time")
    top = int(options.number(request.values.get("--top", "10"), "--top"))
    with Core(Path(request.values["--core"])) as core:
        found = core_report.Report(core)
        if "--json" in request.switches:
            print(json.dumps(found.to_json(top), indent=1))
        else:
            width = shutil.get_terminal_size((report.COLUMNS_MOST, 24)).columns
            print(found.text(top, max(report.COLUMNS_LEAST, min(width, report.COLUMNS_MOST))))
    return 0


def show_record(request: options.Words, path: Path) -> None:
    """A flight record."""
    if {"--seconds", options.CONTAINER} & set(request.values) or "--watch" in request.switches:
        raise BadRequest(f"{path} is a flight record: no --seconds, --watch or --container")
    if len(request.rest) > 1:
        raise BadRequest("one flight record at a time")
    top = int(options.number(request.values.get("--top", "10"), "--top"))
    found = flight.Report(path)
    columns = shutil.get_terminal_size((report.COLUMNS_MOST, 24)).columns
    width = max(report.COLUMNS_LEAST, min(columns, report.COLUMNS_MOST))
    if "--json" in request.switches:
        print(json.dumps(found.to_json(), indent=1))
    elif request.switches & {"-q", "--quiet"}:
        print("\n".join(found.closing(width)))
    else:
        print(found.text(top, width))


def main(words: list[str]) -> int:
    """One process, or one container."""
    request = options.parse(words, {"--json", "--watch", "-q", "--quiet"},
                            {"--seconds", "--core", "--top", options.CONTAINER})  # fmt: skip
    if request.is_help:
        print(HELP, end="")
        return 0
    if "--core" in request.values:
        return show_core(request)
    if request.rest and flight.is_record(request.rest[0]):
        show_record(request, Path(request.rest[0]))
        return 0
    named = options.one_of(request, USAGE, "process or container")
    text = request.values.get("--seconds")
    seconds = options.number(text, "--seconds", float) if text else SECONDS
    target = target_of(*named)
    announce(target, seconds, request.switches)
    watch = Watch(target)
    if "--watch" in request.switches:
        watch_on(watch, seconds, request.switches)
    else:
        watch.run(seconds)
        show(watch, request.switches, is_line=False)
    return 0
