# SPDX-License-Identifier: MIT
"""Nothing that a measured command started outlives it: not after its end, a failure or Ctrl-C.

A process belongs to a run when it descends from this one. Orphans do too: a process whose parent
has ended becomes our child, also if it left its session, because we are its subreaper. Processes
that ran before are left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
END_ATTEMPTS, END_PAUSE_S = 300, 0.01

Family = dict[int, tuple[int, bool]]  # process -> its parent, whether it is a zombie


def read_family() -> Family:
    """All processes of the machine."""
    found: Family = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                found[int(folder.name)] = (int(fields[1]), fields[0] in "ZX")
    return found


def descendants(root: int, family: Family) -> set[int]:
    """All that descend from it, zombies too, itself left out."""
    found, is_growing = {root}, True
    while is_growing:
        children = {pid for pid, (parent, _) in family.items() if parent in found}
        is_growing = not children <= found
        found |= children
    return found - {root}


def end_descendants(but: set[int]) -> int:
    """Kills and reaps all that descends from us but those; how many were alive at first."""
    count = None
    for _ in range(END_ATTEMPTS):
        family = read_family()
        left = descendants(os.getpid(), family) - but
        alive = {pid for pid in left if not family[pid][1]}
        count = len(alive) if count is None else count
        for pid in alive:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in left - alive:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        if not alive:
            break
        time.sleep(END_PAUSE_S)
    return count or 0


class Watch:
    """What `with confined() as watch` saw: how many processes the command did not end."""

    left_count = 0


@contextlib.contextmanager
def confined() -> Iterator[Watch]:
    """Whatever is started inside has ended afterwards."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, watch = descendants(os.getpid(), read_family()), Watch()
    try:
        yield watch
    finally:
        watch.left_count = end_descendants(before)


def start(words: list[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Popen in a session of its own, so that this command handles Ctrl-C."""
    return subprocess.Popen(words, start_new_session=True, **options)
