# SPDX-License-Identifier: MIT
"""The one next step for each cause, as a command where there is one.

    steps.growth(watch, "live")
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path

from ..explain.verdict import MIB, mib
from ..foreign import files, patience
from ..foreign.text import printable
from ..live.usage import Group
from . import jvm
from .watching import Watch

LIMIT_SPARE = 1.25  # of the live set: a limit that leaves room for peaks
FILES_MAX = 5000  # of tmpfs that are looked at
MOUNTS_MAX = 64
FILES_SECONDS = 3.0  # of looking at them
TMPFS = re.compile(r"^\d+ \d+ \S+ \S+ (\S+) .* - tmpfs ", re.M)
STACKS = ("have fewer threads, shallower recursion or smaller buffers on the stack: the touched "
          "part of a stack is resident until its thread ends")  # fmt: skip
FILES = ("do nothing: the kernel drops these pages when it needs memory; madvise(MADV_DONTNEED) "
         "drops them at once")  # fmt: skip
FORK = ("write less to inherited memory, for example by reference counts, load it after the fork, "
        "or start fewer processes")  # fmt: skip
RUNTIMES = {
    "V8": "set --max-old-space-size=MIB; heap snapshots (--heapsnapshot-signal) name the objects",
    "Java": "set -Xmx; `jcmd PID GC.class_histogram` counts the objects by class",
    "Go": "set GOMEMLIMIT; its pprof heap profile names the call sites",
    "Ruby": "`ObjectSpace.trace_object_allocations` names the lines that allocate the objects",
    "Python": "tracemalloc names the lines that allocate the objects",
}  # fmt: skip
OTHER_ALLOCATORS = {
    "jemalloc": "MALLOC_CONF=background_thread:true,dirty_decay_ms:1000",
    "tcmalloc": "TCMALLOC_RELEASE_RATE=10", "mimalloc": "MIMALLOC_PURGE_DELAY=0",
}  # fmt: skip


def program_of(watch: Watch) -> str:
    """The program as a word of a command line."""
    return watch.name if re.fullmatch(r"[\w.+-]+", watch.name) else "PROGRAM"


def is_on_poolshim(watch: Watch) -> bool:
    """Whether poolshim serves it."""
    return watch.last.allocator == "poolshim"


def background(watch: Watch) -> str:
    """The option by which free memory returns while a program of one thread is idle."""
    return "--background 1 " if watch.last.thread_count <= 1 else ""


def profile(watch: Watch, setting: str = "") -> str:
    """Call sites: of a process on poolshim now, of another after a start on it."""
    if is_on_poolshim(watch) and not setting:
        return (f"`poolshim profile --pid {watch.pid}` names the call sites; to tell a cache from "
                f"a leak: `poolshim why --seconds 120 {watch.pid}`")  # fmt: skip
    return (f"start it as `poolshim run {setting}-- {program_of(watch)} ...`, then `poolshim "
            "profile --pid PID` names the call sites that grow")  # fmt: skip


def growth(watch: Watch, part: str) -> str:
    """Of a part that grows."""
    look = watch.last
    if part in ("live", "heap"):
        return profile(watch)
    if part == "python":
        return profile(watch, "--env PYTHONMALLOC=malloc ")
    if part == "runtime":
        return runtime(watch, look.runtime)
    steps = {"mappings": mappings, "shared": shared, "huge": huge, "retained": retained,
             "python_free": python_free}  # fmt: skip
    if part in steps:
        return steps[part](watch)
    if part == "stacks":
        return STACKS
    return FILES if part == "files" else profile(watch)


def runtime(watch: Watch, name: str) -> str:
    """Of a heap that a runtime manages."""
    step = RUNTIMES.get(name, "its own tools name the objects; its own options limit the heap")
    most = jvm.limit_of(watch.pid) if name == "Java" else ""
    if most:
        step = step.replace("set -Xmx", f"lower -Xmx ({printable(most)} now), or raise the limit")
    return step.replace("PID", str(watch.pid))


def is_pinned(watch: Watch) -> bool:
    """Whether most of glibc's free memory lies in pages with live blocks."""
    heap = watch.last.glibc
    return heap is not None and heap.returnable < heap.retained / 4


