# SPDX-License-Identifier: MIT
"""Where the files of a process are found from here: its root or its mounts may be others.

    root = root_of(1234); root.folder / root.inside("/srv/chroot/bin/server").lstrip("/")
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Root:
    """The root of a process."""

    folder: Path = Path("/")
    prefix: str = ""  # of paths in its maps, where it has changed its root but no mounts

    def inside(self, path: str) -> str:
        """A path of its maps as the process sees it."""
        return path[len(self.prefix) :] if path.startswith(self.prefix + "/") else path


def root_of(pid: int) -> Root:
    """That of a process that runs."""
    folder, prefix = Path(f"/proc/{pid}/root"), ""
    with contextlib.suppress(OSError):
        is_same = os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
        if is_same and os.path.samefile("/", folder):
            return Root()  # debug files that lie elsewhere are found then
        prefix = os.readlink(folder).rstrip("/")
    return Root(folder, prefix)
