# SPDX-License-Identifier: MIT
"""The figures that a Java virtual machine writes of its heap, into a file that it maps.

    used, committed = heap_of(1234)
    limit_of(1234)      "4g", of -Xmx4g

The file is /tmp/hsperfdata_USER/PID, in the mounts of the process and by its number there. It has
entries with a name and a value; -XX:-UsePerfData omits it.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct

from ..foreign import files

MAGIC, LITTLE_ENDIAN = 0xCAFEC0C0, 1
HEAD = struct.Struct(">IB")
START_AT, COUNT_AT, FILE_BYTES_MAX, ENTRIES_MAX = 24, 28, 1 << 20, 10_000
LONG = ord("J")
PATH = re.compile(r"(/\S*/hsperfdata_[^/\n]+/\d+)$", re.M)
VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
XMX = re.compile(r"-Xmx\d+[kKmMgGtT]?")
SPACE = re.compile(r"sun\.gc\.generation\.\d+\.space\.\d+\.(used|capacity)")


def entries(data: bytes) -> dict[str, int]:
    """The numbers in a file, by name; as far as they are well formed."""
    found: dict[str, int] = {}
    if len(data) < COUNT_AT + 4 or HEAD.unpack_from(data)[:2] != (MAGIC, LITTLE_ENDIAN):
        return found
    at, count = struct.unpack_from("<2I", data, START_AT)
    for _ in range(min(count, ENTRIES_MAX)):
        if at + 20 > len(data):
            break
        length, name_at, vector = struct.unpack_from("<3I", data, at)
        kind, value_at = data[at + 12], struct.unpack_from("<I", data, at + 16)[0]
        if length < 20:
            break
        name = data[at + name_at : at + length].partition(b"\0")[0].decode("ascii", "replace")
        if kind == LONG and not vector and at + value_at + 8 <= len(data):
            found[name] = struct.unpack_from("<q", data, at + value_at)[0]
        at += length
    return found


def limit_of(pid: int) -> str:
    """The value of -Xmx, of the command line or the variables that the virtual machine reads; the
    command line's comes last, and counts. Empty: none is set."""
    words: list[str] = []
    with contextlib.suppress(OSError):
        for variable in os.fsdecode(files.read_proc(pid, "environ")).split("\0"):
            name, _, value = variable.partition("=")
            words += value.split() if name in VARIABLES else []
        words += os.fsdecode(files.read_proc(pid, "cmdline")).split("\0")
    return next((word[4:] for word in reversed(words) if XMX.fullmatch(word)), "")


def heap_of(pid: int) -> tuple[int, int] | None:
    """Bytes used, by objects and garbage, and committed; None where it does not say."""
    sums = {"used": 0, "capacity": 0}
    with contextlib.suppress(OSError):
        found = PATH.search(os.fsdecode(files.read_proc(pid, "maps")))
        if found:
            descriptor = files.open_regular(f"/proc/{pid}/root{found[1]}")
            try:
                data = files.read_up_to(descriptor, FILE_BYTES_MAX, pid)
            finally:
                os.close(descriptor)
            for name, value in entries(data).items():
                space = SPACE.fullmatch(name)
                if space and 0 <= value < 1 << 48:
                    sums[space[1]] += value
    return (sums["used"], sums["capacity"]) if sums["capacity"] else None
