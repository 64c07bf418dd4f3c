# SPDX-License-Identifier: MIT
"""The report of `poolshim advise`: what pays first, then why no pool pays at the other sites."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from ..callsites import inner_of
from ..folds import Folds
from ..pprof import Profile, Sample
from ..symbols import Symbols, names_of
from .order import mean_length
from .patterns import Site
from .replay import Cost, Gain
from .together import parts_of
from .trace import LIVE, Trace

FOLDS = Folds()
LINES_SHOWN = 3  # calls of a site, and places that free
PARTS_SHOWN = 8  # sites of one region
NAME_COLUMNS = 40
GAIN_LEAST = 0.01  # of the program's processor time
MEMORY_LEAST_KIB = 1024
MEMORY_SHARE = 0.9  # of malloc's; below it, a pool saves memory
SYSTEM = ("/usr/include/", "/usr/lib/")


@dataclass
class Advice:
    """A site with a pattern."""

    site: Site
    cost: Cost
    gain: Gain | None  # None: not measured
    made_at: list[str]
    freed_at: list[str]
    program_ns: float | None  # processor time of the whole program; None: not known
    parts: list[tuple[float, list[str]]] = field(default_factory=list)  # blocks, made_at

    @property
    def share(self) -> float:
        """The share of the site's traced allocations that the pool serves."""
        groups = self.site.groups
        return sum(map(len, groups)) / self.site.facts.count if groups else 1.0

    @property
    def allocations(self) -> float:
        """Allocations of the whole run that the pool would serve."""
        return self.site.facts.weight * self.share

    @property
    def part(self) -> float:
        """The part of the replayed time that the program can have taken: its calls at the site take
        at most all of its time. The replay makes calls in a row, without the program's work between
        them, which may take longer."""
        if self.program_ns is None:
            return 1.0
        malloc_ns = self.gain.malloc_ns if self.gain is not None else self.cost.malloc_ns
        return min(1.0, self.program_ns / max(malloc_ns * self.allocations, 1.0))

    @property
    def saved_ns(self) -> float:
        """Nanoseconds saved in the whole run; 0 where it was not measured."""
        if self.gain is None:
            return 0.0
        return self.gain.saved_ns * self.allocations * self.part

    @property
    def span_ns(self) -> tuple[float, float]:
        """The least and the most nanoseconds that are plausible for the whole run."""
        if self.gain is None:
            return 0.0, 0.0
        low, high = (one * self.allocations for one in self.gain.span_ns)
        if self.program_ns is not None:
            high = min(high, self.program_ns * (1 - min(self.gain.low, self.gain.whole_low)))
        return low * self.part, max(high, self.saved_ns)

    @property
    def most_ns(self) -> float:
        """Malloc's time for them in the whole run."""
        return self.cost.malloc_ns * self.allocations * self.part

    @property
    def least_ns(self) -> float:
        """What a change has to save of the whole run."""
        return GAIN_LEAST * self.program_ns if self.program_ns is not None else 0.0

    @property
    def can_pay(self) -> bool:
        """Whether malloc takes enough there that a pool could be worth a change. One process has
        told; on a busy machine its own loop may have seemed as long as the calls."""
        most_ns = self.cost.whole_ns * self.allocations
        return most_ns >= self.least_ns or self.cost.malloc_kib >= MEMORY_LEAST_KIB

    @property
    def saves_memory(self) -> bool:
        """Clearly less at the peak."""
        if self.gain is None:
            return False
        saved = self.gain.malloc_kib - self.gain.pool_kib
        return saved >= MEMORY_LEAST_KIB and self.gain.kib_high <= MEMORY_SHARE

    @property
    def is_worthwhile(self) -> bool:
        """Clearly less time, and not too little of the program's; or clearly less memory."""
        is_less = self.gain is not None and self.gain.low_ns > 0
        return (is_less and self.saved_ns >= self.least_ns) or self.saves_memory


@dataclass
class Findings:
    """All of it."""

    trace: Trace
    advice: list[Advice] = field(default_factory=list)  # with a pattern, best first
    others: list[tuple[Site, list[str]]] = field(default_factory=list)  # and where they are
    notes: list[str] = field(default_factory=list)

    @property
    def worthwhile(self) -> list[Advice]:
        """What to do."""
        return [one for one in self.advice if one.is_worthwhile]


