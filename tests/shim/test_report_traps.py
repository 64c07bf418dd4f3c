# SPDX-License-Identifier: MIT
"""Report files of the library in directories where other users have put traps.

    scripts/test tests/shim/test_report_traps.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import run_captured

NOBODY = 65534
REFUSED = "Permission denied"

pytestmark = [
    pytest.mark.preload,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away"),
]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=["POOLSHIM_STATS", "POOLSHIM_TRACE"])
def run(request: pytest.FixtureRequest, shim: Path) -> Run:
    """A program that writes one kind of report, as this user or as another one."""

    def begin(
        path: Path | str, user: int = 0, **more: str
    ) -> subprocess.CompletedProcess[str]:
        env = {"LD_PRELOAD": str(shim), request.param: str(path), "POOLSHIM_TRACE_MAX": "1MiB",
               **more}  # fmt: skip
        return run_captured(["/bin/true"], env=env, user=user, group=user)

    begin.option = request.param  # type: ignore[attr-defined]
    return begin


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Like /tmp, beside a file of this user."""
    (tmp_path / "ours").write_text("precious")
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def give(path: Path) -> Path:
    """Gives a file to another user."""
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return path


def link_to_ours(folder: Path) -> Path:
    (folder / "x").symlink_to(folder.parent / "ours")
    return give(folder / "x")


def link_to_nothing(folder: Path) -> Path:
    (folder / "x").symlink_to(folder.parent / "made")
    return give(folder / "x")


def link_by_their_directory(folder: Path) -> Path:
    (folder / "way").symlink_to(folder.parent)
    return give(folder / "way") / "ours"


def link_of_ours_to_theirs(folder: Path) -> Path:
    link_to_ours(folder)
    (folder.parent / "first").symlink_to("shared/x")
    return folder.parent / "first"


def their_fifo(folder: Path) -> Path:
    os.mkfifo(folder / "x", 0o666)
    return give(folder / "x")


@pytest.mark.parametrize("trap", [link_to_ours, link_to_nothing, link_by_their_directory,
                                  link_of_ours_to_theirs, their_fifo])  # fmt: skip
def test_a_trap_is_refused(run: Run, shared: Path, trap: Callable[[Path], Path]) -> None:
    path = trap(shared)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if trap is their_fifo else -1
    done = run(path)
    assert done.returncode == 0
    assert done.stderr.endswith(f": {REFUSED}\n") and done.stderr.count("\n") == 1
    assert (shared.parent / "ours").read_text() == "precious"
    assert not (shared.parent / "made").exists()
    if reader >= 0:
        assert os.read(reader, 1) == b""
        os.close(reader)


def test_a_second_name_of_ours_is_not_written_to(run: Run, shared: Path) -> None:
    """Statistics take its place; a trace, which cannot be renamed, is refused."""
    os.link(shared.parent / "ours", shared / "x")
    done = run(shared / "x")
    is_trace = run.option == "POOLSHIM_TRACE"  # type: ignore[attr-defined]
    assert (REFUSED in done.stderr) == is_trace, done
    assert (shared.parent / "ours").read_text() == "precious"


def test_a_file_of_another_user_is_not_written_to(run: Run, shim: Path) -> None:
    """One that all may write to, by a user that may not replace it. /tmp: for that user too."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o1777)
        library, path = Path(folder) / "libpoolshim.so", Path(folder) / "x"
        shutil.copy(shim, library)
        path.write_text("to be read by them")
        path.chmod(0o666)
        os.chown(path, 12345, 12345)
        done = run(path, user=NOBODY, LD_PRELOAD=str(library))
        assert path.read_text() == "to be read by them"
    assert done.stderr.endswith(f": {REFUSED}\n"), done


def test_links_of_ours_and_devices_are_as_before(run: Run, shared: Path) -> None:
    (shared / "x").symlink_to("../ours")
    assert run(shared / "x").stderr == ""
    assert (shared / "x").is_symlink() and (shared.parent / "ours").stat().st_size > 100
    if run.option == "POOLSHIM_STATS":  # type: ignore[attr-defined]
        assert "statistics of process" in run("/dev/stderr").stderr
        assert run("/dev/null").stderr == "" and not Path("/dev/null").is_file()
        (shared / "y").symlink_to("/proc/self/fd/2")
        assert "statistics of process" in run(shared / "y").stderr


def test_a_new_file_in_a_shared_directory(run: Run, shared: Path) -> None:
    done = run(shared / "x")
    assert (done.returncode, done.stderr) == (0, "") and os.listdir(shared) == ["x"]
    assert (shared / "x").stat().st_size > 100
