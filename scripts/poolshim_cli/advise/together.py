# SPDX-License-Identifier: MIT
"""Joins call sites whose blocks die together: one region serves them all.

    sites = joined(trace, sites_of(trace))
    sites[0].parts                  # the call sites of a joined one; () of all others
"""

from __future__ import annotations

from bisect import bisect_right

from .order import END, facts_of
from .patterns import MOST, REGION, Site, is_region
from .trace import LIVE, Trace

GROUPS_MORE = 1.1  # groups of joined sites, by those of the one that has most
Spans = list[tuple[int, int]]  # from the first to the last death of each group, in order


def parts_of(site: Site) -> tuple[Site, ...]:
    """The call sites: itself, unless it is joined."""
    return site.parts or (site,)


def spans_of(trace: Trace, site: Site) -> Spans:
    """When its groups die."""
    found = []
    for group in site.groups:
        times = [END if trace.died[one] == LIVE else trace.died[one] for one in group]
        found.append((min(times), max(times)))
    return sorted(found)


def overlap(one: Spans, other: Spans) -> bool:
    """Whether nearly all groups of the second die while one of the first does."""
    starts = [start for start, _ in one]
    met = 0
    for start, end in other:
        at = bisect_right(starts, end) - 1
        met += at >= 0 and one[at][1] >= start
    return met >= MOST * len(other)


def join(trace: Trace, sites: list[Site]) -> list[Site]:
    """All of them as one site; as they are where their groups end apart."""
    if len(sites) == 1:
        return sites
    facts = facts_of(trace, sorted(block for site in sites for block in site.facts.blocks))
    most = max(len(site.groups) for site in sites)
    if not is_region(facts) or len(facts.bursts) > GROUPS_MORE * most:
        return sites
    return [Site(sites[0].key, facts, REGION, "", tuple(sites))]


def joined(trace: Trace, sites: list[Site]) -> list[Site]:
    """All sites, those of one region as one of them. Each block is looked at once more."""
    sets: list[tuple[Spans, list[Site]]] = []
    for site in (site for site in sites if site.pattern is REGION):
        spans = spans_of(trace, site)
        for first, members in sets:
            if overlap(first, spans) and overlap(spans, first):
                members.append(site)
                break
        else:
            sets.append((spans, [site]))
    found = [site for _, members in sets for site in join(trace, members)]
    return found + [site for site in sites if site.pattern is not REGION]
