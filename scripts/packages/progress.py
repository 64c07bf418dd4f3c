# SPDX-License-Identifier: MIT
"""Says on stderr which step of how many runs, and for how long: a build is silent for minutes.

    progress = Progress(["the sources", "compile"], "scripts/package")
    with progress.step():
        export()

On a terminal one line is overwritten; elsewhere each step has a line, a long one several.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence

from progress_line import LINE_SECONDS, ProgressLine


class Progress:
    """Steps that are taken in their order."""

    def __init__(self, names: Sequence[str], command: str) -> None:
        self.names = names
        self.command = command
        self.number = 0
        self.line = ProgressLine(sys.stderr)

    def seconds(self) -> int:
        """Since the first step could begin."""
        return round(self.line.seconds())

    def where(self) -> str:
        """The step that runs, or that failed."""
        name = self.names[self.number - 1]
        return f"step {self.number} of {len(self.names)}, {name}"

    def show(self) -> None:
        """The line."""
        self.line.show(f"{self.command}: {self.where()}, {self.seconds()} s")

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """The next one; a thread shows the time that passes."""
        self.number += 1
        self.show()
        is_over = threading.Event()

        def tick() -> None:
            while not is_over.wait(1 if self.line.is_terminal else LINE_SECONDS):
                self.show()

        ticker = threading.Thread(target=tick, daemon=True)
        ticker.start()
        try:
            yield
        finally:
            is_over.set()
            ticker.join()
            self.line.clear()
