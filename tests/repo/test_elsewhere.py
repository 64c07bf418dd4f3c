# SPDX-License-Identifier: MIT
"""The shim built for 64-bit ARM, its checker under an emulator; the shim built for musl, in a
program of musl; the rest by scripts/dev/test-elsewhere.

    scripts/test tests/repo/test_elsewhere.py
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

SCRIPT = ROOT / "scripts" / "dev" / "test-elsewhere"
TOOLS = ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "qemu-aarch64")
OPERATIONS = 100_000


def build(preset: str, tools: tuple[str, ...], folder: Path, *targets: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: scripts/setup elsewhere")
    options = ["-DPOOLSHIM_BUILD_BENCH=OFF", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"]
    command = ["cmake", "--preset", preset, "-S", ROOT, "-B", folder, *options]
    configured = run_captured(command, timeout=120, cwd=ROOT)
    assert configured.returncode == 0, configured.stdout + configured.stderr
    built = run_captured(["cmake", "--build", folder, "--target", *targets], timeout=600)
    assert built.returncode == 0, built.stdout[-6000:]


@pytest.mark.nightly
def test_checker_finds_nothing_on_aarch64(tmp_path: Path) -> None:
    build("aarch64", TOOLS, tmp_path, "poolshim", "stress-checker", "unit-bits_test")
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


@pytest.mark.nightly
def test_tagged_blocks_serve_on_aarch64(tmp_path: Path) -> None:
    """The checker and the scenarios of POOLSHIM_HARDEN=mte; scripts/dev/test-elsewhere has more."""
    scenarios = ("mte_blocks_serve", "mte_overflow_stops")
    build("aarch64", TOOLS, tmp_path, "poolshim", "stress-checker",
          *(f"scenario-{name}" for name in scenarios))  # fmt: skip
    tunable = ["-E", "GLIBC_TUNABLES=glibc.cpu.name=kunpeng920"]  # see scripts/dev/test-elsewhere
    emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", *tunable]
    emulator += ["-E", f"LD_PRELOAD={tmp_path / 'libpoolshim.so'}", "-E", "POOLSHIM_HARDEN=mte"]
    folder = tmp_path / "tests" / "scenarios"
    serving = run_captured([*emulator, folder / "mte_blocks_serve"], timeout=300)
    assert serving.returncode == 0, serving.stderr[-2000:]
    overflow = run_captured([*emulator, folder / "mte_overflow_stops"], timeout=60)
    assert overflow.returncode == -11 and "poolshim: heap overflow" in overflow.stderr
    checker = [tmp_path / "tests" / "stress" / "checker", f"--ops={OPERATIONS}"]
    result = run_captured([*emulator, *checker, "--threads=4", "--max-live-bytes=33554432"], 300)
    assert result.returncode == 0 and "poolshim:" not in result.stderr, result.stderr[-2000:]


@pytest.mark.nightly
def test_shim_serves_programs_of_musl(tmp_path: Path) -> None:
    """By the loader of musl: the checker, under `run`, which tells the two C libraries apart, and
    under `doctor`."""
    programs = [f"poolshim-{name}" for name in ("run", "launcher", "family", "limit")]
    build("musl", ("musl-gcc",), tmp_path, "poolshim", "stress-checker", *programs)
    library = tmp_path / "libpoolshim.so"
    checker = tmp_path / "tests" / "stress" / "checker"
    assert "Shared library: [libc.so]" in run_captured(["readelf", "-d", library]).stdout
    command = [checker, f"--ops={OPERATIONS}", "--threads=4", "--max-live-bytes=33554432"]
    environment = {"PATH": os.environ["PATH"], "POOLSHIM_STATS": "1"}
    run = tmp_path / "scripts" / "poolshim-run"
    result = run_captured([run, "--", *command], 300, env=environment)
    assert result.returncode == 0, result.stderr[-2000:]
    done = re.search(r"^operations: (\d+)$", result.stdout, re.MULTILINE)
    assert done and int(done[1]) >= OPERATIONS
    assert "poolshim" in result.stderr, "no statistics: the library was not there"
    doctor = [ROOT / "scripts" / "poolshim", "doctor", "--", checker, "--ops=1000"]
    diagnosis = run_captured(doctor, env={**os.environ, "POOLSHIM_BUILD_DIR": str(tmp_path)})
    assert "the preload takes effect in checker" in diagnosis.stdout
    refused = run_captured([run, "--", "/bin/true"], env=environment)
    assert refused.returncode != 0
    assert "linked to glibc, the library to musl" in refused.stderr


def test_a_variant_that_is_none_is_refused() -> None:
    result = run_captured([SCRIPT, "gcc-O0", "gcc-O9"])
    assert result.returncode == 2
    assert result.stderr == "scripts/dev/test-elsewhere: no variant gcc-O9; see --list\n"
