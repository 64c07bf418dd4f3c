# SPDX-License-Identifier: MIT
"""POOLSHIM_STATS on real programs: when a report is written, where to, and that it adds up.

    python -m pytest tests/shim/test_stats.py
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, RunShim
from table import each_row

pytestmark = pytest.mark.preload

TITLE = r'poolshim \d+\.\d+\.\d+: statistics of process (\d+), "{program}"'
PYTHON = [sys.executable, "-S", "-c"]


def tables_of(stderr: str, program: str) -> list[int]:
    """The process ids of the tables a program printed."""
    return [int(pid) for pid in re.findall(TITLE.format(program=re.escape(program)), stderr)]


@each_row(
    ("command", "text"),
    [
        (["ls", "/"], None),
        (["sort"], "b\na\n"),
        (["cat"], "x\n"),
        (["/bin/echo", "hello"], None),
        (["/bin/true"], None),
        (["bash", "-c", "echo $((6 * 7))"], None),
        (["perl", "-e", "print 42"], None),
        (["grep", "b"], "a\nb\n"),
        ([*PYTHON, "print(42)"], None),
    ],
)
def test_prints_at_exit(run_shim: RunShim, command: list[str], text: str | None) -> None:
    """ls, sort and their like close stderr before destructors of libraries run."""
    options: dict[str, Any] = {} if text is None else {"input": text}
    plain = run_shim(command, preload=False, **options)
    result = run_shim(command, env={"POOLSHIM_STATS": "1"}, **options)
    assert (result.returncode, result.stdout) == (plain.returncode, plain.stdout)
    assert len(tables_of(result.stderr, Path(command[0]).name)) == 1
    for title in ("memory", "small blocks", "page runs", "large blocks", "guarded blocks", "limit",
                  "page cache", "purges", "size classes"):  # fmt: skip
        assert f"\n{title}\n" in result.stderr


@each_row("value", ["", "0", "off", "false"])
def test_prints_nothing_when_off(run_shim: RunShim, value: str) -> None:
    result = run_shim(["ls", "/"], env={"POOLSHIM_STATS": value})
    assert (result.returncode, result.stderr) == (0, "")


def test_table_is_aligned_and_states_units(run_shim: RunShim) -> None:
    lines = run_shim(["ls", "/"], env={"POOLSHIM_STATS": "1"}).stderr.splitlines()
    start = lines.index("size classes")
    figures = [line for line in lines[1:start] if line.startswith("  ")]
    assert len(figures) > 20
    for line in figures:
        value = r"(\d+|[a-z_.]+)( bytes +\d+(\.\d)? [KMG]?i?B)?"
        assert re.fullmatch("  .{26} {2,}" + value, line)
        assert re.match(r".{46}( |$)", line), "numbers end in one column"
    assert len({len(line) for line in lines[start + 1 :]}) == 1
    assert lines[-1].split()[0] == "all"


def test_table_lists_classes_in_use_and_sums_up_the_others(run_shim: RunShim) -> None:
    """No line says "0 live blocks, 100.0 % waste"; the listed ones add up to the last line."""
    for command in (["ls", "/"], [*PYTHON, "pass"]):
        lines = run_shim(command, env={"POOLSHIM_STATS": "1"}).stderr.splitlines()
        rows = [line.split() for line in lines[lines.index("size classes") + 2 :]]
        *classes, unused, total = rows
        assert (unused[0], total[0]) == ("unused", "all")
        assert unused[1:3] == ["0", "0"] and unused[4] == unused[5] and len(unused) == 6
        assert classes or command[0] == "ls"
        assert all(int(row[1]) > 0 for row in classes)
        for column in range(1, 6):
            assert sum(int(row[column]) for row in [*classes, unused]) == int(total[column])


def read_json(run_shim: RunShim, path: Path, command: list[str], **env: str) -> dict[str, Any]:
    result = run_shim(command, env={"POOLSHIM_STATS": str(path), **env})
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(path.read_text())


def check_adds_up(report: dict[str, Any]) -> None:
    memory, small, classes = report["memory"], report["small_blocks"], report["size_classes"]
    assert report["format"] == 2
    for key in ("live_count", "live_bytes", "slab_count", "slab_bytes", "waste_bytes"):
        assert small[key] == sum(entry[key] for entry in classes)
    assert memory["live_bytes"] == (
        small["live_bytes"]
        + report["page_runs"]["live_bytes"]
        + report["large_blocks"]["live_bytes"]
        + report["guarded_blocks"]["live_bytes"]
    )
    assert memory["mapped_bytes"] >= memory["live_bytes"]
    assert memory["resident_peak_bytes"] >= memory["resident_bytes"] > 0
    sizes = [entry["block_bytes"] for entry in classes]
    assert sizes == sorted(set(sizes))
    for entry in classes:
        assert entry["live_bytes"] == entry["live_count"] * entry["block_bytes"]
        assert entry["waste_bytes"] == entry["slab_bytes"] - entry["live_bytes"]


@pytest.mark.parametrize("command", [["ls", "/"], ["sort", "/etc/passwd"], [*PYTHON, "pass"]])
def test_json_is_valid_and_adds_up(run_shim: RunShim, tmp_path: Path, command: list[str]) -> None:
    report = read_json(run_shim, tmp_path / "report.json", command)
    check_adds_up(report)
    assert report["program"] == Path(command[0]).name
    assert report["small_blocks"]["live_count"] > 0


def test_json_and_table_have_the_same_rows(run_shim: RunShim, tmp_path: Path) -> None:
    report = read_json(run_shim, tmp_path / "report.json", ["ls", "/"])
    sections = {key: value for key, value in report.items() if isinstance(value, dict)}
    lines = run_shim(["ls", "/"], env={"POOLSHIM_STATS": "1"}).stderr.splitlines()
    titles = [line.replace(" ", "_") for line in lines if line and line[0].isalpha()][1:]
    assert titles == [*sections, "size_classes"]
    rows = [line for line in lines[1 : lines.index("size classes")] if line.startswith("  ")]
    assert len(rows) == sum(len(section) for section in sections.values())


def test_documentation_names_every_key(run_shim: RunShim, tmp_path: Path) -> None:
    report = read_json(run_shim, tmp_path / "report.json", ["ls", "/"])
    text = (ROOT / "docs" / "stats.md").read_text()
    for section, values in report.items():
        if isinstance(values, dict):
            assert re.search(rf"^### .*\b{section}\b", text, re.MULTILINE), section
            assert all(f"{key}`" in text for key in values), (section, values)
    assert all(f"`{key}`" in text for key in report["size_classes"][0])


ALLOCATES = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
for count, size in ((100000, 208), (50, 1000000), (3, 40 << 20)):
    for _ in range(count):
        libc.malloc(size)
"""


