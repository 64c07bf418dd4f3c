# SPDX-License-Identifier: MIT
"""Runs one threaded program under one allocator: its load, three seconds of rest, its end.

The program runs under the launcher, which samples the memory of it and its descendants and proves
that the library was mapped; the load runs outside, without the library. CPU time is that of the
whole run.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolshim_cli.allocators import Allocator
from poolshim_cli.compare import processes
from poolshim_cli.errors import RunFailed
from poolshim_cli.launcher import (
    Launch,
    check_exit,
    check_mapping,
    clean_environment,
    first_line,
    parse_report,
)
from poolshim_cli.places import REPOSITORY, of_build

from .programs import LIBC
from .server_cases import Server
from .server_figures import REST_MS, Course, ServerRun, at_rest, mean_between

FOLDER = REPOSITORY / "bench" / "servers"
SAMPLE_MS = 20
# After the rest, so that its last samples are taken.
MARGIN_S = 0.2
POLL_S = 0.01


@dataclass
class Started:
    """The launcher with the program under it, and what the program has written."""

    process: subprocess.Popen[str]
    lines: queue.Queue[tuple[float, str]]
    errors: Path

    @property
    def said(self) -> str:
        return self.errors.read_text(errors="replace")


class ServerRunner:
    """Starts measured programs, one at a time."""

    def __init__(
        self, build_dir: Path, libraries: Iterable[Path], timeout_s: float, scale: float,
        shared: Path, rest_ms: float = REST_MS,
    ) -> None:  # fmt: skip
        """`shared` is a folder that exists and outlives this."""
        self.build_dir, self.launcher = build_dir, of_build(build_dir).launcher
        self.libraries = set(libraries)
        self.timeout_s, self.scale, self.shared, self.rest_ms = timeout_s, scale, shared, rest_ms
        self.prepared: set[str] = set()

    def fill(self, server: Server, words: Iterable[str], folder: Path | None) -> list[str]:
        """Without braces."""
        values = {
            "folder": str(FOLDER), "build": str(self.build_dir / "bench"),
            "shared": str(self.shared / server.name), "dir": str(folder),
            "work": str(max(1, round(server.work * self.scale))), "user": getpass.getuser(),
        }  # fmt: skip
        filled = []
        for word in words:
            for name, value in values.items():
                word = word.replace("{" + name + "}", value)
            filled.append(word)
        return filled

    def call(self, words: list[str], what: str) -> None:
        """A command beside the measured program; RunFailed with its last words."""
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                errors="replace", timeout=self.timeout_s, env=clean_environment(),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{what}: no end after {self.timeout_s:.0f} s") from None
        except OSError as error:
            raise RunFailed(f"{what}: {words[0]}: {error.strerror}") from None
        if done.returncode != 0:
            said = first_line(done.stderr.strip() or done.stdout.strip())
            raise RunFailed(f"{what}: exit status {done.returncode}: {said}")

    def prepare(self, server: Server, folder: Path) -> None:
        """What comes before the first run, and before each."""
        if server.once and server.name not in self.prepared:
            (self.shared / server.name).mkdir(exist_ok=True)
            self.call(self.fill(server, server.once, None), "once")
            self.prepared.add(server.name)
        if server.before:
            self.call(self.fill(server, server.before, folder), "before")

    def launch(self, server: Server, allocator: Allocator, folder: Path) -> Launch:
        env = {**server.env, **allocator.env}
        if allocator.library is None and server.links is not None:
            env["LD_PRELOAD"] = LIBC
        command = tuple(self.fill(server, server.command, folder))
        return Launch(command, allocator.library, env, SAMPLE_MS, is_family=True)

    @contextlib.contextmanager
    def start(self, launch: Launch, folder: Path) -> Iterator[Started]:
        """The program, started in the folder; it has ended afterwards."""
        errors = folder / "stderr"
        with errors.open("w") as file, processes.confined():
            process = processes.start(
                launch.words(self.launcher, folder / "report.json"), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=file, text=True, errors="replace", cwd=folder,
                env=clean_environment(),
            )  # fmt: skip
            started = Started(process, queue.Queue(), errors)  # type: ignore[arg-type]
            reader = threading.Thread(target=read_lines, args=(started,), daemon=True)
            reader.start()
            try:
                yield started
            finally:
                process.kill()
                process.wait()

    def wait_until_ended(self, server: Server, started: Started) -> float:
        """Seconds on the clock when the line came that says so."""
        until = time.monotonic() + self.timeout_s
        while (left := until - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                at, line = started.lines.get(timeout=min(left, 0.1))
                if line.startswith(server.ended):
                    return at
                continue
            if started.process.poll() is not None and started.lines.empty():
                raise RunFailed(f"it ended before its load: {first_line(started.said)}")
        raise RunFailed(f"no end of its load after {self.timeout_s:.0f} s")

    def wait_until_ready(self, path: str, started: Started) -> None:
        until = time.monotonic() + self.timeout_s
        while not accepts(path):
            if started.process.poll() is not None:
                raise RunFailed(f"it ended before it was ready: {first_line(started.said)}")
            if time.monotonic() > until:
                raise RunFailed(f"it was not ready after {self.timeout_s:.0f} s")
            time.sleep(POLL_S)

    def load(self, server: Server, started: Started, folder: Path) -> tuple[float | None, float]:
        """When the load began (None: with the program) and ended, seconds on the clock."""
        if server.ready is None:
            return None, self.wait_until_ended(server, started)
        (path,) = self.fill(server, [server.ready], folder)
        self.wait_until_ready(path, started)
        begin = time.monotonic()
        for words in server.load:
            self.call(self.fill(server, words, folder), "load")
        return begin, time.monotonic()

    def stop(self, server: Server, started: Started) -> None:
        """A server is stopped by SIGTERM, the others by the end of their input."""
        assert started.process.stdin is not None
        with contextlib.suppress(OSError):
            started.process.stdin.close()
        family = processes.read_family() if server.ready is not None else {}
        for pid in [pid for pid, (parent, _) in family.items() if parent == started.process.pid]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        try:
            started.process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"it did not end within {self.timeout_s:.0f} s") from None

    def run(self, server: Server, allocator: Allocator, number: int) -> tuple[ServerRun, Course]:
        """One run and its memory over time; RunFailed with one line if it was no valid one."""
        with tempfile.TemporaryDirectory(prefix="poolshim-servers-") as name:
            folder = Path(name)
            self.prepare(server, folder)
            with self.start(self.launch(server, allocator, folder), folder) as started:
                begin, ended = self.load(server, started, folder)
                time.sleep(self.rest_ms / 1000 + MARGIN_S)
                self.stop(server, started)
                done = subprocess.CompletedProcess([], started.process.returncode, "", started.said)
            text = (folder / "report.json").read_text() if (folder / "report.json").exists() else ""
        report = parse_report(text, done)
        check_exit(report, done.stderr)
        report["mapped"] = [path for path in report["mapped"]
                            if server.links is None or Path(path).name != server.links]  # fmt: skip
        check_mapping(report, allocator.library, self.libraries, done.stderr)
        start_s = report["start_ns"] / 1e9
        begin_ms = 0.0 if begin is None else (begin - start_s) * 1e3
        return measured(report, allocator.name, number, begin_ms, (ended - start_s) * 1e3,
                        self.rest_ms)  # fmt: skip


def measured(
    report: dict[str, Any], allocator: str, number: int, begin_ms: float, ended_ms: float,
    rest_ms: float,
) -> tuple[ServerRun, Course]:  # fmt: skip
    """The figures of the launcher's report, and the samples up to the end of the rest."""
    course = [(at, kib) for at, kib in report["samples"] if at <= ended_ms + rest_ms]
    peak = max([kib for _, kib in course] + [float(report["peak_rss_kib"] or 0)])
    cpu = report["user_s"] + report["sys_s"]
    run = ServerRun(
        allocator, number, cpu, mean_between(course, begin_ms, ended_ms), peak,
        at_rest(course, ended_ms, rest_ms), ended_ms - begin_ms, begin_ms, ended_ms,
    )  # fmt: skip
    return run, course


def read_lines(started: Started) -> None:
    """Notes every line of standard output and when it came."""
    assert started.process.stdout is not None
    for line in started.process.stdout:
        started.lines.put((time.monotonic(), line))


def accepts(path: str) -> bool:
    """Whether a server listens on the Unix socket."""
    with socket.socket(socket.AF_UNIX) as one, contextlib.suppress(OSError):
        one.connect(path)
        return True
    return False
