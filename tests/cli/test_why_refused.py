# SPDX-License-Identifier: MIT
"""What `poolshim why` cannot report on is one line and an exit status; what ends it early is not.

    scripts/test tests/cli/test_why_refused.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from planting import POOLSHIM, Plant, plant, planted  # noqa: F401
from running import complaint, run_as_nobody
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.live import containers, targets  # noqa: E402
from poolshim_cli.why import parts  # noqa: E402

pytestmark = pytest.mark.preload

NO_PROCESS = 4_194_300
ID = "0123456789ab"


@each_row("words, status, wanted", [
    ([], 2, "which process? poolshim why PID|NAME|CONTAINER"),
    (["1", "2"], 2, "one process or container at a time"),
    (["--seconds", "x", "1"], 2, "--seconds: x is no number"),
    (["--seconds", "-1", "1"], 2, "--seconds: -1 is out of range"),
    (["--nothing", "1"], 2, "no option --nothing"),
    (["--container", ID, "1"], 2, "one process or container at a time"),
    (["--container", ""], 2, "--container: the id of a container is missing"),
    (["--container", ID], 127, f"no container {ID} has a process here"),
    ([f"container:{ID}"], 127, f"no container {ID} has a process here"),
    (["container:"], 2, "PID: the id of a container is missing"),
    (["0"], 2, "0 is no process"),
    ([""], 2, "an empty word is no process"),
    ([str(NO_PROCESS)], 127, f"no process {NO_PROCESS}"),
    (["no-such-program"], 127, "no process and no container is called no-such-program"),
    (["/no/such/group"], 127, "no process and no container is called /no/such/group"),
    (["../../etc"], 127, "no process and no container is called ../../etc"),
    (["0123456789ab"], 127, "no process and no container is called 0123456789ab"),
])  # fmt: skip
def test_a_wrong_word(words: list[str], status: int, wanted: str) -> None:
    done = run_captured([POOLSHIM, "why", *words])
    assert complaint(done, "why", status) == f"{wanted}\n"


def test_several_processes_of_one_name(
    plant: Plant, tmp_path: Path, planted: Path  # noqa: F811
) -> None:
    program = tmp_path / "twice"
    program.write_bytes(planted.read_bytes())
    program.chmod(0o755)
    pids = [plant(command=[program, "live", "1"]) for _ in range(2)]
    done = run_captured([POOLSHIM, "why", "twice"])
    line = complaint(done, "why", 2)
    assert line.startswith("2 processes are called twice: "), line
    assert all(f"{pid} (twice)" in line for pid in pids)


def test_a_name_of_one_process(plant: Plant, tmp_path: Path, planted: Path) -> None:  # noqa: F811
    program = tmp_path / "only-one"
    program.write_bytes(planted.read_bytes())
    program.chmod(0o755)
    pid = plant(command=[program, "live", "1"])
    done = run_captured([POOLSHIM, "why", "--json", "--seconds", "0.2", "only-one"])
    assert json.loads(done.stdout)["pid"] == pid


def test_a_process_of_another_user() -> None:
    done = run_as_nobody("why", "--seconds", "0.2", str(os.getpid()))
    assert done.returncode == 126
    assert "not permitted" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_thread_of_the_kernel() -> None:
    pid = next((one for one in containers.all_pids() if targets.is_kernel_thread(one)), 0)
    if not pid:
        pytest.skip("none is visible")
    line = complaint(run_captured([POOLSHIM, "why", str(pid)]), "why", 1)
    assert "is a thread of the kernel" in line


def test_a_process_that_has_ended(plant: Plant) -> None:  # noqa: F811
    """A zombie has no memory any more."""
    pid = plant("live", "1")
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    complaint(run_captured([POOLSHIM, "why", str(pid)]), "why", 127)


def begun(pid: int, seconds: str) -> "subprocess.Popen[str]":
    """The command, once it has opened the process's memory."""
    command = subprocess.Popen(
        [POOLSHIM, "why", "--json", "--seconds", seconds, str(pid)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    wanted = f"/proc/{pid}/pagemap"
    while command.poll() is None:
        for one in Path(f"/proc/{command.pid}/fd").iterdir():
            try:
                if os.readlink(one) == wanted:
                    time.sleep(0.5)  # some looks
                    return command
            except OSError:
                continue
    raise AssertionError(command.communicate())


def test_an_end_while_it_is_watched(plant: Plant) -> None:  # noqa: F811
    pid = plant("live", "8")
    command = begun(pid, "600")
    os.kill(pid, signal.SIGKILL)
    output, errors = command.communicate(timeout=60)
    assert (command.returncode, errors) == (0, "")
    found = json.loads(output)
    assert "the process ended meanwhile" in found["notes"]
    assert found["parts"]["live"]["bytes"] > 7 << 20


def test_ctrl_c_reports_what_was_seen(plant: Plant) -> None:  # noqa: F811
    command = begun(plant("live", "8"), "600")
    os.killpg(command.pid, signal.SIGINT)
    output, errors = command.communicate(timeout=60)
    assert (command.returncode, errors) == (0, "")
    found = json.loads(output)
    assert any(note.startswith("interrupted after") for note in found["notes"])
    assert found["verdict"]["cause"] == "nothing"


@each_row("columns", ["40", "50", "80", "200"])
def test_lines_fit_the_terminal(plant: Plant, columns: str) -> None:  # noqa: F811
    pid = plant("tail", "8")
    env = {**os.environ, "COLUMNS": columns}
    done = run_captured([POOLSHIM, "why", "--seconds", "0.5", str(pid)], env=env)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= min(int(columns), 80)
    text = " ".join(done.stdout.split())
    assert "verdict: free memory that glibc's malloc retains" in text
    assert "next: start it as `poolshim run --background 1 -- planted ...`" in text


def test_only_the_verdict(plant: Plant) -> None:  # noqa: F811
    done = run_captured([POOLSHIM, "why", "-q", "--seconds", "0.5", str(plant("live", "8"))])
    heads = [line.partition(":")[0] for line in done.stdout.splitlines() if line[0] != " "]
    assert heads == ["verdict", "outlook", "next"]


def test_it_repeats(plant: Plant) -> None:  # noqa: F811
    """--watch, until the end of the process; a line of JSON for each report."""
    pid = plant("live", "4")
    command = subprocess.Popen(
        [POOLSHIM, "why", "--json", "--watch", "--seconds", "0.3", str(pid)], text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert command.stdout is not None
    found = [json.loads(command.stdout.readline()) for _ in range(2)]
    os.kill(pid, signal.SIGKILL)
    rest = command.communicate(timeout=60)[0]
    assert command.returncode == 0
    assert found[0]["looks"] < found[1]["looks"]
    assert "the process ended meanwhile" in rest


def test_a_kernel_without_rollups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums are those of smaps then."""
    true = parts.rollup_of(os.getpid())
    read = parts.files.read_proc

    def without(pid: int, name: str) -> bytes:
        if name == "smaps_rollup":
            raise FileNotFoundError
        return read(pid, name)

    monkeypatch.setattr(parts.files, "read_proc", without)
    found = parts.rollup_of(os.getpid())
    assert abs(found["rss"] - true["rss"]) < 1 << 20
    assert found["rss"] > 0
