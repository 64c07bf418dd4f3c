# SPDX-License-Identifier: MIT
"""The shim built for 64-bit ARM, its checker under an emulator; the rest by
scripts/dev/test-elsewhere.

    scripts/test tests/repo/test_elsewhere.py
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

SCRIPT = ROOT / "scripts" / "dev" / "test-elsewhere"
TOOLS = ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "qemu-aarch64")
OPERATIONS = 100_000


@pytest.mark.slow
def test_checker_finds_nothing_on_aarch64(tmp_path: Path) -> None:
    for tool in TOOLS:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: scripts/setup elsewhere")
    options = ["-DPOOLSHIM_BUILD_BENCH=OFF", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"]
    command = ["cmake", "--preset", "aarch64", "-S", ROOT, "-B", tmp_path, *options]
    configured = run_captured(command, timeout=120, cwd=ROOT)
    assert configured.returncode == 0, configured.stdout + configured.stderr
    targets = ("poolshim", "stress-checker", "unit-bits_test")
    built = run_captured(["cmake", "--build", tmp_path, "--target", *targets], timeout=600)
    assert built.returncode == 0, built.stdout[-6000:]
    emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
    preload = ["-E", f"LD_PRELOAD={tmp_path / 'libpoolshim.so'}"]
    unit = run_captured([*emulator, tmp_path / "tests" / "unit" / "bits_test"])
    assert unit.returncode == 0, unit.stdout + unit.stderr
    checker = [tmp_path / "tests" / "stress" / "checker", f"--ops={OPERATIONS}"]
    checker += ["--threads=4", "--max-live-bytes=33554432"]
    result = run_captured([*emulator, *preload, *checker], timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    done = re.search(r"^operations: (\d+)$", result.stdout, re.MULTILINE)
    assert done and int(done[1]) >= OPERATIONS
    assert "cannot be preloaded" not in result.stderr


def test_a_variant_that_is_none_is_refused() -> None:
    result = run_captured([SCRIPT, "gcc-O0", "gcc-O9"])
    assert result.returncode == 2
    assert result.stderr == "scripts/dev/test-elsewhere: no variant gcc-O9; see --list\n"
