# SPDX-License-Identifier: MIT
"""`poolshim profile --pid`: the call sites of a process in which nothing was set beforehand.

    scripts/test tests/cli/test_cli_profile_pid.py
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SLOWNESS, run_captured
from programs import compile_program
from running import MIB, POOLSHIM, SILENT, Start, run_as_nobody, spawn, start
from running import complaint as complaint_of
from running import program as busy_program
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import pprof  # noqa: E402
from poolshim_cli.live.memory import Memory  # noqa: E402
from poolshim_cli.profile import live  # noqa: E402

__all__ = ["busy_program", "spawn", "start"]

pytestmark = pytest.mark.preload

# Allocates before it is sampled; then, for each x of the input, known amounts in each thread, and
# for each t what makes it read the clock.
SITES = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#define SITE __attribute__((noinline)) static void
/* In the function that calls it; the compiler must not see what becomes of the block. */
#define TAKE(bytes) void *block = malloc(bytes); __asm__ volatile("" : "+r"(block) : : "memory")
SITE before(void) { TAKE(1000); }
SITE turn(void) { TAKE(100000); free(block); __asm__ volatile(""); }
SITE keep_small(void) { TAKE(1000); }
SITE churn_small(void) { TAKE(3000); free(block); __asm__ volatile(""); }
SITE keep_large(void) { TAKE(2000000); }
static int count;
static pthread_barrier_t barrier;
static void *work(void *first) {
    char c;
    for (;;) {
        if (first != NULL && read(0, &c, 1) <= 0) {
            _exit(0);
        }
        if (first != NULL && c == 't') {
            for (int i = 0; i < 100; i++) {
                turn();
            }
            write(1, "2\n", 2);
            continue;
        }
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < 8000; i++) {
            keep_small();
            for (int j = 0; j < 5; j++) {
                churn_small();
            }
        }
        for (int i = 0; i < 5; i++) {
            keep_large();
        }
        pthread_barrier_wait(&barrier);
        if (first != NULL) {
            write(1, "2\n", 2);
        }
    }
    return NULL;
}
int main(int argc, char **words) {
    pthread_t thread;
    count = argc > 1 ? atoi(words[1]) : 1;
    for (int i = 0; i < 50000; i++) {
        before();
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (int i = 1; i < count; i++) {
        pthread_create(&thread, NULL, work, NULL);
    }
    write(1, "1\n", 2);
    work(&count);
}
"""
ROUND = {"keep_small": 8000 * 1024, "churn_small": 40000 * 3072, "keep_large": 5 * 2000000}
LIVE = {"keep_small", "keep_large"}
INTERVAL = 16 << 10
SIGMAS = 5

Sample = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SITES."""
    return compile_program(tmp_path_factory.mktemp("sites"), "sites", SITES, "-O1", "-pthread",
                           "-Wno-unused-result")  # fmt: skip


def poolshim(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run_captured([POOLSHIM, "profile", *words])


def complaint(done: subprocess.CompletedProcess[str], status: int) -> str:
    return complaint_of(done, "profile", status)


def work(process: subprocess.Popen[str], what: str = "x") -> None:
    """One round."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(what)
    process.stdin.flush()
    assert process.stdout.readline() == "2\n"


def await_that(is_so: Callable[[], bool]) -> None:
    """Something that another process is about to do."""
    end = time.monotonic() + 30 * SLOWNESS
    while not is_so():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def target_of(process: subprocess.Popen[str]) -> live.Target:
    return live.Target(Memory(process.pid))


