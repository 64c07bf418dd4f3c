# SPDX-License-Identifier: MIT
"""The rules of scripts/dev/lint: the repository breaks none, and each finds a planted breach.

    scripts/test tests/repo/test_lint.py
"""

from __future__ import annotations

import functools
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import breaches
import pytest
from conftest import ROOT, run_captured
from linting import RULES, Finding, Tree, external

LINT = ROOT / "scripts" / "dev" / "lint"
TREE = Tree.at(ROOT)


@functools.cache
def found_before() -> dict[str, set[Finding]]:
    """Returns the findings of each rule without a change. Fills the views that overlays share."""
    return {name: set(rule.check(TREE, TREE.names)) for name, rule in RULES.items()}


def new_findings(rule: str, path: str, changes: Mapping[str, breaches.Text]) -> list[Finding]:
    """What the rule finds in the file with the changes, and not without them."""
    before = {(one.path, one.message) for one in found_before()[rule]}
    texts = {name: text(TREE.text(name)) if callable(text) else text
             for name, text in changes.items()}  # fmt: skip
    found = RULES[rule].check(TREE.overlay(texts), [path])
    return [one for one in found if one.path == path and (one.path, one.message) not in before]


def test_the_repository_breaks_no_rule() -> None:
    result = run_captured([sys.executable, LINT], timeout=300)
    assert result.returncode == 0, "\n" + result.stdout + result.stderr


def test_planted_breaches_are_found_and_good_texts_accepted() -> None:
    rows = [(rule, path, {path: text}, says) for rule, path, text, says in breaches.BREACHES]
    rows += [(*row, "") for row in breaches.ELSEWHERE]
    missed = [
        (rule, path, changes)
        for rule, path, changes, says in rows
        if not any(says in one.message for one in new_findings(rule, path, changes))
    ]
    assert missed == []
    assert {rule for rule, *_ in rows} == set(RULES), "a rule without a planted breach"
    wrong = [found for rule, path, text in breaches.GOOD
             for found in new_findings(rule, path, {path: text})]  # fmt: skip
    assert wrong == []


def test_programs_find_planted_breaches(tmp_path: Path) -> None:
    """clang-format and the compiler, in a tree of their own."""
    (tmp_path / "shim").mkdir()
    shutil.copy(ROOT / ".clang-format", tmp_path)
    (tmp_path / "shim" / "a.c").write_text("int  x ;\n")
    (tmp_path / "shim" / "a.h").write_text("struct b a_of(struct c c);\n")
    (tmp_path / "shim" / "b.h").write_text("int b_of(int b);\n")
    checkers = external.Checkers(tmp_path, ["shim/a.c", "shim/a.h", "shim/b.h"])
    if checkers.missing:
        pytest.skip(f"not installed: {checkers.missing}")
    found = {(one.rule, one.path) for one in checkers.result()}
    assert found == {(external.LAYOUT, "shim/a.c"), (external.HEADER, "shim/a.h")}


def test_staged_is_what_git_has_staged(tmp_path: Path) -> None:
    """Neither a change that is not staged nor another file's breach is found."""
    tree = tmp_path / "tree"
    if run_captured(["git", "clone", "-q", "--shared", ROOT, tree]).returncode != 0:
        pytest.skip("this is no git checkout")
    license_line = "/* SPDX-License-Identifier: MIT */\n/* Owns x. */\n"
    (tree / "shim" / "staged.c").write_text(f"{license_line}int  x ;  \n")
    run_captured(["git", "-C", tree, "add", "shim/staged.c"])
    (tree / "shim" / "staged.c").write_text(f"{license_line}static int x;\n")
    (tree / "shim" / "loose.c").write_text("int x;  \n")
    found = run_captured([sys.executable, LINT, "--root", tree, "--staged"]).stdout
    assert "shim/staged.c:3: columns: tab or trailing space\n" in found
    assert "shim/loose.c" not in found
    run_captured(["git", "-C", tree, "add", "shim/staged.c"])
    found = run_captured([sys.executable, LINT, "--root", tree, "--staged"]).stdout
    assert "shim/staged.c" not in found
