# SPDX-License-Identifier: MIT
"""What poolshim itself costs: resident memory of small programs at their end.

    scripts/test tests/shim/test_memory.py
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest
from conftest import RunShim, run_captured
from under_shim import need

pytestmark = pytest.mark.preload

# Data of the library and the first blocks: 136 and 204 KiB were measured.
PRIVATE_KIB_MAX = 280
# The library's file is shared by its processes. How much of it a fault maps depends on the sizes of
# folios in the page cache: 332 to 492 KiB were measured. On 64-bit ARM constants lie beside code,
# and it may be all.
FILE_KIB_MAX = 460 if platform.machine() == "x86_64" else 704
READ = "while read -r line; do echo $line; done"
COMMANDS = [
    ["/bin/cat", "/proc/self/smaps_rollup", "/proc/self/maps"],
    ["/bin/sh", "-c", f"{READ} </proc/self/smaps_rollup; {READ} </proc/self/maps"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=["cat", "sh"])
def test_small_programs_stay_small(run_shim: RunShim, shim: Path, command: list[str]) -> None:
    """They print what they occupy: the kernel's own counts are page by page, its peaks are not."""
    need(command[0])
    plain, shimmed = run_captured(command), run_shim(command)
    assert str(shim.resolve()) in shimmed.stdout and str(shim.resolve()) not in plain.stdout
    kib = [
        {words[0]: int(words[1]) for line in run.stdout.splitlines()
         if len(words := line.split()) == 3 and words[2] == "kB"}
        for run in (plain, shimmed)
    ]  # fmt: skip
    private, total = (kib[1][name] - kib[0][name] for name in ("Anonymous:", "Rss:"))
    print(f"{private} KiB of its own, {total} KiB with the library's file")
    assert private <= PRIVATE_KIB_MAX
    assert total <= PRIVATE_KIB_MAX + FILE_KIB_MAX


def peak_rss_kib(build_dir: Path, command: list[str], result: Path) -> int:
    words = [str(build_dir / "scripts" / "launcher"), "-o", str(result)]
    run = run_captured([*words, "--", *command], 60, env={"PATH": "/usr/bin:/bin"})
    assert run.returncode == 0, run.stderr
    return int(json.loads(result.read_text())["peak_rss_kib"])


def test_launcher_sees_what_a_program_costs(build_dir: Path, tmp_path: Path) -> None:
    """The measurement can fail: a program that touches 64 MiB shows them."""
    command = ["/usr/bin/env", "python3", "-c", "b = b'x' * (64 << 20)"]
    need("python3")
    idle = ["/usr/bin/env", "python3", "-c", "pass"]
    result = tmp_path / "result.json"
    grown = peak_rss_kib(build_dir, command, result)
    assert grown - peak_rss_kib(build_dir, idle, result) >= 60 << 10
