# SPDX-License-Identifier: MIT
"""Debian's packages of an architecture, without installing them: a kernel, busybox, libraries, and
a whole system for the tests.

Lists and files lie in build/machine/<architecture>/; apt's own settings and the host's packages
remain as they are. Downloads are cached.
"""

from __future__ import annotations

import lzma
import os
import platform
import re
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from poolshim_cli.errors import BadRequest

ROOT = Path(__file__).resolve().parents[3]
PLACE = ROOT / "build" / "machine"
MIRROR = os.environ.get("TEST_DEBIAN_MIRROR", "http://deb.debian.org/debian")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# In the order in which they need each other; some kernels have some of them built in.
MODULES = (
    "virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci",
    "netfs", "fscache", "9pnet", "9pnet_virtio", "9p", "overlay",
)  # fmt: skip
MODULE = re.compile(f".*/({'|'.join(MODULES)})\\.ko(\\.xz)?")
IMAGE = re.compile(r".*/boot/vmlinu[xz]-.*")
BUSYBOX = re.compile(r".*/bin/busybox")
LIBRARIES = ("libc6", "libgcc-s1", "libstdc++6")
# What packages do when they are configured, as far as tests need it.
COPIES = {f"usr/share/base-passwd/{name}.master": f"etc/{name}" for name in ("passwd", "group")}
LINKS = {
    "usr/bin/awk": "/usr/bin/mawk",
    "usr/bin/cc": "/usr/bin/gcc",
    "usr/bin/c++": "/usr/bin/g++",
    "usr/bin/fakeroot": "/usr/bin/fakeroot-sysv",
    "usr/bin/java": "/usr/lib/jvm/*/bin/java",
    "usr/bin/which": "/usr/bin/which.debianutils",
}


