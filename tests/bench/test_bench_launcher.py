# SPDX-License-Identifier: MIT
"""The launcher measures the command and nothing else, and proves what the command had mapped.

scripts/test tests/bench/test_bench_launcher.py
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import run_captured
from table import each_row

pytestmark = pytest.mark.bench

Launch = Callable[..., tuple["subprocess.CompletedProcess[str]", Any]]


@pytest.fixture
def launcher(build_dir: Path) -> Path:
    """The launcher of the build under test."""
    return build_dir / "scripts" / "launcher"


@pytest.fixture
def launch(launcher: Path, tmp_path: Path) -> Launch:
    """launch(*options, "--", *command) -> the finished process and its result, None without one."""

    def run(*words: str | Path, **options: Any) -> tuple[subprocess.CompletedProcess[str], Any]:
        result = tmp_path / "result.json"
        env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        done = run_captured([launcher, "-o", result, *words], env=env, **options)
        text = result.read_text() if result.exists() else ""
        return done, json.loads(text) if text else None

    return run


@pytest.fixture(scope="session")
def floor(build_dir: Path) -> Path:
    """Some preloadable library."""
    return build_dir / "bench" / "libfloor.so"


@each_row("status", [0, 1, 7, 124, 255])
def test_exit_status_is_the_commands(launch: Launch, status: int) -> None:
    done, result = launch("--", "sh", "-c", f"exit {status}")
    assert done.returncode == status
    assert (result["exit_status"], result["signal"]) == (status, None)


def test_death_by_signal_is_reported(launch: Launch) -> None:
    done, result = launch("--", "sh", "-c", "kill -TERM $$")
    assert done.returncode == 128 + 15
    assert (result["exit_status"], result["signal"]) == (None, 15)


@each_row(
    ("words", "status", "complaint"),
    [
        (["--", "/nonexistent/program"], 127, "No such file"),
        (["--", "/etc/passwd"], 126, "Permission denied"),
        ([], 125, "no command given"),
        (["--bogus", "--", "true"], 125, "--bogus"),
        (["--samples", "x", "--", "true"], 125, "not a whole number"),
        (["--env", "NAME", "--", "true"], 125, "NAME=VALUE"),
        (["--expect-mapped", "/nonexistent.so", "--", "true"], 125, "/nonexistent.so"),
        (["-o", "/nonexistent/file", "--", "true"], 125, "/nonexistent/file"),
    ],
)
def test_own_failures(launch: Launch, words: list[str], status: int, complaint: str) -> None:
    done, result = launch(*words)
    assert done.returncode == status
    assert complaint in done.stderr
    assert result is None


def test_result_goes_to_standard_output_or_error(launcher: Path) -> None:
    assert json.loads(run_captured([launcher, "-o", "-", "--", "true"]).stdout)["exit_status"] == 0
    assert json.loads(run_captured([launcher, "--", "true"]).stderr)["exit_status"] == 0


def test_command_comes_back_as_it_went_in(launch: Launch) -> None:
    words = ["true", 'quote " backslash \\ newline \n tab \t', "ünï", ""]
    _, result = launch("--", *words)
    assert result["command"] == words


def test_environment_is_the_commands_alone(launch: Launch) -> None:
    words = ("--env", "FIRST=1", "--env", "SECOND=a=b", "--", "sh", "-c", 'echo "$FIRST $SECOND"')
    done, _ = launch(*words)
    assert done.stdout == "1 a=b\n"


def test_rss_is_not_inherited(launch: Launch) -> None:
    """A small child of a large process: the kernel hands the parent's size on, the launcher not."""
    ballast = bytearray(b"x") * (300 << 20)
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/true", ["true"])
    _, status, usage = os.wait4(pid, 0)
    assert status == 0
    assert usage.ru_maxrss > 250 << 10, "the trap is still there, else this test proves nothing"

    _, result = launch("--", "/bin/true")
    assert len(ballast) == 300 << 20
    assert 0 < result["max_rss_kib"] < 10 << 10
    assert 0 < result["peak_rss_kib"] < 10 << 10


def test_rss_is_the_childs_peak(launch: Launch) -> None:
    """Also when the memory has long been given back."""
    script = "block = bytearray(b'x') * (200 << 20); del block"
    _, result = launch("--", sys.executable, "-c", script)
    for name in ("max_rss_kib", "peak_rss_kib"):
        assert 200 << 10 <= result[name] < 300 << 10, name
    assert result["minor_faults"] > 0


