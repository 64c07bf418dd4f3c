# SPDX-License-Identifier: MIT
"""`poolshim explain [OPTIONS] [--] COMMAND`: where the resident memory of a command is, and why.

    scripts/poolshim explain -- python3 app.py
    scripts/poolshim explain --html report.html --server 'redis-server --port {port}' \\
        --load 'redis-benchmark -p {port} -q'
    scripts/poolshim explain --pid 1234 --seconds 30

The report goes to standard error, because standard output is the command's. Exit status: that of
the command; of --pid and --server 0. --json prints a document whenever something was watched.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import files, option_words, places, preload, terminal
from ..errors import BadRequest, Failed
from ..folds import Folds
from ..live import targets
from ..live.options import seconds_of
from ..sizes import size_of
from . import html, report, runs
from .growth import can_be_judged
from .history import History
from .verdict import Verdict, judge, mib, too_short, unknown
from .verify import Gain, verify_command, verify_server
from .watch import PAUSE_S, Watch

HELP = """usage: poolshim explain [OPTIONS] [--] COMMAND [ARGUMENT...]
       poolshim explain [OPTIONS] --server CMD --load CMD
       poolshim explain [OPTIONS] --pid PID
       poolshim explain [OPTIONS] --container ID

Runs a command on poolshim with a heap profile, accounts for its resident memory over time, and says
in one verdict why it is resident and what to do about it, on standard error.

  --html FILE          write a report with pictures, one file without references to others
  --json               print JSON on standard output
  --top N              list so many call sites [10]
  --fold PATTERN       name call sites by what calls functions such as 'pool_*' or 'mylib::*' too;
                       again for more; @FILE: a pattern a line
  --no-fold            name call sites by their innermost functions, std::allocator and all
  --interval SIZE      mean bytes between two samples of the profile [128KiB]
  --every TIME         pause between two looks at the memory [100ms]
  --verify             where the verdict names a setting: run the command with and without it in
                       turns, and say what it gained
  --rounds N           of --verify [8]
  --server CMD         start a server; {port}, {dir}: a free port, a folder
  --load CMD           load the server by this; then stop it
  --ready CMD          wait until CMD succeeds [until the port accepts]
  --rest TIME          wait after the load, before the server is stopped [3s]
  --pid PID            watch a process that runs, for growth, and sample its allocations:
                       nothing need be set beforehand. Instead of PID also the name of its program
  --container ID       watch the process of a container, by the beginning of its id
  --seconds TIME       for so long; Ctrl-C ends it early [10s]
  -h, --help           print this text

