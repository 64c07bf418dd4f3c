# SPDX-License-Identifier: MIT
"""Asks a running process on poolshim for something.

The other side of pools/engine/heap/background.h, which describes the protocol.

    with control.Process(1234) as process: process.ask(control.TRIM, 5.0)

The page is found as the symbol poolshim_control of the library that the process has mapped, and
read and written by process_vm_readv and process_vm_writev: the kernel asks for the right to trace
the process. Nothing is stopped, and no signal sent.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import elf
from .errors import CANNOT_EXECUTE, NOT_FOUND, Failed, OwnFailure

SYMBOL, MAGIC, VERSION = "poolshim_control", b"poolshim control", 1
LAYOUT = struct.Struct("<16s6I2QI")
REQUEST_AT, COMMAND_AT = 24, 32
TRIM = 1
DONE = 0
OFF, ASLEEP = 0, 3  # enum ps_background_state
LIBRARY = "libpoolshim.so"
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
    """Of a request that was served, or, `is_asleep`, need not be."""

    result_bytes: int
    is_asleep: bool


class NoAnswer(Failed):
    """No thread looked at the request in time; it was withdrawn."""


class BadAddress(OwnFailure):
    """Nothing of the process is there."""


def gone(pid: int) -> OwnFailure:
    return OwnFailure(f"no process {pid}", NOT_FOUND)


def tracers() -> str:
    """What has the right to trace a process here."""
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


def transfer(name: str, pid: int, address: int, data: ctypes.Array[ctypes.c_char]) -> None:
    """One call of process_vm_readv or process_vm_writev."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_ssize_t
    here = Vector(ctypes.addressof(data), len(data))
    there = Vector(address, len(data))
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    got = function(ctypes.c_int(pid), ctypes.byref(here), one, ctypes.byref(there), one, none)
    if got != len(data):
        raise explain(pid, ctypes.get_errno() if got < 0 else errno.EFAULT, name)


def read(pid: int, address: int, count: int) -> bytes:
    """Bytes of the process's memory."""
    data = ctypes.create_string_buffer(count)
    transfer("process_vm_readv", pid, address, data)
    return data.raw


def write(pid: int, address: int, data: bytes) -> None:
    """Changes them."""
    transfer("process_vm_writev", pid, address, ctypes.create_string_buffer(data, len(data)))


def libraries(pid: int) -> dict[str, tuple[int, int]]:
    """Path as the process knows it -> where its first byte is mapped, and its inode."""
    found: dict[str, tuple[int, int]] = {}
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
    except OSError as error:
        raise explain(pid, error.errno or 0, "its mappings") from None
    for line in text.splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and int(words[2], 16) == 0 and LIBRARY in Path(words[5]).name:
            found.setdefault(words[5], (int(words[0].split("-")[0], 16), int(words[4])))
    return found


def address_in(pid: int, path: str, base: int, inode: int, symbol: str) -> int | None:
    """Where a symbol of one mapped library is."""
    # The kernel names files as this process would: in a container of its own they are below the
    # root of the other one; in a plain chroot below ours.
    files = [Path(f"/proc/{pid}/root{path}"), Path(path)]
    try:
        file = next((one for one in files if one.exists() and one.stat().st_ino == inode), None)
        if file is None:
            raise OSError
        value = elf.read(file).address_of(symbol)
    except (OSError, elf.Malformed):
        raise Failed(
            f"process {pid}: {path.removesuffix(' (deleted)')} is not the file that it has "
            "mapped: it was replaced since, or removed"
        ) from None
    return None if value is None else base + value


@dataclass(frozen=True)
class Place:
    """A symbol of the library in the memory of a process."""

    address: int
    path: str  # of the library
    base: int


def find_symbol(pid: int, symbol: str) -> Place:
    """Where one of the library's symbols is."""
    mapped = libraries(pid)
    for path, (base, inode) in mapped.items():
        address = address_in(pid, path, base, inode, symbol)
        if address is not None:
            return Place(address, path, base)
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
        self.address = find_page(pid)
        page = self.page()
        if page.magic != MAGIC or page.version != VERSION or page.length < LAYOUT.size:
            raise Failed(
                f"process {pid}: its {LIBRARY} has version {page.version} of the control page, "
                f"this command speaks {VERSION}"
            )

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
        """Has it served: by the background thread, or at a call of the program. Waits so long for
        that, unless it is hopeless before."""
        end = time.monotonic() + seconds
        page = self.page()
        while page.request != page.done:
            if time.monotonic() > end:
                raise Failed(f"process {self.pid}: another request is being served")
            time.sleep(PAUSE_SECONDS)
            page = self.page()
        number = page.request % 0xFFFFFFFF + 1
        write(self.pid, self.address + COMMAND_AT, struct.pack("<2I2Q", command, DONE, argument, 0))
        write(self.pid, self.address + REQUEST_AT, struct.pack("<I", number))
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
        """Of a request that was not served."""
        write(self.pid, self.address + REQUEST_AT, struct.pack("<I", page.done))
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
