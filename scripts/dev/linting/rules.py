# SPDX-License-Identifier: MIT
"""The register of rules, and the run of all of them over a tree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from linting.tree import Tree


@dataclass(frozen=True, order=True)
class Finding:
    """One breach; line 0 is the file as a whole."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line or 1}: {self.rule}: {self.message}"


@dataclass(frozen=True)
class Rule:
    """A check of one file at a time, for the files that it applies to, or of the whole tree."""

    name: str
    summary: str
    of_file: Callable[[Tree, str], Iterator[tuple[int, str]]] | None
    applies: Callable[[str], bool]
    of_tree: Callable[[Tree], Iterator[tuple[str, int, str]]] | None

    def check(self, tree: Tree, names: Iterable[str]) -> Iterator[Finding]:
        """A rule of single files reads the names only; a rule of the tree reads all."""
        if self.of_tree is not None:
            for path, line, message in self.of_tree(tree):
                yield Finding(path, line, self.name, message)
        elif self.of_file is not None:
            for path in names:
                if self.applies(path):
                    for line, message in self.of_file(tree, path):
                        yield Finding(path, line, self.name, message)


RULES: dict[str, Rule] = {}


def register(name: str, applies: Callable[[str], bool] | None = None) -> Callable:
    """Makes the function a rule of files that pass `applies`, without it a rule of the tree."""

    def add(check: Callable) -> Callable:
        summary = (check.__doc__ or "").strip().split("\n")[0]
        of_file, of_tree = (check, None) if applies else (None, check)
        RULES[name] = Rule(name, summary, of_file, applies or (lambda path: False), of_tree)
        return check

    return add


def findings(tree: Tree, names: Collection[str]) -> list[Finding]:
    """By all rules, in the order of paths and lines."""
    return sorted({one for rule in RULES.values() for one in rule.check(tree, names)})
