# SPDX-License-Identifier: MIT
"""Why the memory is resident: one cause in words, and what to do about it.

Each cause has a sum of bytes that it explains, and a share of the resident memory from which it is
worth a word; the one that explains most is the verdict. tests/cli/test_explain.py checks
the thresholds by twelve programs with known causes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .account import PARTS
from .growth import grown_sites, growths
from .history import PIECES_LEAST, Course, History, growth_of

MIB = 1 << 20
LEAST_BYTES = 2 * MIB  # below it nothing is worth a word
SHARES = {
    "leak": 0.04, "fragmentation": 0.25, "cache": 0.2, "large": 0.4, "rounding": 0.12,
    "stacks": 0.3, "mappings": 0.3, "files": 0.3, "shared": 0.3, "huge": 0.25, "fork": 0.25,
}  # fmt: skip
LEAK_RISES = 0.8  # of the pieces of the late time
LEAK_DEVIATIONS = 3.0
LEAK_LIVE_GROWTH = 0.05  # of its live bytes in the late time
EMPTIED_SHARE = 0.5  # of its peak that a site must have freed to be one that was emptied
REALLOC_TIMES = 4  # as much allocated as live: a block that was reallocated often
NEW_CLASSES, CLASSES_MAX, SIZE_LEAST = 8, 63, 16
LISTED = 3  # call sites in a sentence
LOOKS_LEAST = 5  # at a command: with fewer nothing is told of it
LOOKS_USUAL, SEEN_SHARE = 10, 0.9  # with fewer, nothing where less of the peak was seen
LONGER = ("A cache that is still being filled looks the same: watch for longer (--seconds 120) to "
          "tell it from a leak")  # fmt: skip
# Where a part grows that is not malloc's: by the part and the runtime.
OUTSIDE_ADVICE = {
    ("other", ""): "`strace -k -f -e trace=mmap,brk -p PID` shows which calls make them. ",
    ("other", "python"): ("CPython keeps small objects in arenas of its own: PYTHONMALLOC=malloc "
                          "gives them to malloc, and this report their call sites. "),
    ("other", "managed"): "they are the heap of its virtual machine: its own tools say more. ",
    ("stacks", ""): "threads are started and do not end, or go deeper into their stacks. ",
    ("pinned", ""): ("live blocks pin more and more free memory; with POOLSHIM_PROFILE set "
                     "explain names their call sites. "),
}  # fmt: skip


@dataclass
class Verdict:
    """A cause; `nothing` where there is none."""

    cause: str
    nbytes: float
    text: str
    advice: str
    sites: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)  # to try
    figure: str = "late"  # that the settings change: late or peak resident memory

    def to_json(self) -> dict[str, object]:
        """For --json."""
        return {"cause": self.cause, "bytes": round(self.nbytes), "text": self.text,
                "advice": self.advice, "sites": self.sites, "settings": self.settings}  # fmt: skip


def mib(nbytes: float) -> str:
    """For people."""
    return f"{nbytes / MIB:.1f} MiB"


def percent(part: float, whole: float) -> str:
    """A part as a percentage of the whole."""
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def listed(courses: list[Course], amount: Callable[[Course], float]) -> str:
    """Call sites with their amounts."""
    return ", ".join(f"{one.title} ({mib(amount(one))})" for one in courses[:LISTED])


def grown(history: History) -> Verdict | None:
    """A part of a process that was running before, which grew as long as it was watched."""
    found = growths(history) if history.watch.is_attached else []
    if not found:
        return None
    name, most = found[0]
    pieces = len(most.floors) - 1
    head = (f"{{}}: {{}} grew in {most.rises} of {pieces} parts of {most.span_s:.1f} s, by "
            f"{mib(most.gained)} to {mib(most.last)}")  # fmt: skip
    also = "".join(f"; {PARTS[other]} by {mib(one.gained)}" for other, one in found[1:])
    if name != "live":
        text = head.format("growth", PARTS[name]) + also
        advice = OUTSIDE_ADVICE.get((name, runtime_of(history)), OUTSIDE_ADVICE.get((name, ""), ""))
        return Verdict("growth", most.gained, text, f"{advice}{LONGER}")
    text, sites = head.format("leak", "the live memory"), grown_sites(history, most.gained)
    if not sites:
        text += f"{also}; no sampled call site is conspicuous"
        return Verdict("leak", most.gained, text, f"watch for longer (--seconds 60): {LONGER}")
    text += f"{also}; live blocks allocated meanwhile: " + ", ".join(
        f"{course.title} ({mib(more)})" for more, course in sites[:LISTED]
    )
    more, course = sites[0]
    made = course.made[-1] - course.made[0]
    advice = (f"find out what frees the blocks of {course.name}: of {mib(made)} allocated there "
              f"{mib(max(0.0, made - more))} were freed. {LONGER}")  # fmt: skip
    return Verdict("leak", most.gained, text, advice, [one.name for _, one in sites])


def leak(history: History) -> Verdict | None:
    """Sites that grew until the end."""
    if history.account.is_recent:
        return None  # what replaces blocks of earlier grows, too
    interval, rss = history.account.interval, history.account.rss
    found = []
    for course in history.courses:
        gained, rises, pieces, deviations = growth_of(course, interval)
        is_steady = pieces >= PIECES_LEAST and rises >= LEAK_RISES * pieces
        is_growth = is_steady and deviations >= LEAK_DEVIATIONS
        if is_growth and gained >= LEAK_LIVE_GROWTH * course.site.counted:
            found.append((gained, rises, pieces, course))
    if not found:
        return None
    found.sort(key=lambda one: -one[0])
    gained, rises, pieces, course = found[0]
    total = sum(one[0] for one in found)
    if total < SHARES["leak"] * rss / 2:
        return None
    others = [one[3] for one in found[1:]]
    text = (
        f"leak at {course.title}: its live memory grew in {rises} of {pieces} parts of the second "
        f"half of the run, by {mib(gained)} to {mib(course.site.live)}"
    )
    if others:
        text += f"; also {listed(others, lambda one: one.site.live)}"
    freed = max(0.0, course.site.made - course.site.counted)
    advice = (
        f"find out what frees the blocks of {course.name}: of {mib(course.site.made)} allocated "
        f"there {mib(freed)} were freed. If the program was still loading what it needs, or "
        "filling a cache that has a bound, the run was too short to tell"
    )
    nbytes = max(total, sum(one[3].site.live for one in found))
    return Verdict("leak", nbytes, text, advice, [one[3].name for one in found])


def fragmentation(history: History) -> Verdict | None:
    """Free memory that live blocks pin."""
    account = history.account
    nbytes = account.parts["pinned"]
    sites = sorted(history.courses, key=lambda one: -one.site.pinned)
    sites = [one for one in sites if one.site.pinned >= nbytes / 10] or sites[:1]
    if not sites:
        classes = sorted(account.pinned_by_class, key=lambda one: -account.pinned_by_class[one])
        where = ", ".join(f"{size} bytes" for size in classes[:LISTED])
        text = f"fragmentation: live blocks of {where} pin {mib(nbytes)} of free memory"
        return Verdict("fragmentation", nbytes, text, "POOLSHIM_PROFILE on names the call sites")
    first = sites[0]
    held = sum(one.site.live for one in sites)
    text = (
        f"fragmentation: {mib(held)} of long-lived blocks pin {mib(nbytes)} of free memory: "
        + listed(sites, lambda one: one.site.pinned)
    )
    if first.site.counted < EMPTIED_SHARE * first.peak:
        text += (
            f"; {first.name} has freed {percent(first.peak - first.site.counted, first.peak)} of "
            "its blocks, and the rest lies scattered among what it freed"
        )
        advice = (
            f"allocate what {first.name} keeps apart from what it frees soon, or copy what is left "
            "into new blocks after the frees; a pool of its own (poolshim/pool.h, slice.h) gives "
            "the memory back when it is emptied"
        )
    else:
        advice = (
            f"give the blocks of {first.name} a pool of their own (poolshim/pool.h, region.h), or "
            "allocate them before the short-lived ones around them"
        )
    return Verdict("fragmentation", nbytes, text, advice, [one.name for one in sites])


def cache(history: History) -> Verdict | None:
    """Cached free pages."""
    nbytes, delay_ms = history.account.parts["cache"], history.account.delay_ms
    text = (
        f"cache: {mib(nbytes)} of free pages are kept; they go back {delay_ms} ms after the last "
        "free, at the program's next calls of malloc or free"
    )
    if history.account.has_background:
        text = f"cache: {mib(nbytes)} of free pages are kept, for {delay_ms} ms after the last free"
        advice = "POOLSHIM_PURGE_DELAY_MS=0 gives them back at once, at the cost of page faults"
        settings = {"POOLSHIM_PURGE_DELAY_MS": "0"}
    else:
        advice = (
            "POOLSHIM_BACKGROUND=1 gives them back while the program makes no call; so does "
            "malloc_trim(0) where it becomes idle"
        )
        settings = {"POOLSHIM_BACKGROUND": "1"}
    if history.account.swing:
        text += (
            f"; up to {mib(history.account.swing)} are retained as long as the program frees and "
            "uses as much again within two seconds"
        )
    return Verdict("cache", nbytes, text, advice, [], settings)


def large(history: History) -> Verdict | None:
    """One block that was reallocated again and again."""
    for course in history.courses[:LISTED]:
        site = course.site
        is_one = 0 < site.blocks < 4 and site.largest >= site.live / 2
        if is_one and site.made >= REALLOC_TIMES * site.live:
            text = (
                f"one large block: {mib(site.live)} are live at {course.title}, in "
                f"{round(site.blocks)} block(s); {mib(site.made)} were allocated there in all: it "
                "grew by realloc, and each step that copies holds the old and the new block"
            )
            advice = (
                "reserve the final size at once, or grow by a factor; POOLSHIM_MMAP_MIN=1MiB makes "
                "the steps moves of pages from 1 MiB on. Lists of pieces need no copy at all"
            )
            return Verdict("large", site.live, text, advice, [course.name],
                           {"POOLSHIM_MMAP_MIN": "1MiB"}, "peak")  # fmt: skip
    return None


def rounding(history: History) -> Verdict | None:
    """Requests a little above a size class."""
    nbytes = history.account.parts["rounding"]
    sites = sorted(history.courses, key=lambda one: -one.site.rounding)[:LISTED]
    sites = [one for one in sites if one.site.rounding >= nbytes / 10]
    text = (
        f"rounding: {mib(nbytes)} of {mib(history.account.parts['live'] + nbytes)} in live blocks "
        "are beyond the requested sizes: " + listed(sites, lambda one: one.site.rounding)
    )
    advice = (
        "`poolshim tune` computes size classes for this program; or request sizes just below a "
        "class, not above it"
    )
    classes = more_classes(history)
    settings = {"POOLSHIM_SIZE_CLASSES": ",".join(map(str, classes))} if classes else {}
    return Verdict("rounding", nbytes, text, advice, [one.name for one in sites], settings)


def more_classes(history: History) -> list[int]:
    """The present size classes, and the requests that lose most as classes of their own."""
    account = history.account
    present = set(account.classes)
    by_loss = sorted(account.rounding_by_size.items(), key=lambda one: -one[1])
    new = [size for size, _ in by_loss if size not in present and size >= SIZE_LEAST]
    new = new[: min(NEW_CLASSES, CLASSES_MAX - len(present))]
    return sorted(present | set(new)) if new else []


def stacks(history: History) -> Verdict | None:
    """Threads that were deep in their stacks."""
    nbytes, count = history.account.parts["stacks"], history.account.thread_count
    return Verdict(
        "stacks", nbytes,
        f"not the heap: {mib(nbytes)} are in the stacks of {count} threads",
        "the touched part of a stack is resident until its thread ends: fewer threads, shallower "
        "recursion, smaller buffers on the stack; a smaller limit (ulimit -s) does not help",
    )  # fmt: skip


def mappings(history: History) -> Verdict | None:
    """Memory that the program maps itself."""
    account = history.account
    nbytes, names = account.parts["other"], account.names["other"]
    largest = f"{len(names)}, the largest {mib(max(names.values(), default=0))} at " + max(
        names, key=lambda name: names[name], default="?"
    )
    advice = "`strace -k -f -e trace=mmap,brk` shows which calls make them"
    runtime = runtime_of(history)
    if runtime == "python":
        advice = ("CPython keeps small objects in arenas of its own: PYTHONMALLOC=malloc gives "
                  "them to malloc, and this report their call sites")  # fmt: skip
    elif runtime == "managed":
        advice = "they are the heap of its virtual machine: its own tools say what holds it"
    return Verdict(
        "mappings", nbytes,
        f"not the heap: {mib(nbytes)} are in mappings that the program makes itself ({largest})",
        advice,
    )  # fmt: skip


def runtime_of(history: History) -> str:
    """The runtime of a program that is known to map its heap itself."""
    names = {Path(one.path).name for one in history.watch.code_of(history.pid)}
    if any(name.startswith(("libpython3", "python3")) for name in names):
        return "python"
    known = ("node", "java", "libjvm", "libruby", "ruby", "php", "dotnet", "libcoreclr", "libv8")
    return "managed" if any(name.startswith(known) for name in names) else ""


def files(history: History) -> Verdict | None:
    """Pages of mapped files."""
    account = history.account
    names = sorted(account.names["files"].items(), key=lambda one: -one[1])[:LISTED]
    return Verdict(
        "files", account.parts["files"],
        f"not the heap: {mib(account.parts['files'])} are pages of mapped files: "
        + ", ".join(f"{name} ({mib(size)})" for name, size in names),
        "pages of files that are only read go back when the machine needs memory; "
        "madvise(MADV_DONTNEED) gives them back at once",
    )  # fmt: skip


def shared(history: History) -> Verdict | None:
    """Shared memory."""
    account = history.account
    names = sorted(account.names["shared"].items(), key=lambda one: -one[1])[:LISTED]
    return Verdict(
        "shared", account.parts["shared"],
        f"not the heap: {mib(account.parts['shared'])} are shared memory: "
        + ", ".join(f"{name} ({mib(size)})" for name, size in names),
        "it belongs to whichever processes map it; its size is set where it is made",
    )  # fmt: skip


def huge(history: History) -> Verdict | None:
    """Parts of huge pages that were never used."""
    nbytes = history.account.parts["huge"]
    return Verdict(
        "huge", nbytes,
        f"huge pages: {mib(nbytes)} are resident only because they lie in huge pages with "
        f"another part in use ({mib(history.account.huge_bytes)} are in huge pages)",
        "POOLSHIM_HUGE=off refuses huge pages for the heap: less memory, more page faults; for "
        "mappings of the program's own: madvise(MADV_NOHUGEPAGE)",
        [], {"POOLSHIM_HUGE": "off"},
    )  # fmt: skip


def fork(history: History) -> Verdict | None:
    """Copies that children made by writing."""
    nbytes = history.moment.copied
    children = [one for one in history.moment.accounts.values() if one.copied >= MIB]
    return Verdict(
        "fork", nbytes,
        f"fork: {len(children)} child process{'es' * (len(children) != 1)} of {history.name} "
        f"hold{'s' * (len(children) == 1)} {mib(nbytes)} of private copies of memory that was "
        "inherited and written to since, by parent or child",
        "write less to inherited memory (reference counts, free lists, caches), load it after the "
        "fork, or start fewer children",
    )  # fmt: skip


def limited(history: History) -> Verdict | None:
    """More than the limit that is in force."""
    rss, limit, parts = history.account.rss, history.account.limit, history.account.parts
    if not 0 < limit < rss:
        return None
    largest = sorted(parts, key=lambda name: -parts[name])[:LISTED]
    text = f"above its limit: {mib(rss)} resident, POOLSHIM_LIMIT is {mib(limit)}; of it "
    text += ", ".join(f"{percent(parts[name], rss)} {PARTS[name]}" for name in largest)
    courses = [one for one in history.courses if one.site.live >= rss / 20][:LISTED]
    if courses:
        text += "; live are most blocks of " + listed(courses, lambda one: one.site.live)
    advice = ("the limit is soft: free memory goes back near it, and calls do not fail beyond it. "
              "The rest is in use: need less, or set a higher limit")  # fmt: skip
    return Verdict("limit", rss - limit, text, advice, [one.name for one in courses])


CAUSES: dict[str, Callable[[History], Verdict | None]] = {
    "leak": leak, "fragmentation": fragmentation, "cache": cache, "large": large,
    "rounding": rounding, "stacks": stacks, "mappings": mappings, "files": files,
    "shared": shared, "huge": huge, "fork": fork,
}  # fmt: skip


def untold(history: History) -> Verdict | None:
    """Where no cause can be told, why."""
    watch, account = history.watch, history.account
    own = history.accounts(watch.moments)
    is_few = watch.is_command and len(own) < LOOKS_LEAST  # perhaps before its first call
    if not is_few and not any(one.has_calls for one in own):
        why = "it runs without the library"
        if account.has_heap:
            why = "it allocates nothing, or another allocator serves it"
        return unknown(
            f"{history.name} made no call of poolshim: {why}",
            f"`poolshim doctor -- {history.name}` says more; its heap counts as mappings",
        )
    is_unseen = len(own) < LOOKS_USUAL and history.seen_peak < SEEN_SHARE * history.peak
    if is_few or (watch.is_command and (is_unseen or not history.is_steady)):
        return too_short(
            f"its memory was read {len(own)} time{'s' * (len(own) != 1)} in {watch.span_s:.2f} s, "
            f"at most {mib(history.seen_peak)} of the {mib(history.peak)} at the peak"
        )
    return None


def unknown(text: str, advice: str) -> Verdict:
    """No verdict."""
    return Verdict("unknown", 0.0, text, advice)


def too_short(text: str) -> Verdict:
    """No verdict on a command that has ended so soon."""
    return unknown(f"too short: {text}", "give it more work, or look more often (--every 10ms)")


def judge(history: History) -> Verdict:
    """The cause that explains most, or that nothing is unusual; what it says of a limit comes with
    any of them."""
    verdict = untold(history)
    if verdict is not None:
        return verdict
    verdict, limit = most_of(history), limited(history)
    if limit is None:
        return verdict or nothing(history)
    if verdict is None:
        return limit
    verdict.text += f"; it is {limit.text.partition(';')[0]}"
    return verdict


def most_of(history: History) -> Verdict | None:
    """The cause that explains most; of a process that grows while it is watched, the growth."""
    verdict = grown(history)
    if verdict is not None:
        return verdict
    found = []
    for name, cause in CAUSES.items():
        verdict = cause(history)
        whole = history.moment.pss if name == "fork" else history.account.rss
        if verdict is not None and verdict.nbytes >= max(SHARES[name] * whole, LEAST_BYTES):
            found.append(verdict)
    return max(found, key=lambda one: one.nbytes, default=None)


def nothing(history: History) -> Verdict:
    """The resident memory is in use."""
    parts, rss = history.account.parts, history.account.rss
    largest = sorted(parts, key=lambda name: -parts[name])[:LISTED]
    text = f"nothing unusual: {mib(rss)}, of which " + ", ".join(
        f"{percent(parts[name], rss)} {PARTS[name]}" for name in largest
    )
    courses = [one for one in history.courses if one.site.live >= rss / 20][:LISTED]
    advice = "to need less, load less code, or have fewer and smaller blocks"
    if courses:
        text += "; live are most blocks of " + listed(courses, lambda one: one.site.live)
        advice = "to need less, have fewer or smaller live blocks there"
    return Verdict("nothing", parts["live"], text, advice, [one.name for one in courses])
