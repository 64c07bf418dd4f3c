# SPDX-License-Identifier: MIT
"""The files agree about the version, and scripts/dev/release changes it in all of them.

    scripts/test tests/repo/test_release.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, load_script, run_captured

RELEASE = load_script("release")
COPIED = ("CMakeLists.txt", "pyproject.toml", "CHANGELOG.md", "pools/include", "scripts",
          "docs", "README.md", "tests/repo/consumer", "pools/rust/Cargo.toml",
          "pools/rust/Cargo.lock")  # fmt: skip


def git(tree: Path, *words: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run(["git", "-C", str(tree), *identity, *words], check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of its own with what a release touches."""
    folder = tmp_path / "tree"
    for name in COPIED:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target)
    (folder / ".gitignore").write_text("__pycache__/\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    return folder


def release(tree: Path, version: str) -> subprocess.CompletedProcess[str]:
    return run_captured([sys.executable, tree / "scripts" / "dev" / "release", version])


def test_a_release_changes_all_of_them(tree: Path) -> None:
    assert len(set(RELEASE.versions().values())) == 1
    result = release(tree, "7.8.9")
    assert result.returncode == 0, result.stderr
    for name in RELEASE.PLACES:
        assert "7.8.9" in (tree / name).read_text(), name
    for name in RELEASE.SERIES:
        assert "7.8" in (tree / name).read_text(), name
    changelog = (tree / "CHANGELOG.md").read_text()
    assert "## Unreleased\n\n## 7.8.9 (20" in changelog
    assert "git tag -a v7.8.9" in result.stdout
    assert "uncommitted" in release(tree, "7.9.0").stderr


def test_a_wrong_version_is_refused(tree: Path) -> None:
    git(tree, "tag", "v5.0.0")
    for version, message in [
        ("1.0", "is no version"), ("0.0.1", "is not above"), ("5.0.0", "is not above 5.0.0")
    ]:  # fmt: skip
        result = release(tree, version)
        assert result.returncode == 1 and result.stdout == "", version
        (line,) = result.stderr.splitlines()
        assert message in line
