# SPDX-License-Identifier: MIT
"""The packages, published by scripts/dev/publish to registries of this machine and used from there.

    scripts/test --packages tests/package/test_publish_registries.py

Refusals, folders and git repositories, with small packages: tests/repo/test_publish.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bare_system import clone, copy, in_chroot, only, run_ok
from cargo import environment, need_cargo
from conftest import ROOT, run_captured
from crate_registry import Registry, serve
from index_servers import PASSWORD, USER, Servers
from publishable import Place, git, make_key, need
from vcpkg_port import install_port

pytestmark = pytest.mark.package
pytest_plugins = ["made_once"]
PROGRAMS = ("twine", "conan", "conan-server", "pypiserver", "passlib", "bcrypt<4.1")
TARGETS = ("release", "pypi", "crates", "image", "apt", "homebrew", "conan", "vcpkg")
SHOW_MAPS = "poolshim run -- cat /proc/self/maps | grep -m 1 libpoolshim.so"
UPLOAD_SECONDS = 1800  # Debian is installed for the image


@dataclass
class Published:
    """A release that is at all targets, and where those are."""

    place: Place
    crates: Registry
    programs: Path
    version: str
    first: str  # what the first, failing call printed
    last: str


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bin/ of an environment of Python with the programs that no package of Debian has."""
    venv = tmp_path_factory.mktemp("programs") / "venv"
    run_ok(sys.executable, "-m", "venv", venv)
    install = [venv / "bin" / "python", "-m", "pip", "install", "-q", *PROGRAMS]
    if run_captured(install, timeout=600).returncode != 0:
        pytest.skip("twine, conan and pypiserver cannot be installed: no network?")
    return venv / "bin"


def tagged(folder: Path, dist: Path) -> tuple[Path, str]:
    """A checkout of the commit that the packages were made of, with the tag of its version."""
    bill = json.loads(only(dist, "*.spdx.json").read_text())["packages"][0]
    commit = re.sub(r".*git commit (\w+).*", r"\1", bill["sourceInfo"])
    tree = clone(folder)
    git(tree, "checkout", "-q", commit)
    git(tree, "tag", "-f", f"v{bill['versionInfo']}")
    return tree, bill["versionInfo"]


