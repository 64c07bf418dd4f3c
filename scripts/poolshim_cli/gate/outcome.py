# SPDX-License-Identifier: MIT
"""What a gate found: the verdict, and the call sites that grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import OwnFailure
from ..folds import Folds
from .judge import Verdict
from .looks import Look, Looks
from .sites import Row, growth


@dataclass
class Outcome:
    """Of one gate."""

    verdict: Verdict
    live: list[int]  # bytes after each round
    scale: float = 1.0  # rounds in the unit of the report
    unit: str = "round"
    span: str = ""  # what was compared
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    name: str = ""


def name_sites(
    found: Outcome, looks: Looks, first: Look, last: Look, folds: Folds, share: float = 1.0
) -> None:
    """The sites of what grows. share: of the rounds, that lies between the two looks."""
    sizes = set(found.verdict.sizes)
    rounds = max(found.verdict.rounds * share, 1.0)
    found.rows, notes = growth(looks, first, last, rounds, sizes, folds)
    found.notes += notes
    if not found.rows:
        found.notes.append("no call site was sampled: a smaller --interval names it")


def check_seen(looks: Looks, taken: Sequence[Look], program: str) -> None:
    """Whether there was anything to count."""
    if not any(look.samples for look in taken):
        reason = looks.refusal or "it calls another allocator, or none"
        raise OwnFailure(f"{program}: live memory was not seen: {reason} (poolshim doctor --run "
                         f"-- {program} says more)", looks.refusal_status)  # fmt: skip
