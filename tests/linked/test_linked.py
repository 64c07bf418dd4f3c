# SPDX-License-Identifier: MIT
"""Programs that libpoolshim.a is a part of: static and dynamic ones, in C and C++, with two libcs.

    scripts/test tests/linked/test_linked.py
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from building import (
    DYNAMIC, GLIBC_WAYS, MUSL, MUSL_PIE, PIE, STATIC, Way, compile_with, environment,
    archive, link, need, output_of, symbols_of,
)  # fmt: skip  # noqa: F401
from conftest import ROOT, run_captured
from table import each_row

ENTRY_POINTS = ROOT / "shim" / "entry_points.def"
LEFT = ROOT / "shim" / "linked" / "left_to_libc.def"
OPERATIONS = 10_000_000
CLASH_SUM = "1111114\n"
CXX_NAME = re.compile(r"_Z|tc_(new|delete)|(__|tcmalloc_)size_returning_|mi_(new|heap_alloc_new)")
ONE_OF_EACH = ("malloc", "free", "calloc", "realloc")


@pytest.fixture(scope="session")
def musl_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for musl."""
    need("musl-gcc", "ninja")
    folder = tmp_path_factory.mktemp("musl")
    for command in (
        ["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "--toolchain", ROOT / "cmake/musl.cmake",
         "-DPOOLSHIM_BUILD_MANUALS=OFF"],
        ["cmake", "--build", folder, "--target", "poolshim-static"],
    ):  # fmt: skip
        made = run_captured(command, timeout=600)
        assert made.returncode == 0, made.stdout + made.stderr
    return folder / "libpoolshim.a"


def version() -> str:
    header = (ROOT / "pools/include/poolshim/poolshim.h").read_text()
    (found,) = re.findall(r'^#define POOLSHIM_VERSION "(.*)"$', header, re.MULTILINE)
    return str(found)


def check_life(program: Path, *, is_static: bool = False) -> None:
    """It runs, on the library, and has malloc and the others once; a static one has no loader."""
    assert "INTERP" not in run_captured(["readelf", "-lW", program]).stdout or not is_static
    assert output_of(program) == f"{version()}\nended\n"
    names = [name for kind, name in symbols_of(program) if kind in "TtWw"]
    assert [names.count(name) for name in ONE_OF_EACH] == [1, 1, 1, 1]


# ---- the archive ----


def test_members_have_the_names_of_the_table_alone(archive: Path) -> None:
    """One member has all of libc's names: malloc and free are never of two heaps."""
    rows = set(re.findall(r"^PS_(?:ENTRY|ENTRY_RSEQ|CONTROL)\((\w+)\)", ENTRY_POINTS.read_text(),
                          re.MULTILINE))  # fmt: skip
    left = set(re.findall(r"^PS_LEFT\((\w+)\)", LEFT.read_text(), re.MULTILINE))
    assert left < rows
    text = run_captured(["nm", "-gA", "--defined-only", archive]).stdout
    found: dict[str, set[str]] = {}
    for member, _, name in re.findall(r":(\w+\.o):\w+ (\w) (\S+)", text):
        found.setdefault(member, set()).add(name)
    inside = {name for names in found.values() for name in names
              if name.startswith("poolshim_internal_")} | {"_.stapsdt.base"}  # fmt: skip
    assert found.keys() == {"poolshim.o", "cxx.o"}
    of_cxx = {name for name in rows - left if CXX_NAME.match(name)}
    assert found["cxx.o"] == of_cxx
    assert found["poolshim.o"] - inside == rows - left - of_cxx
    assert len(inside) < 60


# ---- C ----


@pytest.mark.parametrize("way", GLIBC_WAYS, ids=lambda way: way.name)
def test_program_lives_on_it(way: Way, archive: Path, tmp_path: Path) -> None:
    check_life(link(tmp_path, "life.c", way, archive.parent), is_static=way.is_static)


@pytest.mark.slow
@pytest.mark.parametrize("way", [MUSL, MUSL_PIE], ids=lambda way: way.name)
def test_program_lives_on_it_with_musl(way: Way, musl_archive: Path, tmp_path: Path) -> None:
    check_life(link(tmp_path, "life.c", way, musl_archive.parent), is_static=True)


