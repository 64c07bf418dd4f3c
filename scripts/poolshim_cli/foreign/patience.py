# SPDX-License-Identifier: MIT
"""How long a read of another process may last.

    rows = Call(read, pid).result(10.0)

The kernel may wait in such a read for as long as the process likes: for a page of its memory that
lies on a file system of its own, or whose faults it serves itself. No signal that is handled wakes
it. So reads of many processes are made by threads that can be left behind; a read by the main
thread that does not end ends the command.
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
LEFT_BEHIND_MAX = 32  # threads; then nothing that is new is read
SLOW_CALL = "is blocked: it waits for memory that its owner does not deliver"


class Stuck(Failed):
    """A read that did not end in time, and the thread that still waits."""

    def __init__(self, message: str, thread: threading.Thread) -> None:
        super().__init__(message)
        self.thread = thread


left_behind: list[threading.Thread] = []


def has_room() -> bool:
    """May another thread be left behind?"""
    left_behind[:] = [thread for thread in left_behind if thread.is_alive()]
    return len(left_behind) < LEFT_BEHIND_MAX


class Call(Generic[T]):
    """One, made by a thread of its own. It has taken used_seconds, without the time in which that
    thread waited for a processor: a busy machine is not the fault of what is read."""

    def __init__(self, function: Callable[..., T], *arguments: Any) -> None:
        self.results: list[T] = []
        self.failures: list[BaseException] = []
        self.used_seconds = 0.0
        self.start_s = time.monotonic()
        self.thread = threading.Thread(target=self.work, args=(function, arguments), daemon=True)
        self.thread.start()

    def work(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> None:
        """Of the thread."""
        try:
            self.results.append(function(*arguments))
        except BaseException as error:  # raised again by result
            self.failures.append(error)

    def result(self, seconds: float) -> T:
        """Stuck if it is not there in time."""
        delayed = 0.0
        while self.thread.is_alive() and self.used_seconds < seconds:
            self.thread.join(min(seconds - self.used_seconds, LOOK_SECONDS))
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
        """One line. No cleaning up: that would wait for the main thread."""
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
    """Of a thread that can be left behind."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *unused: object) -> None:
        pass


watchdog, unwatched = Watchdog(), Unwatched()


def may_block(pid: int) -> Watchdog | Unwatched:
    """Around a system call that waits for what another process does."""
    if threading.current_thread() is not threading.main_thread():
        return unwatched
    watchdog.pid = pid
    return watchdog
