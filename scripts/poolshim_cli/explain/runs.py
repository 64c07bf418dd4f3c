# SPDX-License-Identifier: MIT
"""Runs the watched program: a command, a server under its load, or a process that runs already."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import control, places, preload
from ..compare.processes import descendants, read_family
from ..compare.server import cpu_s, fill, free_port, is_listening
from ..errors import CANNOT_EXECUTE, NOT_FOUND, BadRequest, Failed, OwnFailure
from ..launcher import clean_environment
from ..machine import HARNESS_PREFIXES
from .heap import Heap
from .watch import Watch

READY_S = 30.0
STOP_S = 10.0
COMPLAINANT = "poolshim explain"  # as which the launcher complains
FAILURES_MAX = 3  # looks in a row at which the process could not be read
FIRST_PAUSE_S = 0.01  # doubled after each sample, up to the pause that was asked for
OTHER_MODES = ("POOLSHIM_HARDEN", "POOLSHIM_GUARD_SAMPLE", "POOLSHIM_RECORD", "POOLSHIM_TRACE")


@dataclass(frozen=True)
class Serving:
    """A server, its load, and how long it is watched afterwards."""

    server: str
    load: str
    ready: str
    rest_s: float


def check_serving(server: str, load: str, ready: str) -> None:
    """What goes together on a command line."""
    if bool(server) != bool(load):
        raise BadRequest("--server and --load go together")
    if server and "{port}" not in server and not ready:
        raise BadRequest("--server without {port} needs --ready")
    if ready and not server:
        raise BadRequest("--ready goes with --server")


def environment(interval: str) -> dict[str, str]:
    """Our environment, with the library and its profile, which is read from memory only."""
    library = places.find().library
    if not library.exists():
        raise OwnFailure(f"{library}: build first")
    found = {
        name: value for name, value in os.environ.items() if not name.startswith(HARNESS_PREFIXES)
    }
    found["LD_PRELOAD"] = preload.with_first(library, found)
    found["POOLSHIM_PROFILE"] = "/dev/null"
    found["POOLSHIM_PROFILE_INTERVAL"] = interval
    for name in OTHER_MODES:
        found.pop(name, None)
    return found


def start(words: list[str], env: dict[str, str], **options: object) -> "subprocess.Popen[bytes]":
    """A command; one line where it cannot be started."""
    try:
        return subprocess.Popen(words, env=env, **options)  # type: ignore[call-overload]
    except FileNotFoundError:
        raise OwnFailure(f"{words[0]}: no such command", NOT_FOUND) from None
    except OSError as error:
        raise OwnFailure(f"{words[0]}: {error.strerror}", CANNOT_EXECUTE) from None


def launch(
    words: list[str], env: dict[str, str], result: str, complainant: str = COMPLAINANT
) -> "subprocess.Popen[bytes]":
    """The command below the launcher, a small program: the kernel counts the memory of whatever
    forks as the child's own, and this one is Python. The settings are for the command alone."""
    if shutil.which(words[0]) is None and not Path(words[0]).exists():
        raise OwnFailure(f"{words[0]}: no such command", NOT_FOUND)
    own = ("LD_PRELOAD", "POOLSHIM_")
    options = [word for name, value in env.items() if name.startswith(own)
               for word in ("--env", f"{name}={value}")]  # fmt: skip
    bare = {name: value for name, value in env.items() if not name.startswith(own)}
    program = places.find().launcher
    line = [complainant, "--untraced", "-o", result, *options, "--", *words]
    try:
        return subprocess.Popen(line, executable=program, env=bare)
    except OSError as error:
        raise OwnFailure(f"{program}: {error.strerror}: build first") from None


def peak_of(result: Path) -> int:
    """Bytes resident of the largest of the command and what it has waited for; 0: unknown."""
    try:
        return int(json.loads(result.read_text())["max_rss_kib"]) * 1024
    except (OSError, ValueError, KeyError):
        return 0  # it could not be started: the launcher has said why


def follow(watch: Watch, process: "subprocess.Popen[bytes]") -> None:
    """Samples until the process ends."""
    pause_s = FIRST_PAUSE_S
    while process.poll() is None:
        cost_s = watch.sample()
        wait_s = max(min(pause_s, watch.pause_s), watch.wait_s(cost_s) - watch.pause_s)
        pause_s *= 2
        pause(process, wait_s)


