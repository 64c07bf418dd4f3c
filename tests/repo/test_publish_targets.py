# SPDX-License-Identifier: MIT
"""Folders, repositories and images of scripts/dev/publish, read by the programs they are for.

    scripts/test tests/repo/test_publish_targets.py

The packages are planted; registries and bare systems: tests/package/test_publish_registries.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from conftest import run_captured
from planted_release import EPOCH, VERSION, bill, next_version, plant, plant_tarball, staging
from publishable import Place, git, make_key, need
from publishing import notes, oci
from publishing.release import Files
from publishing.signing import Signer
from publishing.target import Publication
from publishing.targets.image import Image
from table import each_row

pytest_plugins = ["planted_once"]
STAND_IN = Path(__file__).with_name("formula_stand_in.rb")


def apt_of(place: Place, *words: str) -> "subprocess.CompletedProcess[str]":
    """apt with the repository as its only source, and folders of its own."""
    top = place.folder / "apt-root"
    for name in ("etc/apt/sources.list.d", "var/lib/dpkg", "var/cache/apt", "var/lib/apt/lists"):
        (top / name).mkdir(parents=True, exist_ok=True)
    (top / "var/lib/dpkg/status").touch()
    shutil.copy(place.folder / "apt" / "poolshim.sources", top / "etc/apt/sources.list.d")
    own = {**os.environ, "LC_ALL": "C"}
    options = ["-o", f"Dir={top}", "-o", f"Dir::State::status={top}/var/lib/dpkg/status",
               "-o", "APT::Architecture=amd64", "-o", "APT::Sandbox::User="]  # fmt: skip
    return run_captured([words[0], *options, *words[1:]], env=own)


def test_apt_reads_all_versions_of_a_signed_repository(place: Place) -> None:
    need("rsync", "gpg", "apt-ftparchive", "dpkg-deb", "apt-get")
    place.env["RELEASE_SIGNING_KEY"] = make_key(place.folder / "keys")
    assert place.publish("--upload", "apt").returncode == 0
    first = apt_of(place, "apt-get", "update")
    assert first.returncode == 0 and "W:" not in first.stderr, first.stdout + first.stderr
    next_version(place, "98.7.6")
    done = place.publish("--upload", "apt")
    assert done.returncode == 0, done.stderr
    assert apt_of(place, "apt-get", "update").returncode == 0
    known = apt_of(place, "apt-cache", "madison", "poolshim").stdout
    assert [row.split("|")[1].strip() for row in known.splitlines()] == ["98.7.6-1", f"{VERSION}-1"]
    assert "has it already" in place.publish("apt").stdout
    packages = place.folder / "apt/dists/stable/main/binary-amd64/Packages.gz"
    packages.write_bytes(b"changed")
    for path in packages.parent.glob("by-hash/SHA256/*"):
        path.unlink()
    assert apt_of(place, "apt-get", "clean").returncode == 0
    shutil.rmtree(place.folder / "apt-root")
    assert "E:" in apt_of(place, "apt-get", "update").stderr


def test_a_repository_without_signature_says_so(place: Place) -> None:
    need("rsync", "apt-ftparchive", "dpkg-deb")
    assert place.publish("--upload", "--no-sign", "apt").returncode == 0
    assert "Trusted: yes" in (place.folder / "apt" / "poolshim.sources").read_text()
    assert not list(place.folder.rglob("InRelease"))


def test_another_package_of_the_same_version_is_refused(place: Place) -> None:
    need("rsync", "apt-ftparchive", "dpkg-deb")
    assert place.publish("--upload", "--no-sign", "apt", "homebrew").returncode == 0
    shutil.rmtree(place.dist)
    plant(place.tree, place.dist)
    (deb,) = place.dist.glob("*.deb")
    deb.write_bytes(deb.read_bytes() + b"\n")
    (tarball,) = place.dist.glob("*x86_64.tar.xz")
    tarball.write_bytes(tarball.read_bytes() + bytes(4))
    bill.write_checksums([one for one in place.dist.iterdir() if one.suffix != ""], place.dist)
    done = place.publish("--upload", "--no-sign", "apt", "homebrew", "vcpkg")
    assert done.returncode == 1
    assert done.stdout.count("a published version is never replaced") == 2
    assert not git(place.folder / "registry", "for-each-ref")


# ---- the formula, the port ----


def test_the_formula_installs_the_tarball(place: Place) -> None:
    need("rsync", "ruby")
    assert place.publish("--upload", "--no-sign", "release", "homebrew").returncode == 0
    git(place.folder, "clone", "-q", str(place.folder / "tap"), "tapped")
    formula = place.folder / "tapped" / "Formula" / "poolshim.rb"
    assert run_captured(["ruby", "-wc", formula]).stdout == "Syntax OK\n"
    command = ["ruby", STAND_IN, formula, place.folder / "prefix"]
    done = run_captured(command)
    assert done.returncode == 0, done.stderr
    assert (place.folder / "prefix/lib/libpoolshim.so").read_text() == "planted for x86_64"
    assert f"poolshim {VERSION} MIT linux x86_64" in done.stdout
    (tarball,) = (place.folder / "releases").rglob("*x86_64.tar.xz")
    tarball.write_bytes(b"other")
    again = run_captured(["ruby", STAND_IN, formula, place.folder / "other"])
    assert again.returncode == 1 and "checksum" in again.stderr


def test_the_registry_of_vcpkg_names_trees_that_git_has(place: Place) -> None:
    assert place.publish("--upload", "--no-sign", "vcpkg").returncode == 0
    next_version(place, "98.7.6")
    manifest = place.tree / "scripts/packages/vcpkg/vcpkg.json"
    manifest.write_text(manifest.read_text().replace(VERSION, "98.7.6"))
    git(place.tree, "commit", "-q", "-a", "-m", "port")
    git(place.tree, "tag", "-f", "v98.7.6")
    shutil.rmtree(place.dist)
    plant(place.tree, place.dist, "98.7.6")
    assert place.publish("--upload", "--no-sign", "vcpkg").returncode == 0
    registry = place.folder / "registry"
    rows = json.loads(git(registry, "show", "main:versions/p-/poolshim.json"))["versions"]
    assert [row["version-semver"] for row in rows] == ["98.7.6", VERSION]
    for row in rows:
        port = git(registry, "show", f"{row['git-tree']}:portfile.cmake")
        assert "vcpkg_from_git(OUT_SOURCE_PATH SOURCE_PATH" in port
        text = git(registry, "show", f"{row['git-tree']}:vcpkg.json")
        assert json.loads(text)["version-semver"] == row["version-semver"]
    head = git(place.tree, "rev-parse", "HEAD")
    assert f"REF {head})" in git(registry, "show", "main:ports/poolshim/portfile.cmake")
    baseline = json.loads(git(registry, "show", "main:versions/baseline.json"))
    assert baseline["default"]["poolshim"]["baseline"] == "98.7.6"


# ---- images ----


def layout_of(folder: Path) -> dict[str, bytes]:
    """An image of the same two files, written in a folder, at another time with another mask."""
    tree, work = folder / "tree", folder / "work"
    for path in (tree / "usr" / "lib", work):
        path.mkdir(parents=True)
    (tree / "usr" / "lib" / "libpoolshim.so").write_bytes(b"planted" * 1000)
    (tree / "usr" / "lib" / "link").symlink_to("libpoolshim.so")
    layer = oci.layer_of(tree, work / "layer", EPOCH)
    facts = oci.Facts("1.2.3", "c0ffee", EPOCH, "x86_64", "https://poolshim.example")
    oci.write(folder / "layout", [layer], oci.COMMAND, facts)
    files = (folder / "layout").rglob("*")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.is_file()}


def test_an_image_has_the_same_bytes_twice(tmp_path: Path) -> None:
    first = layout_of(tmp_path / "a")
    before = os.umask(0o077)
    try:
        second = layout_of(tmp_path / "another place" / "b")
    finally:
        os.umask(before)
    assert first == second and len(first) == 6


def test_an_image_is_read_by_skopeo(tmp_path: Path) -> None:
    need("skopeo")
    layout_of(tmp_path)
    copy = ["skopeo", "--insecure-policy", "copy", "-q", f"oci:{tmp_path}/layout",
            f"dir:{tmp_path}/copy"]  # fmt: skip
    done = run_captured(copy)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "copy" / "manifest.json").read_text())
    (layer,) = manifest["layers"]
    with tarfile.open(tmp_path / "copy" / layer["digest"].removeprefix("sha256:")) as tar:
        entries = [(one.name, one.uid, oct(one.mode), one.mtime) for one in tar]
    assert entries == [
        ("usr", 0, "0o755", EPOCH), ("usr/lib", 0, "0o755", EPOCH),
        ("usr/lib/libpoolshim.so", 0, "0o644", EPOCH), ("usr/lib/link", 0, "0o777", EPOCH),
    ]  # fmt: skip


def names_in(layer: oci.Layer) -> list[tuple[str, bool]]:
    with tarfile.open(layer.path) as tar:
        return [(one.name, one.isfile()) for one in tar if not one.isdir()]


def image_of(place: Place, dist: Path) -> Image:
    """The target, with a folder of images as its destination."""
    what = staging.Release(VERSION, "c0ffee", EPOCH)
    (work := place.folder / f"work-{dist.name}").mkdir()
    tables = {"image": {"repository": f"oci:{place.folder}/images"}, "project": {"page": ""}}
    return Image(Publication(what, Files(dist, VERSION), tables, Signer(), work))


def test_images_have_the_library_and_the_command(place: Place) -> None:
    layers = image_of(place, place.dist).layers
    assert names_in(layers["-library"]) == [("usr/lib/libpoolshim.so", True)]
    assert names_in(layers[""]) == [
        ("usr/local/bin/poolshim", True), ("usr/local/lib/libpoolshim.so", False),
        ("usr/local/lib/libpoolshim.so.0", True),
    ]  # fmt: skip


def test_an_image_for_another_processor_is_added_under_the_same_name(place: Place) -> None:
    """And found there; other contents for a processor are refused."""
    need("skopeo")
    (other := place.folder / "dist-aarch64").mkdir()
    plant_tarball(other, VERSION, "aarch64")
    targets = {"amd64": image_of(place, place.dist), "arm64": image_of(place, other)}
    for target in targets.values():
        assert target.published("-library") is None
        target.put("-library", [target.layers["-library"]], oci.LIBRARY)
    reference = f"oci:{place.folder}/images:{VERSION}-library"
    raw = json.loads(run_captured(["skopeo", "inspect", "--raw", reference]).stdout)
    assert [one["platform"]["architecture"] for one in raw["manifests"]] == ["amd64", "arm64"]
    for name, target in targets.items():
        assert target.published("-library") == target.layers["-library"].digest
        copy = place.folder / name
        done = run_captured(["skopeo", "--insecure-policy", f"--override-arch={name}", "copy", "-q",
                             reference, f"dir:{copy}"])  # fmt: skip
        assert done.returncode == 0, done.stderr
        (layer,) = json.loads((copy / "manifest.json").read_text())["layers"]
        with tarfile.open(copy / layer["digest"].removeprefix("sha256:")) as tar:
            file = tar.extractfile("usr/lib/libpoolshim.so")
            assert file and file.read() == f"planted for {target.tree[1]}".encode()
    target.layers["-library"] = target.layers[""]
    with pytest.raises(notes.PublishError, match="never replaced"):
        target.left()


# ---- the notes ----

CHANGELOG = """\
## Unreleased

- new

## 1.2.3 (2026-01-02)

- old

## 1.2.2

- older
"""


@each_row("version, text", [("1.2.3", "- old"), ("1.2.2", "- older")])
def test_notes_are_the_part_of_the_changelog(version: str, text: str) -> None:
    assert notes.changes(CHANGELOG, version) == text


@each_row("version", ["1.2", "1.2.4", "1x2.3"])
def test_a_version_without_changes_has_no_notes(version: str) -> None:
    with pytest.raises(notes.PublishError, match="says nothing of"):
        notes.changes(CHANGELOG, version)
