# SPDX-License-Identifier: MIT
"""Set-up on machines where it cannot do its work: one clear line, the right exit status.

    scripts/test tests/repo/test_scripts.py

Runs in a copy of the scripts with a PATH of its own, where apt-get, id and sudo are small fakes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

REAL = "bash cat chmod cmake cmp cp cut dirname env g++ gcc grep mkdir nm rm sed sort tee true"
Setup = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """setup(*arguments, <command>=<body of a fake>): scripts/setup on a machine without Ninja."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in REAL.split():
        (tools / name).symlink_to(shutil.which(name) or name)
    (tools / "python3").symlink_to(sys.executable)
    shutil.copytree(ROOT / "scripts", tmp_path / "tree" / "scripts")
    shutil.copy(ROOT / "requirements.txt", tmp_path / "tree")

    def run(*arguments: str, **fakes: str) -> subprocess.CompletedProcess[str]:
        for name, body in fakes.items():
            fake = tools / name.replace("_", "-")
            fake.unlink(missing_ok=True)  # never write through the link
            fake.write_text(f"#!/bin/bash\n{body}\n")
            fake.chmod(0o755)
        env = {"PATH": str(tools), "HOME": str(tmp_path)}
        return run_captured([tmp_path / "tree/scripts/setup", *arguments], env=env)

    return run


def check_refusal(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    for part in ("scripts/setup: ", *parts):
        assert part in lines[0]


def test_not_debian(setup: Setup) -> None:
    check_refusal(setup("test"), "missing: ninja-build", "no Debian or Ubuntu")


def test_neither_root_nor_sudo(setup: Setup) -> None:
    result = setup("test", apt_get="exit 0", id="echo 1000")
    check_refusal(result, "missing: ninja-build", "needs root or sudo")
    assert result.stdout == ""


def test_sudo_wants_a_password(setup: Setup) -> None:
    result = setup("test", apt_get="exit 0", id="echo 1000", sudo="exit 1")
    check_refusal(result, "missing: ninja-build", "sudo wants a password")


def test_no_network(setup: Setup) -> None:
    """apt-get knows the package and cannot fetch it. The fake sudo keeps the real machine out."""
    sudo = """case "$*" in
    *apt-get*) echo "E: Failed to fetch http://deb/x.deb  Could not resolve 'deb'"; exit 100 ;;
    *) cat >/dev/null </dev/null ;;
    esac"""
    result = setup("test", apt_get="exit 0", id="echo 1000", sudo=sudo)
    check_refusal(result, "missing: ninja-build", "Failed to fetch", "Could not resolve 'deb'")
    assert result.stdout == "scripts/setup: installing with apt-get: ninja-build\n"


def test_old_python(setup: Setup) -> None:
    result = setup("test", ninja="exit 0", python3='[[ "$*" != *version_info* ]]')
    check_refusal(result, "python3 is older than 3.10")


def test_wrong_argument(setup: Setup) -> None:
    parts = "[build|bench|suite|servers|pools|test|nightly|elsewhere|package]"
    check_refusal(setup("everything"), f"usage: scripts/setup {parts}")


def test_read_only_tree(setup: Setup, tmp_path: Path) -> None:
    (tmp_path / "tree" / "build").write_text("a file where the folder should be")
    check_refusal(setup("test"), "cannot write to", "build")


@pytest.mark.parametrize("arguments", [["no-such-preset"], ["release", "no-such-preset"]])
def test_build_says_which_preset_failed(arguments: list[str], tmp_path: Path) -> None:
    """In a copy whose CMakePresets.json knows a release that builds nothing."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "build", tmp_path / "scripts")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(none LANGUAGES NONE)\n"
    )
    shutil.copy(ROOT / "CMakePresets.json", tmp_path)
    result = run_captured([tmp_path / "scripts" / "build", *arguments], env={**os.environ})
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("scripts/build: preset no-such-preset failed")
    assert result.stdout.count("is built") == len(arguments) - 1
