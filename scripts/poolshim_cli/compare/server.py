# SPDX-License-Identifier: MIT
"""One run of a server: started under a column, loaded until the load ends, stopped.

The load is never preloaded; its time is the run's time. The server's CPU is read from its clocks
just before and after the load, all its processes together; its peak RSS is the launcher's, which
it runs under. It is stopped by SIGTERM, and killed when it continues.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import RunFailed
from ..launcher import Launch, clean_environment
from . import processes
from .plan import Column, Plan, ServerWork
from .results import Run
from .single import CannotStart, Single, Tools, check_library, last_line, read_json, run_single
from .single import no_report, thin, why

POLL_S = 0.01
CONNECT_S = 0.5
BARE = Column("load")


@dataclass
class Serving:
    """A server that runs."""

    process: "subprocess.Popen[bytes]"  # the launcher
    log: Path
    report: Path
    words: dict[str, str]  # values of {port} and {dir}

    @property
    def said(self) -> str:
        """What it wrote."""
        return self.log.read_text(errors="replace")

    def family(self) -> set[int]:
        """The server's processes: the launcher's descendants."""
        family = processes.read_family()
        return {p for p in processes.descendants(self.process.pid, family) if not family[p][1]}

    def first(self) -> int | None:
        """The server's own process."""
        family = processes.read_family()
        found = [pid for pid, (parent, _) in family.items() if parent == self.process.pid]
        return found[0] if found else None


def free_port() -> int:
    """A port without a listener at this moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def empty_folder(tools: Tools) -> Path:
    """{dir}. It is emptied by the next run, since a server that failed still writes there until
    processes.confined has ended."""
    folder = tools.folder / "server"
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    return folder


def fill(text: str, words: dict[str, str]) -> list[str]:
    """The words of a command with {port} and {dir} filled in; other braces remain."""
    filled = shlex.split(text)
    for name, value in words.items():
        filled = [word.replace("{" + name + "}", value) for word in filled]
    return filled


def cpu_s(pids: Collection[int]) -> float:
    """CPU time of the processes so far, from their own clocks: to the nanosecond, unlike stat."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid gives
    return total


def is_listening(port: str) -> bool:
    """Whether the port accepts a connection."""
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", int(port)), CONNECT_S).close()
        return True
    return False


def is_ready(work: ServerWork, serving: Serving) -> bool:
    """Is the server ready, by the user's command or by its port?"""
    if work.ready is None:
        return is_listening(serving.words["port"])
    words = fill(work.ready, serving.words)
    try:
        done = subprocess.run(
            words, cwd=work.cwd, env=clean_environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            timeout=work.ready_timeout_s, start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    except OSError as error:
        status = 127 if isinstance(error, FileNotFoundError) else 126
        raise CannotStart(f"--ready: {words[0]}: {error.strerror}", status) from None
    return done.returncode == 0


def wait_until_ready(work: ServerWork, serving: Serving, tools: Tools, single: Single) -> None:
    """RunFailed when it ends first, or takes too long."""
    until = time.monotonic() + work.ready_timeout_s
    while not is_ready(work, serving):
        if serving.process.poll() is not None:
            check_started(serving, single)
            raise RunFailed(
                "the server ended before it was ready (it must stay in the foreground)"
                + why(serving.said)
            )
        if time.monotonic() > until:
            raise RunFailed(
                f"the server was not ready within {work.ready_timeout_s:g} s{why(serving.said)}"
            )
        time.sleep(POLL_S)


def check_started(serving: Serving, single: Single) -> None:
    """Raises what the launcher has to say of a server that never was."""
    report = read_json(serving.report)
    if report is None:
        raise no_report(single, None, serving.said)
    check_library(report, single, serving.said)


def start(plan: Plan, single: Single, words: dict[str, str], tools: Tools) -> Serving:
    """Starts the server; processes.confined kills the processes of it that remain at the end."""
    report, log = Path(words["dir"]) / "report.json", Path(words["dir"]) / "server.log"
    launch = Launch(single.command, single.column.library, single.column.env, plan.curve_ms)
    with log.open("wb") as out:
        process = processes.start(
            launch.words(tools.launcher, report), stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, cwd=plan.work.cwd, env=clean_environment(),
        )  # fmt: skip
    return Serving(process, log, report, words)


def stop(work: ServerWork, serving: Serving) -> dict[str, Any]:
    """SIGTERM, later SIGKILL; the launcher's report of its whole life."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        pid = serving.first()
        if pid is not None:
            with contextlib.suppress(OSError):
                os.kill(pid, signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            serving.process.wait(work.stop_timeout_s)
            break
    report = read_json(serving.report)
    if report is None:
        raise RunFailed(f"the server could not be stopped{why(serving.said)}")
    return dict(report)


def run_server(
    plan: Plan, column: Column, others: Collection[Path], tools: Tools, at: tuple[int, int]
) -> tuple[Run, dict[str, Any]]:
    """One run: the load's time, the server's CPU and memory."""
    work = plan.work
    assert isinstance(work, ServerWork)
    words = {"port": str(free_port()), "dir": str(empty_folder(tools))}
    single = Single(tuple(fill(work.server, words)), column, others, work.cwd)
    load = Single(
        tuple(fill(work.load, words)), BARE, cwd=work.cwd, timeout_s=plan.timeout_s,
        ignore_failure=work.ignore_failure,
    )  # fmt: skip
    serving = start(plan, single, words, tools)
    wait_until_ready(work, serving, tools, single)
    before_s = cpu_s(serving.family())
    run = run_load(load, tools, at, serving)
    used_s = cpu_s(serving.family()) - before_s
    report = stop(work, serving)
    check_library(report, single, serving.said)
    said = last_line((tools.folder / "stdout").read_text(errors="replace"))
    peak_kib = max(report["peak_rss_kib"] or 0, report["max_rss_kib"])
    run = replace(
        run, cpu_s=round(max(used_s, 0.0), 6), peak_rss_kib=peak_kib,
        curve=thin(report["samples"]), output_sha256=None, output_bytes=None, load_said=said[:200],
    )  # fmt: skip
    return run, report


def run_load(load: Single, tools: Tools, at: tuple[int, int], serving: Serving) -> Run:
    """The load; a server that ends under it is named, rather than the load that noticed."""
    try:
        run, _ = run_single(load, tools, at)
    except RunFailed as failure:
        if serving.process.poll() is not None:
            raise RunFailed(f"the server ended under its load{why(serving.said)}") from None
        raise RunFailed(f"the load: {failure}") from None
    if serving.process.poll() is not None:
        raise RunFailed(f"the server ended under its load{why(serving.said)}")
    return run
