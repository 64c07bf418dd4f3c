# SPDX-License-Identifier: MIT
"""Stacks of a program that describes itself as a virtual machine of Java does: planted frames, and
damaged ones.

    scripts/test tests/cli/test_java_damage.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from programs import compile_program
from test_language_lines import profile_of

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import pprof  # noqa: E402

pytestmark = pytest.mark.preload

ROW = re.compile(r'^PS_JAVA(_MAYBE)?\((\w+), "([^"]+)", "([^"]*)"\)', re.M)
# Fields that not each version has.
FIELDS = {
    17: "BLOB_START CODE_PLACES_END CODE_METADATA CODE_SCOPES CODE_LEFT POOL_FILE",
    25: "BLOB_START_OFFSET BLOB_MUTABLE BLOB_RELOCATIONS CODE_SCOPES_OFFSET CODE_LEFT_OFFSET "
        "CODE_IMMUTABLE POOL_FILE",
}  # fmt: skip
DERIVED = {"CompiledMethod": "CodeBlob", "nmethod": "CodeBlob", "InstanceKlass": "Klass"}
CONTAINERS = ("_anchor", "_memory", "_segmap")
TYPE_BYTES = 64
PLANTED = [
    "Planted.java:5 of.Planted.inner",
    "Planted.java:7 of.Planted.outer",
    "Planted.java:5 of.Planted.interpreted",
    "Planted.java:7 of.Planted.last",
]
DAMAGES = 200_000
HASHES = {17: "sysv", 25: "gnu"}  # tables of symbols: Java 11 has the older one
VERSIONS = [pytest.param(one, id=f"java{one}") for one in FIELDS]


def fields_of(version: int) -> str:
    """A header: each field has a place of its own in its type."""
    lines, fields, types, ends = [f"#define VERSION {version}"], [], [], dict[str, int]()
    for maybe, name, kind, field in ROW.findall((ROOT / "shim/language_java.def").read_text()):
        if not field:
            lines.append(f"#define F_{name} {TYPE_BYTES}")
            types.append(f'{{"{kind}", {TYPE_BYTES}}},')
            continue
        base = DERIVED.get(kind, kind)
        offset = ends.get(base, 8)
        ends[base] = offset + (40 if field in CONTAINERS else 8)
        lines.append(f"#define F_{name} {offset}")
        if not maybe or name in FIELDS[version].split():
            fields.append(f'{{"{kind}", "{field}", "", 0, {offset}, 0}},')
    lines += ["#define FIELD_ENTRIES " + " ".join(fields),
              "#define TYPE_ENTRIES " + " ".join(types)]  # fmt: skip
    return "\n".join(lines) + "\n"


@pytest.fixture(params=VERSIONS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The program, with the structures of a version."""
    (tmp_path / "fields.h").write_text(fields_of(request.param))
    source = Path(__file__).with_name("machine.c").read_text()
    style = f"-Wl,--hash-style={HASHES[request.param]}"
    return compile_program(tmp_path, "machine", source, "-rdynamic", "-pthread", style)


def lines_of(profile: pprof.Profile) -> set[tuple[str, ...]]:
    """The stacks, of lines only."""
    return {
        tuple(site.line.title for site in one.locations if site.line is not None)
        for one in profile.samples
    }


def test_planted_frames_of_a_machine(shim: Path, tmp_path: Path, machine: Path) -> None:
    assert PLANTED in map(list, lines_of(profile_of(shim, tmp_path, [machine], 1024)))


def test_damaged_structures_end_the_stack(shim: Path, tmp_path: Path, machine: Path) -> None:
    profile = profile_of(shim, tmp_path, [machine, str(DAMAGES)], 1024)
    found = lines_of(profile)
    assert tuple(PLANTED) in found
    assert tuple(PLANTED[:2]) in found  # for one, without the frame pointer
    assert () in found  # for one, without the thread
