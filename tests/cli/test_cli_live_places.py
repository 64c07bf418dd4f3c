# SPDX-License-Identifier: MIT
"""Where the commands for running processes find the library: packaged, without a version in its
name; and in a process whose root directory is another one.

    scripts/test tests/cli/test_cli_live_places.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from running import KEEPS, POOLSHIM, SILENT, Start, program, ready, spawn, start

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import places  # noqa: E402
from poolshim_cli.live import layout  # noqa: E402

__all__ = ["program", "spawn", "start"]

LIBRARY = re.compile(r"(/\S+) \(0x")


@pytest.mark.preload
def test_a_library_without_a_version_in_its_name_tells_it(
    start: Start, shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The case of the wheel, whose file is libpoolshim.so."""
    copy = tmp_path / "libpoolshim.so"
    shutil.copy(shim, copy)
    process = start(SILENT, LD_PRELOAD=str(copy), preload=False)
    done = run_captured([POOLSHIM, "stats", str(process.pid)])
    first = done.stdout.splitlines()[0]
    assert re.match(r"poolshim \d+\.\d+\.\d+: statistics of process \d+, ", first), done
    assert first.split()[1] == places.checkout_version() + ":"
    report = run_captured([POOLSHIM, "stats", "--json", str(process.pid)])
    assert json.loads(report.stdout)["poolshim"] == places.checkout_version()
    monkeypatch.setattr(layout, "RELEASE_PART", 4096)  # the text may lie anywhere
    assert layout.release_in(process.pid, str(copy)) == places.checkout_version()
    assert layout.release_in(process.pid, "/no/library") == ""


@pytest.mark.preload
@pytest.mark.root
def test_a_process_in_a_chroot_is_read(shim: Path, program: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("chroot") is None:
        pytest.skip("needs chroot")
    listed = run_captured(["ldd", program, shim]).stdout
    for path in {*LIBRARY.findall(listed), str(program), str(shim.resolve())}:
        target = tmp_path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    words = ["chroot", str(tmp_path), str(program), "known"]
    env = {**os.environ, **KEEPS, "LD_PRELOAD": str(shim.resolve())}
    process = subprocess.Popen(words, env=env, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)  # fmt: skip
    try:
        ready(process)
        pid = str(process.pid)
        done = run_captured([POOLSHIM, "stats", "--json", pid])
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["calls"]["malloc_count"] > 20_000
        for words in (["top", "--once", pid], ["set", pid, "cache-max=1M"]):
            done = run_captured([POOLSHIM, *words])
            assert done.returncode == 0, done.stderr
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
