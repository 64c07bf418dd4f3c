# SPDX-License-Identifier: MIT
"""The rows of shim/mallctl.def, and the table of docs/introspection.md that scripts/dev/gen-docs
makes of them."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

DEFINITIONS = Path(__file__).resolve().parents[2] / "shim" / "mallctl.def"
ROW = re.compile(
    r'^PS_CTL\("(?P<name>[^"]+)",\s+(?P<type>\w+),\s+(?P<access>\w+),\s+(?P<value>\w+),\s+\w+,'
    r'\s+(?P<text>(?:"(?:[^"\\]|\\.)*"\s*)+)\)$|'
    r'^PS_CTL_(?P<kind>LOCK|HUGE)\("(?P<prefix>[^"]+)"',
    re.MULTILINE,
)
TYPES = {
    "BOOL": "bool", "UINT32": "unsigned", "UINT64": "uint64_t", "SIZE": "size_t",
    "INT64": "ssize_t", "TEXT": "const char *", "POINTER": "pointer", "ACTION": "–",
}  # fmt: skip
ACCESSES = {
    "READ": "r", "WRITE": "rw", "PROFILE": "rw", "EPOCH": "rw", "STORE": "w", "DUMP": "w",
    "DO": "action", "CALL": "rw", "NONE": "–",
}  # fmt: skip
ONLY_READ = {"tcache.create"}
GROUPS = {
    "LOCK": ("<counter>", "uint64_t", "0: the locks are not those of jemalloc"),
    "HUGE": ("<count>", "size_t", "0: there is no such thing"),
}


class Row(NamedTuple):
    """A name, or those of a group."""

    name: str
    type: str
    access: str
    text: str


def spelled(name: str) -> str:
    """The name as documents have it."""
    return name.replace("#", "<i>", 1).replace("#", "<j>", 1)


def read_rows() -> list[Row]:
    rows = []
    for found in ROW.finditer(DEFINITIONS.read_text()):
        if found["kind"]:
            last, kind, text = GROUPS[found["kind"]]
            rows.append(Row(f"{spelled(found['prefix'])}.{last}", kind, "r", text))
            continue
        parts = re.findall(r'"((?:[^"\\]|\\.)*)"', found["text"])
        access = "r" if found["name"] in ONLY_READ else ACCESSES[found["access"]]
        text = re.sub(r'\\(.)', r"\1", "".join(parts))
        rows.append(Row(spelled(found["name"]), TYPES[found["type"]], access, text))
    return rows


def cells() -> list[list[str]]:
    """Adjacent rows that say the same are one."""
    table = []
    for (kind, access, text), rows in groupby(read_rows(), key=lambda row: row[1:]):
        names = ", ".join(f"`{row.name}`" for row in rows)
        table.append([names, kind, access, text])
    return table
