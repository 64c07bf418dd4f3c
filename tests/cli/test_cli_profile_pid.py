# SPDX-License-Identifier: MIT
"""`poolshim profile --pid`: the call sites of a process in which nothing was set beforehand.

    scripts/test tests/cli/test_cli_profile_pid.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SLOWNESS, run_captured
from running import Start, spawn
from running import program as busy_program
from sampling import (
    INTERVAL,
    Sample,
    await_that,
    complaint,
    end,
    poolshim,
    program,
    sample,
    target_of,
    work,
)
from table import each_row
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import pprof  # noqa: E402
from poolshim_cli.profile import live  # noqa: E402

__all__ = ["busy_program", "program", "sample", "spawn"]

pytestmark = pytest.mark.preload

ROUND = {"keep_small": 8000 * 1024, "churn_small": 40000 * 3072, "keep_large": 5 * 2000000}
LIVE = {"keep_small", "keep_large"}
SIGMAS = 5


def check(path: Path, factor: int, interval: int = INTERVAL) -> pprof.Profile:
    """The file has the allocations of the time of sampling."""
    profile = pprof.read(path)
    types = [name for name, _ in profile.types]
    assert types == ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "pinned_space"]
    made, kept = dict.fromkeys(ROUND, 0), dict.fromkeys(ROUND, 0)
    for one in profile.samples:
        names = [name for location in one.locations for name in location.names]
        assert "before" not in names
        site = next((name for name in names if name in ROUND), None)
        if site is not None:
            made[site] += one.values[1]
            kept[site] += one.values[3]
    for site, nbytes in ROUND.items():
        bound = SIGMAS * (nbytes * factor * interval) ** 0.5
        expected = nbytes * factor if site in LIVE else 0
        if site == "keep_large":
            bound = nbytes * factor * 0.02  # blocks are whole pages, and all are sampled
        assert made[site] == pytest.approx(nbytes * factor, abs=bound), site
        assert kept[site] == pytest.approx(expected, abs=bound), site
    return profile


@each_row("threads", [1, 4])
def test_known_sites(
    spawn: Start, sample: Sample, program: Path, tmp_path: Path, threads: int
) -> None:
    need("addr2line")
    process, path = spawn([program, str(threads)]), tmp_path / "h.pb.gz"
    work(process)
    command = sample(process, "-o", path)
    for _ in range(3):
        work(process)
    done = end(command)
    assert (done.returncode, done.stderr) == (0, "")
    profile = check(path, 3 * threads)
    assert profile.period == INTERVAL and profile.duration_nanos > 0
    head = done.stdout.splitlines()[0]
    assert "live at the end" in head and "a sample every 16 KiB" in head
    assert "blocks allocated before are unknown" in done.stdout
    assert "note: interrupted after" in done.stdout


def test_pprof_reads_it(spawn: Start, sample: Sample, program: Path, tmp_path: Path) -> None:
    need("addr2line")
    go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
    if go is None:
        pytest.skip("go is not installed")
    process, path = spawn([program]), tmp_path / "h.pb.gz"
    command = sample(process, "-o", path, "--flame", tmp_path / "h.html", "--json")
    work(process)
    done = end(command)
    found = json.loads(done.stdout)
    assert found["pid"] == process.pid and found["program"] == "sites" and found["kind"] == "inuse"
    assert {row["name"] for row in found["sites"]} == LIVE
    assert "keep_large" in (tmp_path / "h.html").read_text()
    process.kill()  # names are in the file
    process.wait()
    program_path = str(tmp_path / "none")
    # Go builds the tool when it is first used.
    top = run_captured([go, "tool", "pprof", "-top", "-sample_index=alloc_space", path], 240,
                       env={**os.environ, "PPROF_BINARY_PATH": program_path})  # fmt: skip
    assert top.returncode == 0, top.stderr
    assert "churn_small" in top.stdout and "Type: alloc_space" in top.stdout
    again = poolshim("--read", path, "--alloc")
    assert "churn_small" in again.stdout and "allocated in " in again.stdout


def test_two_at_once_and_one_that_is_killed(
    spawn: Start, sample: Sample, program: Path, tmp_path: Path
) -> None:
    need("addr2line")
    process = spawn([program])
    first, second = tmp_path / "1.pb.gz", tmp_path / "2.pb.gz"
    one = sample(process, "-o", first)
    work(process)
    two = sample(process, "-o", second, interval=INTERVAL // 2)
    three = sample(process, interval=8 * INTERVAL)
    while_both = 2
    for _ in range(while_both):
        work(process)
    three.kill()
    three.wait()
    assert end(two).returncode == 0
    check(second, while_both, INTERVAL // 2)
    target = target_of(process)
    before = target.number("set.sample-beat")
    await_that(lambda: target.number("set.sample-beat") >= before + 2)
    assert target.is_sampled()
    done = end(one)
    assert done.returncode == 0
    assert "another command has set the interval: 8 KiB" in done.stdout
    assert pprof.read(first).total("inuse_space") > 3 * ROUND["keep_large"]


def test_sampling_ends_after_a_killed_command(
    spawn: Start, sample: Sample, program: Path
) -> None:
    process = spawn([program])
    command = sample(process)
    command.kill()
    command.wait()
    target = target_of(process)

    def is_over() -> bool:
        work(process, "t")
        return target.number("demand") == 0

    await_that(is_over)


def test_a_process_that_is_killed(
    spawn: Start, sample: Sample, program: Path, tmp_path: Path
) -> None:
    process, path = spawn([program]), tmp_path / "h.pb.gz"
    command = sample(process, "-o", path)
    process.kill()
    output, errors = command.communicate(timeout=60 * SLOWNESS)
    done = subprocess.CompletedProcess([], command.returncode, output, errors)
    assert complaint(done, 1).startswith(f"process {process.pid} ended after ")
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_runs_another_program(
    spawn: Start, sample: Sample, tmp_path: Path
) -> None:
    script = tmp_path / "again.py"
    script.write_text(
        "import os, sys\nprint(1, flush=True)\n"
        "for line in iter(lambda: sys.stdin.read(1), 'e'):\n"
        "    blocks = [bytearray(i) for i in range(5000)]\n    print(2, flush=True)\n"
        "os.execv('/bin/sleep', ['sleep', '1000'])\n"
    )
    process = spawn([sys.executable, "-S", script])
    command = sample(process)
    assert process.stdin is not None
    process.stdin.write("e")
    process.stdin.flush()
    output, errors = command.communicate(timeout=60 * SLOWNESS)
    done = subprocess.CompletedProcess([], command.returncode, output, errors)
    assert complaint(done, 1).startswith(f"process {process.pid} runs another program after ")


def test_a_profile_of_its_own_keeps_its_interval(
    spawn: Start, sample: Sample, program: Path, tmp_path: Path
) -> None:
    need("addr2line")
    process = spawn([program], POOLSHIM_PROFILE=str(tmp_path / "own.pb.gz"),
                    POOLSHIM_PROFILE_INTERVAL="32KiB")  # fmt: skip
    command = sample(process, "-o", tmp_path / "h.pb.gz")
    work(process)
    done = end(command)
    assert "POOLSHIM_PROFILE has set the interval: 32 KiB" in done.stdout
    check(tmp_path / "h.pb.gz", 1, 32 << 10)


@pytest.fixture
def one_processor() -> Iterator[None]:
    """For the test and its processes: the program does not run while its table is read."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("one_processor")