def test_figures_are_those_of_the_program(run_shim: RunShim, tmp_path: Path) -> None:
    """100,000 blocks of 208 bytes, 50 of 1 MB, 3 of 40 MiB, beside what python does itself."""
    path = tmp_path / "report.json"
    base = read_json(run_shim, path, [*PYTHON, "import ctypes"])
    report = read_json(
        run_shim, path, [*PYTHON, ALLOCATES], POOLSHIM_SIZE_CLASSES="16,32,64,128,208,256"
    )
    check_adds_up(report)
    used = next(entry for entry in report["size_classes"] if entry["block_bytes"] == 208)
    assert 100000 <= used["live_count"] < 110000
    assert used["slab_count"] >= 100000 * 208 // (1 << 20)
    assert used["waste_bytes"] < used["slab_bytes"] / 10
    runs = report["page_runs"]["live_count"] - base["page_runs"]["live_count"]
    assert 50 <= runs < 60
    assert report["large_blocks"]["live_count"] == 3
    assert 3 * (40 << 20) <= report["large_blocks"]["live_bytes"] < 3 * (41 << 20)


SAMPLED = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
blocks = [libc.malloc(3000) for _ in range(500)]
for block in blocks[:100]:
    libc.free(block)
"""


def test_guarded_samples_are_live(run_shim: RunShim, tmp_path: Path) -> None:
    """All of 500 blocks of 3,000 bytes, beside what python does itself; 100 of them are freed."""
    path = tmp_path / "report.json"
    env = {"POOLSHIM_GUARD_SAMPLE": "1", "POOLSHIM_GUARD_SLOTS": "16384"}
    command = [*PYTHON, "import ctypes"]
    read_json(run_shim, path, command, **env)  # the first import may compile
    base = read_json(run_shim, path, command, **env)
    report = read_json(run_shim, path, [*PYTHON, SAMPLED], **env)
    check_adds_up(report)
    more = {key: report["guarded_blocks"][key] - base["guarded_blocks"][key]
            for key in report["guarded_blocks"]}  # fmt: skip
    assert 400 <= more["live_count"] < 450
    assert 400 * 3000 <= more["live_bytes"] < 400 * 3000 + (64 << 10)
    assert more["held_bytes"] >= 400 * 4096
    assert report["memory"]["live_bytes"] - base["memory"]["live_bytes"] >= 400 * 3000


def test_percent_p_is_the_process_id(run_shim: RunShim, tmp_path: Path) -> None:
    env = {"POOLSHIM_STATS": str(tmp_path / "a%%b.%p.json")}
    result = run_shim(["bash", "-c", "echo $$"], env=env)
    path = tmp_path / f"a%b.{result.stdout.strip()}.json"
    assert [path] == list(tmp_path.iterdir())
    assert json.loads(path.read_text())["pid"] == int(result.stdout)


@pytest.mark.fork
def test_a_child_that_only_forks_writes_its_own(run_shim: RunShim, tmp_path: Path) -> None:
    script = """
