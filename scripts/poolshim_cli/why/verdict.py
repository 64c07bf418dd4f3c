# SPDX-License-Identifier: MIT
"""Why the memory of a process or a container is resident: one cause, a number, one next step.

    verdict = judge(watch); verdict.cause, verdict.text, verdict.step

Growth comes first, then a limit that is nearly used up, then the cause that explains most bytes, if
it explains the share of SHARES. Without any of them nothing is unusual. tests/cli/test_why.py has
programs whose cause is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..explain.growth import Floors
from ..explain.verdict import MIB, mib, percent
from ..live.usage import Group
from . import jvm, steps
from .growth import MINUTE_S, Rate, duration, floors_of, rate_of, seconds_until
from .parts import PARTS, Look
from .watching import Watch

LEAST_BYTES = 2 * MIB
SHARES = {
    "retained": 0.2, "python": 0.25, "runtime": 0.4, "mappings": 0.3, "stacks": 0.3,
    "shared": 0.3, "files": 0.3, "huge": 0.25, "fork": 0.25, "page-cache": 0.5, "unknown": 0.4,
}  # fmt: skip
LIMIT_SHARE = 0.9  # of a limit that memory which cannot be dropped uses
CONCERNED_SHARE = 0.5  # of the group's anonymous memory, for its page cache to concern a process
GROWING = ("live", "heap", "python", "runtime", "mappings", "stacks", "shared", "files", "retained",
           "python_free", "huge", "code")  # fmt: skip
LISTED = 3
LEAST_NAMED = 0.005  # of the resident memory: a part that is not 0 %


@dataclass
class Verdict:
    """A cause."""

    cause: str
    nbytes: int
    text: str
    step: str
    part: str = ""

    def to_json(self) -> dict[str, object]:
        """For --json."""
        return {"cause": self.cause, "bytes": self.nbytes, "part": self.part, "text": self.text,
                "next": self.step}  # fmt: skip


def title_of(part: str, look: Look) -> str:
    """A part in words."""
    return PARTS[part].format(allocator=look.allocator or "malloc", runtime=look.runtime)


def part_of(name: str) -> Callable[[Look], float]:
    """A function that returns one part of a look."""
    return lambda look: float(look.parts[name])


def family_of(watch: Watch) -> int:
    """Resident bytes of the process and its children, a page once."""
    return max(watch.family_pss, watch.last.pss, 1)


def concerns(watch: Watch) -> Group | None:
    """The group, where its page cache and shared memory are the target's."""
    group, look = watch.group, watch.last
    if group is None or watch.target.is_container:
        return group
    own = max(look.anonymous, watch.family_anonymous)
    return group if own >= CONCERNED_SHARE * group.anon else None


# ---- growth ----


def growths(watch: Watch) -> list[tuple[str, Floors]]:
    """The parts that grew in each part of the time, most first."""
    series = {name: watch.series(part_of(name)) for name in GROWING}
    found = [(name, floors_of(one)) for name, one in series.items()]
    return sorted(((name, one) for name, one in found if one.is_lasting(watch.last.rss)),
                  key=lambda one: -one[1].gained)  # fmt: skip


def rate_text(rate: Rate | None) -> str:
    """Per minute, with the interval."""
    if rate is None:
        return "at a rate that cannot be told"
    low, per, high = (MINUTE_S * one / MIB for one in (rate.low, rate.per_s, rate.high))
    return f"{per:.1f} MiB a minute (95 %: {low:.1f} to {high:.1f})"


def grown(watch: Watch) -> Verdict | None:
    """A part that grew as long as it was watched."""
    look, found = watch.last, growths(watch)
    if not found:
        return grown_group(watch)
    name, most = found[0]
    rate = rate_of(watch.series(part_of(name)))
    what = "growing live memory" if name in ("live", "python") else "growth"
    if name in ("retained", "python_free"):
        what = "growing free memory"
    text = (f"{what}: {title_of(name, look)} grew by {mib(most.gained)} in {most.span_s:.1f} s to "
            f"{mib(most.last)}, {rate_text(rate)}")  # fmt: skip
    for other, one in found[1:LISTED]:
        text += f"; {title_of(other, look)} by {mib(one.gained)}"
    if name not in ("retained", "python_free", "huge"):
        text += ": a leak, or a cache that is being filled"
    cause = "retained" if name in ("retained", "python_free") else "growth"
    return Verdict(cause, round(most.gained), text, steps.growth(watch, name), name)


