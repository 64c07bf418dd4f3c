# SPDX-License-Identifier: MIT
"""What a machine says on its console: the output of each run between two lines, and its status."""

from __future__ import annotations

import re
from dataclasses import dataclass

from poolshim_cli.errors import BadRequest

BEGIN, END = "machine begins {0}", "machine ends {0}: {1}"
# The firmware's last words end no line.
BEGINS = re.compile(r"machine begins (\S+)$", re.MULTILINE)
SHOWN = 400  # characters of a console, in a message


@dataclass(frozen=True)
class Result:
    """One run: its output and its exit status."""

    text: str
    status: int


class Console:
    """Grows while the machine runs."""

    def __init__(self, text: str = "") -> None:
        self.text = ""
        self.add(text)

    def add(self, text: str) -> None:
        self.text = (self.text + text).replace("\r\n", "\n")

    @property
    def begun(self) -> list[str]:
        """Names of runs, in their order."""
        return BEGINS.findall(self.text)

    def output(self, name: str) -> str:
        """Of a run that may not have ended, whole lines only unless it has."""
        _, begins, rest = self.text.partition(BEGIN.format(name) + "\n")
        ended = self._end(name).search(rest)
        return rest[: ended.start()] if begins and ended else rest[: rest.rfind("\n") + 1]

    def result(self, name: str) -> Result:
        _, begins, rest = self.text.partition(BEGIN.format(name) + "\n")
        ended = self._end(name).search(rest)
        if not begins or ended is None:
            raise BadRequest(f"the machine stopped before {name}: ...{self.text[-SHOWN:]!r}")
        return Result(rest[: ended.start()], int(ended[1]))

    @staticmethod
    def _end(name: str) -> re.Pattern[str]:
        return re.compile(re.escape(END.format(name, "")) + r"(\d+)$", re.MULTILINE)
