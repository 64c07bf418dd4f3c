# SPDX-License-Identifier: MIT
"""How long a read of another process may last.

    rows = Call(read, pid).result(10.0)

Such a read may block in the kernel for as long as the process likes: on a page of its memory that
lies on a file system of its own, or whose faults it serves itself. No handled signal interrupts
it. So threads read where there are many processes, and the command abandons a thread that is
blocked. If a read by the main thread does not end, the command ends.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..errors import Failed

T = TypeVar("T")

BLOCKED_SECONDS = 30.0  # of one system call; one that reads 4 MiB from swap takes 10
LOOK_SECONDS = 0.25
LEFT_BEHIND_MAX = 32  # abandoned threads; then no new process is read
SLOW_CALL = "is blocked: it waits for memory that its owner does not deliver"


class Stuck(Failed):
    """A read that did not end in time, and the thread that is blocked in it."""

    def __init__(self, message: str, thread: threading.Thread) -> None:
        super().__init__(message)
        self.thread = thread


left_behind: list[threading.Thread] = []


def has_room() -> bool:
    """May another thread be abandoned?"""
    left_behind[:] = [thread for thread in left_behind if thread.is_alive()]
    return len(left_behind) < LEFT_BEHIND_MAX


class Call(Generic[T]):
    """A call that a thread of its own makes. used_seconds leaves out the time in which that thread
    had no processor: a busy machine is not the fault of the process that is read."""

    def __init__(self, function: Callable[..., T], *arguments: Any) -> None:
        self.results: list[T] = []
        self.failures: list[BaseException] = []
        self.used_seconds = 0.0
        self.start_s = time.monotonic()
        self.thread = threading.Thread(target=self.work, args=(function, arguments), daemon=True)
        self.thread.start()

    def work(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> None:
        """Runs in the thread."""
        try:
            self.results.append(function(*arguments))
        except BaseException as error:  # raised again by result
            self.failures.append(error)

    def result(self, seconds: float) -> T:
        """Stuck if it is not there in time."""
        delayed = 0.0
        while self.thread.is_alive() and self.used_seconds < seconds:
            self.thread.join(min(seconds - self.used_seconds, LOOK_SECONDS))
            if self.thread.is_alive():  # of one that has ended nothing is known
                delayed = max(delayed, delay_of(self.thread))
            self.used_seconds = time.monotonic() - self.start_s - delayed
        if self.results:
            return self.results[0]
        if self.failures:
            raise self.failures[0]
        left_behind.append(self.thread)
        raise Stuck(f"takes longer than {seconds:.1f} s", self.thread)


def delay_of(thread: threading.Thread) -> float:
    """Seconds that a thread has waited for a processor; 0 where that is unknown."""
    try:
        with open(f"/proc/self/task/{thread.native_id}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


# ---- the main thread ----


class Watchdog:
    """Ends the command when a system call of the main thread does not return."""

    def __init__(self) -> None:
        self.pid = 0
        self.since = 0.0  # 0: no call in progress
        self.thread: threading.Thread | None = None

    def look(self) -> None:
        """For ever."""
        while True:
            time.sleep(1.0)
            since = self.since
            if since and time.monotonic() - since > BLOCKED_SECONDS:
                self.give_up()

    def give_up(self) -> None:
        """One line. No cleaning up: that would block until the main thread ends."""
        line = f"poolshim: process {self.pid}: reading it {SLOW_CALL}\n"
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, line.encode())
        os._exit(Failed.status)

    def __enter__(self) -> None:
        if self.thread is None:
            self.thread = threading.Thread(target=self.look, daemon=True)
            self.thread.start()
        self.since = time.monotonic()

    def __exit__(self, *unused: object) -> None:
        self.since = 0.0


class Unwatched:
    """The guard of a thread that can be abandoned: none."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *unused: object) -> None:
        pass


watchdog, unwatched = Watchdog(), Unwatched()


def may_block(pid: int) -> Watchdog | Unwatched:
    """The guard of a system call that blocks until another process acts."""
    if threading.current_thread() is not threading.main_thread():
        return unwatched
    watchdog.pid = pid
    return watchdog
