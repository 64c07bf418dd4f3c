# SPDX-License-Identifier: MIT
"""The rows of shim/config.def, for the manual pages and for scripts/dev/gen-docs."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from poolshim_cli.def_rows import rows

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "shim" / "config.def"
DEFAULTS = ROOT / "pools" / "engine" / "base" / "config.h"
SWITCH_WORDS = "`0`, `1`, `true`, `false`, `on`, `off`"


@lru_cache(maxsize=1)
def engine_defaults() -> dict[str, str]:
    """Those that are not zero, by field."""
    text = DEFAULTS.read_text().split("#define PS_CONFIG_DEFAULT")[1]
    rows = re.findall(r"\.(\w+) = (?:PS_([KM])IB\((\d+)\)|(\d+))", text)
    return {field: count or f"{size}{unit}iB" for field, unit, size, count in rows}


class Option(NamedTuple):
    """One row of the table."""

    name: str
    type: str
    unit: str
    range: str
    field: str
    help: str

    @property
    def default(self) -> str:
        """As a user would write it; "" where the engine decides."""
        if self.field.startswith("engine.") and (value := engine_defaults().get(self.field[7:])):
            return value
        if self.type in ("SIZE", "LIST", "PACKED"):
            return "0" if self.range.startswith("0") else ""
        return {"COUNT": "0", "WORD": self.range.split("|")[0],
                "HUGE": self.range.split("|")[0]}.get(self.type, "off")


def read_options(table: str) -> list[Option]:
    """All rows. A row that does not have exactly the columns is an error, not a gap."""
    try:
        return [Option(*arguments) for _, arguments in rows(table)]
    except ValueError as error:
        sys.exit(f"{TABLE}: {error}")


def values_of(option: Option) -> str:
    """What may be written, as a cell of the table."""
    if option.type == "WORD":
        return ", ".join(f"`{word}`" for word in option.range.split("|"))
    if option.type == "HUGE":
        words = ", ".join(f"`{word}`" for word in option.range.split("|"))
        return f"{words}, `hugetlb:SIZE`"
    if option.type == "SWITCH":
        return SWITCH_WORDS
    if option.type == "REPORT":
        return "`0`, `1` or a file name"
    if option.type == "PATH":
        return "`0` or a file name"
    if option.type == "PACKED":
        return "`name:value,name:value`"
    if option.type == "LIMIT":
        return "`off`, 1% to 100%, or a size"
    low, high = option.range.split("..")
    what = {"SIZE": "size", "COUNT": "whole number", "LIST": "list of sizes"}[option.type]
    limits = f"{low} to {high}" if high else f"{low} or more"
    return f"{what}, {limits}"


def default_of(option: Option) -> str:
    if option.type == "PACKED":
        return ""
    return f"`{option.default}`" if option.default else "built-in"
