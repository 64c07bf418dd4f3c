# SPDX-License-Identifier: MIT
"""What scripts/package makes, and each way to install it, on a system that has nothing.

    scripts/test --packages        half an hour; without the option these tests are left out

Packages are built once, from a clean checkout of the commit: uncommitted files are not tested.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from bare_system import clone, copy, in_chroot, make_base, only, run_ok
from conftest import ROOT, run_captured
from vcpkg_port import install_port

pytestmark = pytest.mark.package
pytest_plugins = ["made_once"]
MACHINE = platform.machine()
Bare = Callable[..., str]
SHOW_MAPS = "print([line for line in open('/proc/self/maps') if 'libpoolshim.so' in line])"
RUN_PYTHON = f'poolshim run -- python3 -c "{SHOW_MAPS}"'
MAKE_VENV = """
apt-get update -q >/dev/null
apt-get install -y -q --no-install-recommends python3-venv >/dev/null
python3 -m venv /venv
"""
RUN_CAT = "poolshim run -- cat /proc/self/maps | grep -m 1 libpoolshim.so"


@pytest.fixture
def bare(base_system: Path, tmp_path: Path) -> Bare:
    """bare(script, *files): runs it in a fresh copy of the system, with the files in /packages."""
    root = copy(base_system, tmp_path / "root")
    (root / "packages").mkdir()

    def run(script: str, *files: Path) -> str:
        for file in files:
            shutil.copy(file, root / "packages")
        return in_chroot(root, script)

    return run

def test_all_kinds_are_made(dist: Path) -> None:
    names = {path.name.replace(MACHINE, "M") for path in dist.iterdir()}
    version = next(iter(dist.glob("*.spdx.json"))).name.split("-")[1].removesuffix(".spdx.json")
    debian = {"x86_64": "amd64", "aarch64": "arm64"}[MACHINE]
    wheel = only(dist, "*.whl").name
    assert names == {
        f"poolshim-pools-{version}.tar.xz", f"poolshim-crate-{version}.tar.xz",
        f"poolshim-{version}-linux-M.tar.xz", f"poolshim-{version}-linux-M-debug.tar.xz",
        wheel.replace(MACHINE, "M"), f"poolshim-{version}.spdx.json", "SHA256SUMS",
        *(f"{name}_{version}-1_{debian}.deb"
          for name in ("poolshim", "libpoolshim-dev", "poolshim-dbgsym")),
    }  # fmt: skip


def test_bytes_are_the_same_twice(dist: Path, tmp_path: Path) -> None:
    """Packs in another folder, with another umask, language and time zone."""
    checkout = clone(tmp_path / "elsewhere" / "with a blank")
    env = {**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "TMPDIR": str(tmp_path)}
    command = f"umask 077; exec '{checkout}/scripts/package' --output '{tmp_path}/dist'"
    run_ok("sh", "-c", command, env=env)
    assert (tmp_path / "dist/SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()


def test_checksums_and_bill_name_every_file(dist: Path) -> None:
    run_ok("sha256sum", "--strict", "-c", "SHA256SUMS", cwd=dist)
    listed = {line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    files = {path.name for path in dist.iterdir()}
    assert listed == files - {"SHA256SUMS"}
    bill = json.loads(only(dist, "*.spdx.json").read_text())
    assert bill["spdxVersion"] == "SPDX-2.3"
    sums = {one["packageFileName"]: one["checksums"][0]["checksumValue"]
            for one in bill["packages"] if "checksums" in one}  # fmt: skip
    assert set(sums) == {name for name in listed if not name.endswith(".json")}
    for name, value in sums.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == value
    ids = {one["SPDXID"] for one in bill["packages"]} | {"SPDXRef-DOCUMENT"}
    for one in bill["relationships"]:
        assert {one["spdxElementId"], one["relatedSpdxElement"]} <= ids
    if "TEST_DIST" not in os.environ:
        assert run_ok("git", "-C", ROOT, "rev-parse", "HEAD").strip() in json.dumps(bill)


def test_libraries_are_stripped_and_their_debug_data_found(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(only(dist, "*-debug.tar.xz")) as tar:
        tar.extractall(tmp_path / "debug", filter="data")
    with tarfile.open(only(dist, f"*-{MACHINE}.tar.xz")) as tar:
        tar.extractall(tmp_path, filter="data")
    files = only(tmp_path, "poolshim-*") / "files"
    elf = [path for path in files.rglob("*") if path.is_file() and not path.is_symlink()
           and path.read_bytes()[:4] == b"\x7fELF"]  # fmt: skip
    assert len(elf) >= 6
    for path in elf:
        sections = run_ok("readelf", "-SW", path)
        assert ".debug_" not in sections and ".symtab" not in sections, path
        build_id = run_ok("readelf", "-n", path).partition("Build ID: ")[2].split()[0]
        debug = only(tmp_path / "debug", f"*/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
        assert ".debug_info" in run_ok("readelf", "-SW", debug)
        names = run_ok("readelf", "--debug-dump=info", debug)
        assert "/usr/src/poolshim-" in names and str(ROOT) not in names


def test_lintian_finds_neither_errors_nor_warnings(dist: Path) -> None:
    if not shutil.which("lintian"):
        pytest.skip("lintian is not installed: scripts/setup package")
    packages = sorted(dist.glob("*.deb"))
    result = run_captured(["lintian", "--allow-root", "--fail-on=error,warning", *packages], 300)
    assert (result.returncode, result.stdout.strip()) == (0, ""), result.stdout + result.stderr


def test_auditwheel_agrees_with_the_tag(dist: Path, tmp_path: Path) -> None:
    run_ok(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    result = run_captured([python, "-m", "pip", "install", "-q", "auditwheel"], timeout=300)
    if result.returncode != 0:
        pytest.skip("auditwheel cannot be installed: no network?")
    wheel = only(dist, "*.whl")
    said = " ".join(run_ok(python, "-m", "auditwheel", "show", wheel).split())
    tag = wheel.stem.split("-")[-1]
    assert f'is consistent with the following platform tag: "{tag}"' in said


def test_wheel_has_no_links_and_its_programs_run(dist: Path) -> None:
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        modes = {entry.filename: entry.external_attr >> 16 for entry in wheel.infolist()}
    assert all(mode & 0o170000 == 0o100000 for mode in modes.values())
    assert modes["poolshim_cli/native/programs/poolshim-run"] & 0o111 == 0o111
    assert modes["poolshim_cli/native/libpoolshim.so"] & 0o444 == 0o444


def test_debian_package_leaves_services_alone(dist: Path, tmp_path: Path) -> None:
    for package in dist.glob("*.deb"):
        folder = tmp_path / package.name
        run_ok("dpkg-deb", "-R", package, folder)
        scripts = [path for path in (folder / "DEBIAN").iterdir() if path.stat().st_mode & 0o100]
        words = ("systemctl", "invoke-rc.d", "service")
        assert not [p for p in scripts if any(word in p.read_text() for word in words)]
        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
        assert not [name for name in names if name.startswith(("etc/", "usr/lib/systemd"))]


def test_wrong_arguments_are_refused() -> None:
    script = ROOT / "scripts" / "package"
    result = run_captured([script, "--only", "rpm"])
    assert result.returncode == 2 and "tarball,wheel,deb" in result.stderr
    result = run_captured([script, "--machine", "sparc"])
    assert result.returncode == 2 and "sparc" in result.stderr


# ---- on a bare system ----


def test_debian_package_without_python(bare: Bare, dist: Path) -> None:
    """One file, and libc: the library, and `poolshim run`."""
    package = only(dist, "poolshim_*.deb")
    out = bare(f"""
        apt-get install -y -q --no-install-recommends /packages/{package.name} >/dev/null
        ! command -v python3
        {RUN_CAT}
        LD_PRELOAD=libpoolshim.so.0 cat /proc/self/maps | grep -m 1 libpoolshim.so
        poolshim run --version
        poolshim doctor -- true 2>&1 || echo "doctor: $?"
        """, package)  # fmt: skip
    lines = out.splitlines()
    assert sum("/libpoolshim.so.0" in line for line in lines) == 2
    assert "poolshim: this needs python3" in lines and "doctor: 125" in lines


def test_debian_packages_with_what_they_recommend(bare: Bare, dist: Path) -> None:
    """Installs as a user does, links a program, and removes everything."""
    packages = [only(dist, "poolshim_*.deb"), only(dist, "libpoolshim-dev_*.deb")]
    out = bare(f"""
        apt-get update -q >/dev/null
        apt-get install -y -q ./packages/poolshim_*.deb >/dev/null
        {RUN_PYTHON}
        poolshim doctor -- cat
        poolshim compare --runs 2 --allocators glibc,poolshim --no-noise --csv - -- true
        poolshim --version
        apt-get install -y -q --no-install-recommends ./packages/libpoolshim-dev_*.deb \\
            gcc pkg-config man-db >/dev/null
        printf '#include <poolshim/region.h>\\nint main(void) {{ ps_region_destroy(' >/tmp/p.c
        printf 'ps_region_create(0)); return 0; }}\\n' >>/tmp/p.c
        gcc /tmp/p.c $(pkg-config --cflags --libs poolshim-pools) -o /tmp/p
        /tmp/p && echo linked
        man 3 poolshim_region.h | grep -c ps_region_create
        rm -rf /var/cache/man /tmp/p*
        apt-get purge -y -q poolshim libpoolshim-dev >/dev/null
        find / -xdev -iname '*poolshim*' -not -path '/packages/*' -not -path '/proc/*' \\
            -not -path '/var/lib/dpkg/*' -not -path '/var/log/*'
        ls -d /usr/lib/poolshim 2>&1 || true
        """, *packages)  # fmt: skip
    assert f"/usr/lib/{MACHINE}-linux-gnu/libpoolshim.so.0" in out
    assert "the preload takes effect in cat" in out
    assert "\npoolshim 0." in out and "\nlinked\n" in out and "\npoolshim,/usr/lib/" in out
    assert out.splitlines()[-1].startswith("ls: cannot access")
    _, *found = out.partition("linked\n")[2].splitlines()
    assert len(found) == 1, found


LIMITED = '''import pytest
@pytest.mark.poolshim_limit("1 KiB")
def test_it():
    bytearray(1 << 20)
'''


def test_wheel_in_a_fresh_environment(bare: Bare, dist: Path) -> None:
    wheel = only(dist, "*.whl")
    out = bare(f"""
        {MAKE_VENV}
        /venv/bin/pip install -q /packages/{wheel.name}
        PATH=/venv/bin:$PATH
        {RUN_PYTHON}
        cd /tmp
        poolshim run -- python3 -c 'import sys; print(sys.prefix)'
        poolshim doctor -- python3
        poolshim compare --runs 2 --allocators glibc,poolshim --no-noise --csv - -- true
        poolshim --version
        /venv/bin/pip install -q pytest
        echo '{LIMITED}' > test_it.py
        pytest --poolshim test_it.py || echo "pytest ended with $?"
        /venv/bin/pip uninstall -y -q poolshim
        find /venv -name '*poolshim*'
        """, wheel)  # fmt: skip
    assert "/venv/lib/python3.11/site-packages/poolshim_cli/native/libpoolshim.so" in out
    assert "\n/venv\n" in out and "the preload takes effect in python3" in out
    assert "test_it.py:4 test_it" in out and "pytest ended with 1" in out
    first, _, library = out.splitlines()[-3:]
    assert first.startswith("poolshim 0.") and library.startswith("library: 0.")


def test_wheel_by_uvx(bare: Bare, dist: Path) -> None:
    """Runs in an environment that uv makes for this command alone."""
    wheel = only(dist, "*.whl")
    out = bare(f"""
        {MAKE_VENV}
        /venv/bin/pip install -q uv
        export SSL_CERT_FILE=$PIP_CERT
        /venv/bin/uvx --from /packages/{wheel.name} {RUN_PYTHON}
        ! command -v poolshim
        """, wheel)  # fmt: skip
    assert "/site-packages/poolshim_cli/native/libpoolshim.so" in out


def test_tarball_below_a_prefix_and_away_again(bare: Bare, dist: Path) -> None:
    tarball = only(dist, f"*-{MACHINE}.tar.xz")
    folder = tarball.name.removesuffix(".tar.xz")
    out = bare(f"""
        apt-get update -q >/dev/null
        apt-get install -y -q --no-install-recommends python3 xz-utils >/dev/null
        tar xf /packages/{tarball.name}
        find /usr/local /opt | sort >/tmp/before
        {folder}/install
        {RUN_PYTHON}
        poolshim doctor -- cat
        {folder}/install --prefix /opt/other
        /opt/other/{RUN_CAT.replace("poolshim run", "bin/poolshim run", 1)}
        {folder}/install
        {folder}/install --uninstall --prefix /opt/other
        {folder}/install --uninstall
        find /usr/local /opt -type f
        {folder}/install --uninstall 2>&1 || echo "status $?"
        """, tarball)  # fmt: skip
    assert "/usr/local/lib/libpoolshim.so.0" in out and "/opt/other/lib/libpoolshim.so.0" in out
    assert "the preload takes effect in cat" in out
    assert out.splitlines()[-3:] == [
        "poolshim is removed from /usr/local",
        "install: /usr/local/lib/poolshim/manifest is not there: nothing to remove below "
        "/usr/local",
        "status 1",
    ]


@pytest.mark.parametrize("name", ["bin/poolshim", "lib/libpoolshim.so"])
def test_tarball_replaces_nothing_that_it_did_not_install(
    dist: Path, tmp_path: Path, name: str
) -> None:
    with tarfile.open(only(dist, f"*-{MACHINE}.tar.xz")) as tar:
        tar.extractall(tmp_path, filter="data")
    script = only(tmp_path, "poolshim-*") / "install"
    foreign = tmp_path / "prefix" / name
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    result = run_captured([script, "--prefix", tmp_path / "prefix"])
    assert result.returncode == 1
    assert result.stderr == (
        f"install: {foreign} is there already, and was not installed by this script\n")
    assert foreign.read_text() == "mine"
    assert [path for path in (tmp_path / "prefix").rglob("*") if path.is_file()] == [foreign]


# ---- recipes ----


def test_conan_recipe_makes_a_package_that_links(tmp_path: Path) -> None:
    """Static and without the shim, then shared and with it."""
    run_ok(sys.executable, "-m", "venv", tmp_path / "venv")
    conan = tmp_path / "venv" / "bin" / "conan"
    python = tmp_path / "venv" / "bin" / "python"
    result = run_captured([python, "-m", "pip", "install", "-q", "conan"], timeout=300)
    if result.returncode != 0:
        pytest.skip("conan cannot be installed: no network?")
    checkout = clone(tmp_path / "checkout")
    env = {**os.environ, "CONAN_HOME": str(tmp_path / "conan")}
    run_ok(conan, "profile", "detect", env=env)
    for options in (["-o", "&:shared=False"], ["-o", "&:shared=True", "-o", "&:shim=False"]):
        command = [conan, "create", checkout, "--test-folder", "tests/package/conan", *options]
        done = run_captured(command, timeout=600, env=env, cwd=checkout)
        said = done.stdout + done.stderr  # which of them has the program's, versions differ in
        assert done.returncode == 0 and "1 blocks" in said, said[-3000:]


def test_vcpkg_port_does_what_it_says(tmp_path: Path) -> None:
    """vcpkg is in no package registry: its functions are replaced, the port is real."""
    port = ROOT / "scripts" / "packages" / "vcpkg"
    facts = json.loads((port / "vcpkg.json").read_text())
    assert f"VERSION {facts['version-semver']} " in (ROOT / "CMakeLists.txt").read_text()
    for features, is_there in (("core", False), ("core;shim", True)):
        packages = install_port(port, tmp_path / str(is_there), features)
        assert (packages / "share" / "poolshim" / "LICENSE").exists()
        assert (packages / "lib" / "libpoolshim.a").exists() == is_there
