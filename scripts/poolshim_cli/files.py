# SPDX-License-Identifier: MIT
"""Writes the files of the commands, whole or not at all.

Writes a new or a regular file under another name first, and renames it. Writes through all else: a
device, a FIFO, a process substitution, an open descriptor (/dev/fd/N). Follows a symbolic link and
writes its target. Writes a regular file in place, after reserving its space, if no file of the same
owner and mode can replace it. Refuses a trap that another user has put there (foreign/paths.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .errors import BadRequest, OwnFailure
from .foreign import paths

DESCRIPTOR = re.compile(r"/(?:dev/fd|proc/(?:self|thread-self|\d+)/fd)/(\d+)")
LINKS_LIMIT = 40  # as many as Linux follows
PREFIX = ".poolshim-"  # of a file that is not whole yet


def descriptor_of(path: Path) -> int | None:
    """N where the path is a name of our open descriptor N, such as /dev/stdout or /dev/fd/63."""
    text = os.path.abspath(path)
    for _ in range(LINKS_LIMIT):
        found = DESCRIPTOR.fullmatch(text)
        if found and (not text.startswith("/proc") or os.path.samefile(
            os.path.dirname(text), "/proc/self/fd"
        )):  # fmt: skip
            return int(found.group(1))
        if not os.path.islink(text):
            return None
        text = os.path.normpath(os.path.join(os.path.dirname(text), os.readlink(text)))
    return None


def status_of(path: Path, follow_symlinks: bool = True) -> os.stat_result | None:
    """The status of the file at a path; None without one. OSError where a link is refused."""
    try:
        return os.stat(path, follow_symlinks=follow_symlinks)
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def place_of(path: Path) -> Iterator[tuple[Path, os.stat_result | None, int]]:
    """The place of a path, in an open directory, the file there, and a flag to open it with."""
    with paths.parent_of(path) as (folder, name):
        place = Path(f"/proc/self/fd/{folder}") / name
        flag = 0 if paths.is_proc(folder) else os.O_NOFOLLOW
        found = status_of(place, follow_symlinks=flag == 0)
        if found is not None and not stat.S_ISDIR(found.st_mode):
            paths.check_file(found, os.fstat(folder))
        yield place, found, flag


def identity(path: Path) -> object:
    """Equal for two paths that lead to the same regular file, or would when it is made."""
    with contextlib.suppress(OSError):
        found = status_of(path)
        if found is None or stat.S_ISREG(found.st_mode):
            return os.path.realpath(path)
    return object()


def check_writable(path: Path) -> None:
    """BadRequest if a file cannot be put there; checked before the work, not after."""
    try:
        number = descriptor_of(path)
        if number is not None:
            if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                raise BadRequest(f"{path}: is open for reading only")
            return
        with place_of(path) as (place, found, _flag):
            check_place(path, place, found)
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None


def check_place(path: Path, place: Path, found: os.stat_result | None) -> None:
    """BadRequest for what cannot be written."""
    if found is None:
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=PREFIX):
            return
    if stat.S_ISDIR(found.st_mode):
        raise BadRequest(f"{path}: is a directory")
    if stat.S_ISSOCK(found.st_mode):
        raise BadRequest(f"{path}: is a socket")
    if not os.access(place, os.W_OK):
        raise BadRequest(f"{path}: Permission denied")


def write_whole(path: Path, content: bytes) -> None:
    """Writes the content there. OwnFailure if that fails; a regular file is then as it was."""
    try:
        number = descriptor_of(path)
        if number is not None:
            write_through(os.dup(number), content)
            return
        with place_of(path) as (place, found, flag):
            if found is None or stat.S_ISREG(found.st_mode):
                write_regular(place, found, content)
            else:
                write_through(os.open(place, os.O_WRONLY | os.O_NOCTTY | flag), content)
    except OSError as error:
        raise OwnFailure(f"{path}: {error.strerror}") from None


def write_through(descriptor: int, content: bytes) -> None:
    """Writes to an open file. A reader that has seen enough is no failure."""
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb", buffering=0) as file:
        write_all(file.fileno(), content)


def write_all(descriptor: int, content: bytes) -> None:
    """At the descriptor's position, however little each call takes."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def write_regular(path: Path, found: os.stat_result | None, content: bytes) -> None:
    """A file that is regular or absent, and no link."""
    if found is not None and found.st_nlink > 1:  # its other names must remain the same file
        write_in_place(path, content)
        return
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=PREFIX)
    except PermissionError:
        if found is None:
            raise
        write_in_place(path, content)
        return
    try:
        with open(handle, "wb", buffering=0):
            is_alike = take_over(handle, found)
            if is_alike:
                write_all(handle, content)
                os.fsync(handle)
                os.replace(name, path)
                return
        write_in_place(path, content)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def take_over(handle: int, found: os.stat_result | None) -> bool:
    """Gives a new file the owner and mode of the old one; False where that is not allowed."""
    if found is None:
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(handle, 0o666 & ~mask)
        return True
    made = os.fstat(handle)
    if (made.st_uid, made.st_gid) != (found.st_uid, found.st_gid):
        try:
            os.fchown(handle, found.st_uid, found.st_gid)
        except PermissionError:
            return False
    os.fchmod(handle, stat.S_IMODE(found.st_mode))
    return True


def write_in_place(path: Path, content: bytes) -> None:
    """Into the file that is there. Its space is reserved first: too little, and it is unchanged."""
    with open(os.open(path, os.O_WRONLY | os.O_NOFOLLOW), "wb", buffering=0) as file:
        before = os.fstat(file.fileno()).st_size
        try:
            if content:
                os.posix_fallocate(file.fileno(), 0, len(content))
        except OSError:
            os.ftruncate(file.fileno(), before)
            raise
        write_all(file.fileno(), content)
        os.ftruncate(file.fileno(), len(content))
        os.fsync(file.fileno())
