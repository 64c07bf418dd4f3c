# SPDX-License-Identifier: MIT
"""`poolshim profile`: the call sites of a command, or one line that says why there are none.

    scripts/test tests/cli/test_cli_profile.py
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import pprof, symbols  # noqa: E402
from poolshim_cli.foreign.perf_map import PerfMap  # noqa: E402

pytestmark = pytest.mark.preload

MAIN = ROOT / "scripts" / "poolshim_cli" / "__main__.py"
SITES = {"keep_small", "churn_small", "keep_some", "churn_pages", "zero_medium", "keep_large"}
DETERMINED = {"POOLSHIM_PROFILE_SEED": "1"}


@pytest.fixture
def program(build_dir: Path) -> Path:
    return build_dir / "tests" / "scenarios" / "profiled_sites"


def poolshim(
    build: Path, *words: str | os.PathLike[str], path: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command, with this build's library."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POOLSHIM_")}
    env = {**kept, "POOLSHIM_BUILD_DIR": str(build), **DETERMINED, **environment}
    if path is not None:
        env["PATH"] = path
    return run_captured([sys.executable, MAIN, "profile", *words], env=env, timeout=120)


@pytest.fixture
def saved(build_dir: Path, tmp_path: Path, program: Path) -> Path:
    """A profile of the program."""
    path = tmp_path / "saved.pb.gz"
    done = poolshim(build_dir, "-o", path, "--", program)
    assert done.returncode == 0, done.stderr
    return path


def test_it_lists_the_call_sites(build_dir: Path, program: Path) -> None:
    need("addr2line")
    done = poolshim(build_dir, "--", program)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6, "the program's own output and nothing else"
    head, columns, *rows = done.stderr.splitlines()
    assert "live at the end" in head and "a sample every 512 KiB" in head
    figures = ["MiB", "±", "%", "blocks", "MiB/s", "blocks/s", "lifetime"]
    assert columns.split() == [*figures, "call", "site"]
    assert rows[0].split()[-1] == "keep_large"
    assert "< work < main" in rows[1]


def test_json_has_all_of_them(build_dir: Path, saved: Path) -> None:
    need("addr2line")
    done = poolshim(build_dir, "--read", saved, "--alloc", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["kind"] == "alloc" and found["interval_bytes"] == 512 << 10
    assert SITES <= {row["name"] for row in found["sites"]}
    sizes = [row["nbytes"] for row in found["sites"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == pprof.read(saved).total("alloc_space")
    large = next(row for row in found["sites"] if row["name"] == "keep_large")
    assert large["blocks"] == pytest.approx(40, abs=5) and large["error_bytes"] < 16 << 20


def test_top_sums_up_the_rest(build_dir: Path, saved: Path) -> None:
    done = poolshim(build_dir, "--read", saved, "--alloc", "--top=2")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].split()[-1] == "more"


def test_exit_status_is_the_commands(build_dir: Path, tmp_path: Path) -> None:
    assert poolshim(build_dir, "--", "sh", "-c", "exit 7").returncode == 7
    killed = poolshim(build_dir, "--", "sh", "-c", "kill -9 $$")
    assert killed.returncode == 137 and "no profile was written" in killed.stderr
    assert "Traceback" not in killed.stderr


def test_a_program_that_frees_all_shows_what_it_allocated(build_dir: Path) -> None:
    script = "import mmap, ctypes; c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p\n"
    script += "for i in range(200): c.free(ctypes.c_void_p(c.malloc(ctypes.c_size_t(1 << 20))))"
    done = poolshim(build_dir, "--", sys.executable, "-S", "-c", script)
    assert done.returncode == 0
    assert "nearly nothing was live at the end" in done.stderr


def test_the_largest_of_several_processes(build_dir: Path, program: Path) -> None:
    script = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    done = poolshim(build_dir, "--", sys.executable, "-S", "-c", script, program)
    assert done.returncode == 0
    assert "2 processes wrote a profile" in done.stderr


def test_without_a_tool_there_are_addresses(
    build_dir: Path, tmp_path: Path, saved: Path
) -> None:
    done = poolshim(build_dir, "--read", saved, path=str(tmp_path))
    assert done.returncode == 0
    assert "neither llvm-symbolizer nor addr2line is installed" in done.stdout
    assert "profiled_sites+0x" in done.stdout


def test_a_changed_file_gives_no_names(build_dir: Path, tmp_path: Path, program: Path) -> None:
    need("addr2line", "gcc")
    source, copy = tmp_path / "other.c", tmp_path / "program"
    shutil.copy(program, copy)
    path = tmp_path / "h.pb.gz"
    assert poolshim(build_dir, "-o", path, "--", copy).returncode == 0
    source.write_text("int main(void) { return 0; }\n")
    assert run_captured(["gcc", "-Wl,--build-id", source, "-o", copy]).returncode == 0
    done = poolshim(build_dir, "--read", path)
    assert f"{copy} has changed since" in done.stdout and "keep_large" not in done.stdout


def test_a_perf_map_names_code_of_no_file(tmp_path: Path) -> None:
    table = tmp_path / "perf-1.map"
    table.write_text("1000 10 first\n2000 20 second one\nnonsense\n")
    sites = [pprof.Location(at, None) for at in (0x1000, 0x100F, 0x1010, 0x201F, 0x3000)]
    profile = pprof.Profile(samples=[pprof.Sample(tuple(sites), ())])
    names = symbols.names_of(profile, PerfMap(table))
    assert [names.of(one)[0] for one in sites] == [
        "first", "first", "0x1010", "second one", "0x3000"
    ]  # fmt: skip


@each_row(
    ("words", "said"),
    [
        ([], "which command?"),
        (["--nonsense", "true"], "no option --nonsense"),
        (["--top=0", "--", "true"], "--top: 0 is no number of call sites"),
        (["--interval"], "--interval needs a value"),
        (["--read", "x", "true"], "--read lists a file"),
        (["--read", "/nonexistent"], "/nonexistent: No such file"),
        (["-o", "/nonexistent/x", "--", "true"], "/nonexistent"),
    ],
)
def test_bad_requests_are_one_line(build_dir: Path, words: list[str], said: str) -> None:
    done = poolshim(build_dir, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


def test_no_such_command(build_dir: Path) -> None:
    done = poolshim(build_dir, "--", "/nonexistent/program")
    assert done.returncode == 127 and "no such command" in done.stderr


@each_row(
    "content",
    [b"", b"text", b"\x1f\x8bnot gzip", b"\x1f\x8b", b"\x0a\xff", b"\x12\x03\x08\x01\x10",
     b"\x08" + b"\xff" * 20, b"\x0a\x02\x08\x07"],
)  # fmt: skip
def test_what_is_no_profile_is_one_line(build_dir: Path, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.pb.gz"
    path.write_bytes(content)
    done = poolshim(build_dir, "--read", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "not a profile in pprof's format" in done.stderr and len(done.stderr.splitlines()) == 1


def test_half_a_profile_is_one_line(build_dir: Path, tmp_path: Path, saved: Path) -> None:
    data = gzip.decompress(saved.read_bytes())
    for end in range(1, len(data), max(1, len(data) // 20)):
        path = tmp_path / "half.pb"
        path.write_bytes(data[:end])
        try:
            pprof.parse(data[:end])
        except pprof.Damaged:
            continue  # whole fields are a shorter profile
    done = poolshim(build_dir, "--read", path)
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr


def test_memory_of_pools_is_charged_to_the_calls_that_took_it(build_dir: Path) -> None:
    program = build_dir / "tests" / "faults" / "load_pool_sites"
    done = poolshim(build_dir, "--json", "--interval=64KiB", "--", program)
    assert done.returncode == 0, done.stderr
    held = {}
    for site in json.loads(done.stdout)["sites"]:
        names = [site["name"], *site["callers"]]
        function = next((name.partition("(")[0] for name in names if name.startswith("hold_")), "")
        held[function] = held.get(function, 0) + site["nbytes"]
    assert held.pop("", 0) < 1 << 20  # the start of C++
    expected = {"hold_nodes": 40e6, "hold_region": 20e6, "hold_slices": 20e6}
    assert held == pytest.approx(expected, rel=0.25)
