# SPDX-License-Identifier: MIT
"""The wheels, on an index of Python packages, by twine. The index is read as PEP 503 has it."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

from packages.archive import sha256
from publishing.target import Target
from publishing.tools import PublishError, fetch, output

LINK = re.compile(r'<a[^>]*?href="[^"#]*(?:#sha256=([0-9a-f]{64}))?"[^>]*>\s*([^<\s]+)\s*</a>')


class Pypi(Target):
    name = "pypi"
    needs = (("pypi", "upload"), ("pypi", "index"))
    takes_processors = True
    tools = ("twine",)

    def credentials(self) -> tuple[str, ...]:
        return ("TWINE_PASSWORD",)

    def wheels(self) -> list[Path]:
        """Those that the index lacks."""
        page = fetch(f"{self.address('pypi', 'index')}/poolshim/") or ""
        listed = {html.unescape(name): sum for sum, name in LINK.findall(page)}
        found = self.files.named("poolshim-*.whl")
        if not found:
            raise PublishError(f"{self.files.folder} has no wheel")
        for path in found:
            if listed.get(path.name, sha256(path)) != sha256(path):
                raise self.conflict(self.address("pypi", "index"))
        return [path for path in found if path.name not in listed]

    def is_done(self) -> bool:
        return not self.wheels()

    def plan(self) -> str:
        return f"{', '.join(path.name for path in self.wheels())} to {self.own}"

    def upload(self) -> None:
        wheels = self.wheels()
        output("twine", "check", "--strict", *wheels)
        own = {"TWINE_USERNAME": os.environ.get("TWINE_USERNAME", "__token__")}
        output("twine", "upload", "--non-interactive", "--disable-progress-bar",
               "--repository-url", f"{self.own}/", *wheels, environment=own)  # fmt: skip
