# SPDX-License-Identifier: MIT
"""All targets, in the order in which they are published: the formula needs the files of release."""

from __future__ import annotations

from publishing.target import Target

from .apt import Apt
from .conan import Conan
from .crates import Crates
from .homebrew import Homebrew
from .image import Image
from .pypi import Pypi
from .release import ReleaseFolder
from .vcpkg import Vcpkg

TARGETS: tuple[type[Target], ...] = (
    ReleaseFolder, Pypi, Crates, Image, Apt, Homebrew, Conan, Vcpkg,
)  # fmt: skip
