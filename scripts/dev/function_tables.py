# SPDX-License-Identifier: MIT
"""The functions of other allocators and what corresponds here: tables of docs/guides/from-*.md.

Rows are those of shim/counterparts.toml. A function that shim/entry_points.def has is "the same
name"; so a new export appears by itself.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

try:
    import tomllib
except ImportError:
    import tomli as tomllib  # type: ignore[import-not-found,no-redef]

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "shim" / "counterparts.toml"
ENTRY_POINTS = ROOT / "shim" / "entry_points.def"
SAME = "the same name"


class Row(NamedTuple):
    name: str
    here: str
    difference: str


def exported() -> set[str]:
    row = r"^PS_(?:ENTRY|ENTRY_RSEQ|CONTROL)\((\w+)\)"
    return set(re.findall(row, ENTRY_POINTS.read_text(), re.MULTILINE))


def read_rows(allocator: str) -> list[Row]:
    """One for each function. ValueError: a name occurs twice, or has no answer."""
    ours = exported()
    rows = [
        Row(name, SAME, group["difference"])
        if name in ours
        else Row(name, group.get("here", ""), group.get("without", group["difference"]))
        for group in tomllib.loads(ROWS.read_text())[allocator]
        for name in group["names"].split()
    ]
    names = [row.name for row in rows]
    wrong = sorted({row.name for row in rows if not row.here or names.count(row.name) > 1})
    if wrong:
        raise ValueError(f"{ROWS}: without an answer, or twice: {', '.join(wrong)}")
    return rows


def function_tables() -> dict[str, tuple[list[str], list[list[str]]]]:
    """Heads and rows, by the name of the table in a document."""
    return {
        f"functions.{allocator}": (
            [allocator, "poolshim", "Difference"],
            [[f"`{name}`", here, difference] for name, here, difference in read_rows(allocator)],
        )
        for allocator in tomllib.loads(ROWS.read_text())
    }