Exit status: the command's, also where it ends too soon for a verdict; 2 usage; 125 to 127 as of
env. Of --pid: 0; 1 if it does not run on poolshim, or ended before it was read; 126 not permitted;
127 no such process.
"""
TOP = 10
INTERVAL = "128KiB"
ROUNDS = 8
SIZE = re.compile(r"[1-9][0-9]*([KMG](iB)?)?")


@dataclass
class Request:
    """The command line."""

    command: list[str] = field(default_factory=list)
    html: Path | None = None
    interval: str = INTERVAL
    every_s: float = PAUSE_S
    top: int = TOP
    rounds: int = ROUNDS
    server: str = ""
    load: str = ""
    ready: str = ""
    rest_s: float = 3.0
    pid: int = 0
    seconds: float = 10.0
    folded: list[str] = field(default_factory=list)
    folds: Folds = field(default_factory=Folds)
    is_unfolded: bool = False
    is_verify: bool = False
    is_json: bool = False
    is_help: bool = False


def count_of(name: str, text: str, least: int = 1) -> int:
    """A number."""
    if not text.isdigit() or not least <= int(text) < 10**9:
        raise BadRequest(f"{name}: {text} is no number from {least} on")
    return int(text)


def set_value(request: Request, name: str, value: str) -> None:
    """An option with a value."""
    if name == "--html":
        request.html = Path(value)
    elif name == "--interval":
        if not SIZE.fullmatch(value):
            raise BadRequest(f"{name}: {value} is no size such as 65536, 64K or 64KiB")
        request.interval = value
    elif name in ("--server", "--load", "--ready"):
        setattr(request, name[2:], value)
    elif name == "--fold":
        request.folded.append(value)
    elif name == "--every":
        request.every_s = seconds_of(name, value)
    elif name == "--rest":
        request.rest_s = seconds_of(name, value)
    elif name == "--seconds":
        request.seconds = seconds_of(name, value)
    elif name == "--top":
        request.top = count_of(name, value)
    elif name == "--rounds":
        request.rounds = count_of(name, value, 5)
    else:
        if request.pid:
            raise BadRequest("one process at a time")
        request.pid = targets.pid_of(value, name) if name == "--pid" else targets.pid_in(value)


VALUED = ("--html", "--interval", "--every", "--top", "--rounds", "--server", "--load", "--ready",
          "--rest", "--pid", "--container", "--seconds", "--fold")  # fmt: skip
FLAGS = {"-h": "is_help", "--help": "is_help", "--json": "is_json", "--verify": "is_verify",
         "--no-fold": "is_unfolded"}


def parse(words: list[str]) -> Request:
    """The options, up to the first word that is none."""
    return option_words.read_with_folds(words, Request(), FLAGS, VALUED, set_value, check)


def check(request: Request) -> None:
    """What goes together."""
    if request.is_help:
        return
    subjects = [bool(request.command), bool(request.server), request.pid != 0]
    if sum(subjects) > 1:
        raise BadRequest("a command, --server or --pid: one of them")
    if not any(subjects):
        raise BadRequest("which command? poolshim explain -- COMMAND")
    runs.check_serving(request.server, request.load, request.ready)
    if request.is_verify and request.pid:
        raise BadRequest("--verify runs a command again: not with --pid")
    if request.html is not None:
        files.check_writable(request.html)


def observe(request: Request) -> tuple[Watch, int]:
    """The requested watch, and the command's exit status."""
    if request.pid:
        if sys.stderr.isatty():
            text = f"watching for {request.seconds:g} s; Ctrl-C ends it early"
            print(terminal.folded(text, sys.stderr), file=sys.stderr)
        return runs.watch_process(
            request.pid, request.seconds, request.every_s, size_of(request.interval)
        ), 0
    preload.announce("explain", places.find().library, os.environ)
    if request.server:
        serving = runs.Serving(request.server, request.load, request.ready, request.rest_s)
        return runs.watch_server(serving, request.interval, request.every_s), 0
    return runs.watch_command(request.command, request.interval, request.every_s)


def notes_of(history: History) -> list[str]:
    """The gaps in the figures."""
    notes, account, watch = list(history.watch.notes), history.account, history.watch
    book = watch.books.get(history.pid)
    refusal = book.demand.refusal if book is not None and book.demand is not None else ""
    if account.is_recent:
        notes.append("call sites are those of blocks that were allocated meanwhile; of older ones "
                     "nothing is known (POOLSHIM_PROFILE from the start knows all)")  # fmt: skip
    elif account.has_calls and not account.interval:
        notes.append("no call sites: " + (refusal or "the process calls malloc too rarely to be "
                     "sampled, or for too short a time"))  # fmt: skip
    if watch.is_attached and not can_be_judged(history):
        notes.append("too few looks to tell whether it grows: watch for longer (--seconds)")
    if watch.has_ended:
        notes.append("the process ended meanwhile")
    return notes


