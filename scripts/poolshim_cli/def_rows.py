# SPDX-License-Identifier: MIT
"""The rows of a table in C, a .def file: one call of a macro each.

    rows('PS_WORD(memory, "a " "text")')        [("PS_WORD", ["memory", "a text"])]
"""

from __future__ import annotations

import ast
import re

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
BEGIN = re.compile(r"^PS_[A-Z_]+\(", re.MULTILINE)
ROW = re.compile(r'^(PS_[A-Z_]+)\(((?:"(?:[^"\\]|\\.)*"|[^()"])*)\)', re.MULTILINE)
ARGUMENT = re.compile(r'\s*((?:"(?:[^"\\]|\\.)*"\s*)+|[\w.]+)\s*(?:,|$)')


def argument(text: str) -> str:
    """Returns a name as it is written, and adjacent strings joined."""
    text = text.strip()
    return str(ast.literal_eval(f"({text})")) if text.startswith('"') else text


def rows(text: str) -> list[tuple[str, list[str]]]:
    """Returns the macro and the arguments of each row; one that is not understood is an error."""
    code = COMMENT.sub("", text)
    found, count = ROW.findall(code), len(BEGIN.findall(code))
    if len(found) != count:
        raise ValueError(f"{count} rows, {len(found)} of them understood")
    return [(macro, [argument(match[1]) for match in ARGUMENT.finditer(row)])
            for macro, row in found]  # fmt: skip