@pytest.fixture
def sample() -> Iterator[Sample]:
    """Starts the command on a process that works, and returns when what follows is sampled."""
    running: list[subprocess.Popen[str]] = []

    def begin(
        process: subprocess.Popen[str], *words: str | Path, interval: int = INTERVAL
    ) -> subprocess.Popen[str]:
        target = target_of(process)
        before = target.number("set.sample-beat")
        command = subprocess.Popen(
            [POOLSHIM, "profile", "--pid", str(process.pid), "--seconds", "600", *words,
             "--interval", str(interval)],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        running.append(command)
        await_that(lambda: target.number("set.sample-beat") != before)
        while not target.is_sampled():
            work(process, "t")
        # One beat may have been due, one follows the beginning, and then the table was read.
        before = target.number("set.sample-beat")
        await_that(lambda: target.number("set.sample-beat") >= before + 3)
        assert command.poll() is None
        return command

    yield begin
    for command in running:
        command.kill()
        command.communicate()


def end(command: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """By Ctrl-C."""
    command.send_signal(signal.SIGINT)
    output, errors = command.communicate(timeout=60 * SLOWNESS)
    return subprocess.CompletedProcess(command.args, command.returncode, output, errors)


def check(path: Path, factor: int, interval: int = INTERVAL) -> pprof.Profile:
    """The file has what was allocated while it was sampled."""
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


@pytest.mark.parametrize("threads", [1, 4])
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
    top = run_captured([go, "tool", "pprof", "-top", "-sample_index=alloc_space", path],
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


@pytest.mark.parametrize("threads", [1, 8])
def test_what_is_read_is_one_moment(spawn: Start, busy_program: Path, threads: int) -> None:
    """Sums over the live samples agree with the library's own, while threads work."""
    process = spawn([busy_program, "load", str(threads)])
    target = target_of(process)
    one = target.layout.offset("weight.one")
    settled = with_samples = 0
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
    """As of a container: paths lead elsewhere here."""
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


# ---- what cannot be sampled ----


def test_a_process_that_allocates_nothing(spawn: Start, program: Path) -> None:
    process = spawn([program])
    line = complaint(poolshim("--pid", str(process.pid), "--seconds", "0.3"), 1)
    assert line.startswith(f"process {process.pid} has allocated nothing in 0.3 s")


def test_another_mode(start: Start) -> None:
    process = start(SILENT, POOLSHIM_HARDEN="1")
    line = complaint(poolshim("--pid", str(process.pid)), 1)
    assert line.startswith(f"process {process.pid} cannot be sampled: it runs with POOLSHIM_HARDEN")


def test_a_process_without_poolshim(start: Start) -> None:
    pid = start(SILENT, preload=False).pid
    line = complaint(poolshim("--pid", str(pid)), 1)
    assert line == f"process {pid} does not run on poolshim\n"


@pytest.mark.root
def test_not_permitted(start: Start) -> None:
    pid = start(SILENT).pid
    assert "not permitted" in complaint(run_as_nobody("profile", "--pid", str(pid)), 126)


OTHER = """
const struct { char magic[16]; unsigned version, words[7]; } poolshim_layout = {
    "poolshim layout", %d, {328, 12, 99}};
"""


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_version(start: Start, tmp_path: Path, version: int) -> None:
    source, library = tmp_path / "other.c", tmp_path / "libpoolshim.so"
    source.write_text(OTHER % version)
    assert run_captured(["gcc", "-shared", "-fPIC", source, "-o", library]).returncode == 0
    pid = start(SILENT, preload=False, LD_PRELOAD=str(library)).pid
    line = complaint(poolshim("--pid", str(pid)), 1)
    assert line == (f"process {pid}: its libpoolshim.so has version {version} of the layout, this "
                    "command reads 1\n")  # fmt: skip


def test_an_older_library(start: Start, shim: Path, tmp_path: Path) -> None:
    library = tmp_path / "libpoolshim.so"
    data = shim.read_bytes()
    assert data.count(b"set.sample-beat\0") == 1
    library.write_bytes(data.replace(b"set.sample-beat\0", b"set.sample-bear\0"))
    pid = start(SILENT, preload=False, LD_PRELOAD=str(library)).pid
    line = complaint(poolshim("--pid", str(pid)), 1)
    assert line.endswith("is older than this command: it does not describe set.sample-beat\n")


def test_a_full_disk(spawn: Start, sample: Sample, program: Path) -> None:
    process = spawn([program])
    command = sample(process, "-o", "/dev/full")
    work(process)
    done = end(command)
    assert complaint(done, 125) == "/dev/full: No space left on device\n"


def test_a_half_written_file(
    spawn: Start, sample: Sample, program: Path, tmp_path: Path
) -> None:
    process, path = spawn([program]), tmp_path / "h.pb.gz"
    command = sample(process, "-o", path)
    work(process)
    assert end(command).returncode == 0
    whole = path.read_bytes()
    for length in (0, 1, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        line = complaint(poolshim("--read", path), 2)
        assert line.startswith(f"{path}: not a profile in pprof's format: ")


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["--pid", "x"], 2, "--pid: x is no number"),
        (["--pid", "0"], 2, "--pid: 0 is out of range"),
        (["--pid"], 2, "--pid needs a value"),
        (["--pid", "2147483646"], 127, "no process 2147483646"),
        (["--pid", "1", "--seconds", "0"], 2, "--seconds: 0 is out of range"),
        (["--pid", "1", "--seconds", "x"], 2, "--seconds: x is no number"),
        (["--seconds", "3", "--", "true"], 2, "--seconds goes with --pid"),
        (["--pid", "1", "--interval", "x"], 2,
         "--interval: x is not a size such as 65536, 64K or 64KiB"),
        (["--pid", "1", "--interval", "0"], 2, "--interval: 0 is out of range"),
        (["--pid", "1", "--interval", "2048G"], 2, "--interval: 2048G is out of range"),
        (["--pid", "1", "true"], 2,
         "--pid samples a process that runs: no command, --read or --names"),
        (["--pid", "1", "--diff", "a", "b"], 2,
         "--diff reads profiles: no command, and no option about one"),
        (["--pid", "1", "-o", "/none/x"], 2, "/none/x: No such file or directory"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(words: list[str], status: int, line: str) -> None:
    assert complaint(poolshim(*words), status) == line + "\n"
