# SPDX-License-Identifier: MIT
"""The answers of each target: whether it can be published, whether it is, and how.

A target keeps no state of its own. Whether a release is there already is asked of the destination,
which is compared by checksums; so the next call goes on where the last one failed.
"""

from __future__ import annotations

import abc
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from packages.staging import Release

from .destinations import Destinations
from .release import Files
from .signing import Signer
from .tools import PublishError, missing


@dataclass(frozen=True)
class Publication:
    """A release on its way."""

    what: Release
    files: Files
    destinations: Destinations
    signer: Signer
    work: Path  # ends with the command


class Target(abc.ABC):
    """A place that releases go to."""

    name: ClassVar[str]
    needs: ClassVar[tuple[tuple[str, str], ...]]  # table and key of its addresses, its own first
    tools: ClassVar[tuple[str, ...]] = ()
    takes_processors: ClassVar[bool] = False  # packages of several, one after the other
    installed_by: ClassVar[str] = "scripts/setup publish installs it"

    def __init__(self, publication: Publication) -> None:
        self.all = publication
        self.what = publication.what
        self.files = publication.files
        self.signer = publication.signer

    def address(self, table: str, key: str) -> str:
        return self.all.destinations[table][key].rstrip("/")

    @property
    def own(self) -> str:
        """The first of its addresses."""
        return self.address(*self.needs[0])

    def has_destination(self) -> bool:
        return bool(self.own)

    def work(self) -> Path:
        """A new folder."""
        count = len(list(self.all.work.glob(f"{self.name}-*")))
        folder = self.all.work / f"{self.name}-{count}"
        folder.mkdir()
        return folder

    def credentials(self) -> tuple[str, ...]:
        """Names of environment variables."""
        return ()

    def check(self) -> None:
        """Refuses what can be refused without asking the destination."""
        for table, key in self.needs:
            if not self.address(table, key):
                raise PublishError(f"[{table}] {key} is empty in the destinations")
        absent = missing(self.tools)
        if absent:
            raise PublishError(f"missing: {', '.join(absent)}; {self.installed_by}")
        unset = [name for name in self.credentials() if not os.environ.get(name)]
        if unset:
            raise PublishError(f"not set: {', '.join(unset)}")

    @abc.abstractmethod
    def is_done(self) -> bool:
        """Whether the destination has this release; another one of the same version is refused."""

    @abc.abstractmethod
    def plan(self) -> str:
        """What upload() will do, in one line."""

    @abc.abstractmethod
    def upload(self) -> None:
        """Publishes it; is_done() is true after it."""

    def conflict(self, where: str) -> PublishError:
        """The refusal of a version that exists with other bytes."""
        return PublishError(
            f"{where} has {self.what.version} already, with other contents: "
            "a published version is never replaced"
        )
