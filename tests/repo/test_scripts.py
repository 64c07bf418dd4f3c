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
from pathlib import Path

from conftest import ROOT, run_captured
from table import each_row

REAL = "bash cat chmod cmake cmp cp cut dirname env g++ gcc grep mkdir nm rm sed sort tee true"
# The fake sudo keeps the real machine out.
NO_NETWORK = """case "$*" in
    *apt-get*) echo "E: Failed to fetch http://deb/x.deb  Could not resolve 'deb'"; exit 100 ;;
    *) cat >/dev/null </dev/null ;;
    esac"""
DEBIAN = {"apt_get": "exit 0", "id": "echo 1000"}
USAGE = "usage: scripts/setup ["
INSTALLING = "scripts/setup: installing with apt-get: ninja-build\n"
MISSING = "missing: ninja-build"
READ_ONLY = "a file where the folder should be"

# Argument, fakes and their bodies, parts of the line, output before.
REFUSALS = [
    ("test", {}, [MISSING, "no Debian or Ubuntu"], None),
    ("test", DEBIAN, [MISSING, "needs root or sudo"], ""),
    ("test", {**DEBIAN, "sudo": "exit 1"}, [MISSING, "sudo wants a password"], None),
    ("test", {**DEBIAN, "sudo": NO_NETWORK},
     [MISSING, "Failed to fetch", "Could not resolve 'deb'"], INSTALLING),
    ("test", {"ninja": "exit 0", "python3": '[[ "$*" != *version_info* ]]'},
     ["python3 is older than 3.10"], None),
    ("everything", {}, [USAGE], None),
    ("test", {"build": READ_ONLY}, ["cannot write to", "build"], None),
]  # fmt: skip


def machine_in(folder: Path) -> Path:
    """A copy of the scripts, and a folder of programs without Ninja, which PATH will be."""
    (folder / "bin").mkdir()
    for name in REAL.split():
        (folder / "bin" / name).symlink_to(shutil.which(name) or name)
    (folder / "bin" / "python3").symlink_to(sys.executable)
    shutil.copytree(ROOT / "scripts", folder / "tree" / "scripts")
    shutil.copy(ROOT / "requirements.txt", folder / "tree")
    return folder / "bin"


def refusal_of(folder: Path, argument: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(folder / "bin"), "HOME": str(folder)}
    result = run_captured([folder / "tree" / "scripts" / "setup", argument], env=env)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert "scripts/setup: " in result.stderr or "usage: " in result.stderr
    return result


@each_row("argument, fakes, parts, printed", REFUSALS)
def test_setup_refuses_in_one_line(
    tmp_path: Path, argument: str, fakes: dict[str, str], parts: list[str], printed: str | None
) -> None:
    tools = machine_in(tmp_path)
    for name, body in fakes.items():
        if body == READ_ONLY:
            (tmp_path / "tree" / name).write_text(body)
            continue
        fake = tools / name.replace("_", "-")
        fake.unlink(missing_ok=True)  # never write through the link
        fake.write_text(f"#!/bin/bash\n{body}\n")
        fake.chmod(0o755)
    result = refusal_of(tmp_path, argument)
    assert all(part in result.stderr for part in parts), result.stderr
    assert printed in (None, result.stdout)


@each_row("arguments", [["no-such-preset"], ["release", "no-such-preset"]])
def test_build_says_which_preset_failed(arguments: list[str], tmp_path: Path) -> None:
    """In a copy whose CMakePresets.json knows a release that builds nothing."""
    (tmp_path / "scripts").mkdir()
    for name in ("build", "progress_line.py"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(none LANGUAGES NONE)\n"
    )
    shutil.copy(ROOT / "CMakePresets.json", tmp_path)
    result = run_captured([tmp_path / "scripts" / "build", *arguments], env={**os.environ})
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("scripts/build: preset no-such-preset failed")
    assert result.stdout.count("is built") == len(arguments) - 1
