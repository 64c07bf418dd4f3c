# SPDX-License-Identifier: MIT
"""The names of call sites: what llvm-symbolizer and addr2line say of programs whose tables mislead.

    scripts/test tests/cli/test_cli_names.py
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from programs import compile_program
from table import each_row
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import elf, pprof, symbols  # noqa: E402

pytestmark = pytest.mark.preload

TOOLS = ("llvm-symbolizer", "addr2line")
BASE = 0x7F0000000000  # where a test maps its program
# The linker removes the first function: with debug information it is then found at address 0.
DEAD = r"""
#include <stdlib.h>
void **keep;
int dead_function(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * x ^ s; return s * 3; }
__attribute__((noinline)) void *hold(void) {
    void *block = malloc(1000);
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}
int main(void) {
    keep = malloc(8000);
    for (int i = 0; i < 1000; i++) {
        keep[i] = hold();
    }
    return 0;
}
"""
COLLECTED = ("-O1", "-g", "-fno-builtin", "-ffunction-sections", "-Wl,--gc-sections")
HIDDEN = r"""
#include <stdlib.h>
static __attribute__((noinline)) void *hidden(void) {
    void *block = malloc(1000);
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}
int exported(int x) { return x * 3 + (hidden() != NULL); }
int main(void) { return exported(0) - 1; }
"""

Named = Callable[..., tuple[symbols.Symbols, list[pprof.Location]]]


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the tools, as the only one there is."""
    name: str = request.param
    need(name)
    monkeypatch.setattr(symbols, "TOOLS", (name,))
    return name


def inside(program: Path, name: str) -> int:
    """An address in the middle of a function."""
    listed = run_captured(["nm", "-S", program]).stdout.splitlines()
    start, size = next(line.split()[:2] for line in listed if line.split()[-1] == name)
    return int(start, 16) + int(size, 16) // 2


def mapped(program: Path, address: int) -> pprof.Location:
    """A site in a program that is mapped somewhere, as the kernel does: by pages of the file."""
    offset = elf.read(program).offset_of(address)
    page = offset & ~0xFFF
    mapping = pprof.Mapping(BASE, BASE + (1 << 30), page, str(program), "")
    return pprof.Location(BASE + offset - page, mapping)


def names_of(*sites: pprof.Location) -> symbols.Symbols:
    return symbols.names_of(pprof.Profile(samples=[pprof.Sample(sites, ())]))


def test_a_removed_function_hides_no_name(tmp_path: Path, tool: str) -> None:
    program = compile_program(tmp_path, "program", DEAD, *COLLECTED)
    sites = [mapped(program, inside(program, name)) for name in ("hold", "main")]
    found = names_of(*sites)
    assert [found.of(site) for site in sites] == [["hold"], ["main"]]
    assert "program.c:" in found.lines_of(sites[0])[0] and found.notes == []


def test_a_tool_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "addr2line"
    tool.write_text("#!/bin/sh\nread first; echo $first; echo first; echo first.c:1\n")
    tool.chmod(0o755)
    monkeypatch.setattr(symbols, "TOOLS", (str(tool),))
    program = compile_program(tmp_path, "program", DEAD, *COLLECTED)
    sites = [mapped(program, inside(program, name)) for name in ("hold", "main")]
    found = names_of(*sites)
    assert found.of(sites[0]) == ["first"] and found.of(sites[1])[0].startswith("program+0x")
    assert found.notes == [f"addr2line fails to read {program}: 2 call sites, 1 answers"]


@each_row("linker", ["ld.bfd", "ld.lld-16"])
def test_a_bare_place_is_an_address_of_the_file(
    tmp_path: Path, linker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """lld puts code at other addresses than offsets."""
    need(linker)
    monkeypatch.setattr(symbols, "TOOLS", ("no-tool", "none-either"))
    name = "ld.lld" if "lld" in linker else linker
    (tmp_path / name).symlink_to(str(shutil.which(linker)))
    program = compile_program(tmp_path, "program", DEAD, *COLLECTED, f"-B{tmp_path}",
                              f"-fuse-ld={name.removeprefix('ld.')}")  # fmt: skip
    address = inside(program, "hold")
    site = mapped(program, address)
    assert names_of(site).of(site) == [f"program+0x{address:x}"]
    offset = elf.read(program).offset_of(address)
    program.unlink()
    assert names_of(site).of(site) == [f"program@0x{offset:x}"]


def test_a_static_function_of_a_stripped_file_has_no_other_s_name(
    tmp_path: Path, tool: str
) -> None:
    program = compile_program(tmp_path, "program", HIDDEN, "-O1", "-rdynamic")
    address, exported = inside(program, "hidden"), inside(program, "exported")
    run_captured(["strip", program])
    site, other = mapped(program, address), mapped(program, exported)
    found = names_of(site, other)
    assert found.of(site) == [f"program+0x{address:x}"]
    assert found.of(other) == ["exported"]


@each_row(
    ("mangled", "name"),
    [
        ("alloc::vec::Vec$LT$T$C$A$GT$::push::h0123456789abcdef", "alloc::vec::Vec<T,A>::push"),
        ("_$LT$T$u20$as$u20$alloc..string..ToString$GT$::to_string::hfedcba9876543210",
         "<T as alloc::string::ToString>::to_string"),
        ("app::main::_$u7b$$u7b$closure$u7d$$u7d$::h00112233445566ff", "app::main::{{closure}}"),
        ("core::ptr::drop_in_place$LT$$u5b$u8$u3b$$u20$4$u5d$$GT$::h00112233445566ff",
         "core::ptr::drop_in_place<[u8; 4]>"),
        ("ns::f(int)", "ns::f(int)"), ("hold", "hold"), ("a..b$LT$", "a..b$LT$"),
    ],
)  # fmt: skip
def test_names_of_rust_s_older_mangling(mangled: str, name: str) -> None:
    assert symbols.readable(mangled) == name
