# SPDX-License-Identifier: MIT
"""Where the command writes: whole files or none; devices, links and pipes remain such.

    scripts/test tests/cli/test_cli_files.py

Every device, FIFO and link that is named here lies in the test's own folder, so that no fault of
the command can replace one of the machine.
"""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD_DIR, ROOT
from programs import folder
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import files  # noqa: E402
from poolshim_cli.errors import BadRequest, OwnFailure  # noqa: E402

POOLSHIM = ROOT / "scripts" / "poolshim"
RESULTS = ROOT / "tests" / "cli" / "golden" / "compare.json"
CSV = RESULTS.with_suffix(".csv").read_bytes()
NOBODY = 65534


def write(path: Path, content: bytes = b"new\n") -> None:
    """Writes as a command does: checks first, writes later."""
    files.check_writable(path)
    files.write_whole(path, content)


def only(folder: Path, *names: str) -> bool:
    return sorted(path.name for path in folder.iterdir()) == sorted(names)


def show(words: str, **options: object) -> "subprocess.CompletedProcess[bytes]":
    """`poolshim compare --from` with these words, by bash."""
    env = {**os.environ, "POOLSHIM_BUILD_DIR": str(BUILD_DIR), "POOLSHIM": str(POOLSHIM)}
    script = f'"$POOLSHIM" compare -q --from {RESULTS} {words}'
    return subprocess.run(
        ["bash", "-c", script], env=env, capture_output=True, timeout=60, check=False, **options
    )  # type: ignore[call-overload,no-any-return]


