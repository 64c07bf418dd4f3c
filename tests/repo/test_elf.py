# SPDX-License-Identifier: MIT
"""The shape of libpoolshim.so: what it needs, what it exports, how it is hardened.

    scripts/test tests/repo/test_elf.py
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest
from conftest import ROOT, RunShim
from table import each_row

TABLE = ROOT / "shim" / "entry_points.def"
TLS_BYTES_MAX = 272  # words of fronts, and of heaps, which other modes and medium blocks use
CONTROL_VERSION = "POOLSHIM_0.1"


@lru_cache
def tool(*command: str) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return result.stdout


def table_rows() -> dict[str, str]:
    """Symbol of this processor -> PS_ENTRY or PS_CONTROL."""
    row = r"^(PS_ENTRY|PS_CONTROL)(_RSEQ)?\((\w+)\)$"
    rows = re.findall(row, TABLE.read_text(), re.MULTILINE)
    assert len(rows) == len({name for _, _, name in rows}), "a symbol is listed twice"
    tokens = re.findall(r"^PS_ENTRY_TOKEN\((\w+)\)$", TABLE.read_text(), re.MULTILINE)
    ids = ["", *(f"{number}_" for number in range(8))]
    rows += [("PS_ENTRY", "", f"__alloc_token_{one}{name}") for name in tokens for one in ids]
    is_here = ("", "_RSEQ") if platform.machine() in ("x86_64", "aarch64") else ("",)
    return {name: kind for kind, needed, name in rows if needed in is_here}


def exports(library: Path) -> dict[str, str]:
    """Defined dynamic symbol -> version, "" where it has none."""
    found = {}
    text = tool("nm", "-D", "--defined-only", "--with-symbol-versions", str(library))
    for line in text.splitlines():
        _, kind, name = line.split()
        if kind != "A":  # the name of the version itself
            symbol, _, version = name.partition("@")
            found[symbol] = version.lstrip("@")
    return found


def dynamic_values(library: Path, tag: str) -> list[str]:
    text = tool("readelf", "-dW", str(library))
    return re.findall(rf"\({tag}\)\s+(.*)$", text, re.MULTILINE)


def program_header(library: Path, kind: str) -> list[str] | None:
    """Offset, address, address, file size, memory size, flags..., alignment; or None."""
    for line in tool("readelf", "-lW", str(library)).splitlines():
        words = line.split()
        if words and words[0] == kind:
            return words[1:]
    return None


def exports_are_the_table(shim: Path) -> None:
    missing = table_rows().keys() - exports(shim).keys()
    extra = exports(shim).keys() - table_rows().keys()
    assert not missing, f"listed without a body: {sorted(missing)}"
    assert not extra, f"exported but not listed: {sorted(extra)}"


def versions_are_those_of_the_table(shim: Path) -> None:
    wanted = {"PS_ENTRY": "", "PS_CONTROL": CONTROL_VERSION}
    found = exports(shim)
    for name, kind in table_rows().items():
        assert found.get(name) == wanted[kind], name


def needs_libc_only(shim: Path) -> None:
    assert dynamic_values(shim, "NEEDED") == ["Shared library: [libc.so.6]"]
    assert dynamic_values(shim, "RUNPATH") == dynamic_values(shim, "RPATH") == []


# Functions of glibc 2.17 that have a later version where the build is linked with a later glibc:
# they moved into libc.so.6 (2.32, 2.34), or were inline functions before (2.33).
MOVED = re.compile(
    r"__libc_start_main|(pthread|sem)_\w+|dl(addr|close|error|open|sym)|(f|l)?stat(at)?"
)
OLDEST_GLIBC = (2, 17)


def needs_no_function_that_glibc_2_17_lacks(shim: Path) -> None:
    """Then packages that are built on an old system work on all later ones."""
    programs = (path for path in (shim.parent / "scripts").iterdir() if path.is_file())
    files = [path for path in programs if os.access(path, os.X_OK)]
    files += [shim, shim.parent / "libpoolshim-pools.so"]
    assert len(files) >= 7
    late = set()
    for file in files:
        for name, major, minor in re.findall(
            r" (\w+)@GLIBC_(\d+)\.(\d+)", tool("readelf", "--dyn-syms", "-W", str(file))
        ):
            if (int(major), int(minor)) > OLDEST_GLIBC and not MOVED.fullmatch(name):
                late.add(f"{file.name}: {name} of glibc {major}.{minor}")
    assert sorted(late) == []


def soname_and_links(shim: Path) -> None:
    assert dynamic_values(shim, "SONAME") == ["Library soname: [libpoolshim.so.0]"]
    header = (ROOT / "pools" / "include" / "poolshim" / "poolshim.h").read_text()
    version = re.findall(r'^#define POOLSHIM_VERSION "(0\.\d+\.\d+)"$', header, re.MULTILINE)
    assert [shim.resolve().name] == [f"libpoolshim.so.{number}" for number in version]
    assert (shim.parent / "libpoolshim.so.0").resolve() == shim.resolve()


def binds_now_without_text_relocations(shim: Path) -> None:
    assert dynamic_values(shim, "TEXTREL") == []
    flags = " ".join(dynamic_values(shim, "FLAGS"))
    assert "BIND_NOW" in flags and "TEXTREL" not in flags
    assert program_header(shim, "GNU_RELRO") is not None
    assert ".got.plt" not in tool("readelf", "-SW", str(shim))


def stack_is_not_executable(shim: Path) -> None:
    header = program_header(shim, "GNU_STACK")
    assert header is not None and header[5] == "RW"
    for line in tool("readelf", "-lW", str(shim)).splitlines():
        assert not re.search(r"\bLOAD\b.*\bRWE\b", line)


def thread_local_storage_is_small_and_initial_exec(shim: Path) -> None:
    header = program_header(shim, "TLS")
    assert header is not None, "the heap pointer of a thread lives in TLS"
    assert 0 < int(header[4], 16) <= TLS_BYTES_MAX
    if platform.machine() == "x86_64":  # elsewhere the linker does not say so
        assert "STATIC_TLS" in " ".join(dynamic_values(shim, "FLAGS"))
    assert "__tls_get_addr" not in tool("nm", "-D", str(shim))
    assert not re.search(r"R_\w+_(DTPMOD|TLSDESC)", tool("readelf", "-rW", str(shim)))


@each_row(
    "check",
    [
        exports_are_the_table,
        versions_are_those_of_the_table,
        needs_libc_only,
        needs_no_function_that_glibc_2_17_lacks,
        soname_and_links,
        binds_now_without_text_relocations,
        stack_is_not_executable,
        thread_local_storage_is_small_and_initial_exec,
    ],
)
def test_shape(shim: Path, check: Callable[[Path], None]) -> None:
    check(shim)


@pytest.mark.preload
def test_versioned_references_are_bound_to_the_shim(shim: Path, run_shim: RunShim) -> None:
    """A program asks for malloc@GLIBC_2.2.5; ld.so says where it and libc's own calls went."""
    result = run_shim(["/bin/ls", "/"], env={"LD_DEBUG": "bindings", "LD_BIND_NOW": "1"})
    assert result.returncode == 0
    pattern = r"binding file (\S+) .* to (\S+) .* symbol `(?:malloc|free)' \[GLIBC"
    bound = re.findall(pattern, result.stderr)
    assert {Path(source).name for source, _ in bound} >= {"ls", "libc.so.6"}
    assert {target for _, target in bound} == {str(shim)}
