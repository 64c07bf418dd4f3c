# SPDX-License-Identifier: MIT
"""Finds the allocators to compare: reads allocators.toml, finds the libraries.

    PYTHONPATH=scripts python3 -m poolshim_cli.allocators --build build/release

prints one line per allocator found, "name<TAB>path" (an empty path: nothing to preload), and one
line per missing one on standard error. Needs the standard library only (tomli before Python 3.11).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib  # type: ignore[import-not-found,no-redef]

from . import elf
from .errors import BadRequest
from .places import DEFAULT_TABLE, find

KEYS = {"name": str, "files": list, "env": dict, "package": str, "note": str, "version": str}
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True)
class Allocator:
    """One row of the comparison. library is None when nothing is preloaded."""

    name: str
    library: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    note: str = ""
    version: str = ""


@dataclass(frozen=True)
class Missing:
    """An allocator that cannot be measured here, and why."""

    name: str
    reason: str


def read_table(path: Path) -> list[dict[str, Any]]:
    """The [[allocator]] tables of the file, checked."""
    try:
        entries: list[dict[str, Any]] = tomllib.loads(path.read_text()).get("allocator", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadRequest(f"{path}: {error}") from error
    seen: set[str] = set()
    for entry in entries:
        name = entry.get("name")
        if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
            raise BadRequest(
                f"{path}: an allocator needs a name of letters and digits, not {name!r}"
            )
        if name in seen:
            raise BadRequest(f"{path}: {name} is there twice")
        seen.add(name)
        for key, value in entry.items():
            if key not in KEYS:
                raise BadRequest(f"{path}: {name}: unknown key {key!r} (known: {', '.join(KEYS)})")
            if not isinstance(value, KEYS[key]):
                raise BadRequest(f"{path}: {name}: {key} must be a {KEYS[key].__name__}")
    return entries


def parse_addition(text: str) -> dict[str, Any]:
    """The table entry for NAME=LIBRARY on the command line."""
    name, separator, library = text.partition("=")
    if not separator or not library or not NAME_PATTERN.fullmatch(name):
        raise BadRequest(f"--add needs NAME=LIBRARY, not {text!r}")
    return {"name": name, "files": [str(Path(library).resolve()) if "/" in library else library]}


def elf_kind(path: Path) -> bytes | None:
    """Class and machine of an ELF file: what must agree between a program and what it preloads."""
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError:
        return None
    return header[4:6] + header[18:20] if header[:4] == b"\x7fELF" and len(header) == 20 else None


def library_directories() -> list[Path]:
    """Where the loader searches, roughly; used beside its own cache."""
    multiarch = getattr(sys.implementation, "_multiarch", "")
    roots = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    roots += ["/usr/local/lib", f"/usr/lib/{multiarch}", "/usr/lib64", "/usr/lib"]
    return [Path(root) for root in roots if root]


def loader_cache() -> dict[str, list[Path]]:
    """Library name -> paths, from ldconfig; empty where there is no ldconfig."""
    command = next((p for p in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if Path(p).exists()), None)
    found: dict[str, list[Path]] = {}
    if command is not None:
        output = subprocess.run([command, "-p"], capture_output=True, text=True, check=False).stdout
        for name, path in re.findall(r"^\s+(\S+) \(.*\) => (\S+)$", output, re.MULTILINE):
            found.setdefault(name, []).append(Path(path))
    return found


def find_library(files: list[str], build_dir: Path) -> Path | None:
    """The first of the files that exists and that a program of this machine can load."""
    wanted = elf_kind(Path(sys.executable).resolve())
    cache = loader_cache()
    for file in files:
        if "/" in file:
            candidates = [find().root / file.replace("{build}", str(build_dir))]
        else:
            candidates = [directory / file for directory in library_directories()]
            candidates = cache.get(file, []) + candidates
        for candidate in candidates:
            kind = elf_kind(candidate)
            if kind is not None and kind == wanted:
                return candidate.resolve()
    return None


def has_malloc(library: Path) -> bool:
    """Does it define malloc? A library that only depends on one that does is loaded after libc."""
    try:
        return elf.read(library).defines("malloc")
    except (OSError, elf.Malformed):
        return False


def package_version(path: Path) -> str:
    """ "libjemalloc2 5.3.0-1" where dpkg lists the file, otherwise ""."""
    for query in (str(path), str(path).removeprefix("/usr")):
        try:
            owner = subprocess.run(
                ["dpkg-query", "-S", query], capture_output=True, text=True, check=False
            )
        except OSError:
            return ""
        if owner.returncode == 0:
            package = owner.stdout.split(": ")[0]
            shown = subprocess.run(
                ["dpkg-query", "-W", "-f", "${Package} ${Version}", package],
                capture_output=True,
                text=True,
                check=False,
            )
            return shown.stdout
    return ""


def resolve(entry: dict[str, Any], build_dir: Path) -> Allocator | Missing:
    """The allocator of an entry, as this machine has it."""
    name, files = entry["name"], entry.get("files", [])
    env = {key: str(value) for key, value in entry.get("env", {}).items()}
    note = entry.get("note", "")
    if not files:
        libc = (
            os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
        )
        return Allocator(name, None, env, note, libc or "")
    library = find_library(files, build_dir)
    if library is None:
        hint = f"; Debian package {entry['package']}" if "package" in entry else ""
        shown = ", ".join(file.replace("{build}", str(build_dir)) for file in files)
        return Missing(name, f"not found: {shown}{hint}")
    if not has_malloc(library):
        return Missing(name, f"{library} defines no malloc: it is no allocator")
    version = entry.get("version") or package_version(library)
    return Allocator(name, library, env, note, version)


def main() -> int:
    """Prints the allocators found, for scripts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--build", type=Path, default=find().build)
    parser.add_argument("--table", type=Path, default=DEFAULT_TABLE)
    options = parser.parse_args()
    try:
        entries = read_table(options.table)
    except BadRequest as error:
        print(error, file=sys.stderr)
        return 2
    for found in (resolve(entry, options.build) for entry in entries):
        if isinstance(found, Missing):
            print(f"{found.name}: {found.reason}", file=sys.stderr)
        else:
            print(f"{found.name}\t{found.library or ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
