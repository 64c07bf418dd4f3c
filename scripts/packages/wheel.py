# SPDX-License-Identifier: MIT
"""The wheel: the command, its programs and the libraries in one Python package, poolshim_cli.

The tag names the oldest glibc that has every symbol which the files need. Python's own tools build
no wheel of libraries that were built before, so the archive is written here: PEP 427.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
import zipfile
from pathlib import Path
from typing import Any

from .staging import Machine, Release, project_table

PACKAGE = "poolshim_cli"
NATIVE = f"{PACKAGE}/native"
PROGRAMS = f"{NATIVE}/programs"
ENTRY_POINTS = f"""[console_scripts]
poolshim = {PACKAGE}.__main__:main

[pytest11]
poolshim = {PACKAGE}.pytest_plugin
"""


def metadata(what: Release, project: dict[str, Any], readme: str) -> str:
    """METADATA, from pyproject.toml."""
    lines = ["Metadata-Version: 2.3", "Name: poolshim", f"Version: {what.version}",
             f"Summary: {project['description']}", "License: MIT",
             f"Requires-Python: {project['requires-python']}",
             "Classifier: Operating System :: POSIX :: Linux"]  # fmt: skip
    lines += [f"Requires-Dist: {name}" for name in project["dependencies"]]
    for extra, names in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {name}; extra == '{extra}'" for name in names]
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


def collect(prefix: Path) -> dict[str, tuple[bytes, bool]]:
    """Name in the wheel -> content, and whether it is a program. A wheel has no links."""
    files: dict[str, tuple[bytes, bool]] = {}
    python = prefix / "lib" / "poolshim" / "python"
    for path in sorted(python.rglob("*")):
        if path.is_file() and path.name != "installed.json":
            files[path.relative_to(python).as_posix()] = (path.read_bytes(), False)
    for path in sorted((prefix / "libexec" / "poolshim").iterdir()):
        files[f"{PROGRAMS}/{path.name}"] = (path.read_bytes(), True)
    for name in ("libpoolshim", "libpoolshim-pools"):
        files[f"{NATIVE}/{name}.so"] = ((prefix / "lib" / f"{name}.so").read_bytes(), True)
    facts = json.loads((python / PACKAGE / "installed.json").read_text())
    facts |= {"root": ".", "library": "native", "programs": "native/programs"}
    files[f"{PACKAGE}/installed.json"] = (json.dumps(facts).encode() + b"\n", False)
    return files


def record_line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def write(path: Path, files: dict[str, tuple[bytes, bool]], epoch: int) -> None:
    """A zip with the time of the commit in every entry."""
    date = time.gmtime(max(epoch, 315532800))[:6]  # zip knows no time before 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (content, is_program) in files.items():
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def make_wheel(
    what: Release, target: Machine, prefix: Path, source: Path, glibc: str, output: Path
) -> Path:
    """Makes the wheel of a tree with lib, libexec and lib/poolshim/python."""
    project = project_table(source)
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_{target.name}"
    info = f"poolshim-{what.version}.dist-info"
    readme = (source / "README.md").read_text()
    files = collect(prefix)
    files |= {
        f"{info}/METADATA": (metadata(what, project, readme).encode(), False),
        f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: scripts/package\n"
                          f"Root-Is-Purelib: false\nTag: {tag}\n".encode(), False),
        f"{info}/entry_points.txt": (ENTRY_POINTS.encode(), False),
        f"{info}/licenses/LICENSE": ((source / "LICENSE").read_bytes(), False),
    }  # fmt: skip
    record = "".join(record_line(name, content) for name, (content, _) in files.items())
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), False)
    path = output / f"poolshim-{what.version}-{tag}.whl"
    write(path, files, what.epoch)
    return path
