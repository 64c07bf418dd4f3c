# SPDX-License-Identifier: MIT
"""Metrics as text, in both formats of Prometheus: its own, 0.0.4, and OpenMetrics 1.0.0.

    family = Family("poolshim_processes", "Processes"); family.add((), 3); text_of([family], True)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

COUNTER_END = "_total"
OPEN_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})

Labels = tuple[str, ...]  # as labels_of makes them


def labels_of(values: Mapping[str, str]) -> Labels:
    """The text of each label, by name; one without a value is left out, which means the same."""
    return tuple(f'{name}="{values[name].translate(ESCAPES)}"' for name in sorted(values)
                 if values[name])  # fmt: skip


@dataclass
class Family:
    """One metric; the name of a counter ends in _total."""

    name: str
    help: str
    samples: list[tuple[str, int]] = field(default_factory=list)

    def add(self, labels: Labels, value: int, **more: str) -> None:
        """A value, and labels beside those that other metrics have, too."""
        pairs = sorted((*labels, *labels_of(more))) if more else labels
        self.samples.append((f"{{{','.join(pairs)}}}" if pairs else "", value))

    def lines(self, is_open: bool) -> Iterable[str]:
        """In one of the formats, which differ in the name of a counter in its head."""
        is_counter = self.name.endswith(COUNTER_END)
        name = self.name.removesuffix(COUNTER_END) if is_open else self.name
        yield f"# HELP {name} {self.help.translate(ESCAPES if is_open else HELP_ESCAPES)}\n"
        yield f"# TYPE {name} {'counter' if is_counter else 'gauge'}\n"
        for labels, value in self.samples:
            yield f"{self.name}{labels} {value}\n"


def is_open_accepted(accept: str) -> bool:
    """Does a client ask for OpenMetrics? Others get the older format, which all read."""
    return any(one.partition(";")[0].strip() == "application/openmetrics-text"
               for one in accept.split(","))  # fmt: skip


def text_of(families: Iterable[Family], is_open: bool) -> str:
    """The answer to a request."""
    lines = [line for family in families for line in family.lines(is_open)]
    return "".join(lines) + ("# EOF\n" if is_open else "")
