# SPDX-License-Identifier: MIT
"""Where releases go: destinations.toml, or another file of the same form."""

from __future__ import annotations

import re
from pathlib import Path

from packages.staging import PackagingError, read_toml

from .tools import PublishError

DEFAULT = Path(__file__).with_name("destinations.toml")
PASSWORD = re.compile(r"://[^/@]*:[^/@]*@")
Destinations = dict[str, dict[str, str]]


def read(path: Path) -> Destinations:
    """Its tables, which have the keys of the default ones and no others; missing ones are empty."""
    known = read_toml(DEFAULT)
    try:
        found = read_toml(path)
    except (OSError, ValueError, PackagingError) as error:
        raise PublishError(f"{path}: {error}") from None
    for table, rows in found.items():
        if table not in known or not isinstance(rows, dict):
            raise PublishError(f"{path}: [{table}] is none of {', '.join(known)}")
        for key, value in rows.items():
            if key not in known[table] or not isinstance(value, str):
                raise PublishError(f"{path}: [{table}] takes text for {', '.join(known[table])}, "
                                   f"not {key} = {value!r}")  # fmt: skip
            if PASSWORD.search(value):
                raise PublishError(f"{path}: [{table}] {key} contains a password; credentials "
                                   "come from the environment")  # fmt: skip
    return {table: dict.fromkeys(rows, "") | found.get(table, {}) for table, rows in known.items()}
