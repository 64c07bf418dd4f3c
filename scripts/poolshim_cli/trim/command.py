# SPDX-License-Identifier: MIT
"""`poolshim trim [--timeout SECONDS] [--json] PID`: releases the free memory of a running process.

    scripts/poolshim trim $(pidof redis-server)

Exit status: 0 released, or there was nothing to release; 1 the process is not on poolshim, has
another version, does not answer; 2 usage; 126 not permitted; 127 no such process.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from .. import control
from ..errors import BadRequest
from ..sizes import mib

HELP = """usage: poolshim trim [OPTIONS] PID

Has a running process on poolshim release its free memory to the system, as malloc_trim does from
inside. The process serves the request itself: at one of its calls of malloc or free, or in its
background thread. Nothing is stopped, and no signal sent.

  --timeout SECONDS  wait so long for the answer; the request is withdrawn then [5]
  --json             print one JSON object
  -h, --help         print this text

Exit status: 0 done, 1 the process does not run on poolshim, or does not answer, 2 usage, 126 not
permitted (the right to trace the process is needed), 127 no such process.
"""
TIMEOUT_SECONDS = 5.0


@dataclass
class Request:
    """The command line."""

    pid: int = 0
    seconds: float = TIMEOUT_SECONDS
    is_json: bool = False
    is_help: bool = False


def number(text: str, what: str, kind: type[int] | type[float]) -> float:
    """A positive number of the command line."""
    try:
        value = kind(text)
    except ValueError:
        raise BadRequest(f"{what}: {text} is no number") from None
    if not 0 < value < 2**31:
        raise BadRequest(f"{what}: {text} is out of range")
    return value


def parse(words: list[str]) -> Request:
    """The options, and one process."""
    request, rest = Request(), list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            request.is_help = True
        elif word == "--json":
            request.is_json = True
        elif name == "--timeout":
            if not equals and not rest:
                raise BadRequest("--timeout: how many seconds?")
            request.seconds = number(value if equals else rest.pop(0), "--timeout", float)
        elif word.startswith("-"):
            raise BadRequest(f"no option {word}")
        elif request.pid != 0:
            raise BadRequest("one process at a time")
        else:
            request.pid = int(number(word, "PID", int))
    if request.pid == 0 and not request.is_help:
        raise BadRequest("which process? poolshim trim PID")
    return request


def main(words: list[str]) -> int:
    """One process."""
    request = parse(words)
    if request.is_help:
        print(HELP, end="")
        return 0
    process = control.Process(request.pid)
    before = process.resident_bytes()
    answer = process.ask(control.TRIM, request.seconds)
    after = process.resident_bytes()
    if request.is_json:
        found = {"pid": request.pid, "before_bytes": before, "after_bytes": after,
                 "released_bytes": answer.result_bytes, "asleep": answer.is_asleep}  # fmt: skip
        print(json.dumps(found))
    elif answer.is_asleep:
        print(f"{mib(after)} MiB resident: the process is idle and has released what was free")
    else:
        print(f"{mib(before)} MiB resident before, {mib(after)} MiB after: "
              f"{mib(answer.result_bytes)} MiB released")  # fmt: skip
    return 0
