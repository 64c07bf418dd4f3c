# SPDX-License-Identifier: MIT
"""The recipe with its sources, on a server of Conan 2. Its revision is a checksum of its files."""

from __future__ import annotations

import json
from functools import cached_property

from packages.staging import export_sources
from publishing.target import Target
from publishing.tools import output

REMOTE = "poolshim"  # its name in a configuration that ends with the command


class Conan(Target):
    name = "conan"
    needs = (("conan", "remote"),)
    tools = ("conan",)

    def credentials(self) -> tuple[str, ...]:
        return ("CONAN_LOGIN_USERNAME", "CONAN_PASSWORD")

    def conan(self, *words: str) -> str:
        own = {"CONAN_HOME": str(self.home), "CONAN_NON_INTERACTIVE": "1"}
        return output("conan", *words, environment=own)

    @cached_property
    def home(self) -> str:
        return str(self.work())

    @cached_property
    def revision(self) -> str:
        """Exports the recipe and its sources of the commit; the checksum of both."""
        folder = self.work()
        export_sources(self.what, folder)
        self.conan("remote", "add", REMOTE, self.own, "--force")
        made = json.loads(self.conan("export", str(folder), "--format=json"))
        return str(made["reference"].partition("#")[2])

    def is_done(self) -> bool:
        ours = self.revision
        pattern = f"poolshim/{self.what.version}#*"
        listed = json.loads(self.conan("list", pattern, "-r", REMOTE, "--format=json"))[REMOTE]
        recipe = listed.get(f"poolshim/{self.what.version}", {})
        if recipe and ours not in recipe["revisions"]:
            raise self.conflict(self.own)
        return bool(recipe)

    def plan(self) -> str:
        return f"poolshim/{self.what.version}#{self.revision[:12]} to {self.own}"

    def upload(self) -> None:
        self.conan("upload", f"poolshim/{self.what.version}", "-r", REMOTE, "--only-recipe",
                   "--confirm")  # fmt: skip