def names_for(trace: Trace, sites: list[Site]) -> Symbols:
    """The names of all sites, and of the places that free their blocks."""
    addresses: dict[int, None] = {}
    for site in sites:
        addresses.update(dict.fromkeys(one for part in parts_of(site) for one in part.key))
        for stack in freeing_stacks(trace, site):
            addresses.update(dict.fromkeys(stack[:1]))
    locations = tuple(trace.location(one) for one in addresses)
    return names_of(Profile(samples=[Sample(locations, ())]))


def freeing_stacks(trace: Trace, site: Site) -> list[tuple[int, ...]]:
    """The stacks that free the site's blocks, by the number of blocks."""
    counts = Counter(
        trace.stacks.get(trace.free_stack[one], ())[:1]
        for one in site.facts.blocks if trace.died[one] != LIVE
    )  # fmt: skip
    return [stack for stack, _ in counts.most_common(LINES_SHOWN) if stack]


def made_at(trace: Trace, site: Site, names: Symbols) -> list[str]:
    """The calls of a site, innermost first, without the layers of allocation that come first."""
    stack = [trace.location(one) for one in site.key]
    lines = [line for one in stack for line in names.lines_of(one)]
    return lines[inner_of(names.frames_of(stack), FOLDS) :]


def freed_at(trace: Trace, site: Site, names: Symbols) -> list[str]:
    """The calls that free, one for each place."""
    found = [names.lines_of(trace.location(stack[0])) for stack in freeing_stacks(trace, site)]
    return list(dict.fromkeys(lines[0] for lines in found))


def shortened(name: str) -> str:
    """For a list; templates and long parameter lists fill screens."""
    return name if len(name) <= NAME_COLUMNS else name[: NAME_COLUMNS - 1] + "…"


def milliseconds(ns: float) -> str:
    """A duration in milliseconds."""
    return f"{ns / 1e6:.3g} ms"


def sizes_text(site: Site) -> str:
    """The sizes of a site's blocks."""
    low, high = min(site.facts.sizes), max(site.facts.sizes)
    return f"{low} bytes" if low == high else f"{low} to {high} bytes"


def groups_text(site: Site) -> str:
    """How many at once, where that is so."""
    return f", {mean_length(site.groups):.0f} at a time" if site.groups else ""


def of_program(ns: float, advice: Advice) -> str:
    """A duration as a part of the run."""
    if not advice.program_ns:
        return ""
    return f" of {milliseconds(advice.program_ns)}, {ns / advice.program_ns:.1%}"


def time_text(advice: Advice) -> str:
    """What the pool saves of the run."""
    assert advice.gain is not None
    low, high = advice.span_ns
    text = f"{milliseconds(advice.saved_ns)} ({milliseconds(low)} to {milliseconds(high)})"
    return text + of_program(advice.saved_ns, advice)


def too_little(advice: Advice) -> str:
    """Why a pattern pays nothing."""
    assert advice.site.pattern is not None
    pool = advice.site.pattern.pool
    if advice.gain is None:
        reason = f"they {advice.site.pattern.what}, but malloc takes only "
        reason += milliseconds(advice.most_ns) + of_program(advice.most_ns, advice)
        return reason + (", and that was not measured closer" if advice.can_pay else "")
    if advice.gain.low_ns <= 0:
        return (f"they {advice.site.pattern.what}, but {pool} is no faster: "
                f"{advice.gain.low:.2f} to {advice.gain.high:.2f} times malloc's time")  # fmt: skip
    return f"they {advice.site.pattern.what}, but {pool} saves only {time_text(advice)}"


def print_made(lines: list[str], blocks: str, stream: TextIO) -> None:
    """The calls of a site."""
    for at, line in enumerate(lines[:LINES_SHOWN]):
        title, more = ("called", "") if at else ("allocated", blocks)
        print(f"   {title:9} at {line}{more}", file=stream)


