# SPDX-License-Identifier: MIT
"""Where the kernel promises no more memory than it has (vm.overcommit_memory=2): malloc says so.

    scripts/test tests/shim/test_overcommit.py

That setting is the whole machine's, so it is made in one of its own: a User-mode Linux kernel,
an ordinary process, whose file system is this one's, read only.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

pytestmark = [pytest.mark.preload, pytest.mark.slow]

MEMORY_MIB = 320
LIMITS_MIB = (24, 48, 96, 160)  # promised to all processes together
BOOT_SECONDS = 300

FORKS = """
import errno, os
blocks = [bytearray(100_000) for _ in range(600)]
try:
    os.fork()
    raise SystemExit(3)
except OSError as error:
    assert error.errno == errno.ENOMEM
more = [bytearray(b"x" * 100_000) for _ in range(50)]
assert all(block.count(b"x") == 100_000 for block in more)
"""

Machine = Callable[[str], dict[str, str]]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """machine(commands of a shell): what `say NAME VALUE` in them said."""
    kernel = shutil.which("linux.uml")
    if kernel is None:
        pytest.skip("linux.uml is not installed: scripts/setup test")

    def run(commands: str) -> dict[str, str]:
        script = tmp_path / "init"
        script.write_text(
            "#!/bin/sh\nmount -t proc proc /proc\n"
            'say() { echo "said: $*"; }\n'
            "say begin -\necho 2 >/proc/sys/vm/overcommit_memory\n"
            f"{commands}\nsay end -\nexec /bin/kill -9 -1\n"
        )
        script.chmod(0o755)
        command = [
            kernel, f"mem={MEMORY_MIB}M", "rootfstype=hostfs", "rootflags=/", "ro",
            f"init={script}", "con=null", "con0=null,fd:1", "quiet", "panic=-1",
        ]  # fmt: skip
        environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path)}
        environment["TMPDIR"] = str(tmp_path)
        try:
            output = run_captured(
                command, BOOT_SECONDS, env=environment, stderr=subprocess.STDOUT
            ).stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"linux.uml does not run here: {error}")
        said = dict(re.findall(r"^said: (\S+) ([^\r\n]*)", output, re.MULTILINE))
        if "begin" not in said:
            pytest.skip(f"linux.uml does not start here: {output[-300:]!r}")
        assert "end" in said, output[-3000:]
        assert "poolshim:" not in output, output[-3000:]
        return said

    return run


def test_refused_memory_is_null_and_comes_back(
    machine: Machine, shim: Path, build_dir: Path
) -> None:
    """Under four limits, blocks of all sizes until there is no more, freed and had again."""
    limited = build_dir / "tests" / "scenarios" / "memory_limits_from_the_start"
    commands = [
        f"echo {mib << 10} >/proc/sys/vm/overcommit_kbytes\n"
        f"LD_PRELOAD={shim} {limited} limited; say fill-{mib} $?"
        for mib in LIMITS_MIB
    ]
    said = machine("\n".join(commands))
    statuses = {name: value for name, value in said.items() if name.startswith("fill")}
    assert statuses == {f"fill-{mib}": "0" for mib in LIMITS_MIB}


def test_a_refused_fork_leaves_the_heap_working(
    machine: Machine, shim: Path, tmp_path: Path
) -> None:
    program = tmp_path / "forks.py"
    program.write_text(FORKS)
    said = machine(
        f"echo {110 << 10} >/proc/sys/vm/overcommit_kbytes\n"
        f"LD_PRELOAD={shim} {sys.executable} -S {program}; say status $?"
    )
    assert said["status"] == "0"


def test_what_a_small_program_is_charged(machine: Machine, shim: Path) -> None:
    """For what the heap has opened of its first arena, and its tables: docs/trust.md."""
    count = "grep Committed_AS /proc/meminfo | tr -dc 0-9"
    said = machine(f"say plain $({count})\nsay shimmed $(LD_PRELOAD={shim} {count})")
    charged_kib = int(said["shimmed"]) - int(said["plain"])
    print(f"charged: {charged_kib} KiB")
    assert 1 << 10 < charged_kib < 5 << 10
    text = " ".join((ROOT / "docs" / "trust.md").read_text().split())
    assert "charges a program that uses the heap 4 MiB" in text