def test_warming_does_not_count(launch: Launch) -> None:
    done, result = launch("--warm-mib", "200", "--", "/bin/true")
    assert done.returncode == 0 and done.stderr == ""
    assert result["max_rss_kib"] < 10 << 10 and result["minor_faults"] < 5000


def test_times_are_the_childs(launch: Launch) -> None:
    """User time of a busy child, none of an idle one; wall covers both."""
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    _, result = launch("--", sys.executable, "-c", busy)
    assert result["user_s"] + result["sys_s"] >= 0.3
    assert result["wall_s"] >= 0.3
    _, result = launch("--", "sleep", "0.3")
    assert result["wall_s"] >= 0.3 > result["user_s"] + result["sys_s"]


def test_preloaded_library_is_proved(launch: Launch, floor: Path) -> None:
    words = ("--env", f"LD_PRELOAD={floor}", "--expect-mapped", floor, "--", "/bin/true")
    done, result = launch(*words)
    assert done.returncode == 0
    assert result["is_expected_mapped"] is True and result["expected"] == str(floor)
    assert str(floor) in result["mapped"]
    assert any("libc.so" in path for path in result["mapped"])


def test_proof_follows_symbolic_links(launch: Launch, floor: Path, tmp_path: Path) -> None:
    link = tmp_path / "liblink.so"
    link.symlink_to(floor)
    words = ("--env", f"LD_PRELOAD={link}", "--expect-mapped", link, "--", "/bin/true")
    done, result = launch(*words)
    assert done.returncode == 0 and result["is_expected_mapped"] is True


def test_proof_is_of_the_last_image(launch: Launch, floor: Path) -> None:
    """env executes the real command, which is the process that counts."""
    command = ("--", "env", f"LD_PRELOAD={floor}", "/bin/true")
    done, result = launch("--expect-mapped", floor, *command)
    assert done.returncode == 0 and result["is_expected_mapped"] is True


@each_row("status", [0, 3])
def test_library_that_is_not_mapped_is_a_failure(launch: Launch, floor: Path, status: int) -> None:
    done, result = launch("--expect-mapped", floor, "--", "sh", "-c", f"exit {status}")
    assert done.returncode == 125
    assert "not mapped" in done.stderr
    assert result["is_expected_mapped"] is False and result["exit_status"] == status


def test_static_program_is_found_out(launch: Launch, floor: Path, tmp_path: Path) -> None:
    """It ignores LD_PRELOAD without a word: the reason why there is a proof at all."""
    source, program = tmp_path / "static.c", tmp_path / "static"
    source.write_text("int main(void) { return 0; }\n")
    built = run_captured(["gcc", "-static", source, "-o", program])
    assert built.returncode == 0, built.stderr
    words = ("--env", f"LD_PRELOAD={floor}", "--expect-mapped", floor, "--", program)
    done, result = launch(*words)
    assert done.returncode == 125
    assert result["exit_status"] == 0 and result["is_expected_mapped"] is False
    assert result["mapped"] == [str(program)]


def forbid_ptrace() -> None:
    """For preexec_fn: from here on, ptrace fails with EPERM in this process and its children."""
    load, equal, give_back = 0x20, 0x15, 0x06  # BPF: LD|W|ABS, JMP|JEQ|K, RET|K
    number = {"x86_64": 101, "aarch64": 117}[os.uname().machine]
    program = struct.pack("HBBI", load, 0, 0, 0) + struct.pack("HBBI", equal, 0, 1, number)
    program += struct.pack("HBBI", give_back, 0, 0, 0x00050000 | 1)
    program += struct.pack("HBBI", give_back, 0, 0, 0x7FFF0000)
    code = ctypes.create_string_buffer(program)
    filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(code)))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, filter_, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def test_proof_without_ptrace(launch: Launch, floor: Path) -> None:
    words = ("--env", f"LD_PRELOAD={floor}", "--expect-mapped", floor, "--", "sleep", "0.5")
    done, result = launch(*words, preexec_fn=forbid_ptrace)
    assert done.returncode == 0, done.stderr
    assert result["is_expected_mapped"] is True
    assert result["peak_rss_kib"] is None and result["max_rss_kib"] > 0

    done, result = launch("--expect-mapped", floor, "--", "sleep", "0.1", preexec_fn=forbid_ptrace)
    assert done.returncode == 125 and result["is_expected_mapped"] is False