def to_json(
    history: History, verdict: Verdict, gain: Gain | None, notes: list[str]
) -> dict[str, Any]:
    """All of it."""
    account = history.account
    return {
        "program": history.name, "pid": history.pid, "at_s": round(history.moment.at_s, 3),
        "resident_bytes": account.rss, "accounted_bytes": round(account.accounted),
        "peak_bytes": history.peak, "copied_bytes": history.moment.copied,
        "parts": {name: round(amount) for name, amount in account.parts.items()},
        "sites": [
            {"name": one.name, "callers": list(one.callers), "live_bytes": round(one.site.live),
             "pinned_bytes": round(one.site.pinned), "rounding_bytes": round(one.site.rounding),
             "blocks": round(one.site.blocks), "made_bytes": one.site.made}
            for one in history.courses
        ],
        "samples": [
            {"at_s": round(moment.at_s, 3),
             "resident_bytes": moment.accounts[history.pid].rss,
             "parts": {name: round(amount) for name, amount in
                       moment.accounts[history.pid].parts.items()}}
            for moment in history.watch.moments if history.pid in moment.accounts
        ],
        "verdict": verdict.to_json(), "verified": None if gain is None else gain.to_json(),
        "notes": notes,
    }  # fmt: skip


def empty_json(watch: Watch, name: str, verdict: Verdict) -> dict[str, Any]:
    """The same of a process whose memory was not read."""
    return {
        "program": name, "pid": watch.root or None, "at_s": None, "resident_bytes": None,
        "accounted_bytes": None, "peak_bytes": watch.kernel_peak or None, "copied_bytes": 0,
        "parts": {}, "sites": [], "samples": [], "verdict": verdict.to_json(), "verified": None,
        "notes": watch.notes,
    }  # fmt: skip


def reason_of(watch: Watch) -> str:
    """Why there is no sample."""
    has_ended = not watch.refusal or not watch.root or not Path(f"/proc/{watch.root}").exists()
    return "it ended before its memory was read" if has_ended else watch.refusal


def tell_nothing(request: Request, watch: Watch, status: int) -> int:
    """Reports that the memory was never read; a failed start has been reported already."""
    if watch.is_command and not watch.kernel_peak:
        return status
    reason = reason_of(watch)
    if watch.kernel_peak:
        reason += f"; at the peak {mib(watch.kernel_peak)} were resident"
    verdict = unknown(f"nothing to explain: {reason}", "")
    if watch.is_command:
        verdict = too_short(reason)
    if request.is_json:
        name = Path(request.command[0]).name if request.command else f"process {watch.root}"
        print(json.dumps(empty_json(watch, name, verdict)))
    print(f"poolshim explain: {verdict.text}", file=sys.stderr)
    return status if watch.is_command else Failed.status


def main(words: list[str]) -> int:
    """A command, a server, or a process."""
    request = parse(words)
    if request.is_help:
        print(HELP, end="")
        return 0
    watch, status = observe(request)
    if not watch.moments:
        return tell_nothing(request, watch, status)
    watch.folds = request.folds
    history = History(watch)
    verdict = judge(history)
    notes = notes_of(history)
    if request.pid and verdict.cause == "unknown":
        status = Failed.status
    if not request.is_json:
        report.write(history, verdict, request.top, sys.stderr, notes)
    gain = try_setting(request, verdict) if request.is_verify else None
    if gain is not None:
        width = terminal.width_of(sys.stderr)
        print("\n".join(report.wrapped("verified", gain.text(), width)), file=sys.stderr)
        notes.append(f"verified: {gain.text()}")
    if request.html is not None:
        files.write_whole(request.html, html.to_html(history, verdict, notes).encode())
    if request.is_json:
        print(json.dumps(to_json(history, verdict, gain, notes)))
    return status


def try_setting(request: Request, verdict: Verdict) -> Gain | None:
    """What the verdict's setting gains, if it names one."""
    if not verdict.settings:
        print("verified: nothing: no setting changes this", file=sys.stderr)
        return None
    if request.server:
        serving = runs.Serving(request.server, request.load, request.ready, request.rest_s)
        return verify_server(serving, verdict.settings, verdict.figure, request.rounds)
    return verify_command(request.command, verdict.settings, verdict.figure, request.rounds)
