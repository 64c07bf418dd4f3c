# SPDX-License-Identifier: MIT
"""Packages for 64-bit ARM, cross-compiled, in a bare system of that processor under qemu-user.

    scripts/test --packages tests/package/test_arm64.py        15 minutes beside other work
"""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import pytest
from bare_system import bare_root, clone, make_foreign, only, run_ok

pytestmark = pytest.mark.package
TOOLS = ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objcopy", "qemu-aarch64-static")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What scripts/package makes; or $TEST_DIST_ARM64, made before."""
    if platform.machine() == "aarch64":
        pytest.skip("this machine is one: test_packages.py")
    for tool in TOOLS:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: scripts/setup elsewhere, scripts/setup package")
    if "TEST_DIST_ARM64" in os.environ:
        return Path(os.environ["TEST_DIST_ARM64"]).resolve()
    folder = tmp_path_factory.mktemp("dist")
    checkout = clone(tmp_path_factory.mktemp("checkout") / "poolshim")
    run_ok(checkout / "scripts" / "package", "--machine", "aarch64", "--output", folder)
    return folder


def test_packages_are_those_of_the_processor(packages: Path, tmp_path: Path) -> None:
    package = only(packages, "poolshim_*_arm64.deb")
    run_ok("dpkg-deb", "-x", package, tmp_path)
    for name in ("lib/aarch64-linux-gnu/libpoolshim.so.0", "libexec/poolshim/poolshim-run"):
        assert "AArch64" in run_ok("readelf", "-h", tmp_path / "usr" / name)
    assert only(packages, "*.whl").name.endswith("_aarch64.whl")


def test_packages_work_in_a_system_of_the_processor(packages: Path, tmp_path: Path) -> None:
    """All in one: the system takes minutes to make."""
    root = make_foreign(tmp_path / "root")
    (root / "packages").mkdir()
    for path in packages.iterdir():
        shutil.copy(path, root / "packages")
    tarball = only(packages, "*-linux-aarch64.tar.xz").name
    folder = tarball.removesuffix(".tar.xz")
    command, environment = bare_root.inside_foreign(root, f"""
        apt-get update -q >/dev/null
        apt-get install -y -q --no-install-recommends /packages/poolshim_*.deb >/dev/null
        echo "deb: $(poolshim run -- cat /proc/self/maps | grep -m 1 libpoolshim.so)"
        apt-get install -y -q --no-install-recommends python3-venv xz-utils >/dev/null
        tar xf /packages/{tarball}
        {folder}/install --prefix /opt
        echo "tarball: $(/opt/bin/poolshim run -- cat /proc/self/maps | grep -m 1 libpoolshim.so)"
        apt-get purge -y -q poolshim >/dev/null
        python3 -m venv /venv
        /venv/bin/pip install -q /packages/*.whl
        echo "wheel: $(/venv/bin/poolshim run -- cat /proc/self/maps | grep -m 1 libpoolshim.so)"
        /venv/bin/poolshim doctor -- cat
        """)  # fmt: skip
    out = run_ok(*command, env=environment, timeout=1500)
    lines = dict(line.split(": ", 1) for line in out.splitlines() if ": " in line)
    assert "/usr/lib/aarch64-linux-gnu/libpoolshim.so.0" in lines["deb"]
    assert "/opt/lib/libpoolshim.so.0" in lines["tarball"]
    assert "/venv/lib/python3.11/site-packages/poolshim_cli/native/" in lines["wheel"]
    assert "the preload takes effect in cat" in out
