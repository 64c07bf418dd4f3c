# SPDX-License-Identifier: MIT
"""The files of the repository. A text is read once, and a view of it (without comments, the
comments alone) is made once, whichever rules use it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

C_SUFFIXES = (".c", ".h", ".cpp", ".hpp", ".def")
CODE_SUFFIXES = {*C_SUFFIXES, ".py", ".sh", ".cmake", ".in", ".rs", ""}
CODE_FOLDERS = ("pools", "shim", "tests", "bench", "scripts", "cmake", ".ci", "docs")

View = TypeVar("View")


class Tree:
    """Names are paths from the root, with slashes."""

    def __init__(self, names: Iterable[str], read: Callable[[str], str]) -> None:
        self.names = sorted(set(names))
        self._read = read
        self._views: dict[tuple[object, str], object] = {}
        self._files = set(self.names)

    @cached_property
    def folders(self) -> set[str]:
        """Without the root."""
        return {name[:end] for name in self.names for end in slashes(name)}

    @cached_property
    def _listing(self) -> str:
        return "\n".join((*self.names, *self.folders))

    @classmethod
    def at(cls, root: Path, names: Iterable[str] | None = None) -> Tree:
        """The files that git lists, or those of an archive that has no history."""
        names = listed(root) if names is None else names
        return cls(
            (name for name in names if (root / name).is_file()),
            lambda name: (root / name).read_text(errors="replace"),
        )

    def overlay(self, changes: Mapping[str, str | None]) -> Tree:
        """A tree with other texts for some files, None for a file that is gone; shares the rest."""
        gone = {name for name, text in changes.items() if text is None}
        names = (self._files | set(changes)) - gone
        texts = {name: text for name, text in changes.items() if text is not None}
        changed = Tree(names, lambda name: texts[name] if name in texts else self.text(name))
        changed._views = {key: view for key, view in self._views.items() if key[1] not in changes}
        return changed

    def text(self, name: str) -> str:
        key = (None, name)
        if key not in self._views:
            self._views[key] = self._read(name)
        return str(self._views[key])

    def view(self, make: Callable[[str], View], name: str) -> View:
        """make(text of the file), made once."""
        key = (make, name)
        if key not in self._views:
            self._views[key] = make(self.text(name))
        return self._views[key]  # type: ignore[return-value]

    def has(self, name: str) -> bool:
        """Whether a file or a folder has this name."""
        return name.rstrip("/") in self._files or name.rstrip("/") in self.folders

    def has_folder(self, name: str) -> bool:
        return name.rstrip("/") in self.folders

    def glob(self, pattern: str) -> list[str]:
        """Files and folders; a star is part of one name, two stars are any path."""
        pattern = pattern.rstrip("/")
        if "*" not in pattern:
            return [pattern] if self.has(pattern) else []
        parts = re.split(r"(\*\*/?|\*)", pattern)
        regex = "".join(
            ".*" if part.startswith("**") else "[^/\n]*" if part == "*" else re.escape(part)
            for part in parts
        )
        return re.findall(f"^{regex}$", self._listing, re.MULTILINE)

    def below(self, *folders: str, suffixes: Iterable[str] = ("",)) -> list[str]:
        """Files below folders, by the ends of their names."""
        starts, ends = tuple(f"{folder}/" for folder in folders), tuple(suffixes)
        return [name for name in self.names if name.startswith(starts) and name.endswith(ends)]

    def documents(self) -> list[str]:
        return [name for name in self.names if is_document(name)]


def suffix_of(name: str) -> str:
    """With its dot; none of a name that starts with its only dot."""
    base = name.rpartition("/")[2]
    return base[dot:] if (dot := base.rfind(".")) > 0 else ""


def slashes(name: str) -> list[int]:
    return [place for place, character in enumerate(name) if character == "/"]


def listed(root: Path) -> list[str]:
    command = ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True)
    if done.returncode == 0:
        return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    found = (path.relative_to(root) for path in root.rglob("*"))
    skipped = {"build", ".venv", ".git", ".cache", "__pycache__"}
    return [path.as_posix() for path in found if not skipped & set(path.parts)]


def is_c(name: str) -> bool:
    return name.endswith(C_SUFFIXES)


def is_product(name: str) -> bool:
    return is_c(name) and name.startswith(("pools/", "shim/"))


def is_code(name: str) -> bool:
    """Sources, scripts and build files; no results, whose toolchains write them."""
    if name == "CMakeLists.txt":
        return True
    if name.split("/")[0] not in CODE_FOLDERS or name.startswith("bench/results/"):
        return False
    return suffix_of(name) in CODE_SUFFIXES


def is_document(name: str) -> bool:
    folders = name.split("/")[:-1]
    return name.endswith(".md") and not any(folder.startswith(".") for folder in folders)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def matching(pattern: str, text: str) -> Iterable[tuple[int, str]]:
    """Lines that match, with their numbers, stripped."""
    search = re.compile(pattern).search
    return ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1)
            if search(line))  # fmt: skip


CODE_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def without_comments(text: str) -> str:
    """C text with comments and contents of strings blanked; keeps the numbers of lines."""
    return CODE_OR_TEXT.sub(
        lambda match: '""' if match[0][0] == '"' else "\n" * match[0].count("\n"), text
    )