def test_new_file_has_the_mode_that_the_mask_allows(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640
    assert (tmp_path / "x").read_bytes() == b"new\n" and only(tmp_path, "x")


def test_existing_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("longer than the new one")
    path.chmod(0o604)
    number = path.stat().st_ino
    write(path)
    assert path.read_bytes() == b"new\n" and stat.S_IMODE(path.stat().st_mode) == 0o604
    assert path.stat().st_ino != number and only(tmp_path, "x")


@pytest.mark.root
def test_existing_file_keeps_its_owner(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    path = tmp_path / "x"
    path.write_text("theirs")
    os.chown(path, NOBODY, NOBODY)
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY, NOBODY)
    assert path.read_bytes() == b"new\n"


def test_file_is_written_in_place_where_its_owner_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_text("longer than the new one")
    number = path.stat().st_ino
    monkeypatch.setattr(files, "take_over", lambda *_: False)
    write(path)
    assert path.read_bytes() == b"new\n" and path.stat().st_ino == number and only(tmp_path, "x")


@pytest.mark.root
def test_file_in_a_folder_that_takes_no_new_ones(folder: Path) -> None:
    """Write permission for the file is enough, as for a shell."""
    if os.geteuid() != 0:
        pytest.skip("root becomes another account here")
    shutil.copytree(ROOT / "scripts" / "poolshim_cli", folder / "poolshim_cli")
    closed = folder / "closed"
    closed.mkdir()
    path = closed / "x"
    path.write_text("old")
    path.chmod(0o666)
    script = (
        f"import sys; sys.path.insert(0, {str(folder)!r})\n"
        "from pathlib import Path; from poolshim_cli import files\n"
        "files.check_writable(Path(sys.argv[1])); files.write_whole(Path(sys.argv[1]), b'new')"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-c", script, path], user=NOBODY, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert path.read_text() == "new" and only(closed, "x")


def test_other_names_of_a_file_stay_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    os.link(tmp_path / "x", tmp_path / "y")
    write(tmp_path / "x")
    assert (tmp_path / "y").read_bytes() == b"new\n" and only(tmp_path, "x", "y")


@each_row("has_target", [True, False])
def test_link_stays_and_its_target_is_written(tmp_path: Path, has_target: bool) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    if has_target:
        (folder / "target").write_text("old")
    (tmp_path / "middle").symlink_to("elsewhere/target")
    (tmp_path / "link").symlink_to(tmp_path / "middle")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "middle").is_symlink()
    assert not (folder / "target").is_symlink()
    assert (folder / "target").read_bytes() == b"new\n" and only(folder, "target")


@pytest.mark.root
def test_device_stays_a_device(tmp_path: Path) -> None:
    """A null device of our own; a link to it is one too."""
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        device.open("w").close()
    except OSError:
        pytest.skip("no devices can be made here")
    (tmp_path / "link").symlink_to(device)
    for path in (device, tmp_path / "link"):
        done = show(f"--csv {path}")
        assert (done.returncode, done.stderr) == (1, b""), "1: a column of these results failed"
        assert stat.S_ISCHR(device.stat().st_mode) and only(tmp_path, "link", "null")


def test_fifo_is_written_through(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
        done = show(f"--csv {path}")
        found = b""
        if stat.S_ISFIFO(path.stat().st_mode):
            found = reader.communicate(timeout=60)[0]
        reader.kill()
    assert found == CSV and (done.returncode, done.stderr) == (1, b"")
    assert stat.S_ISFIFO(path.stat().st_mode) and only(tmp_path, "fifo")


def test_process_substitution_and_descriptors(tmp_path: Path) -> None:
    (tmp_path / "err").symlink_to("/dev/stderr")
    done = show(f"--csv >(cat >{tmp_path}/a) --json {tmp_path}/err; wait; exit 7")
    assert done.returncode == 7 and done.stderr == RESULTS.read_bytes()
    assert (tmp_path / "a").read_bytes() == CSV
    done = show("--csv >(head -n 1 >&2)")
    assert done.returncode == 1 and b"No such" not in done.stderr and b"poolshim" not in done.stderr
    done = show(f"--csv /dev/fd/7 7>>{tmp_path}/a")
    assert done.stderr == b"" and (tmp_path / "a").read_bytes() == CSV + CSV
    (tmp_path / "out").symlink_to("/dev/fd/1")
    assert show(f"--csv {tmp_path}/out").stdout == CSV
    assert only(tmp_path, "a", "err", "out") and (tmp_path / "out").is_symlink()


def test_reader_that_has_seen_enough_is_no_failure(tmp_path: Path) -> None:
    """Larger than the buffer of a pipe, without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    files.write_whole(Path(f"/dev/fd/{writer}"), b"x" * (1 << 20))
    os.close(writer)


@each_row("is_linked", [False, True])
def test_failed_write_leaves_what_was_there(tmp_path: Path, is_linked: bool) -> None:
    """Beyond the largest file that is allowed; with a second name it would be written in place."""
    path = tmp_path / "x"
    path.write_text("precious")
    if is_linked:
        os.link(path, tmp_path / "y")
    names = ["x", "y"] if is_linked else ["x"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        files.check_writable(path)
        with pytest.raises(OwnFailure, match="x: File too large"):
            files.write_whole(path, b"y" * (1 << 20))
        with pytest.raises(OwnFailure, match="new: File too large"):
            files.write_whole(tmp_path / "new", b"y" * (1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "precious" and only(tmp_path, *names)


def test_full_device_is_one_line_and_the_table_is_shown_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    env = {**os.environ, "POOLSHIM_BUILD_DIR": str(BUILD_DIR)}
    words = [POOLSHIM, "compare", "--from", RESULTS, "--json", tmp_path / "full",
             "--csv", tmp_path / "x"]  # fmt: skip
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 125 and "mimalloc" in done.stdout
    assert done.stderr == f"poolshim compare: {tmp_path}/full: No space left on device\n"
    assert (tmp_path / "x").read_bytes() == CSV and (tmp_path / "full").is_symlink()


@each_row(
    ("make", "complaint"),
    [
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("/nonexistent/x"), "No such file or directory"),
        (lambda path: path.symlink_to("/dev/fd/987"), "Bad file descriptor"),
        (lambda path: path.symlink_to("/dev/fd/0"), "is open for reading only"),
    ],
)
def test_places_that_cannot_be_written(tmp_path: Path, make: object, complaint: str) -> None:
    assert callable(make)
    make(tmp_path / "x")
    done = show(f"--csv {tmp_path}/x </dev/null")
    assert done.returncode == 2 and done.stdout == b""
    assert done.stderr.decode() == f"poolshim compare: {tmp_path}/x: {complaint}\n"
    assert only(tmp_path, "x")


def test_file_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(BadRequest, match="x: Permission denied"):
        files.check_writable(path)
    assert path.read_text() == "old"


def test_two_outputs_in_one_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("x")
    done = show(f"--json {tmp_path}/x --csv {tmp_path}/link")
    assert done.returncode == 2 and b"the same file" in done.stderr and only(tmp_path, "link")
    (tmp_path / "null").symlink_to("/dev/null")
    assert show(f"--json {tmp_path}/null --csv {tmp_path}/null").returncode == 1
