# SPDX-License-Identifier: MIT
"""glibc's questions and the poolshim_* functions, asked from inside real processes.

    python -m pytest tests/shim/test_introspect.py

A script runs under the shim, asks through ctypes and prints JSON, which is checked here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, RunShim, run_captured

pytestmark = pytest.mark.preload

PRELUDE = """
import ctypes, errno, json, os, tempfile
libc = ctypes.CDLL(None, use_errno=True)
size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
libc.malloc.restype = pointer
libc.malloc.argtypes = [size_t]
libc.free.argtypes = [pointer]
NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()

class Wide(ctypes.Structure):
    _fields_ = [(name, size_t) for name in NAMES]

class Narrow(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in NAMES]

libc.mallinfo2.restype = Wide
libc.mallinfo.restype = Narrow

def ask(function=libc.mallinfo2):
    info = function()
    return {name: getattr(info, name) for name in NAMES}
"""


def run_script(run_shim: RunShim, script: str, **env: str) -> Any:
    result = run_shim([sys.executable, "-S", "-c", PRELUDE + script], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


def check_adds_up(info: dict[str, int]) -> None:
    assert info["arena"] == info["uordblks"] + info["fordblks"]
    assert info["smblks"] == info["fsmblks"] == info["usmblks"] == 0


@pytest.mark.parametrize(("count", "size"), [(200000, 160), (2000, 10000), (200, 300000)])
def test_mallinfo2_follows_live_blocks(run_shim: RunShim, count: int, size: int) -> None:
    script = f"""
before = ask()
blocks = [libc.malloc({size}) for _ in range({count})]
full = ask()
for block in blocks:
    libc.free(block)
print(json.dumps([before, full, ask()]))
"""
    before, full, empty = run_script(run_shim, script)
    for info in (before, full, empty):
        check_adds_up(info)
    payload = count * size
    grown = full["uordblks"] - before["uordblks"]
    slack = payload // 3 + (24 << 20)  # rounding to classes; python's own list of the blocks
    assert payload <= grown <= payload + slack
    assert empty["uordblks"] <= full["uordblks"] - payload + (1 << 20)  # python's own growth
    assert full["hblks"] == before["hblks"] == 0 or full["hblkhd"] < slack


def test_mappings_are_told_apart(run_shim: RunShim) -> None:
    script = """
before = ask()
blocks = [libc.malloc(40 << 20) for _ in range(4)]
full = ask()
for block in blocks:
    libc.free(block)
print(json.dumps([before, full, ask()]))
"""
    before, full, empty = run_script(run_shim, script)
    assert full["hblks"] - before["hblks"] == 4
    assert 160 << 20 <= full["hblkhd"] - before["hblkhd"] < 161 << 20
    assert abs(full["uordblks"] - before["uordblks"]) < 1 << 20
    assert empty["hblks"] == before["hblks"]
    for info in (before, full, empty):
        check_adds_up(info)


def test_mallinfo_agrees_and_saturates(run_shim: RunShim) -> None:
    script = """
small = [ask(libc.mallinfo), ask()]
block = libc.malloc(5 << 30)
print(json.dumps([small, [ask(libc.mallinfo), ask()]]))
"""
    (narrow, wide), (large_narrow, large_wide) = run_script(run_shim, script)
    for name in ("hblks", "hblkhd", "smblks"):
        assert narrow[name] == wide[name]
    for name in ("arena", "uordblks", "fordblks"):
        assert abs(narrow[name] - wide[name]) < 1 << 20
    assert large_wide["hblkhd"] >= 5 << 30
    assert large_narrow["hblkhd"] == 2**31 - 1


def test_malloc_info_is_glibcs_xml_and_agrees_with_mallinfo2(run_shim: RunShim) -> None:
    script = """
libc.fopen.restype = pointer
libc.malloc_info.argtypes = [ctypes.c_int, pointer]
libc.fclose.argtypes = [pointer]
blocks = [libc.malloc(1 << n) for n in range(27)]
for block in blocks[::2]:
    libc.free(block)
path = tempfile.mktemp()
stream = libc.fopen(path.encode(), b"w")
answers = [libc.malloc_info(1, stream), libc.malloc_info(0, stream), libc.fclose(stream)]
text = open(path).read()
os.unlink(path)
print(json.dumps([answers, text, ask()]))
"""
    answers, text, info = run_script(run_shim, script)
    assert answers == [22, 0, 0]
    root = ElementTree.fromstring(text)
    assert (root.tag, root.attrib) == ("malloc", {"version": "1"})
    heaps = root.findall("heap")
    assert [heap.get("nr") for heap in heaps] == ["0"]
    totals = {element.get("type"): element for element in root.findall("total")}
    assert list(totals) == ["fast", "rest", "mmap"]
    assert int(totals["mmap"].get("size", "")) == info["hblkhd"] >= 32 << 20
    current = root.find("system[@type='current']")
    assert current is not None
    assert abs(int(current.get("size", "")) - info["arena"]) < 1 << 20
    upper = 0
    for size in root.findall("heap/sizes/size"):
        low, high = int(size.get("from", "")), int(size.get("to", ""))
        assert upper < low <= high
        assert int(size.get("total", "")) == high * int(size.get("count", "")) > 0
        upper = high
    free = sum(int(size.get("count", "")) for size in root.findall("heap/sizes/size"))
    assert free == int(totals["rest"].get("count", ""))


def test_a_reader_of_glibcs_figures_finds_the_same_with_both(build_dir: Path) -> None:
    """Under the shim the program is a scenario."""
    program = build_dir / "tests" / "scenarios" / "glibc_questions"
    if not program.exists():
        pytest.skip("glibc's malloc is not here")
    result = run_captured([program])
    assert (result.returncode, result.stderr) == (0, "")


def test_malloc_stats_prints_the_table_to_stderr(run_shim: RunShim) -> None:
    script = "import ctypes; ctypes.CDLL(None).malloc_stats()"
    result = run_shim([sys.executable, "-S", "-c", script])
    assert (result.returncode, result.stdout) == (0, "")
    assert re.match(r"poolshim \S+: statistics of process \d+, ", result.stderr)
    assert re.search(r"\n  live +\d+ bytes ", result.stderr)


def test_malloc_trim_gives_memory_back_at_once(run_shim: RunShim) -> None:
    script = """
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

