# SPDX-License-Identifier: MIT
"""`poolshim why --core`: the blocks that had the memory of a process that left a core file.

    scripts/test tests/cli/test_why_core.py
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PATTERN = Path("/proc/sys/kernel/core_pattern")
MIB = 1 << 20
OBJECTS, OBJECT_BYTES = 100000, 216


def why(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """The command."""
    return subprocess.run([REPOSITORY / "scripts" / "poolshim", "why", *map(str, words)],
                          capture_output=True, text=True, check=False, timeout=120)  # fmt: skip


def core_of(folder: Path, words: list[str | Path], env: dict[str, str]) -> Path:
    """Runs a program that aborts; its core file."""
    if PATTERN.read_text().strip() != "core":
        pytest.skip("core files go elsewhere here")

    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)

    full = {key: value for key, value in os.environ.items() if not key.startswith("POOLSHIM_")}
    subprocess.run([str(word) for word in words], cwd=folder, env={**full, **env},
                   preexec_fn=allow, check=False, timeout=120)  # fmt: skip
    found = sorted(folder.glob("core*"))
    if not found:
        pytest.skip("no core file was written")
    return found[0]


def asked(core: Path) -> dict[str, Any]:
    """The report as JSON."""
    done = why("--json", "--core", core)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("allocator", ["glibc", "poolshim"])
def test_classes_and_texts_of_live_blocks(allocator: str, build_dir: Path, tmp_path: Path) -> None:
    env = {} if allocator == "glibc" else {"LD_PRELOAD": str(build_dir / "libpoolshim.so")}
    core = core_of(tmp_path, [build_dir / "tests" / "faults" / "load_objects"], env)
    found = asked(core)
    assert (found["allocator"], found["program"]) == (allocator, "load_objects")
    assert found["signal"] == 6
    largest = found["sizes"][0]
    assert largest["kind"] == "are circle" and largest["of_kind"] >= largest["looked_at"] - 2
    assert largest["blocks"] == pytest.approx(OBJECTS, rel=0.01)
    texts = [row for row in found["sizes"] if row["kind"].startswith('are text such as "GET /in')]
    assert sum(row["blocks"] for row in texts) == pytest.approx(20000, rel=0.02)
    assert found["parts"]["live"] > 0.9 * sum(found["parts"].values())
    assert found["verdict"].startswith("live blocks")


def test_call_sites_of_a_process_that_was_sampled(build_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    env = {"LD_PRELOAD": str(build_dir / "libpoolshim.so"),
           "POOLSHIM_FLIGHT": str(tmp_path / "records"),
           "POOLSHIM_PROFILE_INTERVAL": "256KiB"}  # deviation 3 MiB  # fmt: skip
    program = build_dir / "tests" / "faults" / "load_flight"
    found = asked(core_of(tmp_path, [program, "40", "1000", "abort"], env))
    site = found["sites"][0]
    assert site["name"] == "leak_here"
    assert site["nbytes"] == pytest.approx(40 * MIB, rel=0.4)
    assert "leak_here" in found["verdict"]


def test_a_library_that_has_changed_since(build_dir: Path, tmp_path: Path) -> None:
    library = tmp_path / "libpoolshim.so"
    shutil.copy(build_dir / "libpoolshim.so", library)
    core = core_of(tmp_path, [build_dir / "tests" / "faults" / "load_objects"],
                   {"LD_PRELOAD": str(library)})  # fmt: skip
    library.unlink()
    done = why("--core", core)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 and "core file with" in done.stdout


def test_what_is_no_core(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no core")
    for path, line in ((text, "not a core file"), (Path(sys.executable), "not a core file"),
                       (tmp_path / "absent", "No such file"), (tmp_path, "")):  # fmt: skip
        done = why("--core", path)
        assert done.returncode in (1, 2, 127) and done.stdout == ""
        assert done.stderr.startswith("poolshim why: ") and done.stderr.count("\n") == 1
        assert line in done.stderr


def test_damaged_cores_are_one_line(build_dir: Path, tmp_path: Path) -> None:
    env = {"LD_PRELOAD": str(build_dir / "libpoolshim.so")}
    program = build_dir / "tests" / "faults" / "load_flight"
    core = core_of(tmp_path, [program, "1", "1000", "abort"], env)
    data = core.read_bytes()
    draw = random.Random(5)
    damaged = tmp_path / "damaged"
    for turn in range(12):
        changed = bytearray(data[: len(data) // 2] if turn == 0 else data)
        for _ in range(200 if turn else 0):
            at = draw.randrange(4096 if turn % 2 else len(changed))
            changed[at] = draw.randrange(256)
        damaged.write_bytes(changed)
        done = why("--core", damaged)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in (0, 1, 2) and done.stderr.count("\n") <= 1, done.stderr
