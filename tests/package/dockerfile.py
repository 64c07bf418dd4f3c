# SPDX-License-Identifier: MIT
"""Runs the Dockerfiles of docs/containers.md without Docker: FROM is a copy of the bare system.

Knows FROM, COPY, RUN, ENV and CMD as those files use them; any other line is an error.
"""

from __future__ import annotations

import glob
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bare_system import copy, in_chroot
from conftest import ROOT

BASES = ("debian:bookworm", "debian:bookworm-slim")


@dataclass
class Stage:
    """One image."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)

    def run(self, script: str) -> str:
        words = [f"export {name}={shlex.quote(value)};" for name, value in self.env.items()]
        return in_chroot(self.root, " ".join([*words, script]))


def snippets(document: str, kind: str) -> dict[str, str]:
    """Those of a document that stand below a comment <!-- kind: name -->."""
    text = (ROOT / "docs" / document).read_text()
    found = re.findall(rf"<!-- {kind}: (\S+) -->\n```\w+\n(.*?)\n```", text, re.DOTALL)
    return dict(found)


def instructions(text: str) -> Iterator[tuple[str, str]]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.partition(" ")
            yield word, rest.strip()


def copy_in(stage: Stage, words: list[str], context: Path, stages: dict[str, Stage]) -> None:
    """COPY [--from=STAGE] SOURCE DESTINATION, of one source."""
    source_root = context
    if words[0].startswith("--from="):
        source_root = stages[words.pop(0).partition("=")[2]].root
    source, destination = words
    (found,) = glob.glob(str(source_root / source.lstrip("/")))
    target = stage.root / destination.lstrip("/")
    if Path(found).is_dir():
        shutil.copytree(found, target, symlinks=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(found, target)


def build(text: str, base: Path, context: Path, work: Path) -> Stage:
    """The last stage."""
    stages: dict[str, Stage] = {}
    stage = None
    for word, rest in instructions(text):
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            assert image in BASES, image
            stage = Stage(copy(base, work / f"stage{len(stages)}"))
            stages[name or image] = stage
            continue
        assert stage is not None, word
        if word == "RUN":
            stage.run(rest)
        elif word == "COPY":
            copy_in(stage, rest.split(), context, stages)
        elif word == "ENV":
            stage.env |= dict(pair.split("=", 1) for pair in rest.split())
        elif word == "CMD":
            stage.command = json.loads(rest)
        else:
            raise AssertionError(f"{word} {rest}")
    assert stage is not None
    return stage
