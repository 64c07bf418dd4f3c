# SPDX-License-Identifier: MIT
"""The command's view of programs that libpoolshim.a is a part of.

    scripts/test tests/linked/test_linked_commands.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from building import GLIBC_WAYS, STATIC, Way, archive, environment, link  # noqa: F401
from conftest import ROOT, run_captured

POOLSHIM = ROOT / "scripts" / "poolshim"
KEPT_BYTES = 21_000 * 1000  # of programs/server.c
OWNER = b"poolshim\0"


def poolshim(*words: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    env = environment()
    if "POOLSHIM_BUILD_DIR" in os.environ:
        env["POOLSHIM_BUILD_DIR"] = os.environ["POOLSHIM_BUILD_DIR"]
    return run_captured([POOLSHIM, *words], env=env, timeout=timeout)


@contextmanager
def running(program: Path, **more: str) -> Iterator[int]:
    """Its process, when it has allocated."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=environment(**more)) as process:  # fmt: skip
        assert process.stdin and process.stdout
        try:
            assert process.stdout.readline() == "ready\n"
            yield process.pid
            process.stdin.close()
            process.wait(60)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


def damaged(program: Path, name: str) -> Path:
    """A copy whose note leads somewhere else."""
    data = program.read_bytes()
    at = data.index(OWNER) + 12  # the owner, padded to 4 bytes
    copy = program.with_name(name)
    copy.write_bytes(data[:at] + b"\x7f" * 16 + data[at + 16 :])
    copy.chmod(0o755)
    return copy


@pytest.mark.parametrize("way", GLIBC_WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("strip", ["stripped", "whole"])
def test_running_process(way: Way, strip: str, archive: Path, tmp_path: Path) -> None:
    program = link(tmp_path, "server.c", way, archive.parent)
    if strip == "stripped":
        assert run_captured(["strip", program]).returncode == 0
    with running(program) as pid:
        stats = json.loads(poolshim("stats", "--json", str(pid)).stdout)
        assert stats["memory"]["live_bytes"] >= KEPT_BYTES
        assert f" {pid} " in poolshim("top", "--once", timeout=120).stdout
        profile = poolshim("profile", "--pid", str(pid), "--seconds", "2")
        assert profile.returncode == 0, profile.stderr
        named = {"whole": "grow_here", "stripped": program.name}[strip]
        assert named in profile.stdout
        why = poolshim("why", "--seconds", "3", "--json", str(pid), timeout=120)
        assert json.loads(why.stdout)["allocator"] == "poolshim"


def test_doctor_and_run(archive: Path, tmp_path: Path) -> None:
    for way in GLIBC_WAYS:
        program = link(tmp_path, "life.c", way, archive.parent)
        done = poolshim("doctor", program)
        assert done.returncode == 0
        assert done.stdout.startswith(
            f"poolshim takes effect in {program.name}, which it is linked into\n"
        )
        ran = poolshim("doctor", "--json", "--run", "--", program, timeout=120)
        found = {row["code"]: row["level"] for row in json.loads(ran.stdout)["findings"]}
        assert found["linked"] == found["ran-linked"] == "fine" and ran.returncode == 0
        assert set(found.values()) <= {"fine", "note"}
        started = poolshim("run", "--harden", "1", "--", program, timeout=120)
        assert started.returncode == 0 and started.stdout.endswith("ended\n"), started.stderr
        assert started.stderr == ""


def test_another_allocator_is_not_preloaded_into_it(archive: Path, tmp_path: Path) -> None:
    program = link(tmp_path, "life.c", GLIBC_WAYS[2], archive.parent)
    source, other = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text("void *malloc(unsigned long bytes) { (void)bytes; return 0; }\n")
    assert run_captured(["gcc", "-shared", "-fPIC", source, "-o", other]).returncode == 0
    done = poolshim("run", "--allocator", other, "--", program)
    assert done.returncode == 125
    assert done.stderr == (
        f"poolshim run: {program} has poolshim linked into it, which no preload replaces; "
        "--force starts it all the same\n"
    )


def test_static_program_without_it(tmp_path: Path, archive: Path) -> None:
    """As before: nothing can be preloaded. The advice names the archive."""
    program = link(tmp_path, "server.c", STATIC, archive.parent, after=["-lc"])
    done = poolshim("doctor", program)
    assert done.returncode == 1 and "is statically linked" in done.stdout
    assert "advice: link it with libpoolshim.a, or dynamically\n" in done.stdout
    with running(program) as pid:
        assert poolshim("stats", str(pid)).stderr == (
            f"poolshim stats: process {pid} does not run on poolshim\n"
        )


def test_damaged_note_is_one_line(archive: Path, tmp_path: Path) -> None:
    for way in GLIBC_WAYS[:2]:
        program = damaged(link(tmp_path, "server.c", way, archive.parent), f"damaged-{way.name}")
        with running(program) as pid:
            for words in (["stats"], ["trim"], ["profile", "--pid"]):
                done = poolshim(*words, str(pid))
                assert done.returncode in (1, 125) and done.stderr.count("\n") == 1, done.stderr
