# SPDX-License-Identifier: MIT
"""docs/figures.json: the tables of a run, from which scripts/dev/gen-docs fills the documents."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

from poolshim_cli.places import REPOSITORY

from .command import write_file
from .report import Section

FIGURES = REPOSITORY / "docs" / "figures.json"


def store(tables: dict[str, Section], command: str, path: Path = FIGURES) -> None:
    """Replaces these tables, leaves all other figures as they are."""
    content = json.loads(path.read_text())
    for name, section in tables.items():
        content["tables"][name] = {
            "title": section.title,
            "command": command,
            "date": datetime.now(timezone.utc).date().isoformat(),
            "headers": section.plain_headers(),
            "rows": section.rows,
        }
    write_file(path, dumps(content))


def dumps(content: dict[str, object]) -> str:
    """One line per figure and per row, so that a change of one is a change of one line."""
    tables = content["tables"]
    figures = content["figures"]
    assert isinstance(tables, dict) and isinstance(figures, dict)
    parts = []
    for name, table in sorted(tables.items()):
        rows = ",\n".join(f"   {line(row)}" for row in table["rows"])
        keys = ",\n".join(f'   "{key}": {line(table[key])}' for key in table if key != "rows")
        parts.append(f'  "{name}": {{\n{keys},\n   "rows": [\n{rows}\n   ]\n  }}')
    lines = ",\n".join(f'  "{name}": {line(one)}' for name, one in sorted(figures.items()))
    return f'{{\n "figures": {{\n{lines}\n }},\n "tables": {{\n' + ",\n".join(parts) + "\n }\n}\n"


def line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
