# SPDX-License-Identifier: MIT
"""`poolshim stats [--json] PID`: prints the statistics of a running process.

    scripts/poolshim stats $(pidof redis-server)

Exit status: 0 printed; 1 the process is not on poolshim, or its library is of another version; 2
usage; 126 not permitted; 127 no such process.
"""

from __future__ import annotations

import sys

from ..live import options, report
from ..terminal import columns_of

HELP = """usage: poolshim stats [OPTIONS] PID
       poolshim stats [OPTIONS] --container ID

Prints the statistics of a running process on poolshim, as POOLSHIM_STATS does when one exits. They
are read from its memory: the process is not stopped, gets no signal, and need not be started with
any setting. Instead of PID also the name of its program.

  --container ID     the process of a container, by the beginning of its id
  --threads          print the bytes that each thread has allocated and freed, too
  --json             print one JSON object
  -h, --help         print this text

Exit status: 0 done, 1 the process does not run on poolshim, or on another version of it, 2 usage,
126 not permitted (the right to trace the process is needed), 127 no such process.
"""
USAGE = "poolshim stats PID"


def main(words: list[str]) -> int:
    """One process."""
    request = options.parse(words, {"--json", "--threads"}, {options.CONTAINER})
    if request.is_help:
        print(HELP, end="")
        return 0
    found = report.take(options.pid_of(request, USAGE), "--threads" in request.switches)
    if "--json" in request.switches:
        print(report.as_json(found), end="")
    else:
        print(report.table(found, columns_of(sys.stdout)), end="")
    return 0
