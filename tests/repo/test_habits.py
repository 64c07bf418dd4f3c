# SPDX-License-Identifier: MIT
"""Subjects of commits, clang-tidy, and that the files of editors and services say what is true.

scripts/test tests/repo/test_habits.py
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import BUILD_DIR, ROOT, load_script, run_captured

SUBJECTS = ROOT / "scripts" / "dev" / "subjects"
TIDY = ROOT / "scripts" / "dev" / "tidy"
PRE_COMMIT = ROOT / ".pre-commit-config.yaml"
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


@pytest.mark.parametrize(
    "subject",
    [
        "heap: drain remote frees before asking central",
        "cli, docs: speed up the reader",
        "bench/peers: pass on what cargo says",
        "Merge branch 'other'",
        'Revert "heap: drain remote frees, and 60 more words that make this line far too long"',
    ],
)
def test_good_subjects_pass(subjects: ModuleType, subject: str) -> None:
    assert subjects.faults(subject) == []


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("heap: " + "drain " * 12, "columns, the limit is 72"),
        ("heap: drain remote frees.", "ends with a period"),
        ("drain remote frees", "is not `area: verb ...`"),
        ("Heap: drain remote frees", "is not `area: verb ...`"),
        ("heap: drains remote frees", "'drains' is no imperative"),
        ("heap: drained remote frees", "'drained' is no imperative"),
        ("heap: draining remote frees", "'draining' is no imperative"),
        ("heap: the remote frees come first", "'the' is no imperative"),
        ("heap: 3 remote frees at once", "'3' is no imperative"),
    ],
)
def test_bad_subjects_do_not(subjects: ModuleType, subject: str, fault: str) -> None:
    assert any(fault in found for found in subjects.faults(subject))


def test_the_hook_and_the_range(tmp_path: Path) -> None:
    message = tmp_path / "message"
    message.write_text("heap: drains remote frees\n\nBecause.\n")
    done = run_captured([SUBJECTS, "--message", message])
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 1)
    message.write_text("heap: drain remote frees\n\nBecause.\n")
    assert run_captured([SUBJECTS, "--message", message]).returncode == 0
    assert run_captured([SUBJECTS, "--nonsense"]).returncode == 2
    assert run_captured([SUBJECTS, "no-such..range"]).returncode == 1


def test_history_keeps_the_rule() -> None:
    """Of what was written since; an archive has no history."""
    if run_captured(["git", "-C", ROOT, "rev-parse", "HEAD"]).returncode != 0:
        pytest.skip("this is no git checkout")
    done = run_captured([SUBJECTS])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_clang_tidy_has_no_finding() -> None:
    if shutil.which("clang-tidy-16") is None:
        pytest.skip("clang-tidy-16 is not installed: scripts/setup test")
    done = run_captured([TIDY], timeout=600, env={"PATH": "/usr/bin:/bin", **build_variable()})
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr


def build_variable() -> dict[str, str]:
    return {"POOLSHIM_BUILD_DIR": str(BUILD_DIR)}


def test_clang_tidy_sees_a_planted_fault(tmp_path: Path) -> None:
    if shutil.which("clang-tidy-16") is None:
        pytest.skip("clang-tidy-16 is not installed: scripts/setup test")
    source = tmp_path / "faulty.c"
    source.write_text(FAULTY)
    settings = f"--config-file={ROOT / '.clang-tidy'}"
    done = run_captured(["clang-tidy-16", "--quiet", settings, source, "--"])
    assert done.returncode != 0
    assert "bugprone-suspicious-realloc-usage" in done.stdout


def test_one_version_of_the_clang_tools() -> None:
    """Where it is said, it is the one that scripts/setup installs."""
    setup = (ROOT / "scripts" / "setup").read_text()
    assert re.search(r"^clang-format-16 +clang-format-16$", setup, re.MULTILINE)
    assert re.search(r"^clang-tidy-16 +clang-tidy-16$", setup, re.MULTILINE)
    for name in (".clang-format", ".clang-tidy", "CONTRIBUTING.md", ".pre-commit-config.yaml"):
        text = (ROOT / name).read_text()
        versions = re.findall(r"clang-(?:format|tidy)[ -](\d+)|\(version (\d+)\)", text)
        assert versions and {a or b for a, b in versions} == {"16"}, name


def test_editors_are_told_what_clang_format_does() -> None:
    editors = (ROOT / ".editorconfig").read_text()
    layout = (ROOT / ".clang-format").read_text()
    for ours, theirs in (("max_line_length", "ColumnLimit"), ("indent_size", "IndentWidth")):
        [value] = re.findall(rf"^{theirs}: (\d+)", layout, re.MULTILINE)
        assert re.search(rf"\[\*\]\n(?:.+\n)*{ours} = {value}\n", editors), ours


@pytest.mark.parametrize(
    ("path", "attribute", "value"),
    [
        ("tests/fuzz/corpus/arena.tar.xz", "text", "unset"),
        ("tests/fuzz/corpus/arena.tar.xz", "diff", "unset"),
        ("docs/pictures/pools-fit.svg", "linguist-generated", "set"),
        ("bench/results/real/README.md", "linguist-generated", "set"),
        ("pools/engine/heap/slow_path.c", "eol", "lf"),
    ],
)
def test_attributes(path: str, attribute: str, value: str) -> None:
    assert (ROOT / path).exists()
    done = run_captured(["git", "-C", ROOT, "check-attr", attribute, path])
    if done.returncode != 0:
        pytest.skip("this is no git checkout")
    assert done.stdout.strip().endswith(f"{attribute}: {value}")


def test_hooks_and_jobs_call_what_is_there() -> None:
    words = re.findall(r"^ *(?:- run|entry): (.*)$", PRE_COMMIT.read_text() + WORKFLOW.read_text(),
                       re.MULTILINE)  # fmt: skip
    assert len(words) >= 8
    called = {word for line in words for word in line.split()
              if word.startswith((".ci/", "scripts/", "tests/"))}  # fmt: skip
    assert {".ci/run", "scripts/dev/test-elsewhere", "scripts/dev/subjects"} <= called
    assert all((ROOT / word).exists() for word in called), called
    jobs = re.findall(r"tests: (.*)$", WORKFLOW.read_text(), re.MULTILINE)
    paths = [word for line in jobs for word in line.split() if "/" in word]
    assert len(jobs) == 2 and all((ROOT / path).exists() for path in paths)


def workflow_problems(path: Path) -> str:
    """By the schema of the service, as check-jsonschema has it; skips where that is missing."""
    near = Path(sys.executable).with_name("check-jsonschema")
    command = near if near.exists() else shutil.which("check-jsonschema")
    if command is None:
        pytest.skip("check-jsonschema is not installed: scripts/setup")
    done = run_captured([command, "--builtin-schema", "vendor.github-workflows", path])
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_workflow_has_the_form_that_the_service_demands(tmp_path: Path) -> None:
    assert workflow_problems(WORKFLOW) == ""
    copy = tmp_path / "ci.yml"
    for good, bad in (("runs-on:", "run-on:"), ("- run: .ci/run", "- runs: .ci/run")):
        copy.write_text(WORKFLOW.read_text().replace(good, bad, 1))
        assert copy.read_text() != WORKFLOW.read_text() and workflow_problems(copy)


def test_the_container_is_made_by_setup() -> None:
    content = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert "scripts/setup test" in content["onCreateCommand"]
