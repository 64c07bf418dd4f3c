# SPDX-License-Identifier: MIT
"""The pools library: its tests and examples in every build, its headers in every language
version, its symbols.

    scripts/test tests/pools/test_pools.py
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row
from test_unit import run_in_builds

SOURCES = sorted(
    path
    for pattern in ("tests/pools/*_test.c", "tests/pools/*_test.cpp", "pools/examples/*.c*",
                    "pools/examples/programs/*.cpp")
    for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_pool_program(source: Path, tmp_path: Path) -> None:
    run_in_builds(source, f"pools/{source.stem}-{source.suffix[1:]}", tmp_path)


def test_there_are_pool_programs() -> None:
    assert SOURCES


INCLUDE = ROOT / "pools" / "include"
HEADERS = sorted((INCLUDE / "poolshim").glob("*.h*"))
C_STANDARDS = ("c11", "c17", "c2x")
CXX_STANDARDS = ("c++11", "c++14", "c++17", "c++20", "c++2b")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wcast-qual", "-Werror")
CXX_WARNINGS = {"g++": ("-Wold-style-cast", "-Wuseless-cast")}  # clang++ has no -Wuseless-cast


def compilers() -> list[tuple[str, str]]:
    """C and C++ compiler of each kind that is installed."""
    pairs = [("gcc", "g++"), ("clang-16", "clang++-16"), ("clang", "clang++")]
    found = [pair for pair in pairs if all(shutil.which(name) for name in pair)]
    return [pair for pair in found if pair[0] != "clang" or len(found) < 3]


def compiler_runs() -> list[object]:
    """Each compiler with all standards at night; by day the first with the oldest and the newest,
    the others with the oldest."""
    found = compilers()
    by_day = [
        pytest.param(pair, 2 if pair == found[0] else 1, id=f"{pair[0]}-ends") for pair in found
    ]
    return by_day + [
        pytest.param(pair, 0, marks=pytest.mark.nightly, id=f"{pair[0]}-all") for pair in found
    ]


@pytest.mark.parametrize(("pair", "ends"), compiler_runs())
@each_row("header", HEADERS)
def test_header_compiles_alone(
    header: Path, pair: tuple[str, str], ends: int, tmp_path: Path
) -> None:
    is_c = header.suffix == ".h"
    runs = [(pair[0], "c", standard) for standard in C_STANDARDS if is_c]
    runs += [(pair[1], "c++", s) for s in (CXX_STANDARDS if is_c else CXX_STANDARDS[2:])]
    runs = runs if ends == 0 else [runs[0], runs[-1]][:ends]
    if not is_c or ends != 1:
        runs.append((pair[1], "c++", "c++17 -fno-exceptions -fno-rtti"))
    source = tmp_path / "includer"
    source.write_text(f"#include <poolshim/{header.name}>\n" * 2 + "extern int used;\n")
    for compiler, language, standard in runs:
        flags = [*WARNINGS, "-fsyntax-only", f"-I{INCLUDE}"]
        if language == "c++":
            flags += CXX_WARNINGS.get(compiler, ("-Wold-style-cast",))
        command = [compiler, "-x", language, *f"-std={standard}".split(), *flags, source]
        result = run_captured(command)
        assert result.returncode == 0, f"{compiler} {standard}: {result.stderr}"


@each_row("pair", compilers())
def test_old_c_is_refused_in_one_line(pair: tuple[str, str], tmp_path: Path) -> None:
    source = tmp_path / "old.c"
    source.write_text("#include <poolshim/pool.h>\n")
    for standard in ("c89", "gnu89"):
        flags = [f"-std={standard}", "-fsyntax-only", f"-I{INCLUDE}"]
        refused = run_captured([pair[0], *flags, source])
        first = next(line for line in refused.stderr.splitlines() if "error:" in line)
        assert "the headers need C99 or later: compile with -std=c11" in first


OLD_NAMES = {  # a statement, and the name that the compiler has to say
    "ps_pool_trim(p);": "ps_pool_trim_to(pool, 0)",
    "ps_pools_trim(p);": "ps_pools_trim_to(pools, 0)",
    "ps_slots_trim(p);": "ps_slots_trim_to(slots, 0)",
    "ps_tlsf_trim(p);": "ps_tlsf_trim_to(tlsf, 0)",
    "ps_slice_trim();": "ps_slice_trim_to(0)",
    "ps_region_trim(p, 0);": "ps_region_trim_to",
    "ps_stack_trim(p, 0);": "ps_stack_trim_to",
    "ps_fifo_trim(p, 0);": "ps_fifo_trim_to",
    "ps_ring_trim(p, 0);": "ps_ring_trim_to",
    "ps_frames_trim(p, 0);": "ps_frames_trim_to",
    "ps_pages_trim(0);": "ps_pages_trim_to",
    "ps_intrusive_clear(p);": "ps_intrusive_reset",
}
OLD_CXX = {
    "use<ps::node_pool>().trim();": "trim_to",
    "use<ps::pool<int>>().trim();": "trim_to",
    "use<ps::size_pools>().trim();": "trim_to",
    "use<ps::slots<int>>().trim();": "trim_to",
    "use<ps::slots<int>>().clear();": "reset",
    "use<ps::fixed<int, 4>>().clear();": "reset",
    "use<ps::tlsf>().trim();": "trim_to",
    "use<ps::region>().trim();": "trim_to",
    "use<ps::stack>().trim(1);": "trim_to",
    "use<ps::stack>().create<int>(1);": "make",
    "use<ps::fifo>().trim();": "trim_to",
    "use<ps::fifo>().make<int>(1);": "create",
    "use<ps::ring>().trim();": "trim_to",
    "use<ps::frames>().trim();": "trim_to",
    "ps::pool_for<int>().trim();": "trim_to",
}


@each_row("pair", compilers())
def test_earlier_names_compile_and_name_their_successors(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    headers = "".join(f"#include <poolshim/{p.name}>\n" for p in HEADERS if p.suffix == ".h")
    c_body = "".join(f"{line}\n" for line in OLD_NAMES)
    text = f"{headers}void f(void *p);\nvoid f(void *p) {{\n{c_body}}}\n"
    (tmp_path / "old.c").write_text(text)
    cxx = "".join(f"#include <poolshim/{p.name}>\n" for p in HEADERS if p.suffix == ".hpp")
    cxx_body = "".join(f"{line}\n" for line in OLD_CXX)
    text = f"{cxx}template <class T> T &use();\nvoid f();\nvoid f() {{\n{cxx_body}}}\n"
    (tmp_path / "old.cpp").write_text(text)
    for compiler, name, table in (
        (pair[0], "old.c", OLD_NAMES),
        (pair[1], "old.cpp", OLD_CXX),
    ):
        flags = ["-Wall", "-fsyntax-only", f"-I{INCLUDE}", tmp_path / name]
        result = run_captured([compiler, *flags])
        assert result.returncode == 0, result.stderr
        warnings = [line for line in result.stderr.splitlines() if "warning:" in line]
        # clang++ warns twice of a template: one for each line of the source.
        said = list({line.split(":")[1]: line for line in warnings}.values())
        assert len(said) == len(table), result.stderr
        for line, successor in zip(said, table.values(), strict=True):
            assert f"deprecated: use {successor}" in line, line


# In a function of the program, whose warnings are on: the pragmas of the headers are over.
MACROS = """#include <poolshim/arena.h>
#include <poolshim/bounded.h>
#include <poolshim/fixed.h>
#include <poolshim/pages.h>
#include <poolshim/region.h>
#include <poolshim/shared.h>
#include <poolshim/slots.h>
#include <poolshim/stack.h>
#include <poolshim/pools.h>
struct point { int x, y; };
size_t use(struct ps_region *region, struct ps_arena *arena, struct ps_shared *heap);
size_t use(struct ps_region *region, struct ps_arena *arena, struct ps_shared *heap) {
    struct point *a = PS_REGION_NEW(region, struct point, 3);
    struct point *b = PS_ARENA_AT(arena, struct point, 8);
    struct point *c = PS_SHARED_AT(heap, struct point, 8);
    PS_SCOPE;
    c = a == b ? ps_t_new(struct point, 2) : c;
    return (c != NULL ? 1u : 0u) + PS_PAGE_BYTES + PS_POOL_ALIGN_MAX + PS_BOUNDED_COUNT_MAX +
           PS_FIXED_COUNT_MAX + PS_SLOTS_ALIGN_MAX + PS_POOLS_SIZE_MAX + PS_SHARED_LEAST_BYTES;
}
"""


@each_row("pair", compilers())
def test_macros_cause_no_warning_in_the_program(pair: tuple[str, str], tmp_path: Path) -> None:
    for compiler, suffix in ((pair[0], "c"), (pair[1], "cpp")):
        source = tmp_path / f"macros.{suffix}"
        source.write_text(MACROS)
        extra = CXX_WARNINGS.get(compiler, ("-Wold-style-cast",)) if suffix == "cpp" else ()
        flags = [*WARNINGS, *extra, "-fsyntax-only", f"-I{INCLUDE}"]
        result = run_captured([compiler, *flags, source])
        assert result.returncode == 0, result.stderr


# More than all of <memory>, and what no header needs. <memory_resource> alone is 25,000 lines.
HEAVY = {"functional", "iostream", "regex", "algorithm", "fstream", "sstream", "map", "vector"}
LINES_MAX = 30_000
# Nothing of <memory>, <iterator> or <string>: 16,000, 18,000 and 14,000 lines.
SHORT = ("detail", "fifo", "intrusive", "offset", "ref", "ring", "stack")
SHORT_LINES_MAX = 10_000
C_LINES_MAX = 2_000  # the longest has 731


@each_row("header", HEADERS)
def test_headers_are_light(header: Path, tmp_path: Path) -> None:
    """By lines after the preprocessor, which do not depend on the load: 30,000 are 0.27 s of g++
    where an empty file is 0.01 s (scripts/dev/header-times)."""
    included = set(re.findall(r"#include <([a-z_]+)>", header.read_text()))
    assert not included & HEAVY
    assert "memory_resource" not in included or header.name == "adapters.hpp"
    is_cxx = header.suffix == ".hpp"
    source = tmp_path / ("light.cpp" if is_cxx else "light.c")
    source.write_text(f"#include <poolshim/{header.name}>\n")
    compiler = ["g++", "-std=c++17"] if is_cxx else ["gcc", "-std=c17"]
    result = run_captured([*compiler, "-E", "-P", f"-I{INCLUDE}", source])
    is_short = header.stem in SHORT
    most = C_LINES_MAX if not is_cxx else SHORT_LINES_MAX if is_short else LINES_MAX
    assert 0 < len(result.stdout.splitlines()) <= most


def test_without_exceptions_the_program_ends_with_one_line(
    build_dir: Path, tmp_path: Path
) -> None:
    source = ROOT / "tests" / "pools" / "no_exceptions.cpp"
    program = tmp_path / "no_exceptions"
    flags = ["-std=c++17", "-fno-exceptions", "-fno-rtti", *WARNINGS, f"-I{INCLUDE}"]
    library = build_dir / "libpoolshim-pools.a"
    built = run_captured(["g++", *flags, source, "-o", program, library, "-pthread"])
    assert built.returncode == 0, built.stderr
    assert run_captured([program, "works"]).returncode == 0
    for case, exception in (
        ("pool", "std::bad_alloc()"),
        ("containers", "std::bad_alloc()"),
        ("array", "std::bad_array_new_length()"),
        ("align", 'std::invalid_argument("ps::node_pool: size or alignment")'),
        ("arena", "arena_error(status)"),
    ):
        ended = run_captured([program, case])
        assert ended.returncode == -6, case
        assert ended.stderr == f"poolshim: {exception}, but exceptions are disabled\n"


@each_row("pair", compilers())
def test_fixed_pools_work_in_constant_expressions(pair: tuple[str, str]) -> None:
    """In C++20; the compiler refuses a misuse and names the function that ends the program."""
    source = ROOT / "tests" / "pools" / "fixed_constants.cpp"
    command = [pair[1], "-std=c++20", *WARNINGS, "-fsyntax-only", f"-I{INCLUDE}", source]
    result = run_captured(command)
    assert result.returncode == 0, result.stderr
    for misuse in ("double_free", "foreign"):
        refused = run_captured([*command, f"-DMISUSE={misuse}"])
        assert refused.returncode != 0 and "ps_fixed_misuse" in refused.stderr, refused.stderr


def declared() -> set[str]:
    """The functions and variables that the C headers of the library mark PS_API."""
    names: set[str] = set()
    for header in INCLUDE.glob("poolshim/*.h"):
        pattern = r"/\*.*?\*/|//[^\n]*|^#.*?(?<!\\)$"
        text = re.sub(pattern, "", header.read_text(), flags=re.DOTALL | re.MULTILINE)
        names.update(re.findall(r"\bPS_API\b[^;{]*?\b(ps_\w+)\s*\(", text))
        names.update(re.findall(r"\bextern PS_API\b[^;(]*?\b(ps_\w+)\s*(?:;|\[|__attr)", text))
    return names


def test_exports_what_the_headers_declare(build_dir: Path) -> None:
    command = ["nm", "-D", "--defined-only", "--with-symbol-versions"]
    library = str(build_dir / "libpoolshim-pools.so")
    text = subprocess.run([*command, library], check=True, capture_output=True, text=True).stdout
    rows = [line.split()[1:] for line in text.splitlines()]
    exported = dict(name.split("@@") for kind, name in rows if kind != "A")
    assert declared() == exported.keys()
    table = (ROOT / "shim" / "entry_points.def").read_text()
    pages = set(re.findall(r"^PS_CONTROL\((ps_\w+)\)", table, re.MULTILINE))
    assert {name for name, version in exported.items() if version == "POOLSHIM_0.1"} == pages
    assert {exported[name] for name in exported.keys() - pages} == {"POOLSHIM_0.3"}
