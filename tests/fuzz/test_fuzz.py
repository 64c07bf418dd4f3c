# SPDX-License-Identifier: MIT
"""Replays the fuzz corpora in every build: all that fuzzing has reached or found is still right.

    scripts/test tests/fuzz/test_fuzz.py            (fuzzing itself: scripts/dev/fuzz)
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import archives
import pytest
from conftest import ROOT, run_captured
from test_unit import builds

FUZZ = ROOT / "tests" / "fuzz"
TARGETS = sorted(path.stem for path in FUZZ.glob("*.c"))
CORPUS_BYTES_MAX = 200 << 10

# TSan is left out: the threads of a target take turns, so there is nothing to find there.
BUILDS = [build for build in builds() if build.name != "tsan"]


@pytest.mark.parametrize("target", TARGETS)
def test_corpus_finds_nothing(target: str, tmp_path: Path) -> None:
    inputs = archives.unpack(archives.archive_of(target), tmp_path / "corpus")
    assert inputs, f"{target} has no corpus: scripts/dev/fuzz {target} --merge"
    for build in BUILDS:
        program = build / "tests" / "fuzz" / target
        assert program.exists(), f"{program} is not built"
        result = run_captured([program, tmp_path / "corpus"], timeout=120, cwd=tmp_path)
        assert result.returncode == 0, f"{program}: {result.returncode}\n{result.stderr[-4000:]}"
        replayed = re.search(r"^replayed: (\d+)$", result.stdout, re.MULTILINE)
        assert replayed and int(replayed[1]) == inputs


def test_corpora_belong_to_targets_and_are_small() -> None:
    packed = sorted(path for path in archives.CORPUS.iterdir())
    assert packed == [archives.archive_of(target) for target in TARGETS]
    assert sum(path.stat().st_size for path in packed) < CORPUS_BYTES_MAX


def test_equal_inputs_make_equal_archives(tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for name, contents in {"b.bin": b"two", "a.bin": b"\0", "c.bin": b""}.items():
        (inputs / name).write_bytes(contents)
    first, second = tmp_path / "first.tar.xz", tmp_path / "second.tar.xz"
    archives.pack(inputs, first)
    assert archives.unpack(first, tmp_path / "again") == 3
    archives.pack(tmp_path / "again", second)
    assert first.read_bytes() == second.read_bytes()
    (inputs / "a.bin").unlink()
    archives.pack(inputs, second)
    assert archives.members_of(second) == {"b.bin": b"two", "c.bin": b""}


@pytest.mark.nightly
def test_the_command_fuzzes_and_says_what_it_did() -> None:
    """Runs libFuzzer for a moment: the preset builds, the target runs, the line is right."""
    runtime = list(Path("/usr/lib/llvm-16/lib/clang/16/lib/linux").glob("libclang_rt.fuzzer-*.a"))
    if shutil.which("clang-16") is None or not runtime:
        pytest.skip("clang-16 or libclang-rt-16-dev is not installed")
    command = [ROOT / "scripts" / "dev" / "fuzz", "size_class", "--minutes", "0.05"]
    result = run_captured(command, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    line = re.search(r"^fuzz: size_class: (\d+) executions, (\d+) edges, .* 0 findings$",
                     result.stdout, re.MULTILINE)  # fmt: skip
    assert line and int(line[1]) > 0 and int(line[2]) > 10, result.stdout
