# SPDX-License-Identifier: MIT
"""Bare systems of Debian and Ubuntu in folders, and commands inside them. Needs root.

Callers: scripts/package, scripts/dev/matrix, tests/package. Every mount is made in a mount
namespace that ends with its command, so nothing remains mounted, whatever fails. A system has the
device nodes that debootstrap makes for it; none of this machine is shared with it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
DEBIAN = os.environ.get("TEST_DEBIAN_MIRROR", "http://deb.debian.org/debian")
UBUNTU = os.environ.get("TEST_UBUNTU_MIRROR", "http://archive.ubuntu.com/ubuntu")
UBUNTU_KEYS = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")
FOREIGN = Path(__file__).resolve().with_name("foreign.py")
EMULATOR = "/usr/bin/qemu-aarch64-static"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
FROM_HERE = ("etc/resolv.conf", CERTIFICATES)  # by which a system reaches what this machine does


@dataclass(frozen=True)
class Suite:
    """A release of a distribution."""

    name: str
    title: str
    mirror: str = DEBIAN
    components: str = "main"
    script: str = "sid"  # debootstrap's; older ones lack the names of later releases


SUITES = {
    suite.name: suite
    for suite in (
        Suite("bullseye", "Debian 11"),
        Suite("bookworm", "Debian 12"),
        Suite("trixie", "Debian 13"),
        Suite("focal", "Ubuntu 20.04", UBUNTU, "main,universe", "gutsy"),
        Suite("jammy", "Ubuntu 22.04", UBUNTU, "main,universe", "gutsy"),
        Suite("noble", "Ubuntu 24.04", UBUNTU, "main,universe", "gutsy"),
    )
}


def missing() -> str:
    """The reason why no system can be made; empty: none."""
    if os.geteuid() != 0:
        return "a chroot needs root"
    if not shutil.which("debootstrap"):
        return "debootstrap is not installed: scripts/setup package"
    return ""


def bootstrap(suite: Suite, root: Path, keys: Path = UBUNTU_KEYS, arch: str = "") -> list[str]:
    """The command that makes the smallest system of a release in root; with another architecture
    than this machine's its first part, second_stage() has the other."""
    options = ["--variant=minbase", "--include=ca-certificates",
               f"--components={suite.components}"]  # fmt: skip
    if arch:
        options += [f"--arch={arch}", "--foreign"]
    if suite.mirror == UBUNTU:
        options.append(f"--keyring={keys}")
    script = f"/usr/share/debootstrap/scripts/{suite.script}"
    return [*NAMESPACES, "debootstrap", *options, suite.name, str(root), suite.mirror, script]


def connect(root: Path) -> None:
    """Gives a system this machine's name server and certificates, as files of its own."""
    for name in FROM_HERE:
        (root / name).unlink(missing_ok=True)  # never written through a link
        shutil.copyfile(f"/{name}", root / name)


def environment() -> dict[str, str]:
    """That of commands in a system."""
    found = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
        "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8",
        "PIP_CERT": f"/{CERTIFICATES}", "PIP_ROOT_USER_ACTION": "ignore",
    }  # fmt: skip
    return found | {name: text for name, text in os.environ.items() if name.endswith("_proxy")}


