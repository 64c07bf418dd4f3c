# SPDX-License-Identifier: MIT
"""POOLSHIM_TRACE: each block of a window is there, with its free, its thread and its call site.

    scripts/test tests/shim/test_trace.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.advise import trace  # noqa: E402

pytestmark = pytest.mark.preload


def traced(
    library: Path, path: Path, *words: str | Path, **settings: str
) -> tuple[trace.Trace, str]:
    """The trace of a program, and what it said."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POOLSHIM_")}
    env = {**kept, "LD_PRELOAD": str(library), "POOLSHIM_TRACE": str(path), **settings}
    done = run_captured([str(word) for word in words], env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return trace.read(path), done.stderr


def test_a_short_program_is_traced_whole(
    build_dir: Path, shim: Path, tmp_path: Path
) -> None:
    found, _ = traced(shim, tmp_path / "t", build_dir / "tests/advice/region")
    assert len(found.size) == found.made_count > 100_000
    assert sum(found.size) == found.made_bytes
    assert trace.LIVE not in found.died
    assert all(died > born for born, died in zip(found.born, found.died, strict=True))
    assert found.weights[0] == 1.0
    assert found.lost_stacks == 0
    assert len({found.stacks[one][0] for one in set(found.stack)}) == 1
    assert any(one.path.endswith("/region") for one in found.mappings)


def test_a_free_names_its_thread(build_dir: Path, shim: Path, tmp_path: Path) -> None:
    found, _ = traced(shim, tmp_path / "t", build_dir / "tests/advice/ring")
    remote = [one for one in range(len(found.size)) if found.died[one] != trace.LIVE
              and found.free_thread[one] != found.thread[one]]  # fmt: skip
    assert len(remote) == 128_000
    others = {found.free_thread[one] for one in remote}
    assert len(others - {0}) == 1  # 0: before it had a heap


def test_windows_have_their_blocks_whole(
    build_dir: Path, shim: Path, tmp_path: Path
) -> None:
    found, _ = traced(
        shim, tmp_path / "t", build_dir / "tests/advice/fifo", POOLSHIM_TRACE_MAX="1MiB"
    )
    assert len(found.size) < found.made_count / 5
    assert len(set(found.window)) > 4
    stands_for = sum(map(found.weight, range(len(found.size))))
    assert stands_for == pytest.approx(found.made_count, rel=0.02)
    freed = [died for died in found.died if died != trace.LIVE]
    assert len(freed) > len(found.size) * 0.8
    assert freed == sorted(freed)  # first in, first out, across the windows too


def test_a_resize_in_place_is_a_free_and_an_allocation(
    build_dir: Path, shim: Path, tmp_path: Path
) -> None:
    found, _ = traced(shim, tmp_path / "t", build_dir / "tests/advice/none_resized")
    assert found.made_count == 100_000
    assert sum(found.is_resized) > 0.98 * len(found.size)


def test_the_file_stays_the_parents(shim: Path, tmp_path: Path) -> None:
    script = "import os; pid = os.fork(); [bytearray(5000) for _ in range(9999)] if not pid else 0"
    found, _ = traced(
        shim, tmp_path / "t", sys.executable, "-c", script, PYTHONMALLOC="malloc"
    )
    assert found.made_count > 1000
    assert sum(5000 <= one < 5200 for one in found.size) < 100


@pytest.mark.parametrize("path", ["none/t", "/dev/null"])
def test_a_file_that_cannot_be_made_is_one_line(
    shim: Path, tmp_path: Path, path: str
) -> None:
    env = {"LD_PRELOAD": str(shim), "POOLSHIM_TRACE": path}
    done = run_captured(["/bin/true"], env=env, cwd=tmp_path, timeout=60)
    assert done.returncode == 0
    assert done.stderr.startswith("poolshim: POOLSHIM_TRACE: cannot write")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("other", ["HARDEN=1", "GUARD_SAMPLE=100", "RECORD=r.json"])
def test_other_modes_take_precedence(shim: Path, tmp_path: Path, other: str) -> None:
    name, _, value = other.partition("=")
    env = {"LD_PRELOAD": str(shim), "POOLSHIM_TRACE": "t", f"POOLSHIM_{name}": value}
    done = run_captured(["/bin/true"], env=env, cwd=tmp_path, timeout=60)
    assert f"POOLSHIM_TRACE: there is no trace while POOLSHIM_{name} is on" in done.stderr
    assert not (tmp_path / "t").exists()
