# SPDX-License-Identifier: MIT
"""Memory control groups for tests, below the group of the process that runs them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from conftest import SLOWNESS

FOLDER = "poolshim-test"


def own_group() -> tuple[Path, str]:
    """This process's own memory cgroup and the name of its limit, in either version."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
        if controllers == "" and Path("/sys/fs/cgroup/cgroup.controllers").exists():
            return Path("/sys/fs/cgroup" + path), "memory.max"
    pytest.skip("no memory cgroup here")


def limited_group(limit_bytes: int, name: str = "") -> AbstractContextManager[Path]:
    """A new group with a limit; skips the test where none can be made."""
    return named_group(limit_bytes, f"{FOLDER}{name}-{os.getpid()}")


@contextmanager
def named_group(limit_bytes: int, name: str) -> Iterator[Path]:
    """The same with a name of its own, such as container runtimes give."""
    parent, limit = own_group()
    folder = parent / name
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made: {error}")
    try:
        (folder / limit).write_text(str(limit_bytes))
    except OSError as error:
        folder.rmdir()
        pytest.skip(f"the cgroup cannot be limited: {error}")
    try:
        yield folder
    finally:
        remove_group(folder)


def inner_group(outer: Path, name: str) -> Path:
    """A group in one that hands memory on, which version 2 does only where it is asked for."""
    if (outer / "cgroup.subtree_control").exists():
        (outer / "cgroup.subtree_control").write_text("+memory")
    (outer / name).mkdir()
    return outer / name


def remove_group(folder: Path) -> None:
    """Removes a group. Its processes are of a test that has failed, or end already."""
    for pid in (folder / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    until = time.monotonic() + min(10 * SLOWNESS, 60)
    while True:
        try:
            return folder.rmdir()
        except OSError:
            if time.monotonic() > until:
                raise
        time.sleep(0.02)


def bytes_in(group: Path, part: str) -> int:
    """A row of the group's memory.stat."""
    rows = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(rows[part])


def entering(group: Path) -> Callable[[], None]:
    """What a child of this process does first to be in the group."""
    return lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None
