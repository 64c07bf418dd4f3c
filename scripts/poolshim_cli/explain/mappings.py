# SPDX-License-Identifier: MIT
"""The mappings of a process as /proc/PID/smaps has them, and the stacks of its threads.

    for one in mappings.read(1234): one.rss, one.path
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from .. import control
from ..foreign import files
from ..foreign.text import printable

HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ (\d+) *(.*)")
KEYS = {
    "Rss": "rss", "Pss": "pss", "Private_Clean": "private_clean", "Private_Dirty": "private_dirty",
    "Anonymous": "anonymous", "AnonHugePages": "huge", "Swap": "swap",
}  # fmt: skip
SHARED_MEMORY = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero")
CODE_FILES = re.compile(r"\.so(\.|$)|\.cache$|/locale-archive$|/gconv-modules")


@dataclass
class Mapping:
    """One line of maps, with its memory in bytes."""

    start: int
    end: int
    permissions: str
    offset: int
    inode: int
    path: str  # "" where it has no name
    figures: dict[str, int] = field(default_factory=dict)

    @property
    def rss(self) -> int:
        """Resident."""
        return self.figures.get("rss", 0)

    @property
    def pss(self) -> int:
        """Resident, a page that n processes share counted 1/n times."""
        return self.figures.get("pss", 0)

    @property
    def huge(self) -> int:
        """The bytes of the mapping in huge pages."""
        return self.figures.get("huge", 0)

    @property
    def is_file(self) -> bool:
        """Is it of a file? Then private copies of its pages are, too."""
        return self.path.startswith("/") and not self.is_shared_memory

    @property
    def is_shared_memory(self) -> bool:
        """Is it of a file in memory only?"""
        return self.path.startswith(SHARED_MEMORY)

    @property
    def is_anonymous(self) -> bool:
        """Is it without a file? [anon:name] is, too."""
        return self.inode == 0 and (self.path == "" or self.path.startswith("[anon"))


    @property
    def anonymous_memory(self) -> bool:
        """Private, writable, without a file, and resident: what a fork copies."""
        is_private = "w" in self.permissions and self.permissions.endswith("p")
        return is_private and self.rss > 0 and not self.is_file and not self.path.startswith("[v")


def parse(text: str) -> list[Mapping]:
    """The mappings of a text of smaps."""
    found: list[Mapping] = []
    for line in text.splitlines():
        key, colon, rest = line.partition(":")
        name = KEYS.get(key)
        if name is not None and found:
            found[-1].figures[name] = int(rest.split()[0]) * 1024
        elif (not colon or " " in key) and (head := HEAD.fullmatch(line)) is not None:
            start, end, permissions, offset, inode, path = head.groups()
            found.append(
                Mapping(int(start, 16), int(end, 16), permissions, int(offset, 16), int(inode),
                        printable(path.removesuffix(" (deleted)")))
            )  # fmt: skip
    return found


def read(pid: int) -> list[Mapping]:
    """The mappings of a running process."""
    try:
        data = os.fsdecode(files.read_proc(pid, "smaps"))
    except OSError as error:
        raise control.explain(pid, error.errno or 0, "its mappings") from None
    return parse(data)


def code_files(mappings: list[Mapping]) -> set[str]:
    """Files with an executable part: the program and its libraries; and libc's own data."""
    found = {one.path for one in mappings if one.is_file and "x" in one.permissions}
    return found | {one.path for one in mappings if one.is_file and CODE_FILES.search(one.path)}


def stack_pointers(pid: int) -> list[int]:
    """Stack pointers of the threads that are blocked in a system call at this moment."""
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                words = Path(f"/proc/{pid}/task/{thread}/syscall").read_text().split()
                found.append(int(words[-2], 16) if len(words) > 2 else 0)
    return [address for address in found if address != 0]


def command_of(pid: int) -> str:
    """The name of its program; "" where it has ended."""
    with contextlib.suppress(OSError):
        words = files.read_proc(pid, "cmdline").split(b"\0", 1)
        title = os.fsdecode(words[0]).split(" ")[0]  # servers append their state
        return printable(Path(title).name.rstrip(":"))
    return ""