@each_row("threads", [1, 8])
def test_what_is_read_is_one_moment(spawn: Start, busy_program: Path, threads: int) -> None:
    """Sums over the live samples agree with the library's own, while threads work."""
    process = spawn([busy_program, "load", str(threads)])
    target = target_of(process)
    one = target.layout.offset("weight.one")
    settled = with_samples = 0
    target.ask(4096)
    await_that(lambda: bool(target.samples.read().live))  # the program has not worked before
    for turn in range(60):
        if turn % 10 == 0:
            target.ask(4096)
        await_that(target.is_sampled)
        found = target.samples.read()
        settled += found.is_settled
        with_samples += bool(found.live)
        total = sum(live.weighted(each.weight, each.nbytes, one) for each in found.live)
        if found.is_settled:
            assert total == found.live_bytes
    assert settled > 30 and with_samples > 30


@pytest.mark.root
def test_names_come_from_the_processs_own_files(
    spawn: Start, sample: Sample, program: Path, shim: Path, tmp_path: Path
) -> None:
    """The case of a container, whose paths lead elsewhere here."""
    need("addr2line", "unshare", "mount")
    inside = tmp_path / "inside"
    inside.mkdir()
    script = (
        f"mount -t tmpfs none {inside} && cp {program} {inside}/program && "
        f"cp {shim.resolve()} {inside}/libpoolshim.so && "
        f"LD_PRELOAD={inside}/libpoolshim.so exec {inside}/program"
    )
    if run_captured(["unshare", "-m", "true"]).returncode != 0:
        pytest.skip("no mount namespaces")
    process = spawn(["unshare", "-m", "sh", "-c", script], False)
    assert not (inside / "program").exists()
    path = tmp_path / "h.pb.gz"
    command = sample(process, "-o", path)
    work(process)
    done = end(command)
    assert done.returncode == 0, done.stderr
    profile = check(path, 1)
    assert profile.mappings[0].path == f"{inside}/program" and profile.mappings[0].build_id