def grown_group(watch: Watch) -> Verdict | None:
    """Page cache or shared memory of the group that grew, where no part of the process did."""
    group = concerns(watch)
    if group is None:
        return None
    cache = floors_of(watch.group_series(lambda one: float(one.cache)))
    shmem = floors_of(watch.group_series(lambda one: float(one.shmem)))
    if shmem.is_lasting(group.current) and shmem.gained >= cache.gained:
        rate = rate_of(watch.group_series(lambda one: float(one.shmem)))
        text = (f"growth: files in tmpfs and shared memory grew by {mib(shmem.gained)} to "
                f"{mib(shmem.last)}, {rate_text(rate)}")  # fmt: skip
        return Verdict("shared", round(shmem.gained), text, steps.shared(watch), "shared")
    own = rate_of(watch.series(lambda one: float(one.rss)))
    is_growing = own is not None and own.is_growth and own.is_shown
    is_limited = bool(group.levels) or watch.target.is_container  # else it disturbs nothing
    if cache.is_lasting(group.current) and is_limited and not is_growing:
        text = (f"page cache, not a leak: it grew by {mib(cache.gained)} to {mib(cache.last)}; the "
                "kernel drops it before it kills")  # fmt: skip
        return Verdict("page-cache", round(cache.gained), text, steps.cache(watch), "page-cache")
    return None


# ---- shares ----


def limited(watch: Watch) -> Verdict | None:
    """Memory that cannot be dropped fills the limit, and little of it is free."""
    group = watch.group
    level = group.tightest if group is not None else None
    if group is None or level is None:
        return None
    used = level.current - group.cache
    free = watch.last.parts["retained"] + watch.last.parts["python_free"]
    if used < LIMIT_SHARE * level.limit or free > (1 - LIMIT_SHARE) * level.limit:
        return None
    text = (f"limit too low for the live set: {mib(used)} of {mib(level.limit)} "
            f"({percent(used, level.limit)}) cannot be dropped, and do not grow; "
            f"{level.source} of {level.path} sets the limit")  # fmt: skip
    step = steps.limit(used) if concerns(watch) else steps.group(group)
    return Verdict("limit", used, text, step, "limit")


def retained(watch: Watch) -> Verdict | None:
    """Free memory that an allocator does not return."""
    look = watch.last
    nbytes = look.parts["retained"]
    text = (f"free memory that {look.allocator}'s malloc retains: {mib(nbytes)} of "
            f"{mib(look.rss)} resident")  # fmt: skip
    heap = look.glibc
    if heap is not None:
        where = f" in {heap.arena_count} arenas" if heap.arena_count > 1 else ""
        if steps.is_pinned(watch):
            text += f"{where}; live blocks pin all but {mib(heap.returnable)} of it in their pages"
        else:
            text += (f"{where}; {mib(heap.returnable)} of it are whole pages, about as much as a "
                     "preload of poolshim would return")  # fmt: skip
    return Verdict("retained", nbytes, text, steps.retained(watch), "retained")


def python_free(watch: Watch) -> Verdict | None:
    """Pools of Python that live objects pin."""
    look = watch.last
    nbytes = look.parts["python_free"]
    text = (f"free memory that Python retains: {mib(nbytes)} of {mib(look.rss)} resident lie in "
            f"{look.pool_count} pools of small objects, of which live ones use "
            f"{mib(look.parts['python'])}")  # fmt: skip
    return Verdict("retained", nbytes, text, steps.python_free(watch), "python_free")


def python(watch: Watch) -> Verdict | None:
    """Live objects of Python."""
    look = watch.last
    nbytes = look.parts["python"]
    text = f"live objects: {mib(nbytes)} of {mib(look.rss)} resident are objects of Python in use"
    return Verdict("runtime", nbytes, text, steps.runtime(watch, "Python"), "python")