def settle(place: Place, servers: Servers, crates: Registry, programs: Path) -> None:
    """Addresses and credentials."""
    python, images, recipes = servers.python(), servers.images(), servers.conan()
    web = servers.files(place.folder)
    place.set("pypi", upload=f"http://{python}/", index=f"http://{python}/simple/")
    place.set("crates", registry="trial", index=crates.address)
    place.set("image", repository=f"docker://{images}/poolshim")
    place.set("conan", remote=f"http://{recipes}")
    place.tables["apt"]["address"] = f"http://{web}/apt"
    place.tables["release"]["address"] = f"http://{web}/releases"
    place.env = {
        "PATH": f"{programs}:{os.environ['PATH']}", "TWINE_PASSWORD": "wrong",
        "CARGO_REGISTRIES_TRIAL_TOKEN": PASSWORD, "REGISTRY_USER": USER,
        "CARGO_REGISTRIES_TRIAL_INDEX": f"sparse+{crates.address}", "REGISTRY_PASSWORD": PASSWORD,
        "CONAN_LOGIN_USERNAME": USER, "CONAN_PASSWORD": PASSWORD,
        "RELEASE_SIGNING_KEY": make_key(place.folder / "keys"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def published(
    dist: Path, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Published]:
    """All targets, after a first call with a wrong token for the index of Python packages."""
    need("skopeo", "mmdebstrap", "docker-registry", "apt-ftparchive", "rsync", "gpg")
    need_cargo()
    folder = tmp_path_factory.mktemp("published")
    tree, version = tagged(folder / "tree", dist)
    place = Place(folder, tree, dist)
    with Servers(folder / "servers", programs) as servers, serve({PASSWORD}) as crates:
        settle(place, servers, crates, programs)
        first = place.publish("--upload", timeout=UPLOAD_SECONDS)
        assert first.returncode == 1 and not crates.crates, first.stdout + first.stderr
        assert not list((folder / "servers" / "packages").iterdir())
        place.env["TWINE_PASSWORD"] = PASSWORD
        last = place.publish("--upload", timeout=UPLOAD_SECONDS)
        assert last.returncode == 0, last.stdout + last.stderr
        yield Published(place, crates, programs, version, first.stderr, last.stdout)


def test_a_wrong_token_fails_in_one_line_and_the_next_call_goes_on(published: Published) -> None:
    failed, left = published.first.splitlines()[-2:]
    assert "pypi failed: twine upload: " in failed and "403" in failed
    assert f"done: release; left: {', '.join(TARGETS[1:])}; " in left
    done = re.findall(r"^  (\w+) +done$", published.last, re.MULTILINE)
    assert done == list(TARGETS[1:])
    assert "  release   has it already\n" in published.last


def test_nothing_is_published_twice(published: Published) -> None:
    done = published.place.publish("--upload", timeout=UPLOAD_SECONDS)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^  (\w+) +has it already$", done.stdout, re.MULTILINE) == list(TARGETS)
    assert "upload " not in done.stderr


def test_other_contents_of_a_published_version_are_refused(
    published: Published, tmp_path: Path
) -> None:
    """The version again, from another commit: targets refuse it where the commit, its time or its
    licence is in the bytes."""
    place = published.place
    dist, tree = tmp_path / "dist", tmp_path / "tree"
    shutil.copytree(place.dist, dist)
    run_ok("git", "clone", "-q", place.tree, tree)
    (tree / "LICENSE").write_text("another\n")
    git(tree, "commit", "-q", "-a", "-m", "another")
    git(tree, "tag", "-f", f"v{published.version}")
    bill = only(dist, "*.spdx.json")
    text = re.sub(r"git commit \w+", f"git commit {git(tree, 'rev-parse', 'HEAD')}",
                  bill.read_text())  # fmt: skip
    bill.write_text(text)
    names = sorted(path.name for path in dist.iterdir() if path.name != "SHA256SUMS")
    (dist / "SHA256SUMS").write_text(run_ok("sha256sum", *names, cwd=dist))
    (tmp_path / "new").mkdir()
    other = Place(tmp_path / "new", tree, dist)
    other.tables, other.env = {**place.tables}, place.env
    other.tables["project"] = {**place.tables["project"], "sources": str(tree)}
    done = other.publish("--upload", "--no-sign", timeout=UPLOAD_SECONDS)
    assert done.returncode == 1
    refused = re.findall(r"^  (\w+) +refused: .*never replaced$", done.stdout, re.MULTILINE)
    assert refused == ["release", "image", "conan", "vcpkg"], done.stdout
    assert done.stderr.endswith("scripts/dev/publish: nothing is published\n")


def test_uvx_runs_the_command_from_the_index(
    published: Published, base_system: Path, tmp_path: Path
) -> None:
    root = copy(base_system, tmp_path / "root")
    out = in_chroot(root, f"""
        apt-get update -q >/dev/null
        apt-get install -y -q --no-install-recommends python3-venv >/dev/null
        python3 -m venv /venv
        /venv/bin/pip install -q uv
        export SSL_CERT_FILE=$PIP_CERT PATH=/venv/bin:$PATH
        index={published.place.tables["pypi"]["index"]}
        uvx --index $index {SHOW_MAPS}
        uvx --index $index poolshim doctor -- cat
        """)  # fmt: skip
    assert "/site-packages/poolshim_cli/native/libpoolshim.so" in out
    assert "the preload takes effect in cat" in out


def test_apt_installs_from_the_repository(
    published: Published, base_system: Path, tmp_path: Path
) -> None:
    root = copy(base_system, tmp_path / "root")
    sources = published.place.folder / "apt" / "poolshim.sources"
    shutil.copy(sources, root / "etc" / "apt" / "sources.list.d")
    out = in_chroot(root, f"""
        apt-get update 2>&1
        apt-get install -y -q --no-install-recommends poolshim >/dev/null
        {SHOW_MAPS}
        apt-get install -y -q --no-install-recommends libpoolshim-dev gcc pkg-config >/dev/null
        pkg-config --modversion poolshim-pools
        """)  # fmt: skip
    assert "W:" not in out and "Err:" not in out and "Ign:" not in out, out
    assert "-linux-gnu/libpoolshim.so.0" in out
    assert out.endswith(f"\n{published.version}\n")


def unpacked(published: Published, tag: str, folder: Path) -> tuple[Path, dict[str, object]]:
    """The files of an image of the registry below one folder, and what runs there."""
    reference = f"{published.place.tables['image']['repository']}:{tag}"
    layout, root = folder / "layout", folder / "root"
    run_ok("skopeo", "--insecure-policy", "copy", "-q", "--src-tls-verify=false",
           f"--src-creds={USER}:{PASSWORD}", reference, f"dir:{layout}")  # fmt: skip
    root.mkdir()
    manifest = json.loads((layout / "manifest.json").read_text())
    for layer in manifest["layers"]:
        path = layout / layer["digest"].removeprefix("sha256:")
        run_ok("tar", "xzf", path, "-C", root)
    config = json.loads((layout / manifest["config"]["digest"].removeprefix("sha256:")).read_text())
    return root, config["config"]


def test_the_image_of_the_command_runs(published: Published, tmp_path: Path) -> None:
    root, config = unpacked(published, published.version, tmp_path)
    command = " ".join(config["Entrypoint"])  # type: ignore[arg-type]
    out = in_chroot(root, f"{command} doctor -- cat\n{command} stats --help\n{command} --version")
    assert "the preload takes effect in cat" in out and "usage: poolshim stats" in out
    assert f"poolshim {published.version}\n" in out
    revision = config["Labels"]["org.opencontainers.image.revision"]  # type: ignore[index]
    assert revision == git(published.place.tree, "rev-parse", "HEAD")


def test_the_image_of_the_library_has_one_file(published: Published, tmp_path: Path) -> None:
    root, _ = unpacked(published, f"{published.version}-library", tmp_path)
    (file,) = [path for path in root.rglob("*") if path.is_file()]
    assert file == root / "usr" / "lib" / "libpoolshim.so"
    env = {**os.environ, "LD_PRELOAD": str(file)}
    assert str(file) in run_ok("cat", "/proc/self/maps", env=env)


def test_cargo_builds_a_program_with_the_crate(published: Published, tmp_path: Path) -> None:
    version = published.version
    (tmp_path / "src").mkdir()
    (tmp_path / "Cargo.toml").write_text(
        '[package]\nname = "program"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
        f'poolshim = {{ version = "={version}", registry = "trial" }}\n')  # fmt: skip
    (tmp_path / "src" / "main.rs").write_text(
        "#[global_allocator]\nstatic MALLOC: poolshim::Poolshim = poolshim::Poolshim;\n"
        'fn main() { println!("{}", vec![1, 2, 3].iter().sum::<i32>()); }\n')  # fmt: skip
    own = environment() | published.place.env | {"CARGO_TARGET_DIR": str(tmp_path / "target")}
    assert run_ok("cargo", "run", "-q", cwd=tmp_path, env=own) == "6\n"
    assert list(published.crates.crates) == [("poolshim", version)]


def test_conan_builds_a_program_with_the_recipe(published: Published, tmp_path: Path) -> None:
    conan = published.programs / "conan"
    own = {**os.environ, "CONAN_HOME": str(tmp_path / "conan")}
    reference = f"poolshim/{published.version}"
    run_ok(conan, "profile", "detect", env=own)
    run_ok(conan, "remote", "add", "trial", published.place.tables["conan"]["remote"], env=own)
    run_ok(conan, "install", f"--requires={reference}", "-r", "trial", "--build=poolshim/*",
           "-o", "poolshim/*:shim=False", env=own, cwd=tmp_path)  # fmt: skip
    consumer = shutil.copytree(ROOT / "tests" / "package" / "conan", tmp_path / "consumer")
    done = run_captured([conan, "test", consumer, reference,
                         "-o", "poolshim/*:shim=False", "-nr"], env=own, cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0 and "1 blocks" in done.stdout + done.stderr, done.stderr[-3000:]


def test_the_port_of_the_registry_builds(published: Published, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", published.place.tables["vcpkg"]["registry"], "registry")
    install_port(tmp_path / "registry" / "ports" / "poolshim", tmp_path)


def test_the_formula_installs_the_published_tarball(published: Published, tmp_path: Path) -> None:
    """By a stand-in for Homebrew, which runs the test of the formula, too."""
    need("ruby")
    git(tmp_path, "clone", "-q", published.place.tables["homebrew"]["tap"], "tap")
    stand_in = ROOT / "tests" / "repo" / "formula_stand_in.rb"
    own = {**os.environ, "RUN_TEST": "1"}
    run_ok("ruby", stand_in, tmp_path / "tap/Formula/poolshim.rb", tmp_path / "prefix", env=own)
    assert (tmp_path / "prefix" / "bin" / "poolshim").exists()


def test_a_reader_makes_the_same_bytes_again(published: Published, tmp_path: Path) -> None:
    """From the commit that the notes name, the sources of the release compare equal."""
    folder = published.place.folder / "releases" / f"v{published.version}"
    commit = re.findall(r"from commit (\w{40})", (folder / "NOTES.md").read_text())
    tree = clone(tmp_path / "again")
    git(tree, "checkout", "-q", *commit)
    run_ok(tree / "scripts" / "package", "--only", "source", "--output", tmp_path / "dist")
    for path in tmp_path.glob("dist/*.tar.xz"):
        assert path.read_bytes() == (folder / path.name).read_bytes()
        assert tarfile.is_tarfile(path)
