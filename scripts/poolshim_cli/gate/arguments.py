# SPDX-License-Identifier: MIT
"""The command line of `poolshim gate`.

    request = arguments.parse(["--rounds", "20", "--", "./test-loop"])
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .. import files, option_words
from ..errors import BadRequest
from ..explain.command import SIZE as INTERVAL_SIZE
from ..explain.command import count_of, seconds_of
from ..explain.runs import check_serving
from ..folds import Folds
from ..sizes import size_of

HELP = """usage: poolshim gate [OPTIONS] --server CMD --load CMD
       poolshim gate [OPTIONS] [--] COMMAND [ARGUMENT...]

Runs a server under its load in rounds, or a command that loops, and fails where live memory grows
from round to round, with the call site. Blocks are counted from outside; the program is not
changed. Growth is confirmed by as many rounds again before it fails.

  --server CMD         start a server; {port}, {dir}: a free port, a folder
  --load CMD           a round: load the server by this; {round}: its number, from 1
  --ready CMD          wait until CMD succeeds [until the port accepts]
  --rest TIME          wait after a round, at most, until live memory is constant [1s]
  --rounds N           rounds that are compared, and as many again to confirm growth [10];
                       of a command: pieces of its time
  --warmup N           rounds before these, with --load [2]
  --requests N         requests of a load: also print the growth per request
  --allow SIZE         growth that is tolerated: per round [4KiB], of a command per minute [1MiB]
  --every TIME         of a command: pause between two looks at its memory [20ms]
  --interval SIZE      mean bytes between two samples of allocations [16KiB]
  --seed N             sample the same allocations in each run of a program with one thread
  --fold PATTERN       name call sites by what calls functions such as 'pool_*' or 'mylib::*' too;
                       again for more; @FILE: a pattern a line
  --no-fold            name call sites by their innermost functions, std::allocator and all
  --top N              list so many call sites [5]
  --junit FILE         write the result as JUnit XML
  --json               print JSON on standard output
  -h, --help           print this text

Exit status: 0 live memory does not grow; 1 it grows, or the command, server or load failed;
2 usage; 125 it could not be told, or own failure; 126 not permitted; 127 not found.
"""
ROUNDS, ROUNDS_LEAST, WARMUP, TOP = 10, 5, 2, 5
ALLOW_ROUND, ALLOW_MINUTE = 4 << 10, 1 << 20
FLAGS = {"-h": "is_help", "--help": "is_help", "--json": "is_json", "--no-fold": "is_unfolded"}
TEXTS = ("--server", "--load", "--ready")
TIMES = {"--rest": "rest_s", "--every": "every_s"}
NUMBERS = {"--rounds": ROUNDS_LEAST, "--warmup": 0, "--requests": 1, "--seed": 1, "--top": 1}
SERVER_ONLY = {"--warmup": "warmup", "--requests": "requests", "--rest": "rest_s"}
VALUED = (*TEXTS, *TIMES, *NUMBERS, "--allow", "--interval", "--fold", "--junit")


@dataclass
class Request:
    """The command line."""

    command: list[str] = field(default_factory=list)
    server: str = ""
    load: str = ""
    ready: str = ""
    rest_s: float = 1.0
    every_s: float = 0.02
    rounds: int = ROUNDS
    warmup: int = WARMUP
    requests: int = 0
    seed: int = 0
    top: int = TOP
    allowed: int | None = None
    interval: str = "16KiB"
    junit: Path | None = None
    folded: list[str] = field(default_factory=list)
    folds: Folds = field(default_factory=Folds)
    given: set[str] = field(default_factory=set)
    is_unfolded: bool = False
    is_json: bool = False
    is_help: bool = False

    @property
    def allow(self) -> int:
        """Bytes per round, or per minute."""
        if self.allowed is not None:
            return self.allowed
        return ALLOW_ROUND if self.server else ALLOW_MINUTE


def set_value(request: Request, name: str, value: str) -> None:
    """An option with a value."""
    request.given.add(name)
    if name in TEXTS:
        setattr(request, name[2:], value)
    elif name in TIMES:
        setattr(request, TIMES[name], seconds_of(name, value))
    elif name in NUMBERS:
        setattr(request, name[2:], count_of(name, value, NUMBERS[name]))
    elif name == "--allow":
        request.allowed = bytes_of(name, value)
    elif name == "--interval":
        if not INTERVAL_SIZE.fullmatch(value):
            raise BadRequest(f"{name}: {value} is no size such as 65536, 64K or 64KiB")
        request.interval = value
    elif name == "--fold":
        request.folded.append(value)
    else:
        request.junit = Path(value)


def bytes_of(name: str, text: str) -> int:
    """A size."""
    try:
        return size_of(text)
    except ValueError as error:
        raise BadRequest(f"{name}: {text} {error}") from None


def parse(words: list[str]) -> Request:
    """The options, up to the first word that is none."""
    return option_words.read_with_folds(words, Request(), FLAGS, VALUED, set_value, check)


def check(request: Request) -> None:
    """What goes together."""
    if request.is_help:
        return
    check_serving(request.server, request.load, request.ready)
    if request.command and request.server:
        raise BadRequest("a command, or --server and --load: one of them")
    if not request.command and not request.server:
        raise BadRequest("which command? poolshim gate -- COMMAND")
    wrong = request.given & ({"--every"} if request.server else set(SERVER_ONLY))
    if wrong:
        what = "is of a command" if request.server else "goes with --server and --load"
        raise BadRequest(f"{min(wrong)} {what}")
    if request.junit is not None:
        files.check_writable(request.junit)
