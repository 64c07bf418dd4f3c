# SPDX-License-Identifier: MIT
"""Debian packages, by dpkg-deb: poolshim, libpoolshim-dev, poolshim-dbgsym.

poolshim has the library, the pools and the command; without Recommends it needs libc alone, and
`poolshim run` works. No service is installed, started or changed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from .staging import ROOT, Machine, Release, run

MAINTAINER = "poolshim contributors <poolshim@localhost.invalid>"
DEVELOPMENT = ("usr/include", "usr/lib/*-*/*.a", "usr/lib/*-*/libpoolshim*.so", "usr/lib/*-*/cmake",
               "usr/lib/*-*/pkgconfig", "usr/share/man/man3",
               "usr/share/doc/poolshim/examples")  # fmt: skip
OVERRIDES = {
    "poolshim": """\
# One package has library, pools and command, so that one file can be installed by apt.
poolshim: package-name-doesnt-match-sonames libpoolshim-pools0 libpoolshim0
# Packages are built by scripts/package, not uploaded.
poolshim: initial-upload-closes-no-bugs *
""",
    "libpoolshim-dev": """\
# Packages are built by scripts/package, not uploaded.
libpoolshim-dev: initial-upload-closes-no-bugs *
""",
}
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: poolshim

Files: *
Copyright: @YEAR@ poolshim contributors
License: Expat

License: Expat
"""
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ] && command -v py3compile >/dev/null; then
    py3compile -p poolshim /usr/lib/poolshim/python