import os, sys
if os.fork() == 0:
    sys.exit(3)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]) + 1)
"""
    result = run_shim([*PYTHON, script], env={"POOLSHIM_STATS": str(tmp_path / "%p.json")})
    assert (result.returncode, result.stderr) == (4, "")
    reports = {path.stem: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert len(reports) == 2
    assert all(int(pid) == report["pid"] for pid, report in reports.items())
    both = run_shim([*PYTHON, script], env={"POOLSHIM_STATS": "1"})
    assert len(set(tables_of(both.stderr, Path(sys.executable).name))) == 2


@pytest.mark.parametrize(
    ("script", "status"),
    [("import os; os._exit(5)", 5), ("import os; os.kill(os.getpid(), 10)", -signal.SIGUSR1)],
)
def test_nothing_is_written_without_an_exit(
    run_shim: RunShim, tmp_path: Path, script: str, status: int
) -> None:
    result = run_shim([*PYTHON, script], env={"POOLSHIM_STATS": str(tmp_path / "report")})
    assert (result.returncode, result.stderr) == (status, "")
    assert not list(tmp_path.iterdir())


def test_a_relative_name_is_below_the_first_directory(run_shim: RunShim, tmp_path: Path) -> None:
    script = "import os; os.chdir('/')"
    run_shim([*PYTHON, script], env={"POOLSHIM_STATS": "report.txt"}, cwd=tmp_path)
    assert (tmp_path / "report.txt").read_text().startswith("poolshim ")


@each_row("program", ["ls", "sort"])
@each_row(
    ("name", "why"),
    [
        ("missing/report", "No such file or directory"),
        ("", "Is a directory"),
        ("n" * 300, "File name too long"),
    ],
)
def test_a_file_that_cannot_be_written_costs_a_line(
    run_shim: RunShim, tmp_path: Path, program: str, name: str, why: str
) -> None:
    """Also from programs that have closed stderr by then; their exit status is preserved."""
    path = f"{tmp_path}/{name}"
    shown = path if len(path) <= 64 else path[:64] + "..."
    for argument, status in (("/etc/passwd", 0), ("/no/such/file", 2)):
        result = run_shim([program, argument], env={"POOLSHIM_STATS": path})
        assert result.returncode == status
        assert result.stderr.splitlines()[-1].startswith(
            f'poolshim: POOLSHIM_STATS: cannot write "{shown[:64]}'
        )
        assert result.stderr.endswith(f": {why}\n")


def test_file_size_limit_and_full_disk_keep_the_exit_status(
    run_shim: RunShim, tmp_path: Path
) -> None:
    env = {"POOLSHIM_STATS": str(tmp_path / "report")}
    result = run_shim(["bash", "-c", "ulimit -f 0; exec ls /"], env=env)
    assert result.returncode == 0
    assert result.stderr.endswith(": File too large\n")
    assert not list(tmp_path.iterdir()), "a temporary file is left"
    full = run_shim(["ls", "/"], env={"POOLSHIM_STATS": "/dev/full"})
    assert full.returncode == 0
    assert full.stderr.endswith(": No space left on device\n")


def test_a_pipe_that_nobody_reads_keeps_the_exit_status(run_shim: RunShim) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = run_shim(["ls", "/"], env={"POOLSHIM_STATS": "1"}, stderr=writer)
    os.close(writer)
    assert result.returncode == 0


def test_a_program_without_stderr_runs_as_usual(run_shim: RunShim, tmp_path: Path) -> None:
    """Its descriptor 2 is a file of its own, which the report must not end up in."""
    script = f"exec 2>&-; exec {sys.executable} -S -c \"$1\""
    body = f"import os; assert os.open({str(tmp_path / 'mine')!r}, os.O_CREAT | os.O_RDWR) == 2"
    env = {"POOLSHIM_STATS": "1"}
    result = run_shim(["bash", "-c", script, "bash", body], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "mine").read_text() == ""


def test_a_reused_descriptor_is_not_written_to(run_shim: RunShim, tmp_path: Path) -> None:
    """A program closes everything and opens its own file under the number of the copy."""
    script = f"""
