# SPDX-License-Identifier: MIT
"""What tests of scripts/dev/publish share: a tagged checkout, a key, destinations on this machine.

    place = Place(tmp_path, clone)      place.publish("--upload", "release") -> CompletedProcess
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import run_captured

IDENTITY = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", "test"), ("EMAIL", "test@localhost"))}  # fmt: skip
KEYS = ("GNUPGHOME", "RELEASE_SIGNING_KEY", "RELEASE_SIGNING_PASSPHRASE")


def git(tree: Path, *words: str) -> str:
    done = run_captured(["git", "-C", tree, *words], env={**os.environ, **IDENTITY})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def need(*tools: str) -> None:
    """Skips where a program is missing."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: scripts/setup publish")


def make_key(home: Path, passphrase: str = "") -> str:
    """A secret key in armour."""
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback",
           "--passphrase", passphrase]  # fmt: skip
    name = "poolshim test <test@localhost>"
    made = run_captured([*gpg, "--quick-gen-key", name, "ed25519", "sign", "never"])
    assert made.returncode == 0, made.stderr
    secret = run_captured([*gpg, "--armor", "--export-secret-keys"]).stdout
    run_captured(["gpgconf", "--homedir", home, "--kill", "all"])
    return secret


def bare_repository(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", folder], check=True)
    return folder


@dataclass
class Place:
    """Destinations below a folder, and the checkout that is published to them."""

    folder: Path
    tree: Path
    dist: Path
    tables: dict[str, dict[str, str]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at = self.folder
        self.tables = {
            "project": {"page": "https://poolshim.example", "sources": str(self.tree)},
            "release": {"folder": f"{at}/releases", "address": f"file://{at}/releases"},
            "apt": {"folder": f"{at}/apt", "address": f"file://{at}/apt"},
            "homebrew": {"tap": str(bare_repository(at / "tap"))},
            "vcpkg": {"registry": str(bare_repository(at / "registry"))},
            "pypi": {"upload": "", "index": ""},
            "crates": {"registry": "", "index": ""},
        }  # fmt: skip

    def set(self, table: str, **rows: str) -> None:
        self.tables[table] = rows

    def publish(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs the command of the checkout."""
        file = self.folder / "destinations.toml"
        lines: list[str] = []
        for name, rows in self.tables.items():
            lines += [f"[{name}]", *(f'{key} = "{text}"' for key, text in rows.items())]
        file.write_text("\n".join(lines) + "\n")
        command = [sys.executable, self.tree / "scripts" / "dev" / "publish", "--dist", self.dist,
                   "--destinations", file, *words]  # fmt: skip
        own = {key: text for key, text in os.environ.items() if key not in KEYS}
        return run_captured(command, timeout, env={**own, **IDENTITY, **self.env})