def inside(root: Path, script: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """The command and the environment that run a script of sh there, with /proc mounted."""
    enter = 'mount -t proc proc "$1/proc" && root=$1 && shift && exec chroot "$root" /bin/sh "$@"'
    command = [*NAMESPACES, "sh", "-c", enter, "sh", str(root), "-ec", script, "sh", *arguments]
    return command, environment()


# ---- systems of 64-bit ARM ----


def inside_foreign(root: Path, script: str) -> tuple[list[str], dict[str, str]]:
    """The same for a system of 64-bit ARM, by qemu-user; foreign.py has how."""
    command = ["python3", str(FOREIGN), EMULATOR, str(root), "/bin/sh", "-ec", script]
    return command, environment()


def can_run(machine: str) -> bool:
    """Whether programs of a processor run here, the kernel permitting."""
    here = os.uname().machine
    return machine == here or ((here, machine) == ("x86_64", "aarch64")
                               and Path(EMULATOR).exists())  # fmt: skip


def emulated(command: list[str], machine: str) -> list[str]:
    """A command of this machine whose children are programs of the other processor."""
    if machine == os.uname().machine:
        return command
    return ["python3", str(FOREIGN), EMULATOR, "/", *command]


def second_stage(root: Path) -> tuple[list[str], dict[str, str]]:
    """The second part of a system of 64-bit ARM. It makes a device node to see whether it could;
    in a user namespace it cannot, and the first part has made them all: a file will do."""
    tools = root / "debootstrap" / "bin"
    tools.mkdir()
    (tools / "mknod").write_text('#!/bin/sh\nfor name; do\ncase $name in\n'
                                 '/*) [ -e "$name" ] || : >"$name" ;;\nesac\ndone\n')  # fmt: skip
    (tools / "mknod").chmod(0o755)
    script = "PATH=/debootstrap/bin:$PATH exec /debootstrap/debootstrap --second-stage"
    return inside_foreign(root, script)


def last_error(log: Path, start: int = 0) -> str:
    """The first line of a log, from a byte on, that names an error, else its last."""
    text = log.read_bytes()[start:].decode(errors="replace")
    lines = text.strip().splitlines() or ["nothing said"]
    # apt of Ubuntu 20.04 says the former each time and goes on: there is no /dev/pts.
    named = [line for line in lines if re.match(r"E: (?!Can not write log)|.*\berror\b", line)]
    return (named or lines[-1:])[0].strip()[:200]


class BareSystemError(Exception):
    """One line for the user."""


class Systems:
    """The systems of one folder, FOLDER/SUITE/root, which later runs reuse. One process at a
    time."""

    def __init__(self, folder: Path, seconds: float, step_seconds: float = 1800) -> None:
        self.folder = folder
        self.end = time.monotonic() + seconds
        self.step_seconds = step_seconds
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BareSystemError(f"another process uses {folder}") from None

    def run(
        self, command: list[str], log: Path, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Appends stderr to the log, returns stdout. No command outlives its time."""
        limit = max(1, min(self.step_seconds, self.end - time.monotonic()))
        with log.open("a") as output:
            try:
                return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=output, text=True, check=False, timeout=limit,
                                      env=env)  # fmt: skip
            except subprocess.TimeoutExpired:
                raise BareSystemError(f"takes longer than {limit:.0f} s (log: {log})") from None

    def run_inside(self, root: Path, log: Path, script: str, *arguments: str) -> str:
        """The output of a script of sh in a system."""
        command, environment = inside(root, script, *arguments)
        start = log.stat().st_size if log.exists() else 0
        done = self.run(command, log, environment)
        if done.returncode != 0:
            with log.open("a") as output:
                output.write(done.stdout)
            raise BareSystemError(f"{last_error(log, start)} (log: {log})")
        return done.stdout

    def system(self, name: str, packages: tuple[str, ...]) -> Path:
        """The root of a system that has these packages; it is made if it is not there."""
        place = self.folder / name
        root, stamp, log = place / "root", place / "packages", place / "system.log"
        if not stamp.exists():
            shutil.rmtree(root, ignore_errors=True)  # of a run that was interrupted
            place.mkdir(parents=True, exist_ok=True)
            self.make(SUITES[name], root, log)
            stamp.write_text("")
        installed = stamp.read_text().split()
        wanted = [package for package in packages if package not in installed]
        if wanted:
            script = """
                dpkg --configure -a
                apt-get install -y -q --no-install-recommends "$@"
                apt-get clean
                """  # the first for what an interrupted run has left
            self.run_inside(root, log, script, *wanted)
            stamp.write_text("\n".join([*installed, *wanted, ""]))
        return root

    def make(self, suite: Suite, root: Path, log: Path) -> None:
        log.unlink(missing_ok=True)
        keys = self.keys_of_ubuntu() if suite.mirror == UBUNTU else UBUNTU_KEYS
        done = self.run(bootstrap(suite, root, keys), log)
        if done.returncode != 0:
            with log.open("a") as output:
                output.write(done.stdout)
            raise BareSystemError(f"debootstrap: {last_error(log)} (log: {log})")
        connect(root)
        self.run_inside(root, log, "apt-get update -q")

    def keys_of_ubuntu(self) -> Path:
        """The keyring is a package of Debian 13, whose system vouches for it."""
        if UBUNTU_KEYS.exists():
            return UBUNTU_KEYS
        root = self.system("trixie", ("ubuntu-keyring",))
        return root / str(UBUNTU_KEYS).lstrip("/")
