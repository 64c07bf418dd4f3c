# SPDX-License-Identifier: MIT
"""`poolshim gate [OPTIONS] --server CMD --load CMD`, `poolshim gate [OPTIONS] [--] COMMAND`.

    scripts/poolshim gate --server './server {port}' --load 'wrk -d 2s http://127.0.0.1:{port}/'
    scripts/poolshim gate -- ./test-loop

Fails where live memory grows from round to round. The report goes to standard error, because
standard output is the command's.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from types import FrameType

from .. import files, places, preload, terminal
from ..errors import GIVING_UP, Failed
from . import report
from .arguments import HELP, Request, parse
from .outcome import Outcome
from .rounds import gate_server
from .trend import gate_command


def write_junit(request: Request, text: str, seconds: float, kind: str) -> None:
    """The file of --junit."""
    if request.junit is not None:
        name = request.server or " ".join(request.command)
        files.write_whole(request.junit, report.junit(text, name, seconds, kind))


def observe(request: Request) -> Outcome:
    """The outcome; where there is none, the file of --junit says why."""
    begun_s = time.monotonic()
    try:
        found = gate_server(request) if request.server else gate_command(request)
    except GIVING_UP as error:
        kind = "failure" if isinstance(error, Failed) else "error"
        write_junit(request, str(error), time.monotonic() - begun_s, kind)
        raise
    kind = "failure" if found.verdict.does_grow else ""
    text = report.text_of(request, found, report.WIDTH_UNFOLDED)
    write_junit(request, text, time.monotonic() - begun_s, kind)
    return found


def end(number: int, _: FrameType | None) -> None:
    """SIGTERM, by which a service of CI ends a job: the server is stopped on the way out."""
    raise SystemExit(128 + number)


def main(words: list[str]) -> int:
    """The gate."""
    request = parse(words)
    if request.is_help:
        print(HELP, end="")
        return 0
    preload.announce("gate", places.find().library, os.environ)
    signal.signal(signal.SIGTERM, end)
    found = observe(request)
    if request.is_json:
        print(json.dumps(report.to_json(request, found)))
    else:
        width = terminal.width_of(sys.stderr)
        print(report.text_of(request, found, width), end="", file=sys.stderr)
    return Failed.status if found.verdict.does_grow else 0