def check_many_operations(program: Path, compiler: str, way: Way, folder: Path) -> None:
    """The checker of tests/stress: random calls of threads and children, every block verified."""
    need(compiler)
    sources = [ROOT / "tests/stress/checker.c", *sorted((ROOT / "tests/stress/lib").glob("*.c"))]
    headers = [f"-I{ROOT}"] + [f"-I{ROOT / 'tests' / 'musl'}"] * (compiler == "musl-gcc")
    command = [compiler, "-O2", "-D_GNU_SOURCE", "-fno-builtin", *headers, *way.flags, *sources,
               f"-L{folder}", "-l:libpoolshim.a", "-pthread", "-o", program]  # fmt: skip
    made = run_captured(command, timeout=120)
    assert made.returncode == 0, made.stderr
    ran = run_captured([program, f"--ops={OPERATIONS}", "--threads=4", "--fork=20",
                        "--max-live-bytes=67108864"], env=environment(), timeout=300)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    done = re.search(r"^operations: (\d+)$", ran.stdout, re.MULTILINE)
    assert done and int(done[1]) >= OPERATIONS


@pytest.mark.slow
@pytest.mark.parametrize("way", GLIBC_WAYS, ids=lambda way: way.name)
def test_ten_million_operations(way: Way, archive: Path, tmp_path: Path) -> None:
    check_many_operations(tmp_path / "checker", "gcc", way, archive.parent)


@pytest.mark.slow
@pytest.mark.parametrize("way", [MUSL, MUSL_PIE], ids=lambda way: way.name)
def test_ten_million_operations_with_musl(way: Way, musl_archive: Path, tmp_path: Path) -> None:
    check_many_operations(tmp_path / "checker", "musl-gcc", way, musl_archive.parent)


def test_names_inside_do_not_clash(archive: Path, tmp_path: Path) -> None:
    for way in GLIBC_WAYS:
        assert output_of(link(tmp_path, "clash.c", way, archive.parent)) == CLASH_SUM


def test_program_without_a_call_of_its_own(archive: Path, tmp_path: Path) -> None:
    """Libc is searched after the archive: the option that pkg-config and CMake add is needed."""
    without = link(tmp_path, "libc_alone.c", STATIC, archive.parent)
    assert output_of(without) == "not linked\n"
    linked = link(tmp_path, "libc_alone.c", STATIC, archive.parent, "-Wl,--undefined=malloc")
    assert output_of(linked) == "linked\n"


@each_row(
    "flags, compiler",
    [
        (("-Wl,--gc-sections", "-ffunction-sections"), "gcc"),
        (("-Wl,--as-needed",), "gcc"),
        (("-flto", "-O2"), "gcc"),
        (("-Wl,-z,now", "-Wl,-z,relro", "-s"), "gcc"),
        (("-fuse-ld=gold",), "gcc"),
        (("-fuse-ld=lld-16",), "clang-16"),
        (("-fuse-ld=lld-16", "-Wl,--gc-sections", "-flto"), "clang-16"),
    ],
)
def test_linkers_and_their_options(
    flags: tuple[str, ...], compiler: str, archive: Path, tmp_path: Path
) -> None:
    program = tmp_path / "life"
    for way in (STATIC, DYNAMIC):
        variant = Way(way.name, way.flags, compiler)
        made = compile_with(program, "life.c", variant, archive.parent, *flags)
        if re.search(r"cannot find|invalid linker name|unable to", made.stderr):
            pytest.skip(f"{compiler} {' '.join(flags)} links nothing here")
        assert made.returncode == 0 and not made.stderr, made.stderr
        assert output_of(program) == f"{version()}\nended\n"


def test_whole_archive(archive: Path, tmp_path: Path) -> None:
    """Then the operators need the C++ run-time, which a program in C names, or drops again."""
    whole = ("-Wl,--whole-archive", "-l:libpoolshim.a", "-Wl,--no-whole-archive")
    for way in (STATIC, DYNAMIC):
        life = link(tmp_path, "life.c", way, archive.parent, after=[*whole, "-lstdc++"])
        check_life(life)
        operators = link(tmp_path, "operators.cpp", way, archive.parent, after=whole)
        assert output_of(operators) == "fine\n"


# ---- C++ ----


@pytest.mark.parametrize("way", GLIBC_WAYS, ids=lambda way: way.name)
def test_operators(way: Way, archive: Path, tmp_path: Path) -> None:
    program = link(tmp_path, "operators.cpp", way, archive.parent)
    assert output_of(program) == "fine\n"
    names = [name for kind, name in symbols_of(program) if kind in "TtWw"]
    assert [names.count(name) for name in ("_Znwm", "_ZdlPv", "_ZdlPvm")] == [1, 1, 1]
    hardened = run_captured([program], env=environment(POOLSHIM_HARDEN="2"), timeout=120)
    assert (hardened.returncode, hardened.stdout, hardened.stderr) == (0, "fine\n", "")


