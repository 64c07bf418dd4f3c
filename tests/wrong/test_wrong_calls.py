# SPDX-License-Identifier: MIT
"""Wrong calls of the interfaces: the answers of the original, and no crash that it has not.

    scripts/test tests/wrong

Each program prints a line for each of its cases. It runs with the original, and with the shim
preloaded before it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured

pytestmark = pytest.mark.preload

HERE = ROOT / "tests" / "wrong"

# Answers that differ here, where the original does not crash.
OWN = {
    "jemalloc_names": {
        "tcache_twice": "0 0 14",  # EFAULT: it is no identifier any more
        "bg_max": "22 22",  # EINVAL: there is one background thread, always
        "mutexes_reset": "0 1",  # EPERM: an action has no value
    },
    "jemalloc_blocks": {
        "memalign_odd": "1 1 0",  # as glibc: rounded up
        "double_free": "signal 6",  # is always detected
    },
    "mimalloc": {"visit_default": "0"},  # blocks are not visited
    "tcmalloc": {
        "stats_0": "9", "stats_neg": "9",  # nothing is written into a buffer of no bytes
        "pvalloc": "1 0 0",  # NULL: more than there is
        "nallocx": "1 1 1",  # 0: there is no such alignment
    },
}  # fmt: skip
ORIGINALS = {"jemalloc_names": "libjemalloc.so.2", "jemalloc_blocks": "libjemalloc.so.2",
             "mimalloc": "libmimalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}  # fmt: skip


def original_of(name: str) -> Path:
    found = sorted(Path("/usr/lib").glob(f"*/{ORIGINALS[name]}"))
    if not found:
        pytest.skip(f"{ORIGINALS[name]} is not installed")
    return found[0]


def built(folder: Path, name: str, *more: Path | str) -> Path:
    program = folder / name
    flags = ["-std=gnu11", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}",
             f"-I{ROOT / 'pools' / 'include'}"]  # fmt: skip
    done = run_captured(["gcc", *flags, HERE / f"{name}.c", "-o", program, *more], timeout=60)
    assert done.returncode == 0, done.stderr
    return program


def answers(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


@pytest.mark.compare
@pytest.mark.parametrize("name", ORIGINALS)
def test_wrong_calls_are_answered_as_by_the_original(
    run_shim: RunShim, tmp_path: Path, name: str
) -> None:
    program = built(tmp_path, name, original_of(name))
    wanted, own = answers(run_captured([program], timeout=120).stdout), OWN[name]
    found = answers(run_shim([program]).stdout)
    assert list(found) == list(wanted) and set(own) <= set(wanted) and len(found) >= 39
    for case, answer in found.items():
        if case in own:
            assert answer == own[case] != wanted[case], case
        elif not wanted[case].startswith("signal"):
            assert answer == wanted[case], case


INVALID, NO_MEMORY = "0/EINVAL", "0/ENOMEM"
HEAPS = {
    "create": [INVALID, INVALID, "block", INVALID, INVALID, NO_MEMORY, "block"],
    "name": ["0/0", "31"],
    "null": [INVALID, INVALID, INVALID, INVALID, "-1/EINVAL", "-1/EINVAL", "0/0", "-1/EINVAL"],
    "forged": ["ok"],
    "after": ["0/0", "-1/EINVAL", INVALID, INVALID, "0/0"],
    "after_delete": ["0/0", "-1/EINVAL", INVALID, "0/0", NO_MEMORY],
    "realloc_gone": [INVALID],
    "align": [INVALID, INVALID, NO_MEMORY, NO_MEMORY],
    "huge": [NO_MEMORY, NO_MEMORY, NO_MEMORY, NO_MEMORY, "block", "block"],
    "stats": ["-1/EINVAL", "-1/EINVAL", "-1/EINVAL", "0/0", "0/0", "0"],
    "of": ["0/0", "0/0", "0/0", "0/0", "1/0"],
    "realloc_foreign": ["signal", "6"],
    "set": ["-1/EINVAL", "-1/EINVAL", "-1/ENOENT", "-1/EINVAL", "0/0", "0/0", "-1/EPERM",
            "-1/ENOENT"],
    "many": ["0/EAGAIN", "65536"],
}  # fmt: skip


def test_wrong_calls_of_heaps_are_errors(run_shim: RunShim, tmp_path: Path) -> None:
    result = run_shim([built(tmp_path, "heaps")])
    found = {case: answer.split() for case, answer in answers(result.stdout).items()}
    assert found == HEAPS