def print_advice(number: int, advice: Advice, stream: TextIO) -> None:
    """One site."""
    site, gain = advice.site, advice.gain
    assert site.pattern is not None and gain is not None
    print(f"\n{number}. {site.pattern.pool}: saves {time_text(advice)}", file=stream)
    sites = f" from {len(site.parts)} call sites" if site.parts else ""
    print(f"   {site.facts.weight:,.0f} blocks of {sizes_text(site)}{sites} {site.pattern.what}"
          f"{groups_text(site)}", file=stream)  # fmt: skip
    print(f"   a block: malloc {gain.malloc_ns:.1f} ns, {site.pattern.pool} {gain.pool_ns:.1f} ns; "
          f"{gain.low:.2f} to {gain.high:.2f} times", file=stream)  # fmt: skip
    if advice.part < 1:
        print("   made again, malloc's calls take longer than the whole program: they count as all "
              "of it", file=stream)  # fmt: skip
    if max(gain.malloc_kib, gain.pool_kib) >= MEMORY_LEAST_KIB:
        print(f"   memory at the peak: malloc {gain.malloc_kib / 1024:.1f} MiB, "
              f"{site.pattern.pool} {gain.pool_kib / 1024:.1f} MiB; {gain.kib_low:.2f} to "
              f"{gain.kib_high:.2f} times", file=stream)  # fmt: skip
    print(f"   #include <{site.pattern.header}>: {site.pattern.how}", file=stream)
    if not advice.parts:
        print_made(advice.made_at, "", stream)
    for weight, lines in advice.parts[:PARTS_SHOWN]:
        print_made(lines, f": {weight:,.0f} blocks", stream)
    for line in advice.freed_at[:LINES_SHOWN]:
        print(f"   freed     at {line}", file=stream)


def coverage(trace: Trace) -> str:
    """How many allocations were traced."""
    traced = len(trace.size)
    seen = "all traced" if traced == trace.made_count else f"{traced:,} traced in windows"
    return f"{trace.made_count:,} allocations, {seen}"


def show(found: Findings, top: int, stream: TextIO) -> None:
    """The text."""
    worthwhile = found.worthwhile
    verdict = f"{len(worthwhile)} to gain from" if worthwhile else "nothing to gain"
    if worthwhile and worthwhile[0].program_ns is None:
        verdict += ", of a processor time that was not measured"
    count = len(found.advice) + len(found.others)
    print(f"{coverage(found.trace)}; of {count} call sites that count: {verdict}", file=stream)
    for number, advice in enumerate(worthwhile[:top], 1):
        print_advice(number, advice, stream)
    rest = [(one.site, one.made_at, too_little(one)) for one in found.advice
            if not one.is_worthwhile]  # fmt: skip
    rest += [(site, lines, site.reason) for site, lines in found.others]
    if rest:
        print("\nNothing to gain:" if worthwhile else "", file=stream)
    firsts = Counter(lines[0] for _, lines, _ in rest)
    for site, lines, reason in rest[:top]:
        where = shortened(lines[0])
        if firsts[lines[0]] > 1 and len(lines) > 1:
            where += f", called at {shortened(lines[-1])}"
        others = len(site.parts) - 1
        if others > 0:
            where += f" and {others} other call site{'s' * (others > 1)}"
        print(f"   {site.facts.weight:,.0f} blocks at {where}:\n      {reason}", file=stream)
    for note in found.notes:
        print(f"note: {note}", file=stream)


def to_json(found: Findings) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "poolshim_advise": 1,
        "allocations": found.trace.made_count,
        "traced": len(found.trace.size),
        "advice": [
            {
                "pool": one.site.pattern.pool, "header": one.site.pattern.header,
                "what": one.site.pattern.what, "allocations": one.allocations,
                "is_worthwhile": one.is_worthwhile, "saved_ns": one.saved_ns,
                "saved_low_ns": one.span_ns[0], "saved_high_ns": one.span_ns[1],
                "program_ns": one.program_ns, "made_at": one.made_at, "freed_at": one.freed_at,
                "sites": [{"allocations": weight, "made_at": lines}
                          for weight, lines in one.parts],
                "is_measured": one.gain is not None,
                **asdict(one.cost if one.gain is None else one.gain),
            }
            for one in found.advice if one.site.pattern is not None
        ],
        "others": [
            {"allocations": site.facts.weight, "made_at": lines, "reason": site.reason}
            for site, lines in found.others
        ],
        "notes": found.notes,
    }  # fmt: skip
