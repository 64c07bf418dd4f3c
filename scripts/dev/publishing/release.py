# SPDX-License-Identifier: MIT
"""The release that is published: a commit with its tag, and the files that scripts/package made.

All that forbids it is found before anything is published.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from packages import staging

from .notes import changes
from .tools import PublishError, output

SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Files:
    """The files of scripts/package."""

    folder: Path
    version: str

    def named(self, pattern: str) -> list[Path]:
        """Those whose names match, in order."""
        return sorted(self.folder.glob(pattern))

    def one(self, pattern: str, but_not: str = "-") -> Path:
        """The only one whose name matches, and does not match another pattern."""
        found = [path for path in self.named(pattern) if not path.match(but_not)]
        if len(found) != 1:
            raise PublishError(f"{self.folder} has {len(found)} files {pattern}, needed is one")
        return found[0]

    def tarball(self) -> tuple[Path, str]:
        """The tarball of a prefix, and its processor."""
        path = self.one(f"poolshim-{self.version}-linux-*.tar.xz", "*-debug.tar.xz")
        return path, path.name.partition("-linux-")[2].removesuffix(".tar.xz")


def git(*words: str) -> str:
    return output("git", "-C", staging.ROOT, *words).strip()


def problems_of_commit(what: staging.Release) -> list[str]:
    """The tree is clean; the commit has the tag of its version and a part of the changelog."""
    found = []
    if git("status", "--porcelain"):
        found.append("there are uncommitted changes")
    if f"v{what.version}" not in git("tag", "--points-at", "HEAD").split():
        found.append(f"the commit has no tag v{what.version}; git tag -a v{what.version} "
                     f"-m 'poolshim {what.version}' makes it")  # fmt: skip
    try:
        changes((staging.ROOT / "CHANGELOG.md").read_text(), what.version)
    except PublishError as error:
        found.append(str(error))
    return found


def check_files(what: staging.Release, folder: Path) -> Files:
    """The files are complete, unchanged and of this commit."""
    sums = folder / SUMS
    if not sums.exists():
        raise PublishError(f"{sums} is not there: scripts/package --system bullseye makes it")
    rows = [line.split("  ", 1) for line in sums.read_text().splitlines()]
    for expected, name in rows:
        path = folder / name
        if not path.is_file():
            raise PublishError(f"{path} is missing: {SUMS} lists it")
        if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
            raise PublishError(f"{path} is not the file of {SUMS}")
    bills = [name for _, name in rows if name.endswith(".spdx.json")]
    if len(bills) != 1:
        raise PublishError(f"{sums} lists {len(bills)} bills of materials, needed is one")
    info = str(json.loads((folder / bills[0]).read_text())["packages"][0].get("sourceInfo"))
    found = re.search(r"git commit ([0-9a-f]{40})", info)
    if found is None or found[1] != what.commit:
        made_of = found[1][:12] if found else "no commit"
        raise PublishError(f"{folder} was made of {made_of}, not of {what.commit[:12]}: "
                           "scripts/package --system bullseye makes it")  # fmt: skip
    return Files(folder, what.version)

