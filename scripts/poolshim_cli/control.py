# SPDX-License-Identifier: MIT
"""Asks a running process on poolshim for something.

The other side of pools/engine/heap/background.h, which describes the protocol.

    with control.Process(1234) as process: process.ask(control.TRIM, 5.0)

The page is found in the memory of the process: as the symbol poolshim_control of the library's
image, or by a note of the program that the library is linked into. It is read and written by
process_vm_readv and /proc/PID/mem: the kernel asks for the right to trace the process. Nothing is
stopped, and no signal sent.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from . import elf
from .elf import Malformed
from .errors import CANNOT_EXECUTE, NOT_FOUND, Failed, OwnFailure
from .foreign import files, image, patience, text

SYMBOL, MAGIC, VERSION = "poolshim_control", b"poolshim control", 1
LAYOUT = struct.Struct("<16s6I2QI")
REQUEST_AT, COMMAND_AT = 24, 32
TRIM = 1
DONE = 0
OFF, ASLEEP = 0, 3  # enum ps_background_state
LIBRARY = "libpoolshim.so"
LIBRARIES_MAX = 16  # mappings of that name that are looked into
FILES_MAX = 1024  # programs, whose answers are kept
PAUSE_SECONDS = 0.005
SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


class Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@dataclass(frozen=True)
class Page:
    """What the process says."""

    magic: bytes
    version: int
    length: int
    request: int
    done: int
    command: int
    result: int
    argument: int
    result_bytes: int
    background: int


@dataclass(frozen=True)
class Answer:
    """The answer to a request that was served, or, `is_asleep`, need not be."""

    result_bytes: int
    is_asleep: bool


class NoAnswer(Failed):
    """No thread looked at the request in time; it was withdrawn."""


class BadAddress(OwnFailure):
    """Nothing of the process is there."""


def gone(pid: int) -> OwnFailure:
    return OwnFailure(f"no process {pid}", NOT_FOUND)


def tracers() -> str:
    """Which processes may trace another one here."""
    try:
        scope = SCOPE.read_text().strip()
    except OSError:
        scope = "0"  # a kernel without it
    return "its user, or root" if scope == "0" else f"root: kernel.yama.ptrace_scope is {scope}"


def refused(pid: int) -> OwnFailure:
    """The kernel's answer."""
    return OwnFailure(
        f"process {pid}: not permitted: this needs the right to trace it ({tracers()})",
        CANNOT_EXECUTE,
    )


def explain(pid: int, number: int, what: str) -> Exception:
    """An error of the kernel as one line."""
    if number in (errno.ESRCH, errno.ENOENT):
        return gone(pid)
    if number in (errno.EPERM, errno.EACCES):
        return refused(pid)
    kind = BadAddress if number == errno.EFAULT else OwnFailure
    return kind(f"process {pid}: {what}: {os.strerror(number)}")


@functools.cache
def reader() -> Any:
    """process_vm_readv. Looking it up takes longer than a call."""
    function = ctypes.CDLL(None, use_errno=True).process_vm_readv
    vector, count = ctypes.POINTER(Vector), ctypes.c_ulong
    function.argtypes = (ctypes.c_int, vector, count, vector, count, count)
    function.restype = ctypes.c_ssize_t
    return function


def read(pid: int, address: int, count: int) -> bytes:
    """Bytes of the process's memory."""
    data = ctypes.create_string_buffer(count)
    here, there = Vector(ctypes.addressof(data), count), Vector(address, count)
    with patience.may_block(pid):
        got = reader()(pid, here, 1, there, 1, 0)
    if got != count:
        raise explain(pid, ctypes.get_errno() if got < 0 else errno.EFAULT, "process_vm_readv")
    return data.raw


class Writer:
    """Writes to the memory that a process has when this is made.

    Between two calls the process may end and its number be another's, or it may execute a program
    with more rights: an address that it chose must not be written to there. The descriptor refers
    to its memory, not to its number; once that is gone, writes fail.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            descriptor = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise explain(pid, error.errno or 0, "its memory") from None
        self.descriptor = descriptor
        self.close = weakref.finalize(self, os.close, descriptor)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """pread or pwrite."""
        try:
            with patience.may_block(self.pid):
                return function(self.descriptor, *arguments)
        except (OSError, OverflowError):
            raise explain(self.pid, errno.EFAULT, "its memory") from None

    def is_there(self, address: int, data: bytes) -> bool:
        """Has that memory this at the address?"""
        return bool(self.call(os.pread, len(data), address) == data)

    def write(self, address: int, data: bytes) -> None:
        """Changes the bytes."""
        if self.call(os.pwrite, data, address) != len(data):
            raise gone(self.pid)


def write(pid: int, address: int, data: bytes) -> None:
    """Changes bytes of the process's memory."""
    Writer(pid).write(address, data)


def maps_of(pid: int) -> str:
    """What /proc/PID/maps says."""
    try:
        return os.fsdecode(files.read_proc(pid, "maps"))
    except OSError as error:
        raise explain(pid, error.errno or 0, "its mappings") from None


