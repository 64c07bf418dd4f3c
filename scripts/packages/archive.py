# SPDX-License-Identifier: MIT
"""Archives whose bytes depend on their files alone: names in order, one time, no owner.

The tarball of scripts/package: a tree for any prefix, and the script that puts it there.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
from pathlib import Path

from .staging import ROOT, Machine, Release

INSTALLER = ROOT / "scripts" / "packages" / "install.sh"


def sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def mode_of(path: Path) -> int:
    """Readable by all, executable where it is for one."""
    return 0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644


def add(tar: tarfile.TarFile, path: Path, name: str, epoch: int) -> None:
    """One file, folder or link."""
    entry = tar.gettarinfo(str(path), name)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = epoch
    entry.mode = 0o777 if path.is_symlink() else mode_of(path)
    entry.type = tarfile.REGTYPE if entry.islnk() else entry.type  # a hard link is a file
    if not entry.isreg():
        tar.addfile(entry)
        return
    entry.size = path.stat().st_size
    with path.open("rb") as file:
        tar.addfile(entry, file)


def pack(folder: Path, top: str, output: Path, epoch: int) -> None:
    """All of a folder, as top/..., into a .tar.xz."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as tar:
        add(tar, folder, top, epoch)
        for path in sorted(folder.rglob("*")):
            add(tar, path, f"{top}/{path.relative_to(folder).as_posix()}", epoch)
    output.write_bytes(lzma.compress(content.getvalue(), preset=6))


def make_tarball(what: Release, target: Machine, prefix: Path, work: Path, output: Path) -> Path:
    """The tree of a prefix as files/, its list, and the installer."""
    top = f"poolshim-{what.version}-linux-{target.name}"
    folder = work / top
    folder.mkdir()
    prefix.rename(folder / "files")
    names = [path.relative_to(folder / "files").as_posix()
             for path in sorted((folder / "files").rglob("*"))
             if path.is_symlink() or not path.is_dir()]  # fmt: skip
    (folder / "manifest").write_text("".join(f"{name}\n" for name in names))
    (folder / "install").write_text(INSTALLER.read_text().replace("@VERSION@", what.version))
    (folder / "install").chmod(0o755)
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        document = folder / "files" / "share" / "doc" / "poolshim" / name
        (folder / name).write_bytes(document.read_bytes())
    path = output / f"{top}.tar.xz"
    pack(folder, top, path, what.epoch)
    return path
