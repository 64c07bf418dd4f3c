# SPDX-License-Identifier: MIT
"""Subjects of commits, clang-tidy, what git does with files, and the form of the workflow.

    scripts/test tests/repo/test_habits.py
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from conftest import BUILD_DIR, ROOT, load_script, run_captured
from table import each_row

SUBJECTS = ROOT / "scripts" / "dev" / "subjects"
TIDY = ROOT / "scripts" / "dev" / "tidy"
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"

# A fault that no compiler warns of: the block is lost where realloc fails.
FAULTY = """#include <stdlib.h>
char *longer(char *text, size_t bytes) {
    text = realloc(text, bytes);
    return text;
}
"""


@pytest.fixture(scope="module")
def subjects() -> ModuleType:
    return load_script("subjects")


def test_subjects(subjects: ModuleType, tmp_path: Path) -> None:
    """Each with a part of the fault that is found, or with none."""
    verdicts = {
        "heap: drain remote frees before asking central": "",
        "cli, docs: speed up the reader": "",
        "bench/peers: pass on what cargo says": "",
        "Merge branch 'other'": "",
        'Revert "heap: drain remote frees, and 60 more words that make this line too long"': "",
        "heap: " + "drain " * 12: "columns, the limit is 72",
        "heap: drain remote frees.": "ends with a period",
        "drain remote frees": "is not `area: verb ...`",
        "Heap: drain remote frees": "is not `area: verb ...`",
        "heap: drains remote frees": "'drains' is no imperative",
        "heap: drained remote frees": "'drained' is no imperative",
        "heap: draining remote frees": "'draining' is no imperative",
        "heap: the remote frees come first": "'the' is no imperative",
        "heap: 3 remote frees at once": "'3' is no imperative",
    }
    wrong = {}
    for subject, fault in verdicts.items():
        found = subjects.faults(subject)
        if found != [] if fault == "" else not any(fault in one for one in found):
            wrong[subject] = found
    assert wrong == {}
    message = tmp_path / "message"
    message.write_text("heap: drains remote frees\n\nBecause.\n")
    done = run_captured([SUBJECTS, "--message", message])
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 1)
    message.write_text("heap: drain remote frees\n\nBecause.\n")
    assert run_captured([SUBJECTS, "--message", message]).returncode == 0
    assert run_captured([SUBJECTS, "--nonsense"]).returncode == 2
    assert run_captured([SUBJECTS, "no-such..range"]).returncode == 1
    if (ROOT / ".git").exists():  # an archive has no history
        done = run_captured([SUBJECTS])
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_clang_tidy_finds_a_planted_fault_only(tmp_path: Path) -> None:
    if shutil.which("clang-tidy-16") is None:
        pytest.skip("clang-tidy-16 is not installed: scripts/setup test")
    faulty = tmp_path / "faulty.c"
    faulty.write_text(FAULTY)
    settings = f"--config-file={ROOT / '.clang-tidy'}"
    done = run_captured(["clang-tidy-16", "--quiet", settings, faulty, "--"])
    assert done.returncode != 0 and "bugprone-suspicious-realloc-usage" in done.stdout
    done = run_captured([TIDY], timeout=600, env={"PATH": "/usr/bin:/bin", **build_variable()})
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr


def build_variable() -> dict[str, str]:
    return {"POOLSHIM_BUILD_DIR": str(BUILD_DIR)}


def attributes(tmp_path: Path) -> None:
    for path, attribute, value in [
        ("tests/fuzz/corpus/arena.tar.xz", "text", "unset"),
        ("tests/fuzz/corpus/arena.tar.xz", "diff", "unset"),
        ("docs/pictures/overview-real.svg", "linguist-generated", "set"),
        ("bench/results/real/README.md", "linguist-generated", "set"),
        ("pools/engine/heap/front_path.c", "eol", "lf"),
    ]:
        assert (ROOT / path).exists()
        done = run_captured(["git", "-C", ROOT, "check-attr", attribute, path])
        if done.returncode != 0:
            pytest.skip("this is no git checkout")
        assert done.stdout.strip().endswith(f"{attribute}: {value}"), path


def workflow_problems(path: Path) -> str:
    """By the schema of the service, as check-jsonschema has it; skips where that is missing."""
    near = Path(sys.executable).with_name("check-jsonschema")
    command = near if near.exists() else shutil.which("check-jsonschema")
    if command is None:
        pytest.skip("check-jsonschema is not installed: scripts/setup")
    done = run_captured([command, "--builtin-schema", "vendor.github-workflows", path])
    return "" if done.returncode == 0 else done.stdout + done.stderr


def the_workflow_has_the_form_that_the_service_demands(tmp_path: Path) -> None:
    assert workflow_problems(WORKFLOW) == ""
    copy = tmp_path / "ci.yml"
    for good, bad in (("runs-on:", "run-on:"), ("- run: .ci/run", "- runs: .ci/run")):
        copy.write_text(WORKFLOW.read_text().replace(good, bad, 1))
        assert copy.read_text() != WORKFLOW.read_text() and workflow_problems(copy)


@each_row("check", [attributes, the_workflow_has_the_form_that_the_service_demands])
def test_files_of_services(tmp_path: Path, check: Callable[[Path], None]) -> None:
    check(tmp_path)