fi
"""
PRERM = """\
#!/bin/sh
set -e
find /usr/lib/poolshim/python -name __pycache__ -type d -prune -exec rm -rf {} +
"""


@dataclass(frozen=True)
class Package:
    """What control says of one."""

    name: str
    section: str
    summary: str
    text: str
    relations: tuple[str, ...] = ()


def packages(what: Release, glibc: str) -> list[Package]:
    version = f"{what.version}-1"
    return [
        Package(
            "poolshim", "libs", "drop-in malloc, with commands that check, compare and tune it",
            "libpoolshim.so replaces malloc in any dynamically linked program, by\n"
            "LD_PRELOAD. libpoolshim-pools has allocators for objects whose lifetimes\n"
            "follow a pattern. The command poolshim runs programs on it, checks that it\n"
            "takes effect, compares it with other allocators, and finds size classes for\n"
            "a program.\n"
            ".\n"
            "Without the recommended packages the library and `poolshim run` work.",
            (f"Depends: libc6 (>= {glibc})",
             "Recommends: python3 (>= 3.10), python3-click, python3-rich",
             "Suggests: python3-jinja2, python3-matplotlib, python3-numpy"),
        ),
        Package(
            "libpoolshim-dev", "libdevel", "headers and static library of poolshim",
            "For programs that link with libpoolshim or libpoolshim-pools: headers, the\n"
            "static library of the pools, a CMake package, pkg-config files, manual pages\n"
            "and examples.",
            (f"Depends: poolshim (= {version}), libc6-dev",),
        ),
        Package(
            "poolshim-dbgsym", "debug", "debug symbols for poolshim",
            "For debuggers and profilers, which find them by the build ID of a library.",
            (f"Depends: poolshim (= {version})", "Auto-Built-Package: debug-symbols"),
        ),
    ]  # fmt: skip


def compress(path: Path) -> None:
    """Compresses a manual page or changelog by the policy, without name and time in the file."""
    output = path.with_name(f"{path.name}.gz")
    output.write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    path.unlink()


def changelog(what: Release) -> str:
    date = formatdate(what.epoch).replace("-0000", "+0000")
    return (f"poolshim ({what.version}-1) unstable; urgency=medium\n\n"
            f"  * Built by scripts/package from commit {what.commit[:12]}; CHANGELOG.md has what\n"
            f"    changed.\n\n -- {MAINTAINER}  {date}\n")  # fmt: skip


def indented(text: str) -> str:
    return "".join(f" {line}\n" for line in text.splitlines())


def control(package: Package, what: Release, target: Machine, tree: Path) -> str:
    files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    size_kib = sum(-(-path.stat().st_size // 1024) for path in files)
    return "\n".join([
        f"Package: {package.name}", "Source: poolshim", f"Version: {what.version}-1",
        f"Architecture: {target.debian}", f"Maintainer: {MAINTAINER}",
        f"Installed-Size: {size_kib}", f"Section: {package.section}", "Priority: optional",
        *package.relations, f"Description: {package.summary}",
        indented(package.text),
    ])  # fmt: skip


def move(source: Path, stage: Path, destination: Path) -> None:
    target = destination / source.relative_to(stage)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(source, target)


def add_documents(tree: Path, name: str, what: Release) -> None:
    """copyright and changelog; debug symbols have those of their package."""
    if name.endswith("-dbgsym"):
        link = tree / "usr" / "share" / "doc" / name
        link.parent.mkdir(parents=True)
        link.symlink_to(name.removesuffix("-dbgsym"))
        return
    folder = tree / "usr" / "share" / "doc" / name
    folder.mkdir(parents=True, exist_ok=True)
    year = str(time.gmtime(what.epoch).tm_year)
    (folder / "copyright").write_text(COPYRIGHT.replace("@YEAR@", year) + licence())
    (folder / "changelog.Debian").write_text(changelog(what))
    compress(folder / "changelog.Debian")


def licence() -> str:
    """The text below the copyright line, as a field."""
    _, _, text = (ROOT / "LICENSE").read_text().partition("contributors\n\n")
    return "".join(f" {line}\n" if line else " .\n" for line in text.splitlines())


def split(stage: Path, work: Path, what: Release) -> None:
    """The staged tree, a tree for each package."""
    main, development = work / "poolshim", work / "libpoolshim-dev"
    stage.rename(main)
    for pattern in DEVELOPMENT:
        for path in sorted(main.glob(pattern)):
            move(path, main, development)
    documents = main / "usr/share/doc/poolshim"
    (documents / "LICENSE").unlink()
    (documents / "CHANGELOG.md").rename(documents / "changelog")
    compress(documents / "changelog")
    examples = development / "usr/share/doc/libpoolshim-dev"
    examples.mkdir(parents=True)
    (development / "usr/share/doc/poolshim/examples").rename(examples / "examples")
    (development / "usr/share/doc/poolshim").rmdir()
    for tree in (main, development):
        for page in (tree / "usr/share/man").rglob("*.[137]"):
            compress(page)
    completion = main / "usr/share/zsh/site-functions"
    completion.rename(completion.with_name("vendor-completions"))
    for name, text in OVERRIDES.items():
        overrides = work / name / "usr" / "share" / "lintian" / "overrides" / name
        overrides.parent.mkdir(parents=True)
        overrides.write_text(text)


def control_files(package: Package, tree: Path, what: Release, target: Machine) -> None:
    """DEBIAN/ of one tree."""
    files = sorted(p for p in tree.rglob("*") if p.is_file() and not p.is_symlink())
    sums = [f"{hashlib.md5(p.read_bytes()).hexdigest()}  {p.relative_to(tree)}\n"  # noqa: S324
            for p in files]  # fmt: skip
    text = control(package, what, target, tree)
    folder = tree / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(text)
    (folder / "md5sums").write_text("".join(sums))
    if package.name == "poolshim":
        (folder / "triggers").write_text("activate-noawait ldconfig\n")
        (folder / "shlibs").write_text("".join(
            f"{library} 0 poolshim (>= {what.version})\n"
            for library in ("libpoolshim", "libpoolshim-pools")))  # fmt: skip
        for name, script in (("postinst", POSTINST), ("prerm", PRERM)):
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)


def set_modes(tree: Path) -> None:
    """Sets the modes that the policy requires, whatever this user's umask is."""
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            is_library = ".so." in path.name
            is_open = path.is_dir() or (path.stat().st_mode & 0o100 and not is_library)
            path.chmod(0o755 if is_open else 0o644)


def make_packages(
    what: Release, target: Machine, stage: Path, debug: Path, glibc: str, work: Path, output: Path
) -> Sequence[Path]:
    """All three, into output."""
    split(stage, work, what)
    symbols = work / "poolshim-dbgsym" / "usr" / "lib" / "debug"
    symbols.mkdir(parents=True)
    (debug / ".build-id").rename(symbols / ".build-id")
    made = []
    for package in packages(what, glibc):
        tree = work / package.name
        add_documents(tree, package.name, what)
        control_files(package, tree, what, target)
        set_modes(tree)
        path = output / f"{package.name}_{what.version}-1_{target.debian}.deb"
        run("dpkg-deb", "--build", "--root-owner-group", "-Zxz", tree, path,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(what.epoch)})  # fmt: skip
        made.append(path)
    return made