def pause(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Sleeps so long, or until the process ends."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def watch_command(words: list[str], interval: str, pause_s: float) -> tuple[Watch, int]:
    """Runs and watches a command; returns the watch and the exit status as a shell has it."""
    with tempfile.NamedTemporaryFile(prefix="poolshim-", suffix=".json") as result:
        process = launch(words, environment(interval), result.name)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the command's
        watch = Watch(starter=process.pid, pause_s=pause_s)
        try:
            follow(watch, process)
            status = process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
        watch.kernel_peak = peak_of(Path(result.name))
    return watch, status if status >= 0 else 128 - status


def watch_process(pid: int, seconds: float, pause_s: float, interval: int) -> Watch:
    """A process that runs. Refused before the first look, with the reason. Ctrl-C ends it early."""
    if not Path(f"/proc/{pid}").exists():
        raise control.gone(pid)
    control.find_page(pid)
    Heap(pid).memory.close()  # refuses another version
    watch = Watch(pid, pause_s, interval=interval)
    begin_s = time.monotonic()
    try:
        watch_until(watch, begin_s + seconds)
    except KeyboardInterrupt:
        took_s = time.monotonic() - begin_s
        watch.notes.append(f"interrupted after {took_s:.1f} of {seconds:g} s")
    broken = [book for book in watch.books.values() if book.demand and book.demand.is_broken]
    if broken:
        watch.notes.append("another command asked for other samples meanwhile, or this one was "
                           "held up: some call sites have too little")  # fmt: skip
    return watch


def watch_until(watch: Watch, until_s: float) -> None:
    """Samples until that time, or the end of the process. Reads a process anew after an exec."""
    failures = 0
    while time.monotonic() < until_s and failures < FAILURES_MAX:
        if not is_alive(watch.root):
            watch.has_ended = True
            return
        count = len(watch.moments)
        cost_s = watch.sample()
        failures = failures + 1 if len(watch.moments) == count else 0
        watch.rest(min(watch.wait_s(cost_s), until_s - time.monotonic()))
    watch.has_ended = not is_alive(watch.root)


def is_alive(pid: int) -> bool:
    """Also not where its parent has not noticed its end yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def split(name: str, text: str, words: dict[str, str]) -> list[str]:
    """A command of an option."""
    try:
        found = fill(text, words)
    except ValueError as error:
        raise BadRequest(f"{name}: {error}") from None
    if not found:
        raise BadRequest(f"{name}: it is empty")
    return found


@contextlib.contextmanager
def stopped(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """SIGTERM at the end, later SIGKILL."""
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_S)


def wait_until_ready(
    serving: Serving, words: dict[str, str], process: "subprocess.Popen[bytes]"
) -> None:
    """Polls until the server is ready, by the user's command or by its port."""
    until_s = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < until_s:
        if serving.ready:
            check = split("--ready", serving.ready, words)
            done = subprocess.run(
                check, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, env=clean_environment(),
            )  # fmt: skip
            is_ready = done.returncode == 0
        else:
            is_ready = is_listening(words["port"])
        if is_ready:
            return
        time.sleep(0.02)
    reason = "ended before it was ready" if process.poll() is not None else "was not ready in time"
    raise Failed(f"{shlex.split(serving.server)[0]}: the server {reason}")


@contextlib.contextmanager
def served(
    serving: Serving, env: dict[str, str]
) -> Iterator[tuple["subprocess.Popen[bytes]", list[str]]]:
    """The server, ready, and the words of its load. It is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="poolshim-") as folder:
        words = {"port": str(free_port()), "dir": folder}
        command = split("--server", serving.server, words)
        load_words = split("--load", serving.load, words)
        with (Path(folder) / "server.log").open("wb") as out:
            server = start(command, env, stdin=subprocess.DEVNULL, stdout=out,
                           stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        with stopped(server):
            wait_until_ready(serving, words, server)
            yield server, load_words


def put_load(
    serving: Serving, server: "subprocess.Popen[bytes]", words: list[str],
    step: Callable[["subprocess.Popen[bytes]"], float],
) -> None:
    """Runs the load to its end; step looks at the server meanwhile, and says when to look again."""
    load = start(words, clean_environment(), stdin=subprocess.DEVNULL,
                 stdout=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    with stopped(load):
        while load.poll() is None and server.poll() is None:
            pause(load, step(server))
    if server.poll() is not None:
        raise Failed(f"{shlex.split(serving.server)[0]}: the server ended under its load")
    if load.returncode != 0:
        raise Failed(f"{words[0]}: the load ended with {load.returncode}")


def go_through(
    serving: Serving, env: dict[str, str], step: Callable[["subprocess.Popen[bytes]"], float]
) -> None:
    """A server under its load and for a while after it; step looks at it, and says for after how
    many seconds to look again."""
    with served(serving, env) as (server, load_words):
        put_load(serving, server, load_words, step)
        until_s = time.monotonic() + serving.rest_s
        while server.poll() is None and (left_s := until_s - time.monotonic()) > 0:
            pause(server, min(left_s, step(server)))


def watch_server(serving: Serving, interval: str, pause_s: float) -> Watch:
    """Watches a server from the moment that it is ready to a while after the end of its load."""
    watches: list[Watch] = []

    def step(server: "subprocess.Popen[bytes]") -> float:
        if not watches:
            watches.append(Watch(server.pid, pause_s))
        return watches[0].wait_s(watches[0].sample())

    try:
        go_through(serving, environment(interval), step)
    except KeyboardInterrupt:
        if not watches:
            raise
        watches[0].notes.append("interrupted: the load or the rest after it is not complete")
    return watches[0]


def sample_server(
    serving: Serving, settings: dict[str, str], pause_s: float
) -> tuple[list[tuple[float, float]], float]:
    """Times and resident bytes of a server's processes without a profile, and their CPU seconds."""
    env = environment("")
    for name in ("POOLSHIM_PROFILE", "POOLSHIM_PROFILE_INTERVAL"):
        env.pop(name)
    samples: list[tuple[float, float]] = []
    used_s = [0.0]
    start_s = time.monotonic()

    def step(server: "subprocess.Popen[bytes]") -> float:
        family = read_family()
        pids = {server.pid} | {pid for pid in descendants(server.pid, family)}
        samples.append((time.monotonic() - start_s, float(sum(map(resident_bytes, pids)))))
        used_s[0] = max(used_s[0], cpu_s(pids))
        return pause_s

    go_through(serving, {**env, **settings}, step)
    return samples, used_s[0]


def resident_bytes(pid: int) -> int:
    """Resident bytes of one process; 0 where it has ended."""
    with contextlib.suppress(OSError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")
    return 0
