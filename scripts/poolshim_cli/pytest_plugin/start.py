# SPDX-License-Identifier: MIT
"""pytest on the library: what --poolshim needs, and pytest started again with it.

    start.ensure(interval)      # returns the heap, or does not return
"""

from __future__ import annotations

import os
import sys
import sysconfig

from .. import machine, places, preload
from ..errors import OwnFailure
from ..explain import runs
from .library import Heap, find

STARTED = "PYTEST_ON_POOLSHIM"  # set in the environment of a pytest that was started again
WORKER = "PYTEST_XDIST_WORKER"
TABLE_MAX = "64MiB"  # stacks of a whole suite; untouched pages are not resident
SEED = "1"  # the same samples in each run of tests with one thread
ALLOCATORS = ("malloc", "malloc_debug")  # of PYTHONMALLOC: every object is a block of malloc


def obstacle() -> str:
    """Why the blocks of this Python would not be seen, whatever is preloaded."""
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} takes its objects from an allocator of its own"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "a free-threaded CPython takes its objects from an allocator of its own"
    if sys.flags.ignore_environment:
        return "Python ignores PYTHONMALLOC with its options -E and -I"
    return ""


def is_worker() -> bool:
    """A worker of pytest-xdist cannot start again: its code came by a pipe. A pytest that a test in
    a worker starts has the same environment."""
    return WORKER in os.environ and "-c" in sys.orig_argv


def heap_if_ready() -> Heap | None:
    """The heap, where the library is loaded and samples, and Python's objects are its blocks."""
    heap = find()
    is_ready = (heap is not None and os.environ.get("PYTHONMALLOC") in ALLOCATORS
                and os.environ.get("POOLSHIM_PROFILE") and heap.begin_peak())  # fmt: skip
    return heap if is_ready else None


def environment(interval: str) -> dict[str, str]:
    """This process's, with the library, its samples, and Python's objects by malloc."""
    own = {name: value for name, value in os.environ.items()
           if name.startswith(machine.HARNESS_PREFIXES)}  # fmt: skip
    found = {**own, **runs.environment(interval), STARTED: "1"}
    found.setdefault("POOLSHIM_PROFILE_MAX", TABLE_MAX)
    found.setdefault("POOLSHIM_PROFILE_SEED", SEED)
    if found.get("PYTHONMALLOC") not in ALLOCATORS:
        found["PYTHONMALLOC"] = ALLOCATORS[0]
    return found


def ensure(interval: str) -> Heap:
    """The heap. Where something is missing, this process becomes the same pytest with it."""
    heap, why = heap_if_ready(), obstacle()
    if heap is not None and not why:
        return heap
    if not why and (os.environ.get(STARTED) or is_worker()):
        why = ("libpoolshim.so is preloaded, and does not serve this Python: poolshim doctor -- "
               f"{sys.executable} says why")  # fmt: skip
    if why:
        raise OwnFailure(why)
    env = environment(interval)
    preload.announce("pytest", places.find().library, os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], env)


