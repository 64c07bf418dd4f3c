# SPDX-License-Identifier: MIT
"""Libraries, files and mounts that a process has arranged against the commands that look for the
library in it, and programs that it executes meanwhile.

    scripts/test tests/cli/test_hostile_library.py
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from programs import compile_program
from running import POOLSHIM, Start, complaint, spawn, start
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import control  # noqa: E402
from poolshim_cli.errors import OwnFailure  # noqa: E402
from poolshim_cli.foreign import image  # noqa: E402

__all__ = ["spawn", "start"]

# Maps the first page of a file named like the library, and truncates and writes it for ever.
CUTS = """
import mmap, sys, time
content = open(sys.argv[1], "rb").read()
file = open(sys.argv[2], "w+b", buffering=0)
file.write(content)
kept = mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ)
print(1, flush=True)
while True:
    file.truncate(4096)
    file.seek(0)
    file.write(content)
"""

MOUNTS = """
import subprocess, sys
subprocess.run(["mount", "--bind", *sys.argv[1:]], check=True)
print(1, flush=True)
sys.stdin.read(1)
"""


@pytest.mark.preload
def test_a_library_that_is_cut_while_it_is_read(start: Start, shim: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CUTS, shim, tmp_path / "libpoolshim.so.0"], stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "1\n"
        for _ in range(3):
            done = run_captured([POOLSHIM, "stats", str(process.pid)])
            assert "but not as a library" in complaint(done, "stats", 1)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.preload
@pytest.mark.root
def test_a_fifo_mounted_over_the_library(spawn: Start, shim: Path, tmp_path: Path) -> None:
    """The process has a mount namespace of its own. The figures come from its memory."""
    copy, fifo = tmp_path / "libpoolshim.so", tmp_path / "fifo"
    shutil.copy(shim, copy)
    os.mkfifo(fifo)
    apart = ["unshare", "--mount", "--propagation", "private"]
    if run_captured([*apart, "mount", "--bind", fifo, copy]).returncode != 0:
        pytest.skip("this user may not mount")
    process = spawn([*apart, sys.executable, "-S", "-c", MOUNTS, fifo, copy], preload=False,
                    LD_PRELOAD=str(copy))  # fmt: skip
    assert not Path(f"/proc/{process.pid}/root{copy}").is_file()
    done = run_captured([POOLSHIM, "stats", str(process.pid)])
    assert done.returncode == 0 and "live blocks" in done.stdout, done


@pytest.mark.preload
def test_a_program_that_is_executed_meanwhile_is_not_written_to(start: Start) -> None:
    """It may be another user's: set-user-ID, or of a process that has the number now."""
    process = start(
        "import os; print(1, flush=True); os.read(0, 1); os.execv('/bin/cat', ['cat'])"
    )
    address, writer = control.find_page(process.pid), control.Writer(process.pid)
    assert writer.is_there(address, control.MAGIC)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("x2\n")
    process.stdin.flush()
    assert process.stdout.readline() == "2\n"  # by cat
    assert not writer.is_there(address, control.MAGIC)
    with pytest.raises(OwnFailure):
        writer.write(address, b"x")


@each_row("style", ["gnu", "sysv", "both"])
def test_symbols_are_found_in_the_image(tmp_path: Path, style: str) -> None:
    """Looks symbols up in a library that this process loads."""
    source = "int first(void) { return 1; } int poolshim_x = 2; extern int no(void);"
    path = compile_program(tmp_path, f"libx{style}.so", source, "-shared", "-fPIC",
                           f"-Wl,--hash-style={style}")  # fmt: skip
    library = ctypes.CDLL(str(path))
    wanted = ctypes.addressof(ctypes.c_int.in_dll(library, "poolshim_x"))
    text = Path("/proc/self/maps").read_text()
    base = next(int(line.split("-")[0], 16) for line in text.splitlines() if str(path) in line)

    def read(address: int, count: int) -> bytes:
        return control.read(os.getpid(), address, count)

    assert image.address_of(read, base, "poolshim_x") == wanted
    assert image.address_of(read, base, "poolshim_y") is None