def libraries(pid: int) -> dict[str, int]:
    """Path as the process knows it -> where its first byte is mapped."""
    found: dict[str, int] = {}
    for line in maps_of(pid).splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and int(words[2], 16) == 0 and LIBRARY in Path(words[5]).name:
            found.setdefault(words[5], int(words[0].split("-")[0], 16))
    return found


@dataclass(frozen=True)
class Place:
    """A symbol of the library in the memory of a process."""

    address: int
    path: str  # of the library
    base: int


def program(pid: int) -> tuple[str, int]:
    """Path and base of the program's file; ("", 0) where it is not mapped."""
    try:
        path = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return "", 0
    for line in maps_of(pid).splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5] == path and int(words[2], 16) == 0:
            return path, int(words[0].split("-")[0], 16)
    return "", 0


def find_linked(pid: int, symbol: str) -> Place | None:
    """Where a symbol of the library is in a program that it is linked into; None elsewhere."""
    path, base = program(pid)
    try:
        address = image.noted_in(partial(read, pid), base, symbol) if path else None
    except (Malformed, BadAddress):
        return None
    return Place(address, path, base) if address is not None else None


@functools.lru_cache(FILES_MAX)
def has_library(path: str, identity: tuple[int, ...]) -> bool:
    """Has a program's file the library in itself? The identity tells its versions apart."""
    del identity
    try:
        return elf.read(Path(path)).has_poolshim
    except (OSError, Malformed):
        return False


def is_linked(pid: int) -> bool:
    """Has the program of a process the library in itself? False where that may not be read."""
    path = f"/proc/{pid}/exe"
    try:
        status = os.stat(path)
    except OSError:
        return False
    return has_library(path, (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))


def find_symbol(pid: int, symbol: str) -> Place:
    """The place of a symbol of the library; a linked library takes precedence."""
    linked = find_linked(pid, symbol)
    if linked is not None:
        return linked
    mapped = list(libraries(pid).items())[:LIBRARIES_MAX]
    is_unlike = ""
    for path, base in mapped:
        try:
            address = image.address_of(partial(read, pid), base, symbol)
        except (Malformed, BadAddress):
            is_unlike = text.printable(path)
            continue
        if address is not None:
            return Place(address, path, base)
    if is_unlike:
        raise Failed(f"process {pid}: it has mapped {is_unlike}, but not as a library")
    if mapped:
        raise Failed(f"process {pid}: its {LIBRARY} is older than this command")
    raise Failed(f"process {pid} does not run on poolshim")


def find_page(pid: int) -> int:
    """Where the control page of a process is."""
    return find_symbol(pid, SYMBOL).address


class Process:
    """A running process on poolshim."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.writer = Writer(pid)
        self.address = find_page(pid)
        page = self.page()
        if page.magic != MAGIC or page.version != VERSION or page.length < LAYOUT.size:
            raise Failed(
                f"process {pid}: its {LIBRARY} has version {page.version} of the control page, "
                f"this command speaks {VERSION}"
            )
        if not self.writer.is_there(self.address, MAGIC):
            raise Failed(f"process {pid} runs another program now")

    def page(self) -> Page:
        """Now."""
        return Page(*LAYOUT.unpack(read(self.pid, self.address, LAYOUT.size)))

    def resident_bytes(self) -> int:
        """Memory of the process."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except OSError as error:
            raise explain(self.pid, error.errno or 0, "its memory") from None
        return pages * os.sysconf("SC_PAGESIZE")

    def ask(
        self, command: int, seconds: float, argument: int = 0,
        is_hopeless: Callable[[Page], bool] = lambda page: False,
    ) -> Answer:  # fmt: skip
        """Has it served: by the background thread, or at a call of the program. Blocks at most so
        long, and not where it is hopeless."""
        end = time.monotonic() + seconds
        page = self.page()
        while page.request != page.done:
            if time.monotonic() > end:
                raise Failed(f"process {self.pid}: another request is being served")
            time.sleep(PAUSE_SECONDS)
            page = self.page()
        number = page.request % 0xFFFFFFFF + 1
        words = struct.pack("<2I2Q", command, DONE, argument, 0)
        self.writer.write(self.address + COMMAND_AT, words)
        self.writer.write(self.address + REQUEST_AT, struct.pack("<I", number))
        while page.done != number and page.background != ASLEEP and time.monotonic() < end:
            if is_hopeless(page):
                break
            time.sleep(PAUSE_SECONDS)
            page = self.page()
        if page.done != number:
            self.withdraw(page, seconds)
        elif page.result != DONE:
            raise Failed(f"process {self.pid}: its {LIBRARY} does not know this request")
        return Answer(page.result_bytes, page.done != number)

    def withdraw(self, page: Page, seconds: float) -> None:
        """Withdraws a request that was not served."""
        self.writer.write(self.address + REQUEST_AT, struct.pack("<I", page.done))
        if page.background == ASLEEP:
            return
        if page.background == OFF:
            reason = (
                "it makes no call of malloc or free, and has no background thread "
                "(POOLSHIM_BACKGROUND=1 starts one in every program)"
            )
        else:
            reason = "its background thread did not run (POOLSHIM_PURGE_DELAY_MS says how often)"
        raise NoAnswer(f"process {self.pid} did not answer within {seconds:g} s: {reason}")