def retained(watch: Watch) -> str:
    """Of free memory retained by malloc."""
    if is_on_poolshim(watch):
        return (f"`poolshim trim {watch.pid}` returns free pages now; `poolshim explain --pid "
                f"{watch.pid}` names the call sites that pin the rest")  # fmt: skip
    start = f"start it as `poolshim run {background(watch)}-- {program_of(watch)} ...`"
    if is_pinned(watch):
        return f"{start}, then `poolshim explain --pid PID` names the call sites that pin it"
    return f"{start}; until then malloc_trim(0), called by the program, returns whole pages"


def python_free(watch: Watch) -> str:
    """Of pools that few objects pin."""
    return (f"start it as `poolshim run {background(watch)}--env PYTHONMALLOC=malloc -- "
            f"{program_of(watch)} ...`: poolshim returns pages between live objects")  # fmt: skip


def mappings(watch: Watch) -> str:
    """Of memory that the program maps."""
    return f"`strace -f -k -e trace=mmap,munmap,brk -p {watch.pid}` shows the calls that map it"


def shared(watch: Watch) -> str:
    """Of files in memory."""
    return ("delete files in tmpfs that are not needed, or set the size of the mount (an emptyDir "
            "of medium Memory, --shm-size): they count until they are deleted")  # fmt: skip


def limit(used: int) -> str:
    """Of a limit that the live set fills."""
    wanted = -(-round(LIMIT_SPARE * used) // (16 * MIB)) * 16
    return (f"raise the limit to {wanted} MiB or more, or allocate less: no allocator reduces live "
            "memory")  # fmt: skip


def group(one: Group) -> str:
    """Of a limit that other processes fill."""
    return f"`poolshim why {one.path}` looks at the largest process of the group"


def cache(watch: Watch) -> str:
    """Of page cache."""
    one = watch.group
    need = mib(one.unreclaimable) if one is not None else "memory that cannot be dropped"
    return f"do nothing: compare the limit with {need}, not with the usage"


def huge(watch: Watch) -> str:
    """Of huge pages that are mostly unused."""
    if is_on_poolshim(watch):
        return "start it with POOLSHIM_HUGE=off; for its own mappings: madvise(MADV_NOHUGEPAGE)"
    return "do not ask for huge pages where little of them is used: madvise(MADV_NOHUGEPAGE)"


def unknown(watch: Watch) -> str:
    """Of another allocator's heap."""
    setting = OTHER_ALLOCATORS.get(watch.last.allocator)
    more = f"; {setting} has free pages returned sooner" if setting else ""
    return (f"start it as `poolshim run -- {program_of(watch)} ...`, and `poolshim why` divides it"
            + more)  # fmt: skip


def nothing(watch: Watch) -> str:
    """Where nothing is unusual."""
    if is_on_poolshim(watch):
        return f"`poolshim profile --pid {watch.pid}` names the call sites of live blocks"
    return f"if it grows slowly, watch for longer: `poolshim why --seconds 300 {watch.pid}`"


def largest_files(watch: Watch) -> list[tuple[str, int]]:
    """The largest files in the tmpfs mounts of the process, and those that it maps."""
    found: dict[str, int] = dict(watch.last.names.get("shared", {}))
    with contextlib.suppress(OSError, patience.Stuck):  # a mount below may be one that blocks
        found.update(patience.Call(files_of, watch.pid).result(FILES_SECONDS))
    return sorted(((printable(name), size) for name, size in found.items() if size >= MIB),
                  key=lambda one: -one[1])  # fmt: skip


def files_of(pid: int) -> dict[str, int]:
    """Path -> bytes of the files in the tmpfs mounts of a process."""
    found: dict[str, int] = {}
    text = files.read_proc(pid, "mountinfo").decode(errors="surrogateescape")
    root, left = Path(f"/proc/{pid}/root"), [FILES_MAX]
    for place in TMPFS.findall(text)[:MOUNTS_MAX]:
        add_files(root, place, found, left)
    return found


def add_files(root: Path, place: str, found: dict[str, int], left: list[int]) -> None:
    """Adds the files of one mount, without following links."""
    for folder, below, names in os.walk(root / place.lstrip("/")):
        if left[0] < 0:
            return
        below[:] = [name for name in below if not os.path.ismount(os.path.join(folder, name))]
        left[0] -= 1
        for name in names:
            left[0] -= 1
            if left[0] < 0:
                return
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode):
                    shown = "/" + os.path.relpath(path, root)
                    found[shown] = max(found.get(shown, 0), status.st_blocks * 512)