@pytest.mark.parametrize("way", GLIBC_WAYS, ids=lambda way: way.name)
def test_operators_of_the_program_are_built_on(way: Way, archive: Path, tmp_path: Path) -> None:
    program = link(tmp_path, "own_operators.cpp", way, archive.parent)
    assert output_of(program) == "2 2\n"


# ---- beside other libraries ----


def test_pools_share_the_pages_in_either_order(archive: Path, tmp_path: Path) -> None:
    libraries = ["-l:libpoolshim.a", "-l:libpoolshim-pools.a"]
    for way in GLIBC_WAYS:
        for after in (libraries, libraries[::-1]):
            program = link(tmp_path, "pools.c", way, archive.parent, after=after)
            assert output_of(program) == "one cache\n"


def test_preloaded_library_does_nothing_beside_it(
    archive: Path, shim: Path, tmp_path: Path
) -> None:
    """One report, of the heap that serves, and each fault is named once."""
    program = link(tmp_path, "life.c", DYNAMIC, archive.parent)
    env = environment(LD_PRELOAD=str(shim), POOLSHIM_STATS=str(tmp_path / "%p.txt"),
                      POOLSHIM_HARDNE="1")  # fmt: skip
    ran = run_captured([program], env=env, timeout=120)
    assert ran.returncode == 0 and ran.stdout == f"{version()}\nended\n"
    reports = [path.read_text() for path in tmp_path.glob("*.txt")]
    own = [text for text in reports if f'"{program.name}"' in text]
    assert own and all("of malloc  " in text and " 0\n" not in
                       re.findall(r"of malloc  .*\n", text)[0] for text in own)  # fmt: skip
    own_lines = [line for line in ran.stderr.splitlines() if "POOLSHIM_HARDNE" in line]
    others = 2  # `true` and the shell that starts it have the preloaded one alone
    assert 1 <= len(own_lines) <= 1 + 2 * others


# ---- settings ----


@pytest.mark.parametrize("way", GLIBC_WAYS, ids=lambda way: way.name)
def test_settings(way: Way, archive: Path, tmp_path: Path) -> None:
    program = link(tmp_path, "libc_alone.c", way, archive.parent, "-Wl,--undefined=malloc")
    wrong = run_captured([program], env=environment(POOLSHIM_HARDEN="9"))
    assert wrong.returncode == 0 and wrong.stdout == "linked\n"
    assert wrong.stderr == 'poolshim: POOLSHIM_HARDEN: "9" is not one of 0, 1, 2, 3, mte; using 0\n'
    strict = environment(POOLSHIM_HARDEN="9", POOLSHIM_STRICT="1")
    assert run_captured([program], env=strict).returncode == 78
    for padding in range(4):  # the size of the environment once decided where it was looked for
        more = {f"PADDING{i}": "x" * 100 for i in range(padding)}
        shown = run_captured([program], env=environment(POOLSHIM_STATS="1", **more))
        assert shown.returncode == 0 and "statistics of process" in shown.stderr


def test_misuse_is_named_with_its_sites(archive: Path, tmp_path: Path) -> None:
    """Also without a loader: the program's own frames, none of the library's."""
    source = ROOT / "tests" / "scenarios" / "guard_double_free_is_reported.c"
    for way in (STATIC, PIE):
        program = tmp_path / way.name
        made = run_captured(["gcc", "-g", "-fno-builtin", "-w", "-D_GNU_SOURCE", f"-I{ROOT}",
                             f"-I{source.parent}", *way.flags, source, f"-L{archive.parent}",
                             "-l:libpoolshim.a", "-pthread", "-o", program])  # fmt: skip
        assert made.returncode == 0, made.stderr
        ran = run_captured([program], env=environment(POOLSHIM_GUARD_SAMPLE="1"))
        assert ran.returncode == -6 and "poolshim: double free of 0x" in ran.stderr
        frame = r"allocated by thread \d+ at:\n +0x\w+ (\S+)\(\+(0x[0-9a-f]+)\)"
        first = re.search(frame, ran.stderr)
        assert first and first[1] == str(program), ran.stderr
        named = run_captured(["addr2line", "-f", "-e", program, first[2]]).stdout
        assert named.splitlines()[0] in ("allocate_here", "guarded_block"), named