def test_samples_show_the_rise(launch: Launch) -> None:
    script = "import time; time.sleep(0.3); block = bytearray(b'x') * (100 << 20); time.sleep(0.3)"
    _, result = launch("--samples", "5", "--", sys.executable, "-c", script)
    times = [sample[0] for sample in result["samples"]]
    sizes = [sample[1] for sample in result["samples"]]
    assert len(times) >= 2 and times == sorted(times)
    assert min(sizes) < 60 << 10 and max(sizes) >= 100 << 10
    _, result = launch("--", "true")
    assert result["samples"] == []


@pytest.mark.slow
def test_samples_are_bounded(launch: Launch) -> None:
    _, result = launch("--samples", "1", "--", "sleep", "5.5", timeout=120)
    times = [sample[0] for sample in result["samples"]]
    assert times == sorted(times)
    assert 100 < len(times) <= 4096


def test_signals_reach_the_command(launch: Launch) -> None:
    script = 'trap "exit 3" USR1; kill -USR1 $$; sleep 60'
    done, _ = launch("--", "sh", "-c", script)
    assert done.returncode == 3


def test_stop_and_continue(launch: Launch) -> None:
    """Job control works as without a launcher: the command remains stopped until it is
    continued."""
    script = """
        ( for i in $(seq 200); do
              state=$(cut -d' ' -f3 /proc/$$/stat)
              case $state in [Tt]) break ;; esac
              sleep 0.02
          done
          echo $state; kill -CONT $$ ) &
        kill -STOP $$
        wait
        exit 4"""
    done, _ = launch("--", "sh", "-c", script)
    assert done.returncode == 4
    assert done.stdout.lower() == "t\n"


def test_an_untraced_command_has_no_tracer(launcher: Path) -> None:
    """A set-user-ID program would lose its privileges below one. The peak is known all the same."""
    command = ["grep", "^TracerPid:\t0$", "/proc/self/status"]
    done = run_captured([launcher, "-o", "-", "--untraced", "--", *command])
    assert done.returncode == 0
    shown, _, report = done.stdout.partition("\n")
    assert shown == "TracerPid:\t0"
    found = json.loads(report)
    assert found["max_rss_kib"] > 0 and found["peak_rss_kib"] is None


def test_complaints_begin_with_the_name_that_the_caller_gave(launcher: Path) -> None:
    done = run_captured(["poolshim explain", "--", "/no/such"], executable=launcher)
    assert done.returncode == 127
    assert done.stderr == "poolshim explain: /no/such: No such file or directory\n"


def test_command_dies_with_the_launcher(launcher: Path) -> None:
    command = [launcher, "--", "sh", "-c", "echo $$; exec sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
    for _ in range(1000):
        if not Path(f"/proc/{child}").exists() or is_zombie(child):
            return
        time.sleep(0.01)
    pytest.fail("the command outlived its launcher")


def is_zombie(pid: int) -> bool:
    """A dead process that nobody has waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_samples_of_a_family_have_its_descendants(launch: Launch) -> None:
    """Also those that a thread other than the first has started; pages of a fork count once."""
    script = (
        "import os, subprocess, sys, threading, time\n"
        "block = b'x' * (64 << 20)\n"
        "def start():\n"
        "    global child\n"
        "    work = \"b = b'y' * (48 << 20); import time; time.sleep(0.6)\"\n"
        "    child = subprocess.Popen([sys.executable, '-c', work])\n"
        "thread = threading.Thread(target=start)\n"
        "thread.start(); thread.join()\n"
        "if os.fork() == 0: time.sleep(0.6); os._exit(0)\n"
        "child.wait(); os.wait()\n"
    )
    _, alone = launch("--samples", "5", "--", sys.executable, "-c", script)
    _, family = launch("--samples", "5", "--family", "--", sys.executable, "-c", script)
    highest = [max(sample[1] for sample in result["samples"]) >> 10 for result in (alone, family)]
    assert 64 <= highest[0] < 64 + 40
    assert 64 + 48 <= highest[1] < 64 + 48 + 60


def test_the_start_is_on_the_clock_of_all(launch: Launch) -> None:
    before = time.monotonic_ns()
    _, result = launch("--", "true")
    assert before < result["start_ns"] < time.monotonic_ns()
