# SPDX-License-Identifier: MIT
"""Runs a command in a bare system of another processor, under qemu-user. Needs root, Linux 6.7.

    python3 foreign.py /usr/bin/qemu-aarch64-static ROOT COMMAND...

The emulator is registered in a user namespace of its own, whose list of such formats is private
since Linux 6.7: nothing is changed on this machine, and all ends with the command.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
PR_SET_PDEATHSIG = 1
USERS = "0 0 65536\n"  # the same numbers inside
# The first bytes of a program of 64-bit ARM, and which of their bits count; F: opened once, here.
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
ENTER = """
formats=/proc/sys/fs/binfmt_misc
mount -t proc proc "$1/proc" && mount -t binfmt_misc binfmt_misc $formats &&
    printf %s "$3" >$formats/register || exit 126
root=$1
shift 3
exec chroot "$root" "$@"
"""

libc = ctypes.CDLL(None, use_errno=True)


def child(go: int, ready: int, emulator: str, root: str, command: list[str]) -> int:
    """Enters the namespaces: the parent maps the users, then the system's first process starts."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) != 0:
        print(f"unshare: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 126
    os.write(ready, b"r")
    os.read(go, 1)
    pid = os.fork()
    if pid == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        entry = f":aarch64:M::{MAGIC}:{MASK}:{emulator}:F"
        os.execvp("sh", ["sh", "-c", ENTER, "sh", root, emulator, entry, *command])
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> int:
    emulator, root, *command = sys.argv[1:]
    (go, set_go), (ready, set_ready) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(set_go)
        os._exit(child(go, set_ready, emulator, root, command) & 255)
    os.close(set_ready)
    if os.read(ready, 1):
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{pid}/{name}").write_text(USERS)
        os.write(set_go, b"g")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
