# SPDX-License-Identifier: MIT
"""The results of the attacks as tables: for a terminal, for docs/hardening.md, as JSON.

Called by run.py; `scripts/dev/attacks --write-docs` fills the part of the document between the
marks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from run import Attack, Contestant, Outcome

    Results = dict[str, dict[str, Outcome]]

BEGIN = "<!-- begin: made by scripts/dev/attacks --write-docs -->"
END = "<!-- end -->"
DETECTED, CONTAINED = 2, 1


def families(attacks: list[Attack]) -> dict[str, list[Attack]]:
    """The families in the order of the list."""
    grouped: dict[str, list[Attack]] = {}
    for attack in attacks:
        grouped.setdefault(attack.family, []).append(attack)
    return grouped


def count(outcomes: dict[str, Outcome], names: list[str], *ranks: int) -> int:
    return sum(outcomes[name].rank in ranks for name in names)


def cell(outcomes: dict[str, Outcome], names: list[str]) -> str:
    """ "9 + 2": nine detected, two contained."""
    detected, contained = (count(outcomes, names, rank) for rank in (DETECTED, CONTAINED))
    return f"{detected} + {contained}" if contained else str(detected)


def text(attacks: list[Attack], results: Results) -> str:
    """One line per family, one column per allocator: detected + contained."""
    width = [max(len(name), 9) for name in results]

    def line(head: str, number: str, cells: list[str]) -> str:
        row = "  ".join(c.rjust(w) for c, w in zip(cells, width, strict=True))
        return f"{head:20}{number:>5}  {row}\n"

    names = [attack.name for attack in attacks]
    lines = line("", "of", list(results))
    for family, members in families(attacks).items():
        inside = [attack.name for attack in members]
        lines += line(family, str(len(inside)), [cell(o, inside) for o in results.values()])
    for head, ranks in (("detected", (2,)), ("contained", (1,)), ("stopped", (1, 2))):
        total = [str(count(o, names, *ranks)) for o in results.values()]
        lines += line(head, str(len(names)), total)
    return lines


def attack_table(attacks: list[Attack]) -> str:
    lines = ["| Family | Attacks | Mistake of the program | Goal of the attacker |"]
    lines.append("|---|---:|---|---|")
    for family, members in families(attacks).items():
        goals = "; ".join(dict.fromkeys(attack.goal for attack in members))
        lines.append(f"| {family} | {len(members)} | {members[0].story} | {goals} |")
    lines.append(f"| | {len(attacks)} | | |")
    return "\n".join(lines)


def result_table(attacks: list[Attack], results: Results) -> str:
    lines = ["| | of | " + " | ".join(results) + " |"]
    lines.append("|---" + "|---:" * (len(results) + 1) + "|")
    for family, members in families(attacks).items():
        inside = [attack.name for attack in members]
        cells = " | ".join(cell(outcomes, inside) for outcomes in results.values())
        lines.append(f"| {family} | {len(inside)} | {cells} |")
    names = [attack.name for attack in attacks]
    rows = [("detected", (2,)), ("contained", (1,)), ("missed", (0,)), ("**stopped**", (1, 2))]
    for head, ranks in rows:
        cells = " | ".join(str(count(o, names, *ranks)) for o in results.values())
        lines.append(f"| {head} | {len(names)} | {cells} |")
    return "\n".join(lines)


def markdown(attacks: list[Attack], field_of: list[Contestant], results: Results) -> str:
    """The part of docs/hardening.md between the marks."""
    versions = "; ".join(f"{c.name}: {c.version}" for c in field_of if c.version)
    return (
        f"### Families\n\n{attack_table(attacks)}\n\n"
        "### Results by allocator\n\n"
        "`9 + 2`: nine detected, two contained, the rest missed; *stopped* is the sum of both. The "
        "word after *poolshim* is `POOLSHIM_HARDEN`; `mte` was played by programs of 64-bit ARM "
        "under qemu-user.\n\n"
        f"{result_table(attacks, results)}\n\n{versions}.\n"
    )


def write_docs(
    path: Path, attacks: list[Attack], field_of: list[Contestant], results: Results
) -> None:
    """Replaces the text between the marks."""
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{path}: no {BEGIN} ... {END}")
    path.write_text(f"{before}{BEGIN}\n{markdown(attacks, field_of, results)}{END}{after}")


def write_json(path: Path, field_of: list[Contestant], results: Results) -> None:
    document = {
        c.name: {
            "version": c.version,
            "outcomes": {a: [o.kind, o.detail] for a, o in results[c.name].items()},
        }
        for c in field_of
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def details(results: Results, everything: bool) -> str:
    """One line per attack that was missed, or per attack."""
    return "".join(
        f"{name}: {attack}: {outcome.kind}: {outcome.detail}\n"
        for name, outcomes in results.items()
        for attack, outcome in outcomes.items()
        if everything or outcome.rank == 0
    )
