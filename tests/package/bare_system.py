# SPDX-License-Identifier: MIT
"""A bare system to try packages in: a chroot by debootstrap. Needs root and a mirror of Debian.

All mounts are in a mount namespace of their own, which ends with each command.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

SUITE = "bookworm"
MIRROR = os.environ.get("TEST_DEBIAN_MIRROR", "http://deb.debian.org/debian")
UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--propagation", "private")


def run_ok(*command: str | Path, timeout: float = 600, **options: object) -> str:
    result = run_captured(command, timeout=timeout, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout[-3000:]}{result.stderr[-3000:]}"
    return result.stdout


def clone(folder: Path) -> Path:
    """A clean checkout of the commit."""
    run_ok("git", "clone", "-q", "--no-hardlinks", ROOT, folder)
    commit = run_ok("git", "-C", ROOT, "rev-parse", "HEAD").strip()
    run_ok("git", "-C", folder, "checkout", "-q", commit)
    return folder


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def in_chroot(root: Path, script: str) -> str:
    """Runs a script there with /proc mounted, in namespaces that end with it."""
    command = f"mount -t proc proc '{root}/proc' && exec chroot '{root}' /bin/sh -ec \"$1\""
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
        "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8",
        "PIP_CERT": "/etc/ssl/certs/ca-certificates.crt", "PIP_ROOT_USER_ACTION": "ignore",
    }  # fmt: skip
    environment |= {name: value for name, value in os.environ.items() if name.endswith("_proxy")}
    return run_ok(*UNSHARE, "sh", "-c", command, "sh", script, env=environment)


def make_base(root: Path) -> None:
    """Debian's smallest system, without Python; skips where it cannot be had."""
    if os.geteuid() != 0:
        pytest.skip("a chroot needs root")
    if not shutil.which("debootstrap"):
        pytest.skip("debootstrap is not installed: scripts/setup package")
    command = [*UNSHARE, "debootstrap", "--variant=minbase", "--include=ca-certificates"]
    result = run_captured([*command, SUITE, root, MIRROR], timeout=900)
    if "Failed getting release file" in result.stdout + result.stderr:
        pytest.skip(f"no network: {MIRROR} is not reached")
    assert result.returncode == 0, result.stdout[-3000:]
    for name in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        shutil.copyfile(f"/{name}", root / name)
