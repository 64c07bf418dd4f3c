# SPDX-License-Identifier: MIT
"""A bare system to try packages in, as a test sees it: it skips where none can be made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

sys.path.insert(0, str(ROOT / "scripts"))
from packages import bare_root


def run_ok(*command: str | Path, timeout: float = 600, **options: object) -> str:
    result = run_captured(command, timeout=timeout, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout[-3000:]}{result.stderr[-3000:]}"
    return result.stdout


def clone(folder: Path) -> Path:
    """A clean checkout of the commit."""
    run_ok("git", "clone", "-q", "--no-hardlinks", ROOT, folder)
    commit = run_ok("git", "-C", ROOT, "rev-parse", "HEAD").strip()
    run_ok("git", "-C", folder, "checkout", "-q", commit)
    return folder


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def copy(base: Path, root: Path) -> Path:
    """A system like another one. Device nodes are made anew, not shared with this machine."""
    subprocess.run(["cp", "-a", base, root], check=True)
    return root


def in_chroot(root: Path, script: str) -> str:
    command, environment = bare_root.inside(root, script)
    return run_ok(*command, env=environment)


def make_base(root: Path, suite: str = "bookworm") -> Path:
    """The smallest system of a release, without Python."""
    if bare_root.missing():
        pytest.skip(bare_root.missing())
    release = bare_root.SUITES[suite]
    result = run_captured(bare_root.bootstrap(release, root), timeout=900)
    if "Failed getting release file" in result.stdout + result.stderr:
        pytest.skip(f"no network: {release.mirror} is not reached")
    assert result.returncode == 0, result.stdout[-3000:]
    bare_root.connect(root)
    return root


def make_foreign(root: Path, suite: str = "bookworm") -> Path:
    """The same of 64-bit ARM, under an emulator; skips where the kernel cannot."""
    if bare_root.missing():
        pytest.skip(bare_root.missing())
    release = bare_root.SUITES[suite]
    first = run_captured(bare_root.bootstrap(release, root, arch="arm64"), timeout=900)
    if "Failed getting release file" in first.stdout + first.stderr:
        pytest.skip(f"no network: {release.mirror} is not reached")
    assert first.returncode == 0, first.stdout[-3000:]
    command, environment = bare_root.inside_foreign(root, "uname -m")
    entered = run_captured(command, env=environment)
    if entered.returncode == 126:
        pytest.skip(f"no private binfmt_misc, which Linux 6.7 has: {entered.stderr.strip()}")
    assert entered.stdout == "aarch64\n", entered.stderr
    command, environment = bare_root.second_stage(root)
    run_ok(*command, env=environment, timeout=1500)
    bare_root.connect(root)
    return root
