# SPDX-License-Identifier: MIT
"""Output files of the command in directories where other users have put traps.

    scripts/test tests/cli/test_hostile_files.py
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import files  # noqa: E402
from poolshim_cli.errors import BadRequest, OwnFailure  # noqa: E402

NOBODY = 65534
LINK, FILE = "a symbolic link of another user leads there", "was put there by another user"

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away"),
]


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
    path = folder / "x"
    path.symlink_to(folder.parent / "ours")
    return give(path)


def link_to_nothing(folder: Path) -> Path:
    path = folder / "x"
    path.symlink_to(folder.parent / "made")
    return give(path)


def link_by_their_directory(folder: Path) -> Path:
    """The last part is no link."""
    (folder / "way").symlink_to(folder.parent)
    return give(folder / "way") / "ours"


def link_in_a_directory_of_theirs(folder: Path) -> Path:
    own = folder / "own"
    own.mkdir()
    own.chmod(0o755)
    return link_to_ours(give(own))


def link_of_ours_to_theirs(folder: Path) -> Path:
    link_to_ours(folder)
    (folder.parent / "first").symlink_to("shared/x")
    return folder.parent / "first"


def second_name(folder: Path) -> Path:
    os.link(folder.parent / "ours", folder / "x")
    return folder / "x"


def their_file(folder: Path) -> Path:
    (folder / "x").write_text("to be read by them")
    (folder / "x").chmod(0o666)
    return give(folder / "x")


def their_fifo(folder: Path) -> Path:
    os.mkfifo(folder / "x", 0o666)
    return give(folder / "x")


TRAPS = [(link_to_ours, LINK), (link_to_nothing, LINK), (link_by_their_directory, LINK),
         (link_in_a_directory_of_theirs, LINK), (link_of_ours_to_theirs, LINK),
         (second_name, FILE), (their_file, FILE), (their_fifo, FILE)]  # fmt: skip


@pytest.mark.parametrize(("trap", "why"), TRAPS)
def test_a_trap_is_refused_before_and_after_the_work(
    shared: Path, trap: Callable[[Path], Path], why: str
) -> None:
    path = trap(shared)
    with pytest.raises(BadRequest, match=why):
        files.check_writable(path)
    with pytest.raises(OwnFailure, match=why):
        files.write_whole(path, b"report")
    assert (shared.parent / "ours").read_text() == "precious"
    assert not (shared.parent / "made").exists()


def test_a_link_of_ours_is_followed(shared: Path) -> None:
    (shared / "x").symlink_to("../ours")
    files.write_whole(shared / "x", b"report")
    assert (shared.parent / "ours").read_text() == "report" and (shared / "x").is_symlink()


def test_a_file_of_the_directorys_owner_stays_theirs(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    give(folder)
    path = folder / "x"
    path.write_text("old")
    give(path)
    files.write_whole(path, b"report")
    assert path.read_text() == "report" and path.stat().st_uid == NOBODY


def test_a_new_file_in_a_shared_directory(shared: Path) -> None:
    files.check_writable(shared / "x")
    files.write_whole(shared / "x", b"report")
    assert (shared / "x").read_text() == "report" and os.listdir(shared) == ["x"]


def test_paths_lead_where_they_led(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative, upwards, twice over a link, through /proc."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "to_b").symlink_to("a/b")
    monkeypatch.chdir(tmp_path / "a")
    for number, name in enumerate((
        "x", "./b/x", "b//x", "../to_b/../y", "/proc/self/cwd/z", f"{tmp_path}/to_b/w",
        "../a/b/../v",
    )):  # fmt: skip
        content = str(number).encode()
        files.write_whole(Path(name), content)
        assert (Path(name)).read_bytes() == content
    assert sorted(os.listdir(tmp_path / "a")) == ["b", "v", "x", "y", "z"]
    assert sorted(os.listdir(tmp_path / "a" / "b")) == ["w", "x"]


@each_row("name", ["/", ".", "a/..", "a"])
def test_a_directory_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadRequest, match="is a directory"):
        files.check_writable(Path(name))
