# SPDX-License-Identifier: MIT
"""One process from start to end, and what it used: for the tools that print prices."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REFUSALS = ("poolshim:", "cannot be preloaded")  # the library's words, and the loader's


@dataclass(frozen=True)
class Ended:
    """A process that has ended, with all that it waited for."""

    status: int
    stderr: str
    usage: resource.struct_rusage

    @property
    def problem(self) -> str:
        """Why it is no measurement of the library; "" where it is."""
        is_bad = self.status != 0 or any(words in self.stderr for words in REFUSALS)
        return f"status {self.status}: {self.stderr[-500:]}" if is_bad else ""


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Ended:
    """Runs it in the folder, without input and with its output thrown away."""
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=stderr,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    said = (folder / "stderr").read_text(errors="replace")
    return Ended(process.returncode, said, usage)