@dataclass(frozen=True)
class Architecture:
    """A machine: its processor as qemu, Debian and this project's build call it, and its kernel."""

    processor: str
    debian: str
    machine: str
    console: str
    cpu_limit: int
    cpu: str = "max"
    flavour: str = ""  # of the kernel: Debian's usual one has pages of 4 KiB
    release: str = ""  # of Debian: the host's

    @property
    def name(self) -> str:
        return f"{self.processor}-{self.flavour}" if self.flavour else self.processor

    @property
    def folder(self) -> Path:
        return PLACE / self.name

    @property
    def build(self) -> Path:
        return ROOT / "build" / ("release" if self.is_native else self.processor)

    @property
    def emulator(self) -> str:
        return f"qemu-system-{self.processor}"

    @property
    def is_native(self) -> bool:
        """The host's programs run there."""
        return self.processor == platform.machine()

    def has_kernel(self) -> bool:
        return (self.folder / "kernel").is_dir()

    def kernel(self) -> Path:
        """The folder of the kernel and its modules."""
        def is_wanted(name: str) -> bool:
            return bool(IMAGE.fullmatch(name) or MODULE.fullmatch(name))

        def fill(folder: Path) -> None:
            flavour = f"-{self.flavour}" if self.flavour else ""
            unpack(self._download(f"linux-image-{self.debian}{flavour}"), folder, is_wanted)

        return self._made("kernel", fill)

    def busybox(self) -> Path:
        def is_wanted(name: str) -> bool:
            return bool(BUSYBOX.fullmatch(name))

        def fill(folder: Path) -> None:
            unpack(self._download("busybox-static"), folder, is_wanted)

        return self._made("busybox", fill) / "busybox"

    def libraries(self, optional: list[str]) -> Path:
        """A root with those of C and C++, and of packages that this Debian may not have."""
        def fill(folder: Path) -> None:
            merge_usr(folder)
            for package in (*LIBRARIES, *optional):
                try:
                    file = self._download(package)
                except BadRequest:
                    if package in LIBRARIES:
                        raise
                    continue
                unpack_all(file, folder)

        return self._made("libraries", fill)

    def system(self, packages: list[str]) -> Path:
        """A root with the essential packages and those of the list that this Debian has, with all
        that they depend on; unpacked and not configured, except by what LINKS and COPIES say."""
        def fill(folder: Path) -> None:
            known = set(self._apt("apt-cache", "pkgnames").split())
            wanted = ["?essential", *(name for name in packages if name in known)]
            merge_usr(folder)
            cache = self.folder / "apt" / "archives"
            (cache / "partial").mkdir(parents=True, exist_ok=True)
            self._apt("apt-get", "-y", "--no-install-recommends", "--download-only", "install",
                      *wanted)  # fmt: skip
            for file in sorted(cache.glob("*.deb")):
                unpack_all(file, folder)
            shutil.rmtree(cache)
            for source, copy in COPIES.items():
                shutil.copy(folder / source, folder / copy)
            for link, target in LINKS.items():
                found = sorted(folder.glob(target.lstrip("/")))
                if found and not (folder / link).is_symlink():
                    (folder / link).symlink_to("/" / found[0].relative_to(folder))

        names = " ".join(sorted(packages))
        name = f"system-{zlib.crc32(names.encode()):08x}"
        for old in self.folder.glob("system-*"):
            if old.name != name:
                shutil.rmtree(old)
        return self._made(name, fill)

    def _made(self, name: str, fill: Callable[[Path], None]) -> Path:
        """A folder that is there, or becomes so once it is full."""
        folder = self.folder / name
        if not folder.is_dir():
            new = folder.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            self._apt("apt-get", "update")
            fill(new)
            new.rename(folder)
        return folder

    def _download(self, package: str) -> Path:
        """The package, or for one of a kernel that only depends on the newest, that one."""
        needed = self._apt("apt-cache", "depends", package)
        newest = re.search(r"Depends: (linux-image-\S+)", needed)
        folder = self.folder / "packages"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._apt("apt-get", "download", newest[1] if newest else package, folder=folder)
        (file,) = folder.glob("*.deb")
        return file

    def _apt(self, tool: str, *words: str, folder: Path | None = None) -> str:
        """Of a state of its own: no package counts as installed, no other architecture as ours."""
        state = self.folder / "apt"
        (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        settings = {
            "Dir::State": state, "Dir::State::Lists": state / "lists", "Dir::Cache": state,
            "Dir::State::Status": "/dev/null", "APT::Architecture": self.debian,
            "APT::Architectures": self.debian, "APT::Sandbox::User": "root",
        }  # fmt: skip
        if self.release:
            source = self.folder / "apt" / "sources.list"
            source.write_text(f"deb [signed-by={KEYS}] {MIRROR} {self.release} main\n")
            settings |= {"Dir::Etc::SourceList": source, "Dir::Etc::SourceParts": "/dev/null"}
        command = [tool, *(f"-o{key}={value}" for key, value in settings.items()), "-qq", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise BadRequest(f"{tool} {' '.join(words)} for {self.debian}: {said[-1]}")
        return done.stdout


def unpack(file: Path, folder: Path, is_wanted: Callable[[str], bool]) -> None:
    """Files of a package by their base names; it is gone then. A whole kernel has 400 MB."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if is_wanted(member.name) else None
                if content is not None:
                    target = folder / Path(member.name).name
                    data = content.read()
                    if target.suffix == ".xz":
                        target, data = target.with_suffix(""), lzma.decompress(data)
                    target.write_bytes(data)
                    target.chmod(member.mode)
    file.unlink()


def merge_usr(folder: Path) -> None:
    """Makes the links from /bin to /usr/bin that no package has."""
    for name in ("bin", "sbin", "lib"):
        (folder / "usr" / name).mkdir(parents=True)
        (folder / name).symlink_to(f"usr/{name}")


def unpack_all(file: Path, folder: Path) -> None:
    """A package into a root, through whose links from /bin to /usr/bin it goes; it is gone then."""
    tar = ["tar", "-x", "--keep-directory-symlink", "--warning=no-timestamp", "-C", folder]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE) as process:
        done = subprocess.run(tar, stdin=process.stdout, capture_output=True, text=True)
    if done.returncode != 0 or process.returncode != 0:
        raise BadRequest(f"{file.name} cannot be unpacked: {done.stderr.strip()}")
    file.unlink()


# On two processors of the host 128 of x86_64 boot in six minutes, and 64 of aarch64 not in four.
ARCHITECTURES = {
    one.name: one
    for one in (
        Architecture("x86_64", "amd64", "q35", "ttyS0", 64),
        Architecture("aarch64", "arm64", "virt,gic-version=3", "ttyAMA0", 32),
        Architecture(
            "aarch64", "arm64", "virt,gic-version=3", "ttyAMA0", 32, flavour="16k", release="trixie"
        ),
        Architecture("riscv64", "riscv64", "virt", "ttyS0", 8, cpu="rv64", release="trixie"),
    )
}