def runtime(watch: Watch) -> Verdict | None:
    """The heap of a runtime."""
    look = watch.last
    nbytes = look.parts["runtime"]
    text = (f"the heap of {look.runtime}: {mib(nbytes)} of {mib(look.rss)} resident; its garbage "
            "collector decides when they return")  # fmt: skip
    figures = jvm.heap_of(watch.pid) if look.runtime == "Java" else None
    if figures is not None:
        text += (f"; by its own account {mib(figures[0])} are in use since the last collection, "
                 f"and {mib(figures[1])} are committed")  # fmt: skip
    return Verdict("runtime", nbytes, text, steps.runtime(watch, look.runtime), "runtime")


def mappings(watch: Watch) -> Verdict | None:
    """Memory that the program maps itself."""
    look = watch.last
    text = (f"other anonymous mappings: {mib(look.parts['mappings'])} of {mib(look.rss)} are not "
            f"malloc's, the largest of {look.mapping_count} has {mib(look.largest)}")  # fmt: skip
    return Verdict("mappings", look.parts["mappings"], text, steps.mappings(watch), "mappings")


def stacks(watch: Watch) -> Verdict | None:
    """Threads that were deep in their stacks."""
    look = watch.last
    text = (f"thread stacks: {mib(look.parts['stacks'])} of {mib(look.rss)} are stacks of "
            f"{look.thread_count} threads")  # fmt: skip
    return Verdict("stacks", look.parts["stacks"], text, steps.STACKS, "stacks")


def shared(watch: Watch) -> Verdict | None:
    """Shared memory that it maps, or files in tmpfs that its group is charged with."""
    look, group = watch.last, concerns(watch)
    nbytes = max(look.parts["shared"], group.shmem if group is not None else 0)
    files = steps.largest_files(watch)
    names = ", ".join(f"{name} ({mib(size)})" for name, size in files[:LISTED])
    mapped = look.parts["shared"]
    is_mapped = "mapped by the process" if mapped >= nbytes / 2 else "not mapped by the process"
    text = f"tmpfs and shared memory: {mib(nbytes)}, {is_mapped}" + (f": {names}" if names else "")
    return Verdict("shared", nbytes, text, steps.shared(watch), "shared")


def mapped_files(watch: Watch) -> Verdict | None:
    """Pages of files that it maps."""
    look = watch.last
    names = sorted(look.names["files"].items(), key=lambda one: -one[1])[:LISTED]
    text = (f"mapped files, not a leak: {mib(look.parts['files'])} of {mib(look.rss)} are page "
            "cache of " + ", ".join(f"{name} ({mib(size)})" for name, size in names))  # fmt: skip
    return Verdict("files", look.parts["files"], text, steps.FILES, "files")


def page_cache(watch: Watch) -> Verdict | None:
    """Page cache of the group."""
    group = concerns(watch)
    if group is None or not (group.levels or watch.target.is_container):
        return None  # it disturbs nothing
    text = (f"page cache, not a leak: {mib(group.cache)} of the {mib(group.current)} of the group "
            "are page cache, which the kernel drops before it kills; "
            f"{mib(group.unreclaimable)} cannot be dropped")  # fmt: skip
    return Verdict("page-cache", group.cache, text, steps.cache(watch), "page-cache")


def huge(watch: Watch) -> Verdict | None:
    """Parts of huge pages that were never used."""
    look = watch.last
    text = (f"huge pages: {mib(look.parts['huge'])} of {mib(look.rss)} are zeroes, resident since "
            "another part of the huge page is in use "
            f"({mib(look.huge)} are in huge pages)")  # fmt: skip
    return Verdict("huge", look.parts["huge"], text, steps.huge(watch), "huge")


def fork(watch: Watch) -> Verdict | None:
    """Copies after forks."""
    text = (f"copies after fork: {mib(watch.copied)} of {mib(family_of(watch))} are private copies "
            f"of inherited pages in {watch.children} child process"
            f"{'es' * (watch.children != 1)}")  # fmt: skip
    return Verdict("fork", watch.copied, text, steps.FORK, "fork")


