# SPDX-License-Identifier: MIT
"""`poolshim trim [--timeout SECONDS] [--json] PID`: releases the free memory of a running process.

    scripts/poolshim trim $(pidof redis-server)

Exit status: 0 released, or there was nothing to release; 1 the process is not on poolshim, has
another version, does not answer; 2 usage; 126 not permitted; 127 no such process.
"""

from __future__ import annotations

import json

from .. import control
from ..errors import Failed
from ..live import options
from ..live.idle import Idle
from ..sizes import mib

HELP = """usage: poolshim trim [OPTIONS] PID
       poolshim trim [OPTIONS] --container ID

Has a running process on poolshim release its free memory to the system, as malloc_trim does from
inside. The process serves the request itself: at one of its calls of malloc or free, or in its
background thread. Nothing is stopped, and no signal sent. Instead of PID also the name of its
program.

  --container ID     the process of a container, by the beginning of its id
  --timeout SECONDS  wait so long for the answer; the request is withdrawn then [5, or until the
                     process is seen to be idle without a background thread]
  --json             print one JSON object
  -h, --help         print this text

Exit status: 0 done, 1 the process does not run on poolshim, or does not answer, 2 usage, 126 not
permitted (the right to trace the process is needed), 127 no such process.
"""
TIMEOUT_SECONDS = 5.0
IDLE_SECONDS = 1.1  # in which no thread has run; many programs look around once a second
USAGE = "poolshim trim PID"


def ask(process: control.Process, seconds: float, is_patient: bool) -> control.Answer:
    """Waits for the answer, unless no thread of the process can give one."""
    idle = Idle(process.pid, IDLE_SECONDS)

    def is_hopeless(page: control.Page) -> bool:
        return not is_patient and idle.lasts() and (page.background == control.OFF or
                                                    idle.is_stopped)  # fmt: skip

    try:
        return process.ask(control.TRIM, seconds, is_hopeless=is_hopeless)
    except control.NoAnswer:
        if idle.is_stopped:
            raise Failed(f"process {process.pid} is stopped: no thread of it can release "
                         f"memory; once it goes on, {USAGE}") from None  # fmt: skip
        if is_patient or not idle.lasts():
            raise
        raise Failed(
            f"process {process.pid} is idle and has no background thread (its other threads have "
            "ended, or it had none): nothing in it releases memory before its next call of malloc "
            "or free. --timeout SECONDS waits for one; POOLSHIM_BACKGROUND=1 at its start keeps "
            "that thread"
        ) from None


def main(words: list[str]) -> int:
    """One process."""
    request = options.parse(words, {"--json"}, {"--timeout", options.CONTAINER})
    if request.is_help:
        print(HELP, end="")
        return 0
    pid = options.pid_of(request, USAGE)
    timeout = request.values.get("--timeout")
    seconds = options.number(timeout, "--timeout", float) if timeout else TIMEOUT_SECONDS
    process = control.Process(pid)
    before = process.resident_bytes()
    answer = ask(process, seconds, timeout is not None)
    after = process.resident_bytes()
    if "--json" in request.switches:
        found = {"pid": pid, "before_bytes": before, "after_bytes": after,
                 "released_bytes": answer.result_bytes, "asleep": answer.is_asleep}  # fmt: skip
        print(json.dumps(found))
    elif answer.is_asleep:
        print(f"{mib(after)} MiB resident: the process is idle and has released its free memory")
    else:
        print(f"{mib(before)} MiB resident before, {mib(after)} MiB after: "
              f"{mib(answer.result_bytes)} MiB released")  # fmt: skip
    return 0
