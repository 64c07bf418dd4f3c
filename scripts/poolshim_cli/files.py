# SPDX-License-Identifier: MIT
"""What the commands write: whole or not at all, under another name first, then renamed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import BadRequest


def check_writable(path: Path) -> None:
    """BadRequest if a file cannot be put there; asked before the work, not after."""
    try:
        if path.is_dir():
            raise BadRequest(f"{path}: is a directory")
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None


def write_whole(path: Path, content: bytes) -> None:
    """Puts a file there, or leaves what was there; BadRequest if that cannot be."""
    name = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            name = file.name
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except OSError as error:
        if name is not None:
            Path(name).unlink(missing_ok=True)
        raise BadRequest(f"{path}: {error.strerror}") from None
