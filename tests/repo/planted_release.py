# SPDX-License-Identifier: MIT
"""A release of small packages that are planted: its checkout, its files, and destinations here."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from conftest import ROOT, load_script, run_captured
from publishable import Place, git

sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "dev")]
from packages import archive, bill, staging

COPIED = ("CMakeLists.txt", "pyproject.toml", "CHANGELOG.md", "LICENSE", "scripts")
VERSION = next(iter(load_script("release").versions().values()))
EPOCH = 1_700_000_000
CONTROL = """\
Package: {name}
Version: {version}-1
Architecture: amd64
Maintainer: test <test@localhost>
Description: planted
"""


def plant_deb(dist: Path, name: str, version: str) -> Path:
    tree = dist / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(CONTROL.format(name=name, version=version))
    path = dist / f"{name}_{version}-1_amd64.deb"
    command = ["dpkg-deb", "--root-owner-group", "--build", tree, path]
    assert run_captured(command).returncode == 0
    shutil.rmtree(tree)
    return path


def plant_tarball(dist: Path, version: str, machine: str = "x86_64") -> Path:
    top = f"poolshim-{version}-linux-{machine}"
    tree = dist / top
    for name, text in (("bin/poolshim", "#!/bin/sh\ncat /proc/self/maps\n"),
                       ("lib/libpoolshim.so.0", f"planted for {machine}"),
                       ("share/doc/x", "")):  # fmt: skip
        path = tree / "files" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (tree / "files/bin/poolshim").chmod(0o755)
    (tree / "files/lib/libpoolshim.so").symlink_to("libpoolshim.so.0")
    archive.pack(tree, top, dist / f"{top}.tar.xz", EPOCH)
    shutil.rmtree(tree)
    return dist / f"{top}.tar.xz"


def plant(tree: Path, dist: Path, version: str = VERSION) -> None:
    """A dist/ with small files in the place of packages, made of the commit of the tree."""
    dist.mkdir()
    what = staging.Release(version, git(tree, "rev-parse", "HEAD"), EPOCH)
    wheel = dist / f"poolshim-{version}-py3-none-manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("poolshim_cli/__init__.py", "")
    made = [wheel, plant_tarball(dist, version)]
    if shutil.which("dpkg-deb"):
        made.append(plant_deb(dist, "poolshim", version))
    made.append(bill.write_bill(what, tree, "2.17", made, dist))
    bill.write_checksums(made, dist)


def commit_sources(tree: Path) -> Path:
    """A checkout with the tag of its version."""
    tree.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tree)
    git(tree, "init", "-q", "-b", "main")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "all")
    git(tree, "tag", f"v{VERSION}")
    return tree


def place_in(folder: Path, committed: Path) -> Place:
    shutil.copytree(committed, folder / "tree", symlinks=True)
    plant(folder / "tree", folder / "dist")
    return Place(folder, folder / "tree", folder / "dist")


def next_version(place: Place, version: str) -> None:
    """Names another version, as scripts/dev/release does, and plants its packages."""
    project = place.tree / "CMakeLists.txt"
    project.write_text(project.read_text().replace(f"VERSION {VERSION}", f"VERSION {version}", 1))
    path = place.tree / "CHANGELOG.md"
    path.write_text(path.read_text().replace("## Unreleased", f"## {version}\n\n- More.\n\n", 1))
    git(place.tree, "commit", "-q", "-a", "-m", "next")
    git(place.tree, "tag", f"v{version}")
    place.dist = place.folder / f"dist-{version}"
    plant(place.tree, place.dist, version)
