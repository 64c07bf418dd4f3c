# SPDX-License-Identifier: MIT
"""POOLSHIM_* variables on real programs: values, faults, strict mode, privileges, effects.

    python -m pytest tests/shim/test_environment.py

What each parser takes and refuses in detail is in tests/unit/shim/config_test.c.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, RunShim, load_script
from table import each_row

pytestmark = pytest.mark.preload

STRICT_STATUS = 78


OPTIONS = load_script("gen-docs").read_options((ROOT / "shim" / "config.def").read_text())
NAMES = [option.name for option in OPTIONS]
SETTABLE = [option for option in OPTIONS if option.type != "PACKED"]

# A good value that is not the default, how VERBOSE shows it, and a bad one, by type or option.
GOOD = {
    "SIZE": ("1MiB", "1MiB"),
    "SMALL_MAX": ("32k", "32KiB"),
    "LIMIT": ("80%", "80%"),
    "COUNT": ("250", "250"),
    "HUGE": ("Off", "off"),
    "BACKGROUND": ("0", "0"),
    "FOREIGN": ("warn", "warn"),
    "HARDEN": ("1", "1"),
    "DUMP_SIGNAL": ("usr2", "USR2"),
    "SWITCH": ("false", "off"),
    "VERBOSE": ("on", "on"),
    "LIST": ("8,32,1K", "8,32,1024"),
    "REPORT": ("/dev/null", "/dev/null"),
    "PATH": ("/dev/null", "/dev/null"),
}
BAD = {
    "SIZE": "12Q",
    "LIMIT": "101%",
    "COUNT": "-1",
    "WORD": "perhaps",
    "HUGE": "thp:1GiB",
    "SWITCH": "perhaps",
    "LIST": "16,17",
    "REPORT": "x" * 5000,
    "PATH": "x" * 5000,
}


def settings_of(stderr: str) -> dict[str, tuple[str, str]]:
    """Name -> (value, origin), from the listing of POOLSHIM_VERBOSE."""
    rows = re.findall(r"^poolshim:   (\w+) +(\S+) +\((\w+)\)$", stderr, re.MULTILINE)
    return {name: (value, origin) for name, value, origin in rows}


def test_nothing_is_printed_without_variables(run_shim: RunShim) -> None:
    result = run_shim(["/bin/echo", "hello"])
    assert (result.returncode, result.stdout, result.stderr) == (0, "hello\n", "")


def test_verbose_lists_every_option(run_shim: RunShim) -> None:
    result = run_shim(["/bin/echo", "hello"], env={"POOLSHIM_VERBOSE": "1"})
    assert (result.returncode, result.stdout) == (0, "hello\n")
    settings = settings_of(result.stderr)
    assert list(settings) == [option.name for option in SETTABLE]
    for option in SETTABLE:
        wanted = (option.default or "built-in", "default")
        assert settings[option.name] == (
            wanted if option.name != "VERBOSE" else ("on", "environment")
        )


@each_row("option", SETTABLE)
@each_row("how", ["environment", "POOLSHIM_CONF"])
def test_good_value_is_in_force(run_shim: RunShim, option: Any, how: str) -> None:
    name = option.name
    value, shown = GOOD.get(name) or GOOD[option.type]
    if how == "environment":
        env = {f"POOLSHIM_{name}": value}
    else:
        env = {"POOLSHIM_CONF": f"{name.lower()}:{value}"}
    result = run_shim(["/bin/echo", "hello"], env={"POOLSHIM_VERBOSE": "1", **env})
    assert (result.returncode, result.stdout) == (0, "hello\n")
    origin = "environment" if name == "VERBOSE" else how
    assert settings_of(result.stderr)[name] == (shown, origin)


@each_row("option", SETTABLE)
@each_row("how", ["environment", "POOLSHIM_CONF"])
@each_row("strict", ["0", "1"])
def test_bad_value(run_shim: RunShim, option: Any, how: str, strict: str) -> None:
    """One line and the default; in strict mode also the end, before main."""
    name, value = option.name, BAD[option.type]
    if how == "environment":
        env, where = {f"POOLSHIM_{name}": value}, f"POOLSHIM_{name}"
    else:
        env, where = {"POOLSHIM_CONF": f"{name}:{value}"}, f"POOLSHIM_CONF: {name.lower()}"
    env = {"POOLSHIM_STRICT": strict, **env}
    result = run_shim(["/bin/echo", "hello"], env=env)
    lines = result.stderr.splitlines()
    in_force = option.default or "built-in"
    assert re.fullmatch(
        rf'poolshim: {where}: "{re.escape(value[:64])}(\.\.\.)?" .*; using {in_force}', lines[0]
    )
    # The specific variable is read after POOLSHIM_CONF and puts its wrong value right.
    stopped = strict == "1" and not (name == "STRICT" and how == "environment")
    assert len(lines) == (2 if stopped else 1)
    assert result.stdout == ("" if stopped else "hello\n")
    assert result.returncode == (STRICT_STATUS if stopped else 0)


@each_row(
    ("name", "nearest"),
    [
        ("HGUE", "HUGE"),
        ("PURGE_DELAY", "PURGE_DELAY_MS"),
        ("SIZECLASSES", "SIZE_CLASSES"),
        ("stats", "STATS"),
        ("COFN", "CONF"),
    ],
)
def test_unknown_name_is_answered_with_the_nearest(
    run_shim: RunShim, name: str, nearest: str
) -> None:
    result = run_shim(["/bin/echo", "hello"], env={f"POOLSHIM_{name}": "1"})
    assert (result.returncode, result.stdout) == (0, "hello\n")
    assert result.stderr == (
        f"poolshim: POOLSHIM_{name}: no such option, ignored; "
        f"the nearest is POOLSHIM_{nearest}\n"
    )


def test_strict_stops_before_main_for_each_kind_of_fault(run_shim: RunShim) -> None:
    faults = [
        {"POOLSHIM_TYPO": "1"},
        {"POOLSHIM_HUGE": "yes"},
        {"POOLSHIM_SMALL_MAX": "1K", "POOLSHIM_SIZE_CLASSES": "16,2048"},
        {"POOLSHIM_CONF": "huge"},
        {"POOLSHIM_CONF": "huge:auto,hgue:auto"},
    ]
    for fault in faults:
        conf = "strict:1," + fault.get("POOLSHIM_CONF", "")
        for strict in ({"POOLSHIM_STRICT": "1"}, {"POOLSHIM_CONF": conf}):
            result = run_shim(["/bin/echo", "hello"], env={**fault, **strict})
            assert (result.returncode, result.stdout) == (STRICT_STATUS, ""), fault
            assert result.stderr.splitlines()[-1] == (
                "poolshim: POOLSHIM_STRICT: 1 wrong setting, the program is not started; "
                "exit status 78"
            )


def test_strict_is_content_with_good_settings(run_shim: RunShim) -> None:
    env = {"POOLSHIM_STRICT": "1", "POOLSHIM_HUGE": "off", "POOLSHIM_CONF": "cache_max:1G"}
    result = run_shim(["/bin/echo", "hello"], env=env)
    assert (result.returncode, result.stdout, result.stderr) == (0, "hello\n", "")


def test_every_fault_has_its_line(run_shim: RunShim) -> None:
    env = {
        "POOLSHIM_HUGE": "yes",
        "POOLSHIM_CACHE_MAX": "much",
        "POOLSHIM_NONSENSE": "",
        "POOLSHIM_SMALL_MAX": "2K",
        "POOLSHIM_SIZE_CLASSES": "16,4096",
        "POOLSHIM_CONF": "foreign:maybe",
    }
    result = run_shim(["/bin/true"], env=env)
    assert result.returncode == 0
    lines = result.stderr.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("poolshim: POOLSHIM_") for line in lines)
    assert lines[-1] == (
        "poolshim: POOLSHIM_SMALL_MAX: 2KiB is below 4KiB, the last entry of "
        "POOLSHIM_SIZE_CLASSES; using built-in"
    )


def test_help_lists_every_option(run_shim: RunShim) -> None:
    result = run_shim(["/bin/echo", "hello"], env={"POOLSHIM_HELP": "1"})
    assert (result.returncode, result.stdout) == (0, "hello\n")
    assert re.findall(r"^  POOLSHIM_(\w+)=<", result.stderr, re.MULTILINE) == NAMES


@pytest.mark.parametrize("program", ["ifunc_in_executable", "constructors_and_preinit_array"])
def test_settings_are_found_before_libc_has_the_environment(
    run_shim: RunShim, build_dir: Path, program: str
) -> None:
    """malloc comes first from an IFUNC resolver, when environ is still NULL."""
    env = {
        "AAA_LONG": "x" * 100000,
        "POOLSHIM_VERBOSE": "1",
        "POOLSHIM_HUGE": "off",
        "POOLSHIM_SIZE_CLASSES": "16,32,64",
        "ZZZ_LONG": "x" * 100000,
    }
    result = run_shim([build_dir / "tests" / "scenarios" / program], env=env)
    assert result.returncode == 0, result.stderr
    settings = settings_of(result.stderr)
    assert settings["HUGE"] == ("off", "environment")
    assert settings["SIZE_CLASSES"] == ("16,32,64", "environment")
    assert settings["MMAP_MIN"] == ("32MiB", "default")


def test_strict_stops_before_an_early_malloc_too(run_shim: RunShim, build_dir: Path) -> None:
    program = build_dir / "tests" / "scenarios" / "ifunc_in_executable"
    result = run_shim([program], env={"POOLSHIM_STRICT": "1", "POOLSHIM_TYPO": "1"})
    assert result.returncode == STRICT_STATUS


def test_a_program_that_empties_its_environment_keeps_its_settings(run_shim: RunShim) -> None:
    script = "env -i /bin/echo $POOLSHIM_HUGE"
    result = run_shim(["/bin/sh", "-c", script], env={"POOLSHIM_HUGE": "yes"})
    assert result.stdout == "yes\n"
    assert len(result.stderr.splitlines()) == 2  # sh and env; echo has no shim any more


PRIVILEGED = '#include <stdlib.h>\nint main(void) { free(malloc(100)); return 7; }\n'


@pytest.fixture
def privileged_program(shim: Path) -> Iterator[Path]:
    """A set-user-ID program of another user, linked with the library; root starts it."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a program of another user")
    folder = Path(tempfile.mkdtemp(prefix="poolshim-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        library = folder / "libpoolshim.so.0"
        shutil.copy(shim, library)
        library.chmod(0o755)
        source = folder / "program.c"
        source.write_text(PRIVILEGED)
        program = folder / "program"
        command = ["gcc", source, "-o", program, library, f"-Wl,-rpath,{folder}", "-fno-builtin"]
        subprocess.run(command, check=True, timeout=60)
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            pytest.skip("/tmp does not honour set-user-ID")
        assert program.stat().st_mode & stat.S_ISUID
        yield program
    finally:
        shutil.rmtree(folder)


@pytest.mark.root
def test_a_privileged_program_ignores_the_environment(
    run_shim: RunShim, privileged_program: Path
) -> None:
    env = {
        "POOLSHIM_STRICT": "1",
        "POOLSHIM_HUGE": "yes",
        "POOLSHIM_TYPO": "1",
        "POOLSHIM_VERBOSE": "1",
        "POOLSHIM_STATS": "1",
    }
    result = run_shim([privileged_program], env=env, preload=False)
    assert result.returncode == 7
    assert result.stderr == "poolshim: privileged program, POOLSHIM_* is ignored\n"
    quiet = run_shim([privileged_program], preload=False)
    assert (quiet.returncode, quiet.stderr) == (7, "")
    privileged_program.chmod(0o755)
    plain = run_shim([privileged_program], env=env, preload=False)
    assert plain.returncode == STRICT_STATUS, "without privileges the same settings count"


USABLE = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.malloc_usable_size.restype = ctypes.c_size_t
libc.malloc_usable_size.argtypes = [ctypes.c_void_p]
for word in sys.argv[1:]:
    print(libc.malloc_usable_size(libc.malloc(int(word))))
"""


def usable_sizes(run_shim: RunShim, sizes: list[int], env: dict[str, str]) -> list[int]:
    command = [sys.executable, "-S", "-c", USABLE, *map(str, sizes)]
    result = run_shim(command, env=env)
    assert (result.returncode, result.stderr) == (0, "")
    return [int(line) for line in result.stdout.split()]


def test_size_classes_are_the_ones_given(run_shim: RunShim) -> None:
    env = {"POOLSHIM_SIZE_CLASSES": "16,48,112,1040,5008"}
    sizes = [1, 16, 17, 48, 49, 112, 113, 1024, 1040, 1041, 5000, 5008]
    wanted = [16, 16, 48, 48, 112, 112, 1040, 1040, 1040, 5008, 5008, 5008]
    assert usable_sizes(run_shim, sizes, env) == wanted


TABLES = {
    "only 8": [8],
    "only 64": [64],
    "only the largest": [65536],
    "63 small ones": [16 * i for i in range(1, 64)],
    "62 small ones": [16 * i for i in range(1, 63)],
    "63 large ones": [1024 * i for i in range(1, 64)],
    "63 that end at the largest": [16 * i for i in range(1, 63)] + [65536],
    "holes": [8, 16, 1008, 1040, 30000 // 16 * 16],
    "below 1 KiB": [8, 512],
}


LIMITS = {"": 65536, "1K": 1024, "64K": 65536}


@each_row(
    ("table", "small_max"),
    [(name, key) for name in TABLES for key in LIMITS if TABLES[name][-1] <= LIMITS[key]],
)
def test_any_legal_table_serves_every_size(run_shim: RunShim, table: str, small_max: str) -> None:
    classes = TABLES[table]
    env = {
        "POOLSHIM_SIZE_CLASSES": ",".join(map(str, classes)),
        "POOLSHIM_SMALL_MAX": small_max,
    }
    edges = {size + step for size in [*classes, 8, 512, 1024, 4096, 65536] for step in (-1, 0, 1)}
    sizes = sorted(size for size in edges if size > 0)
    for size, usable in zip(sizes, usable_sizes(run_shim, sizes, env), strict=True):
        assert usable >= size
        if size <= classes[-1]:
            assert usable == min(entry for entry in classes if entry >= size)


KEEPS = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
block = libc.malloc(int(sys.argv[1]))
if sys.argv[2] == "freed":
    libc.free(block)
"""


def report(
    run_shim: RunShim, tmp_path: Path, size: int, what: str, env: dict[str, str]
) -> dict[str, dict[str, int]]:
    """Statistics of a process that has allocated, or also freed, one block of the size."""
    path = tmp_path / "report.json"
    command = [sys.executable, "-S", "-c", KEEPS, str(size), what]
    result = run_shim(command, env={"POOLSHIM_STATS": str(path), **env})
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(path.read_text())


def test_mmap_min_decides_what_gets_a_mapping(run_shim: RunShim, tmp_path: Path) -> None:
    size = 3 << 20
    usual = report(run_shim, tmp_path, size, "kept", {})
    tuned = report(run_shim, tmp_path, size, "kept", {"POOLSHIM_MMAP_MIN": "2M"})
    assert usual["large_blocks"]["live_bytes"] == 0
    assert usual["page_runs"]["live_bytes"] >= size
    assert tuned["large_blocks"]["live_bytes"] >= size
    assert tuned["page_runs"]["live_bytes"] < size


def test_small_max_decides_what_gets_a_page_run(run_shim: RunShim, tmp_path: Path) -> None:
    usual = report(run_shim, tmp_path, 60000, "kept", {})
    tuned = report(run_shim, tmp_path, 60000, "kept", {"POOLSHIM_SMALL_MAX": "64K"})
    assert usual["size_classes"][-1]["block_bytes"] < tuned["size_classes"][-1]["block_bytes"]
    assert tuned["page_runs"]["live_count"] < usual["page_runs"]["live_count"]


def test_cache_max_bounds_the_freed_mappings(run_shim: RunShim, tmp_path: Path) -> None:
    size = 40 << 20
    usual = report(run_shim, tmp_path, size, "freed", {"POOLSHIM_PURGE_DELAY_MS": "3600000"})
    tuned = report(
        run_shim, tmp_path, size, "freed",
        {"POOLSHIM_PURGE_DELAY_MS": "3600000", "POOLSHIM_CACHE_MAX": "8M"},
    )  # fmt: skip
    assert usual["large_blocks"]["cached_bytes"] >= size
    assert tuned["large_blocks"]["cached_bytes"] <= 8 << 20


FOREIGN = """
import ctypes, mmap
memory = mmap.mmap(-1, 65536)
libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]
libc.free(ctypes.addressof(ctypes.c_char.from_buffer(memory)) + 64)
print("went on")
"""


@each_row("how", ["abort", "warn", "ignore"])
def test_foreign_decides_what_freeing_another_allocators_pointer_does(
    run_shim: RunShim, how: str
) -> None:
    command = [sys.executable, "-S", "-c", FOREIGN]
    result = run_shim(command, env={"POOLSHIM_FOREIGN": how})
    assert result.returncode == (-signal.SIGABRT if how == "abort" else 0)
    assert result.stdout == ("" if how == "abort" else "went on\n")
    assert len(result.stderr.splitlines()) == (0 if how == "ignore" else 1)
    assert how == "ignore" or result.stderr.startswith("poolshim: ")
