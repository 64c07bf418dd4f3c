# SPDX-License-Identifier: MIT
"""`poolshim explain` of what cannot be explained, or not yet, or not to the end.

    scripts/test tests/cli/test_explain_refused.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SLOWNESS, run_captured
from programs import compile_library
from running import SILENT, Start, complaint, spawn, start  # noqa: F401
from sampling import await_looks, target_of

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import control  # noqa: E402
from poolshim_cli.explain.account import Book  # noqa: E402
from poolshim_cli.live import layout  # noqa: E402

pytestmark = pytest.mark.preload

MAIN = ROOT / "scripts" / "poolshim_cli" / "__main__.py"


def explain(pid: int, seconds: str) -> subprocess.CompletedProcess[str]:
    words = ["explain", "--pid", str(pid), "--seconds", seconds]
    return run_captured([sys.executable, str(MAIN), *words])


@pytest.mark.root
def test_another_version_is_refused(start: Start) -> None:
    """Its heap would be read as mappings of the program's own."""
    process = start(SILENT)
    place = control.find_symbol(process.pid, layout.SYMBOL).address
    with open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as file:
        file.seek(place + 16)
        file.write(b"\7\0\0\0")
    done = explain(process.pid, "1")
    line = complaint(done, "explain", 1)
    assert f"has version 7 of the layout, this command reads {layout.VERSION}" in line


def test_a_process_that_ends_meanwhile_is_reported_on(start: Start) -> None:
    process = start(SILENT)
    target = target_of(process)
    with subprocess.Popen(
        [sys.executable, MAIN, "explain", "--pid", str(process.pid), "--seconds", "600"],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as watching:  # fmt: skip
        await_looks(target)
        process.kill()
        _, errors = watching.communicate(timeout=60 * SLOWNESS)
    assert watching.returncode == 0
    assert "note: the process ended meanwhile\n" in errors


# Blocks before the library has started.
EARLY = """
#include <unistd.h>
__attribute__((constructor)) static void wait_for_byte(void) {
    char c;
    if (write(1, "0\\n", 2) != 2 || read(0, &c, 1) != 1) {
        _exit(1);
    }
}
"""


def test_a_process_that_has_just_begun_is_read_later(shim: Path, tmp_path: Path) -> None:
    early = compile_library(tmp_path, "early.so", EARLY)
    profile = {"POOLSHIM_PROFILE": str(tmp_path / "h.pb.gz"), "POOLSHIM_PROFILE_INTERVAL": "4KiB"}
    environment = os.environ | profile | {"LD_PRELOAD": f"{shim}:{early}", "PYTHONMALLOC": "malloc"}
    with subprocess.Popen(
        [sys.executable, "-S", "-c", SILENT], env=environment, bufsize=0,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        book = Book(process.pid)
        assert book.take().classes == []
        process.stdin.write(b"x")
        assert process.stdout.readline() == b"1\n"
        account = book.take()
        process.stdin.close()
    book.close()
    assert account.classes and account.sites
