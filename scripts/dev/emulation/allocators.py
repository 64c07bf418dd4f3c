# SPDX-License-Identifier: MIT
"""The allocators that a machine can preload: the command's, those of scripts/dev/peers, others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emulation.packages import ROOT, Architecture
from poolshim_cli import allocators as lookup
from poolshim_cli.errors import BadRequest
from poolshim_cli.places import DEFAULT_TABLE

PEERS = ROOT / "build" / "peers" / "allocators.toml"


def packages_of(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["package"] for entry in entries if "package" in entry]


def resolve(entry: dict[str, Any], there: Architecture) -> lookup.Allocator | lookup.Missing:
    """The allocator of an entry, as the machine has it: the host's, or of packages and the build
    for its architecture."""
    if there.is_native or not entry.get("files"):
        return lookup.resolve(entry, there.build)
    root = libraries_of(there)
    for file in entry["files"]:
        path = Path(file.replace("{build}", str(there.build)))
        found = [path] if "/" in file else sorted(root.glob(f"usr/lib/*/{file}"))
        for one in found:
            if lookup.elf_kind(one) == lookup.elf_kind(there.busybox()):
                library = one.resolve()
                if library.is_relative_to(root):
                    library = "/" / library.relative_to(root)
                return lookup.Allocator(entry["name"], library, entry.get("env", {}))
    return lookup.Missing(entry["name"], f"not found: {', '.join(entry['files'])}")


def libraries_of(there: Architecture) -> Path:
    """The root of a machine that cannot have the host's."""
    return there.libraries(packages_of(lookup.read_table(DEFAULT_TABLE)))


def find_allocators(
    only: str | None, added: list[str], there: Architecture
) -> list[lookup.Allocator]:
    """only: names, separated by commas. added: each NAME=LIB, chosen by that."""
    entries = lookup.read_table(DEFAULT_TABLE)
    if there.is_native and PEERS.exists():
        entries += lookup.read_table(PEERS)
    additions = [lookup.parse_addition(text) for text in added]
    found = [resolve(entry, there) for entry in entries + additions]
    for one in found[len(entries):]:
        if isinstance(one, lookup.Missing):
            raise BadRequest(f"--add {one.name}: {one.reason}")
    known = [one for one in found if isinstance(one, lookup.Allocator)]
    if only is None:
        return known
    wanted = only.split(",")
    missing = set(wanted) - {one.name for one in known}
    if missing:
        raise BadRequest(f"no allocator {min(missing)} here")
    wanted += [entry["name"] for entry in additions]
    return [one for one in known if one.name in wanted]