def fill(size, count):
    blocks = [libc.malloc(size) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks:
        libc.free(block)

libc.malloc_trim.argtypes = [size_t]
libc.malloc_trim(0)
fill(100, 100)
libc.malloc_trim(0)
base = resident()
fill(3000, 60000)
fill(300000, 600)
full = resident()
first = ask()
answers = [libc.malloc_trim(0), libc.malloc_trim(0)]
empty = resident()
libc.malloc_trim(0)  # what reading the file took
print(json.dumps([base, full, empty, answers, first["keepcost"], ask()["keepcost"]]))
"""
    hour = "3600000"
    base, full, empty, answers, keepcost, kept = run_script(
        run_shim, script, POOLSHIM_PURGE_DELAY_MS=hour
    )
    assert full - base > 150 << 20
    assert empty - base < 16 << 20
    assert answers[0] == 1  # the second releases what the interpreter has touched since, if any
    assert keepcost >= 150 << 20
    assert kept < 1 << 20


def test_mallopt_answers_as_documented(run_shim: RunShim) -> None:
    script = """
print(json.dumps({n: libc.mallopt(n, 100) for n in [1, *range(-8, 0), 2, 999]}))
"""
    answers = run_script(run_shim, script)
    accepted = {int(number) for number, answer in answers.items() if answer == 1}
    assert accepted == {1, -1, -2, -3, -4, -5, -7, -8}
    assert set(answers.values()) == {0, 1}


def header_example() -> str:
    """The program in the public header's first comment."""
    text = (ROOT / "pools" / "include" / "poolshim" / "poolshim.h").read_text()
    comment = text[: text.index("*/", text.index("poolshim.h - "))]
    lines = [line.removeprefix(" *") for line in comment.splitlines()]
    return "\n".join(line[5:] for line in lines if line.startswith("     ") or not line) + "\n"


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_the_headers_example_builds_and_runs(
    run_shim: RunShim, tmp_path: Path, compiler: str
) -> None:
    source = tmp_path / ("example.c" if compiler == "gcc" else "example.cpp")
    source.write_text(header_example())
    program = tmp_path / "example"
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{ROOT}/pools/include"]
    subprocess.run([compiler, *flags, source, "-o", program], check=True, timeout=60)

    plain = run_shim([program], preload=False, cwd=tmp_path)
    assert (plain.returncode, plain.stdout) == (0, "running on another allocator\n")
    assert not list(tmp_path.glob("heap.*"))

    result = run_shim([program], cwd=tmp_path)
    version = re.search(r'POOLSHIM_VERSION "(.*)"', (
        ROOT / "pools" / "include" / "poolshim" / "poolshim.h").read_text())  # fmt: skip
    assert version is not None
    assert (result.returncode, result.stdout) == (0, f"poolshim {version[1]}\n")
    (report,) = tmp_path.glob("heap.*.json")
    assert report.name == f"heap.{json.loads(report.read_text())['pid']}.json"


def test_version_of_header_and_build_agree() -> None:
    header = (ROOT / "pools" / "include" / "poolshim" / "poolshim.h").read_text()
    build = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"project\(poolshim VERSION (\S+)", build)
    assert version is not None
    assert f'#define POOLSHIM_VERSION "{version[1]}"' in header


def test_stats_write_reports_what_went_wrong(run_shim: RunShim, tmp_path: Path) -> None:
    script = f"""
answers = []
for path in [b"{tmp_path}/a.json", b"{tmp_path}/no/such", b"{tmp_path}", b"/" + b"n" * 5000]:
    ctypes.set_errno(0)
    result = libc.poolshim_stats_write(path)
    answers.append([result, errno.errorcode.get(ctypes.get_errno(), "")])
print(json.dumps(answers))
"""
    assert run_script(run_shim, script) == [
        [0, ""], [-1, "ENOENT"], [-1, "EISDIR"], [-1, "ENAMETOOLONG"]
    ]  # fmt: skip
    assert json.loads((tmp_path / "a.json").read_text())["format"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_stats_write_without_a_name_prints_the_table(run_shim: RunShim) -> None:
    script = "import ctypes; ctypes.CDLL(None).poolshim_stats_write(None)"
    result = run_shim([sys.executable, "-S", "-c", script])
    assert result.returncode == 0
    assert "\nsize classes\n" in result.stderr
