# SPDX-License-Identifier: MIT
"""The release itself: a folder vVERSION with all files, their checksums, signature and notes."""

from __future__ import annotations

import shutil
from functools import cached_property
from pathlib import Path

from packages.staging import ROOT
from publishing import folder
from publishing.notes import notes
from publishing.release import SUMS
from publishing.target import Target


class ReleaseFolder(Target):
    """Complete where its SHA256SUMS is, which is written last."""

    name = "release"
    needs = (("release", "folder"),)
    tools = ("rsync",)

    @property
    def place(self) -> str:
        return f"{self.own}/v{self.what.version}"

    @cached_property
    def published(self) -> Path:
        """A copy of the destination."""
        copy = self.work()
        folder.read(self.place, copy)
        return copy

    def is_done(self) -> bool:
        ours, theirs = self.files.folder / SUMS, self.published / SUMS
        if not theirs.exists():
            return False
        if theirs.read_bytes() != ours.read_bytes():
            raise self.conflict(self.place)
        return True

    def plan(self) -> str:
        signed = "signed" if self.signer.key else "not signed"
        return f"{len(self.files.named('*'))} files and notes to {self.place}, {signed}"

    def upload(self) -> None:
        made = self.work()
        for path in self.files.named("*"):
            shutil.copyfile(path, made / path.name)
        is_signed = bool(self.signer.key)
        if is_signed:
            self.signer.sign(made / SUMS, "--detach-sign", made / f"{SUMS}.asc")
            (made / "poolshim.asc").write_text(self.signer.public())
        changelog = (ROOT / "CHANGELOG.md").read_text()
        text = notes(changelog, self.what.version, self.what.commit, is_signed)
        (made / "NOTES.md").write_text(text)
        folder.write(made, self.place, last=(SUMS,))
