# SPDX-License-Identifier: MIT
"""The port, in a registry of vcpkg: a git repository of ports and of their versions.

The port takes the sources by git, from the commit of the release, whose identifier is its checksum.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import Any

from packages.staging import ROOT
from publishing.repository import Repository
from publishing.target import Target

PORT = ROOT / "scripts" / "packages" / "vcpkg"
PLACE = "ports/poolshim"
VERSIONS, BASELINE = "versions/p-/poolshim.json", "versions/baseline.json"
FROM_CHECKOUT = re.compile(r"(?ms)^# A port for vcpkg.*?(?=^get_filename)get_filename_[^)]*\)$")
FROM_GIT = """\
vcpkg_from_git(OUT_SOURCE_PATH SOURCE_PATH
    URL "{sources}"
    REF {commit})"""


class Vcpkg(Target):
    name = "vcpkg"
    needs = (("vcpkg", "registry"), ("project", "sources"))
    tools = ("git",)

    @cached_property
    def registry(self) -> Repository:
        return Repository(self.own, self.work())

    def port(self) -> dict[str, str]:
        """Its files."""
        where = {"sources": self.address("project", "sources"), "commit": self.what.commit}
        text = (PORT / "portfile.cmake").read_text()
        made, count = FROM_CHECKOUT.subn(FROM_GIT.format(**where), text)
        assert count == 1, "the port in scripts/packages/vcpkg has another form"
        manifest = json.loads((PORT / "vcpkg.json").read_text())
        del manifest["$comment"]
        return {f"{PLACE}/portfile.cmake": made,
                f"{PLACE}/vcpkg.json": json.dumps(manifest, indent=2) + "\n"}  # fmt: skip

    def versions(self) -> list[dict[str, Any]]:
        """Those of the registry, the newest first."""
        found: list[dict[str, Any]] = json.loads(self.registry.read(VERSIONS) or "{}").get(
            "versions", [])  # fmt: skip
        return found

    def is_done(self) -> bool:
        self.registry.add(self.port())
        tree = self.registry.git("write-tree", f"--prefix={PLACE}/")
        trees = {row["version-semver"]: row["git-tree"] for row in self.versions()}
        if trees.get(self.what.version, tree) != tree:
            raise self.conflict(self.own)
        return self.what.version in trees

    def plan(self) -> str:
        return f"{PLACE} and its version in {self.own}"

    def upload(self) -> None:
        self.registry.add(self.port())
        tree = self.registry.git("write-tree", f"--prefix={PLACE}/")
        row = {"version-semver": self.what.version, "port-version": 0, "git-tree": tree}
        baseline = json.loads(self.registry.read(BASELINE) or '{"default": {}}')
        baseline["default"]["poolshim"] = {"baseline": self.what.version, "port-version": 0}
        lists = {VERSIONS: {"versions": [row, *self.versions()]}, BASELINE: baseline}
        self.registry.add({name: json.dumps(text, indent=2) + "\n" for name, text in lists.items()})
        self.registry.push(f"poolshim {self.what.version}")
