# SPDX-License-Identifier: MIT
"""A repository of the Debian packages, by apt-ftparchive: all versions, one signed list.

Packages are written first, then the lists below their checksums, then Release, which names them:
apt reads either the old repository or the new one.
"""

from __future__ import annotations

import gzip
import shutil
from email.parser import Parser
from functools import cached_property
from pathlib import Path

from packages.archive import sha256
from publishing import folder
from publishing.target import Target
from publishing.tools import PublishError, output

POOL = "pool/main/p/poolshim"
LISTS = "dists/stable"
ARCHITECTURES = ("amd64", "arm64")
RELEASE = {"Origin": "poolshim", "Label": "poolshim", "Suite": "stable", "Codename": "stable",
           "Architectures": " ".join(ARCHITECTURES), "Components": "main",
           "Acquire-By-Hash": "yes"}  # fmt: skip
LAST = ("Release", "InRelease", "Release.gpg")
SOURCES = """\
# /etc/apt/sources.list.d/poolshim.sources
Types: deb
URIs: {address}
Suites: stable
Components: main
"""


class Apt(Target):
    name = "apt"
    needs = (("apt", "folder"), ("apt", "address"))
    takes_processors = True
    tools = ("apt-ftparchive", "dpkg-deb", "rsync")

    @cached_property
    def copy(self) -> Path:
        """The repository as it is."""
        copied = self.work()
        folder.read(self.own, copied)
        return copied

    def packages(self) -> list[Path]:
        found = self.files.named("*.deb")
        if not found:
            raise PublishError(f"{self.files.folder} has no Debian package")
        return found

    def listed(self) -> set[str]:
        """Checksums of the packages that Release reaches."""
        top = self.copy / LISTS
        release = (top / "Release").read_text() if (top / "Release").exists() else ""
        found = set()
        for path in top.glob("main/binary-*/Packages"):
            if sha256(path) in release:
                rows = [Parser().parsestr(row) for row in path.read_text().split("\n\n")]
                found |= {str(row["SHA256"]) for row in rows if row["SHA256"]}
        return found

    def is_done(self) -> bool:
        for path in self.packages():
            theirs = self.copy / POOL / path.name
            if theirs.exists() and sha256(theirs) != sha256(path):
                raise self.conflict(self.own)
        return {sha256(path) for path in self.packages()} <= self.listed()

    def plan(self) -> str:
        signed = "signed" if self.signer.key else "not signed"
        return f"{len(self.packages())} packages to {self.own}, {signed}"

    def upload(self) -> None:
        made = self.copy
        pool, lists = made / POOL, made / LISTS
        pool.mkdir(parents=True, exist_ok=True)
        for path in self.packages():
            shutil.copyfile(path, pool / path.name)
        for name in LAST:
            (lists / name).unlink(missing_ok=True)
        for architecture in ARCHITECTURES:
            self.write_list(lists / "main" / f"binary-{architecture}", architecture)
        self.write_release(lists)
        self.write_sources(made)
        folder.write(made, self.own, last=LAST)

    def write_list(self, place: Path, architecture: str) -> None:
        """The packages of one architecture, by name and by checksum."""
        place.mkdir(parents=True, exist_ok=True)
        text = output("apt-ftparchive", "--arch", architecture, "packages", "pool", cwd=self.copy)
        (place / "Packages").write_text(text)
        (place / "Packages.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        sums = place / "by-hash" / "SHA256"
        sums.mkdir(parents=True, exist_ok=True)
        for name in ("Packages", "Packages.gz"):
            shutil.copyfile(place / name, sums / sha256(place / name))

    def write_release(self, lists: Path) -> None:
        """The list of lists, and its signatures."""
        options = [word for key, text in RELEASE.items()
                   for word in ("-o", f"APT::FTPArchive::Release::{key}={text}")]  # fmt: skip
        options += [word for name in ("DoByHash", "MD5", "SHA1", "SHA512")
                    for word in ("-o", f"APT::FTPArchive::{name}=false")]  # fmt: skip
        text = output("apt-ftparchive", *options, "release", lists)
        release = lists / "Release"
        release.write_text(text)
        if self.signer.key:
            self.signer.sign(release, "--clear-sign", lists / "InRelease")
            self.signer.sign(release, "--detach-sign", lists / "Release.gpg")

    def write_sources(self, made: Path) -> None:
        """The file that a system needs: the address, and the key or that there is none."""
        text = SOURCES.format(address=self.address("apt", "address"))
        if self.signer.key:
            lines = self.signer.public().strip().splitlines()
            text += "Signed-By:\n" + "".join(f" {line or '.'}\n" for line in lines)
        else:
            text += "Trusted: yes\n"
        (made / "poolshim.sources").write_text(text)