import os
copies = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]
copies = [fd for fd in copies if os.path.exists(f"/proc/self/fd/{{fd}}")]
assert len(copies) == 1 and not os.get_inheritable(copies[0])
os.closerange(3, 5000)
os.dup2(os.open({str(tmp_path / 'mine')!r}, os.O_CREAT | os.O_RDWR), copies[0])
"""
    result = run_shim([*PYTHON, script], env={"POOLSHIM_STATS": "1"})
    assert result.returncode == 0
    assert (tmp_path / "mine").read_text() == ""
    assert len(tables_of(result.stderr, Path(sys.executable).name)) == 1, "stderr is still there"


def test_the_copy_of_stderr_does_not_outlive_exec(run_shim: RunShim) -> None:
    result = run_shim(
        ["/bin/sh", "-c", "unset LD_PRELOAD; exec ls /proc/self/fd"], env={"POOLSHIM_STATS": "1"}
    )
    assert sorted(map(int, result.stdout.split())) == [0, 1, 2, 3]
    assert result.stderr == ""


def test_no_descriptor_is_taken_when_statistics_are_off(run_shim: RunShim) -> None:
    result = run_shim(["ls", "/proc/self/fd"])
    assert sorted(map(int, result.stdout.split())) == [0, 1, 2, 3]


def test_low_descriptor_limits_are_no_obstacle(run_shim: RunShim) -> None:
    result = run_shim(["bash", "-c", "ulimit -n 16; exec ls /"], env={"POOLSHIM_STATS": "1"})
    assert len(tables_of(result.stderr, "ls")) == 1


def test_many_writers_of_one_file_leave_a_whole_report(run_shim: RunShim, tmp_path: Path) -> None:
    """A reader that looks all the time never sees half a report."""
    path = tmp_path / "report.json"
    path.write_text("{}")
    script = "for i in $(seq 40); do /bin/ls / >/dev/null & done; wait"
    stop = tmp_path / "stop"
    reader = subprocess.Popen(
        [*PYTHON, "import json, os, sys\n"
         "while not os.path.exists(sys.argv[2]): json.load(open(sys.argv[1]))",
         str(path), str(stop)],
    )  # fmt: skip
    try:
        result = run_shim(["bash", "-c", script], env={"POOLSHIM_STATS": str(path)})
    finally:
        stop.touch()
        assert reader.wait(timeout=60) == 0
    assert (result.returncode, result.stderr) == (0, "")
    check_adds_up(json.loads(path.read_text()))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["report.json", "stop"]


def test_output_that_does_not_block_gets_the_whole_table(run_shim: RunShim) -> None:
    script = "import os; os.set_blocking(2, False)"
    result = run_shim([*PYTHON, script], env={"POOLSHIM_STATS": "1"})
    assert re.search(r"\n +all +\d+ .*\n\Z", result.stderr)
