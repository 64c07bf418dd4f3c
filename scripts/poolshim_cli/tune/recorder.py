# SPDX-License-Identifier: MIT
"""Runs the command once, as compare does, but with the library recording its requests."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ..compare import processes, server
from ..compare.plan import Column, CommandWork, Plan, ServerWork
from ..compare.single import Single, Tools, run_single
from ..errors import BadRequest, Failed, OwnFailure
from ..places import find
from .recording import Recording, load_all

VARIABLE = "POOLSHIM_RECORD"


def check_library(library: Path) -> Path:
    """The library, or the end."""
    if not library.exists():
        raise OwnFailure(f"{library} is missing: build first")
    return library


def run_recording(work: CommandWork | ServerWork, folder: Path, timeout_s: float) -> None:
    """One run; every process of it that ends leaves a file in the folder."""
    pattern = str(folder).replace("%", "%%") + "/%p.json"
    column = Column("record", check_library(find().library), {VARIABLE: pattern})
    with tempfile.TemporaryDirectory(prefix="poolshim-tune-") as own, processes.confined():
        tools = Tools.find(find().launcher, Path(own))
        if isinstance(work, ServerWork):
            plan = Plan((column,), work, base=column.name, timeout_s=timeout_s)
            server.run_server(plan, column, (), tools, (1, 0))
        else:
            single = Single(
                work.command, column, (), work.cwd, work.stdin, timeout_s=timeout_s,
                ignore_failure=work.ignore_failure, is_output_kept=False,
            )  # fmt: skip
            run_single(single, tools, (1, 0))


def record(work: CommandWork | ServerWork, timeout_s: float) -> list[Recording]:
    """The recordings of all processes of one run, largest first."""
    with tempfile.TemporaryDirectory(prefix="poolshim-record-") as folder:
        run_recording(work, Path(folder), timeout_s)
        try:
            found = load_all(sorted(Path(folder).glob("*.json")))
        except BadRequest as error:
            raise OwnFailure(f"the library wrote a bad recording: {error}") from None
    if not found:
        raise Failed(
            "no process left a recording: each ended by a signal or by _exit, or dropped "
            "LD_PRELOAD (poolshim doctor says which)"
        )
    return found
