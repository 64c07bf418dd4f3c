# SPDX-License-Identifier: MIT
"""The figures of a report, in its order: the rows of pools/engine/record/figures.def.

    for figure in FIGURES: print(figure.section, figure.key, figure.help)

In a checkout the table is that of the engine; an installed tree has a copy beside this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..def_rows import rows
from ..places import PACKAGE, REPOSITORY

NAME = "figures.def"
INSTALLED = PACKAGE / "live" / NAME
CHECKOUT = REPOSITORY / "pools" / "engine" / "record" / NAME
COUNTER_END = "_total"


@dataclass(frozen=True)
class Figure:
    """One row."""

    section: str
    key: str
    unit: str  # BYTES, COUNT or WORD
    name: str  # of the report or the census, here and in the library
    metric: str  # "": none; a counter ends in _total
    label: str
    help: str
    has: str = ""  # the field that says whether it is known
    is_word: bool = False  # the library counts it in one word, a place of that name in its layout

    @property
    def is_counter(self) -> bool:
        """It never falls."""
        return self.metric.endswith(COUNTER_END)

    def is_known(self, census: Any) -> bool:
        """False where the census says that it is not. What it does not say is None in the row."""
        return not self.has or bool(getattr(census, self.has, True))


def figure_of(kind: str, arguments: list[str]) -> Figure:
    """By the columns that figures.def describes."""
    has = arguments.pop(0) if kind == "PS_FIGURE_IF" else ""
    is_word = kind == "PS_WORD"
    section, key, unit, field, *_word, metric, label, text = arguments
    return Figure(section, key, unit, field.rpartition(".")[2], metric.replace("NONE", ""), label,
                  text, has.rpartition(".")[2], is_word)  # fmt: skip


TABLE = (INSTALLED if INSTALLED.exists() else CHECKOUT).read_text()
FIGURES = [figure_of(macro, arguments) for macro, arguments in rows(TABLE)]
