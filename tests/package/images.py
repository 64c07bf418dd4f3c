# SPDX-License-Identifier: MIT
"""Container images by buildah, without a daemon and without a registry: Debian is the bare system.

Everything is below one folder. Commands of images run in chroots, with this machine's network.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from bare_system import run_ok
from conftest import ROOT, run_captured

BASES = ("debian:bookworm", "debian:bookworm-slim")


def snippets(document: str, kind: str) -> dict[str, str]:
    """The snippets of a document below a comment <!-- kind: name -->."""
    text = (ROOT / "docs" / document).read_text()
    found = re.findall(rf"<!-- {kind}: (\S+) -->\n```\w+\n(.*?)\n```", text, re.DOTALL)
    return dict(found)


class Images:
    """The images of one folder, by name."""

    def __init__(self, folder: Path, base: Path) -> None:
        if not shutil.which("buildah"):
            pytest.skip("buildah is not installed: scripts/setup package")
        self.folder = folder
        folder.mkdir()
        self.build(BASES[0], "FROM scratch\nCOPY . /\n", base)
        for name in BASES[1:]:
            self.buildah("tag", BASES[0], name)

    def buildah(self, *words: str | Path, timeout: float = 900) -> str:
        places = ("--root", self.folder / "root", "--runroot", self.folder / "run")
        return run_ok("buildah", *places, *words, timeout=timeout)

    def build(self, name: str, text: str, context: Path) -> None:
        path = self.folder / "Dockerfile"
        path.write_text(text)
        self.buildah("bud", "-q", "--isolation", "chroot", "--pull-never", "-t", name,
                     "-f", path, context)  # fmt: skip

    def config(self, name: str) -> dict[str, object]:
        text = self.buildah("inspect", "--type", "image", name)
        return json.loads(text)["OCIv1"]["config"]

    def run(
        self, name: str, command: list[str] | None = None,
        env: dict[str, str] | None = None, volumes: dict[Path, str] | None = None,
    ) -> str:  # fmt: skip
        """The output of a command, or of the image's own, in a container that is new."""
        command = command or self.config(name)["Cmd"]
        options = [f"--env={key}={value}" for key, value in (env or {}).items()]
        options += [f"--volume={here}:{there}" for here, there in (volumes or {}).items()]
        container = self.buildah("from", "--pull-never", name).strip()
        try:
            return self.buildah("run", "--isolation", "chroot", *options, container, "--", *command)
        finally:
            self.buildah("rm", container)

    def files(self, name: str) -> dict[str, int]:
        """All files of an image, with their sizes."""
        container = self.buildah("from", "--pull-never", name).strip()
        try:
            root = Path(self.buildah("mount", container).strip())
            return {str(path.relative_to(root)): path.stat().st_size
                    for path in root.rglob("*") if path.is_file()}  # fmt: skip
        finally:
            self.buildah("rm", container)
