# SPDX-License-Identifier: MIT
"""The measurement as stored: every run of every column, and all that judges them.

The file of --json is `Results.to_json`; `compare --from` reads it back. Nothing derived is read
from it: tables and reports are made from the runs, always by the same code (summary.py).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import BadRequest

FORMAT = 1


@dataclass(frozen=True)
class Run:
    """One process, or one server under its load, that did its work."""

    round: int
    position: int  # within its round, from 0
    wall_s: float  # the launcher's clock
    hyperfine_s: float | None  # hyperfine's, for the same process and the launcher around it
    cpu_s: float  # user and system, children that were waited for included
    peak_rss_kib: int  # the largest process of the command
    exit_status: int = 0
    output_sha256: str | None = None
    output_bytes: int | None = None
    load_said: str | None = None  # the last line of a server's load
    curve: tuple[tuple[float, int], ...] = ()  # ms since the start, RSS in KiB


@dataclass
class Measured:
    """One column; no runs when it failed in the warm-up."""

    name: str
    library: str | None = None
    version: str = ""
    note: str = ""
    env: dict[str, str] = field(default_factory=dict)
    inherited: dict[str, str] = field(default_factory=dict)  # settings of our own environment
    is_again: bool = False  # the base a second time
    failure: str | None = None
    runs: list[Run] = field(default_factory=list)


@dataclass
class Results:
    """One comparison."""

    about: dict[str, Any]  # work, machine, versions, seed, how to reproduce
    base: str
    columns: list[Measured]
    warnings: list[str] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)

    @property
    def base_column(self) -> Measured:
        """What the others are compared with."""
        return next(column for column in self.columns if column.name == self.base)

    def to_json(self) -> str:
        """The whole file; one run per line, so that people and diffs can read it."""
        whole = {"poolshim_compare": FORMAT, **asdict(self)}
        columns = whole.pop("columns")
        head = json.dumps(whole, indent=1, ensure_ascii=False)[:-2]
        shown = []
        for column in columns:
            runs = column.pop("runs")
            lines = ",\n   ".join(json.dumps(run) for run in runs)
            text = json.dumps(column, ensure_ascii=False)[:-1]
            shown.append(f"{text}, \"runs\": [" + (f"\n   {lines}" if lines else "") + "]}")
        return f"{head},\n \"columns\": [\n  " + ",\n  ".join(shown) + "\n ]\n}\n"


def known(cls: Any, data: dict[str, Any]) -> dict[str, Any]:
    """The fields of the class in the data: a newer file may have more."""
    return {one.name: data[one.name] for one in fields(cls) if one.name in data}


def read_run(data: dict[str, Any]) -> Run:
    """One line of a column's runs."""
    values = known(Run, data)
    values["curve"] = tuple((float(at), int(kib)) for at, kib in values.get("curve", ()))
    run = Run(**values)
    numbers = (run.round, run.wall_s, run.cpu_s, run.peak_rss_kib, run.hyperfine_s or 0)
    if not all(isinstance(number, (int, float)) for number in numbers) or run.wall_s <= 0:
        raise ValueError("a run without figures")
    return run


def from_json(text: str) -> Results:
    """What to_json wrote; ValueError, KeyError or TypeError if it is anything else."""
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("poolshim_compare") != FORMAT:
        raise ValueError("")
    columns = []
    for entry in data["columns"]:
        column = Measured(**{**known(Measured, entry), "runs": []})
        column.runs = [read_run(run) for run in entry["runs"]]
        columns.append(column)
    missing = [(name, reason) for name, reason in data.get("missing", [])]
    results = Results(data["about"], data["base"], columns, data.get("warnings", []), missing)
    if not any(column.name == results.base and column.runs for column in columns):
        raise ValueError("there are no runs of the base")
    return results


def read(path: Path) -> Results:
    """The results of an earlier comparison, or one line saying why not."""
    try:
        return from_json(path.read_text())
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)
        message = f"{path}: not a result file of this version of poolshim compare --json"
        raise BadRequest(f"{message}: {why}" if why else message) from None