def unknown(watch: Watch) -> Verdict | None:
    """A heap that cannot be divided from outside."""
    look = watch.last
    nbytes = look.parts["heap"]
    text = (f"cannot tell: {mib(nbytes)} of {mib(look.rss)} are the heap of {look.allocator}, and "
            "live and free memory in it cannot be told apart from outside")  # fmt: skip
    return Verdict("unknown", nbytes, text, steps.unknown(watch), "heap")


def nothing(watch: Watch) -> Verdict:
    """The resident memory is in use."""
    look = watch.last
    largest = [name for name, amount in look.parts.most_common(LISTED)
               if amount >= LEAST_NAMED * look.rss]  # fmt: skip
    text = f"nothing unusual: {mib(look.rss)} resident, of which " + ", ".join(
        f"{percent(look.parts[name], look.rss)} {title_of(name, look)}" for name in largest
    )
    return Verdict("nothing", look.rss, text, steps.nothing(watch))


CAUSES: dict[str, Callable[[Watch], Verdict | None]] = {
    "retained": retained, "python": python, "python_free": python_free, "runtime": runtime,
    "mappings": mappings, "stacks": stacks, "shared": shared, "files": mapped_files,
    "huge": huge, "fork": fork, "page-cache": page_cache, "unknown": unknown,
}  # fmt: skip


def whole_of(name: str, watch: Watch) -> int:
    """What a cause has to explain a share of."""
    group = concerns(watch)
    if name == "fork":
        return family_of(watch)
    if name == "page-cache" and group is not None:
        return group.current
    if name == "shared" and group is not None:
        return max(group.unreclaimable, 1)
    return watch.last.rss


def share_of(name: str) -> float:
    """The least share of a cause."""
    return SHARES["python" if name == "python_free" else name]


def judge(watch: Watch) -> Verdict:
    """The cause."""
    verdict = grown(watch) or limited(watch)
    if verdict is not None:
        return verdict
    found = []
    for name, cause in CAUSES.items():
        if name == "python":
            continue  # objects in use are nothing unusual
        verdict = cause(watch)
        least = max(share_of(name) * whole_of(name, watch), LEAST_BYTES)
        if verdict is not None and verdict.nbytes >= least:
            found.append(verdict)
    return max(found, key=lambda one: one.nbytes, default=None) or nothing(watch)


# ---- the outlook ----


def outlook(watch: Watch, available: int) -> str:
    """What the memory will be, and when the limit is reached at the present growth."""
    look, group = watch.last, watch.group
    series = watch.series(lambda one: float(one.rss + one.swap))
    if watch.target.is_container and group is not None:
        series = watch.group_series(lambda one: float(one.unreclaimable))
    rate, is_lasting = rate_of(series), floors_of(series).is_lasting(look.rss)
    if rate is None:
        return "too few looks to tell whether it grows: watch for longer (--seconds)"
    found = growths(watch)
    if found and not is_lasting:  # resident memory may grow in steps, for example of huge pages
        rate = rate_of(watch.series(part_of(found[0][0]))) or rate
    if rate.is_growth and rate.is_shown and not (is_lasting or found):
        return (f"it grows by {rate_text(rate)}, too little in {watch.span_s:.1f} s to tell "
                "whether that lasts")  # fmt: skip
    if not rate.is_growth or not (is_lasting or found):
        return f"no lasting growth in {watch.span_s:.1f} s: it remains near {mib(series[-1][1])}"
    left, what = available, "the memory of the machine"
    level = group.tightest if group is not None else None
    if level is not None and group is not None and level.left + group.cache < available:
        left, what = level.left + group.cache, f"the limit of {mib(level.limit)}"
    text = f"it grows by {rate_text(rate)}, {mib(series[-1][1] + rate.per_s * 3600)} in an hour"
    times = seconds_until(left, rate)
    if times is None:
        return text
    soon, usual, late = (duration(one) for one in times)
    return f"{text}; at this rate {what} is reached in {usual} ({soon} to {late})"
