# SPDX-License-Identifier: MIT
"""The units of scripts/packages/systemd: systemd reads them, and the exporter needs no more.

    scripts/test tests/repo/test_units.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row

sys.path.insert(0, str(ROOT / "tests" / "cli"))

from running import POOLSHIM, SILENT, Start, spawn, start  # noqa: E402

__all__ = ["spawn", "start"]
UNITS = ROOT / "scripts" / "packages" / "systemd"
EXPORTER = "poolshim-exporter.service"


def verify(folder: Path, name: str) -> str:
    """What systemd says of a unit in a folder."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    # A colon at the end: the folders of the machine follow.
    env = os.environ | {"SYSTEMD_UNIT_PATH": f"{folder}:"}
    done = run_captured(["systemd-analyze", "verify", "--man=no", folder / name], env=env)
    if "Failed to" in done.stderr and "manager" in done.stderr:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.splitlines()[0]}")
    return done.stderr


@each_row("word, fault", [("", ""), ("StateDirectory=", "StateDirektory="),
                          ("Environment=LD", "Enviroment=LD"),
                          ("StateDirectory=poolshim", "StateDirectory=/poolshim")])  # fmt: skip
def test_the_drop_in_of_a_service(tmp_path: Path, word: str, fault: str) -> None:
    (tmp_path / "service.service").write_text("[Service]\nExecStart=/bin/true\n")
    folder = tmp_path / "service.service.d"
    folder.mkdir()
    text = (UNITS / "poolshim.conf").read_text()
    assert not fault or word in text
    (folder / "poolshim.conf").write_text(text.replace(word, fault) if fault else text)
    said = [line for line in verify(tmp_path, "service.service").splitlines()
            if "poolshim.conf" in line or "service.service" in line]  # fmt: skip
    assert bool(said) == bool(fault), said


@each_row("word, fault", [("", ""), ("ProtectSystem=strict", "ProtectSystem=strictly"),
                          ("UMask=0077", "Umask=0077")])  # fmt: skip
def test_the_unit_of_the_exporter(tmp_path: Path, word: str, fault: str) -> None:
    text = (UNITS / EXPORTER).read_text().replace("/usr/bin/poolshim", str(POOLSHIM))
    assert not fault or word in text
    (tmp_path / EXPORTER).write_text(text.replace(word, fault) if fault else text)
    said = [line for line in verify(tmp_path, EXPORTER).splitlines() if "poolshim" in line]
    assert bool(said) == bool(fault), said


def filtered() -> set[str]:
    """The system calls that the unit allows."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    found: set[str] = set()

    def of_group(name: str) -> set[str]:
        done = run_captured(["systemd-analyze", "syscall-filter", name])
        if done.returncode != 0:
            pytest.skip(f"systemd-analyze knows no system calls: {done.stderr.strip()}")
        words = [line.strip() for line in done.stdout.splitlines()[1:] if line.strip()]
        names = {word for word in words if re.fullmatch(r"\w+", word)}
        return names.union(*(of_group(word) for word in words if word.startswith("@")))

    for line in re.findall(r"(?m)^SystemCallFilter=(.*)$", (UNITS / EXPORTER).read_text()):
        words = line.removeprefix("~").split()
        names = set().union(*(of_group(word) if word[0] == "@" else {word} for word in words))
        found = found - names if line.startswith("~") else found | names
    return found


@pytest.mark.preload
def test_the_exporter_makes_no_call_that_the_unit_forbids(start: Start, tmp_path: Path) -> None:
    allowed = filtered()
    assert {"openat", "pread64"} < allowed and not {"ptrace", "mount", "reboot"} & allowed
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    process: subprocess.Popen[str] = start(SILENT)
    log = tmp_path / "calls"
    done = run_captured(["strace", "-f", "-qq", "-o", log, "-e", "signal=none", POOLSHIM,
                         "exporter", "--once", str(process.pid)], timeout=120)  # fmt: skip
    assert f'pid="{process.pid}"' in done.stdout, done.stderr
    used = set(re.findall(r"(?m)^\d+ +(\w+)\(", log.read_text()))
    assert "openat" in used and used <= allowed, used - allowed
