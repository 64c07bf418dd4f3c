# SPDX-License-Identifier: MIT
"""The fuzz corpora as archives, one per target: tests/fuzz/corpus/<target>.tar.xz.

scripts/dev/fuzz and test_fuzz.py unpack them into a folder; scripts/dev/fuzz --merge packs them.
By hand: tar -xf tests/fuzz/corpus/heap.tar.xz -C <folder>.
"""

from __future__ import annotations

import io
import lzma
import shutil
import tarfile
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"


def archive_of(target: str) -> Path:
    return CORPUS / f"{target}.tar.xz"


def members_of(archive: Path) -> dict[str, bytes]:
    """Name and contents of every input; nothing where there is no archive."""
    if not archive.exists():
        return {}
    with tarfile.open(archive) as packed:
        files = [entry for entry in packed if entry.isfile()]
        return {Path(file.name).name: packed.extractfile(file).read() for file in files}


def unpack(archive: Path, folder: Path) -> int:
    """Fills the folder with exactly the inputs of the archive; returns their number."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    members = members_of(archive)
    for name, contents in members.items():
        (folder / name).write_bytes(contents)
    return len(members)


def pack(folder: Path, archive: Path) -> None:
    """Equal inputs give equal bytes: sorted names, no times, no owners. An archive that has these
    inputs is left alone, since another version of xz may compress them otherwise."""
    members = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    if members == members_of(archive):
        return
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for name, contents in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(contents)
            packed.addfile(entry, io.BytesIO(contents))
    temporary = archive.with_suffix(".new")
    temporary.write_bytes(lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    temporary.replace(archive)
