# SPDX-License-Identifier: MIT
"""expected.txt: how each attack ends under poolshim, at each level of POOLSHIM_HARDEN.

A line is "FAMILY/VARIANT/{SIZE,SIZE} OUTCOME OUTCOME ...", an outcome for each of LEVELS. Of
an outcome that is not the same in all runs both stand there: "contained|reached".
"""

from __future__ import annotations

import re
from pathlib import Path

LEVELS = ("0", "1", "2", "3", "mte")
FILE = Path(__file__).with_name("expected.txt")
UNKNOWN = "detected"  # the outcome expected of an attack that has not run at a level
LINE = re.compile(r"(\S+/)\{(\S+)\} (.+)")

Table = dict[str, dict[str, str]]  # "poolshim LEVEL" -> attack -> outcome


def read(path: Path = FILE) -> Table:
    """Empty if there is no file."""
    table: Table = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        found = LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"{path}: {line}")
        for level, outcome in zip(LEVELS, found[3].split()):
            own = table.setdefault(f"poolshim {level}", {})
            own |= {found[1] + size: outcome for size in found[2].split(",")}
    return table


def text_of(table: Table) -> str:
    """The file: attacks that differ in their last part and end alike share a line."""
    levels = [f"poolshim {level}" for level in LEVELS[: len(table)]]
    rows: dict[tuple[str, str], list[str]] = {}
    for attack in dict.fromkeys(attack for level in levels for attack in table[level]):
        start, _, size = attack.rpartition("/")
        outcomes = " ".join(table[level].get(attack, UNKNOWN) for level in levels)
        rows.setdefault((start, outcomes), []).append(size)
    return "".join(f"{start}/{{{','.join(sizes)}}} {outcomes}\n"
                   for (start, outcomes), sizes in rows.items())  # fmt: skip
