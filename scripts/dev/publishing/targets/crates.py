# SPDX-License-Identifier: MIT
"""The Rust crate, in a registry, by cargo. The sparse index says whether it is there."""

from __future__ import annotations

import json
import tarfile
from functools import cached_property
from pathlib import Path

from packages.archive import sha256
from publishing.target import Target
from publishing.tools import fetch, output

ROW = "po/ol/poolshim"  # where a sparse index has the crate
HOME = "crates-io"


class Crates(Target):
    name = "crates"
    needs = (("crates", "registry"), ("crates", "index"))
    tools = ("cargo",)
    installed_by = "rustup, or apt-get install cargo"

    def credentials(self) -> tuple[str, ...]:
        """As cargo names the token of a registry."""
        name = "" if self.own == HOME else f"IES_{self.own.upper().replace('-', '_')}"
        return (f"CARGO_REGISTR{name or 'Y'}_TOKEN",)

    @cached_property
    def source(self) -> Path:
        """The folder of the crate, from the archive of dist/."""
        folder = self.work()
        with tarfile.open(self.files.one("poolshim-crate-*.tar.xz")) as tar:
            tar.extractall(folder, filter="data")
        return folder / f"poolshim-crate-{self.what.version}"

    def cargo(self, command: str, *options: str) -> str:
        """In the folder, which is in no repository."""
        own = {"CARGO_TARGET_DIR": str(self.all.work / "cargo"), "CARGO_TERM_COLOR": "never"}
        return output("cargo", command, "--locked", *options, cwd=self.source, environment=own)

    def is_done(self) -> bool:
        index = self.address("crates", "index")
        rows = (fetch(f"{index}/{ROW}") or "").splitlines()
        sums = [row["cksum"] for row in map(json.loads, rows) if row["vers"] == self.what.version]
        if not sums:
            return False
        self.cargo("package", "--no-verify")
        packed = self.all.work / "cargo" / "package" / f"poolshim-{self.what.version}.crate"
        if sums != [sha256(packed)]:
            raise self.conflict(index)
        return True

    def plan(self) -> str:
        return f"crate poolshim {self.what.version} to {self.own}, compiled first"

    def upload(self) -> None:
        self.cargo("publish", "--registry", self.own)
