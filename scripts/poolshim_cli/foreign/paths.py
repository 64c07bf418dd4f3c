# SPDX-License-Identifier: MIT
"""Where an output file goes: not where another user has put a link, a FIFO or a second name.

    with parent_of(path) as (folder, name): open(f"/proc/self/fd/{folder}/{name}", "w")

The kernel refuses such traps in /tmp, if fs.protected_symlinks and its siblings are set, and not to
a program that reads the link itself. Here each link of a path must belong to this user or to root,
or lie in a directory that no other user may write to; and each step begins at an open directory, so
that no part can be exchanged between the look at it and its use.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LINKS_LIMIT = 40  # as many as Linux follows
HANDLE = os.O_PATH | os.O_CLOEXEC
THEIR_LINK = "a symbolic link of another user leads there"
THEIR_FILE = "was put there by another user"


def is_shared(folder: os.stat_result) -> bool:
    """May users other than this one and root put something there?"""
    return bool(folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) or folder.st_uid not in (
        0, os.geteuid()
    )  # fmt: skip


def is_proc(folder: int) -> bool:
    """Does an open directory lie in /proc? Its links are the kernel's, and lead to open files."""
    return os.fstat(folder).st_dev == os.stat("/proc/self").st_dev


def check_file(found: os.stat_result, folder: os.stat_result) -> None:
    """PermissionError for what another user may have put there as a trap, in a shared directory.

    A file of the directory's owner is none: that user may have it. A file with a second name is: it
    may be one of this user's that lies elsewhere.
    """
    has_more_names = stat.S_ISREG(found.st_mode) and found.st_nlink > 1
    is_theirs = found.st_uid not in (0, os.geteuid(), folder.st_uid)
    if is_shared(folder) and (is_theirs or has_more_names):
        raise PermissionError(errno.EACCES, THEIR_FILE)


class Walk:
    """Walks along a path from directory to directory."""

    def __init__(self, path: Path) -> None:
        self.links = 0
        self.folder = -1
        self.words: list[str] = []
        self.add(os.fspath(path))
        if self.folder < 0:
            self.go(os.open(".", HANDLE | os.O_DIRECTORY))

    def add(self, text: str) -> None:
        """The words of a path, which come next."""
        self.words[:0] = [word for word in text.split("/") if word not in ("", ".")]
        if text.startswith("/"):
            self.go(os.open("/", HANDLE | os.O_DIRECTORY))

    def go(self, handle: int) -> None:
        """On, to a directory."""
        if self.folder >= 0:
            os.close(self.folder)
        self.folder = handle

    def step(self) -> bool:
        """Resolves one word. False where the last one is no link."""
        word, here = self.words[0], os.fstat(self.folder)
        is_last = len(self.words) == 1
        if word == ".." or is_proc(self.folder):
            if is_last and word != "..":
                return False
            self.go(os.open(word, HANDLE | os.O_DIRECTORY, dir_fd=self.folder))
            del self.words[0]
            return True
        try:
            handle = os.open(word, HANDLE | os.O_NOFOLLOW, dir_fd=self.folder)
        except FileNotFoundError:
            if is_last:
                return False
            raise
        found = os.fstat(handle)
        if not stat.S_ISLNK(found.st_mode):
            return self.pass_through(handle, found, is_last)
        try:
            if found.st_uid not in (0, os.geteuid()) and is_shared(here):
                raise PermissionError(errno.EACCES, THEIR_LINK)
            text = os.readlink("", dir_fd=handle)
        finally:
            os.close(handle)
        self.links += 1
        if self.links > LINKS_LIMIT:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        del self.words[0]
        self.add(text)
        return True

    def pass_through(self, handle: int, found: os.stat_result, is_last: bool) -> bool:
        """A directory on the way."""
        if is_last or not stat.S_ISDIR(found.st_mode):
            os.close(handle)
            if is_last:
                return False
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        self.go(handle)
        del self.words[0]
        return True


@contextmanager
def parent_of(path: Path) -> Iterator[tuple[int, str]]:
    """The directory, open, and the name in it that a path leads to: no link, or nothing yet."""
    walk = Walk(path)
    try:
        while walk.words and walk.step():
            pass
        if not walk.words:  # "/", or "a/.."
            raise IsADirectoryError(errno.EISDIR, "is a directory")
        yield walk.folder, walk.words[0]
    finally:
        os.close(walk.folder)
