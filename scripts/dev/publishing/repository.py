# SPDX-License-Identifier: MIT
"""A git repository that a package manager reads: files are added in one commit, which is pushed."""

from __future__ import annotations

from pathlib import Path

from .tools import output, run


class Repository:
    """A clone, in a folder that ends with the command."""

    def __init__(self, address: str, folder: Path) -> None:
        output("git", "clone", "-q", address, folder)
        self.folder = folder

    def git(self, *words: str) -> str:
        return output("git", "-C", self.folder, *words).strip()

    def add(self, files: dict[str, str]) -> bool:
        """Stages texts by their names; whether that changes anything."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--", *files)
        return bool(self.git("status", "--porcelain"))

    def read(self, name: str) -> str | None:
        """A file's text; None if it is not there."""
        path = self.folder / name
        return path.read_text() if path.exists() else None

    def push(self, message: str) -> None:
        """Commits and pushes to the branch that the clone has checked out."""
        self.git("commit", "-q", "-m", message)
        branch = run("git", "-C", self.folder, "symbolic-ref", "--short", "HEAD").stdout.strip()
        self.git("push", "-q", "origin", f"HEAD:refs/heads/{branch}")
