# SPDX-License-Identifier: MIT
"""The command line of `poolshim profile`.

    request = arguments.parse(["--read", "heap.pb.gz"])
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .. import option_words
from ..errors import BadRequest
from ..folds import Folds
from ..live import targets
from ..live.options import number
from ..sizes import size_of

HELP = """usage: poolshim profile [OPTIONS] [--] COMMAND [ARGUMENT...]
       poolshim profile [OPTIONS] --pid PID
       poolshim profile [OPTIONS] --container ID
       poolshim profile [OPTIONS] --read FILE
       poolshim profile [OPTIONS] --diff BEFORE AFTER
       poolshim profile [OPTIONS] --leaks FILE FILE...

Runs a command on poolshim, samples its allocations (POOLSHIM_PROFILE) and lists the call sites that
hold the memory, on standard error. With --pid those of a process that runs on poolshim, whose
allocations are sampled from now on and for so many seconds: nothing need be set beforehand, and it
is not stopped. Ctrl-C ends that early. What it allocated before is not known.

  -o, --output FILE    store the profile here, for go tool pprof; %p: the process id
  --pid PID            sample a process that runs; its list goes to standard output. Instead of
                       PID also the name of its program
  --container ID       sample the process of a container, by the beginning of its id
  --seconds N          for so long [30]
  --read FILE          list what an earlier profile says
  --diff               list by how much each call site has grown or shrunk between two profiles
  --leaks              list call sites that grew from each profile of a process to its next and
                       freed nothing
  --flame FILE         also draw a flame graph, as one HTML file
  --names              let node name its functions; 18, 20, 22 and 24 have lines without it
  --fold PATTERN       name call sites by what calls functions such as 'pool_*' or 'mylib::*' too;
                       again for more; @FILE: a pattern a line
  --no-fold            name call sites by their innermost functions, std::allocator and all
  --interval SIZE      mean bytes between two samples [512KiB]
  --alloc              all allocations since the start, not only live blocks at the end
  --top N              list so many call sites [20]
  --json               print JSON on standard output, with all call sites
  -h, --help           print this text

Exit status: the command's; 2 usage or an unreadable file, 126 and 127 as of env. A command that
wrote no profile, since it ended by a signal or _exit, or cannot be preloaded: its own, or 1. Of
--pid: 0 done; 1 the process does not run on poolshim, or on another version, has ended, or
calls malloc too rarely; 126 not permitted (the right to trace it is needed), 127 no such process.
"""
TOP = 20
SECONDS = 30.0
INTERVAL_MOST = 1 << 40  # bytes
FLAGS = {"-h": "is_help", "--help": "is_help", "--json": "is_json", "--alloc": "is_alloc",
         "--diff": "is_diff", "--leaks": "is_leaks", "--names": "is_named",
         "--no-fold": "is_unfolded"}  # fmt: skip
VALUED = ("-o", "--output", "--pid", "--container", "--seconds", "--read", "--interval", "--top",
          "--flame", "--fold")  # fmt: skip


@dataclass
class Request:
    """The command line."""

    command: list[str] = field(default_factory=list)
    output: Path | None = None
    pid: int = 0
    seconds: float | None = None
    read: Path | None = None
    interval: str = ""
    top: int = TOP
    flame: Path | None = None
    folded: list[str] = field(default_factory=list)
    folds: Folds = field(default_factory=Folds)
    is_unfolded: bool = False
    is_diff: bool = False
    is_leaks: bool = False
    is_named: bool = False
    is_alloc: bool = False
    is_json: bool = False
    is_help: bool = False


def set_value(request: Request, name: str, value: str) -> None:
    """An option with a value."""
    if name in ("--pid", "--container"):
        if request.pid:
            raise BadRequest("one process at a time")
        request.pid = targets.pid_of(value, name) if name == "--pid" else targets.pid_in(value)
    elif name == "--seconds":
        request.seconds = number(value, name, float)
    elif name == "--interval":
        request.interval = value
    elif name == "--top":
        request.top = count_of(value)
    elif name in ("-o", "--output"):
        request.output = Path(value)
    elif name == "--fold":
        request.folded.append(value)
    else:
        setattr(request, name[2:], Path(value))


def parse(words: list[str]) -> Request:
    """The options, up to the first word that is none."""
    return option_words.read_with_folds(words, Request(), FLAGS, VALUED, set_value, check)


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
    if request.pid:
        check_process(request)
        return
    if request.seconds is not None:
        raise BadRequest("--seconds goes with --pid")
    if request.read is not None and (request.command or request.output or request.interval):
        raise BadRequest("--read lists a file: no command, --output or --interval")
    if request.read is None and not request.command:
        raise BadRequest("which command? poolshim profile -- COMMAND")


def check_process(request: Request) -> None:
    """Checks the options beside --pid."""
    if request.command or request.read or request.is_named:
        raise BadRequest("--pid samples a process that runs: no command, --read or --names")
    interval_of(request)


def interval_of(request: Request) -> int:
    """The interval in bytes; 0: the process's own."""
    try:
        found = size_of(request.interval) if request.interval else 0
        if request.interval and not 1 <= found <= INTERVAL_MOST:
            raise ValueError("is out of range")
    except ValueError as error:
        raise BadRequest(f"--interval: {request.interval} {error}") from None
    return found


def check_files(request: Request) -> None:
    """Checks the options beside --diff and --leaks, whose words are files."""
    name = "--diff" if request.is_diff else "--leaks"
    others = (request.read, request.pid, request.output, request.interval, request.seconds)
    if (request.is_diff and request.is_leaks) or any(others):
        raise BadRequest(f"{name} reads profiles: no command, and no option about one")
    if request.is_diff and len(request.command) != 2:
        raise BadRequest("--diff needs two profiles: poolshim profile --diff BEFORE AFTER")
    if request.is_leaks and len(request.command) < 2:
        raise BadRequest("--leaks needs two profiles or more: poolshim profile --leaks FILE FILE")
    if request.is_leaks and (request.flame or request.is_alloc):
        raise BadRequest("--leaks lists what is live: no --alloc, no --flame")
