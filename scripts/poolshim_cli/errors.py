# SPDX-License-Identifier: MIT
"""The ways in which the command gives up: each ends in one line on stderr and an exit status."""

from __future__ import annotations

import importlib
from types import ModuleType

OWN_FAILURE, CANNOT_EXECUTE, NOT_FOUND = 125, 126, 127  # as env and timeout have them


class BadRequest(Exception):
    """A bad command line or file: exit status 2."""

    status = 2


class Failed(Exception):
    """The requested check was made, and its answer is no: exit status 1."""

    status = 1


class RunFailed(Failed):
    """One measured process did not do its job: its row says why, exit status 1 at the end."""


class OwnFailure(Exception):
    """The command itself, or what it is made of, does not work here: exit status 125 to 127."""

    def __init__(self, message: str, status: int = OWN_FAILURE) -> None:
        super().__init__(message)
        self.status = status


GIVING_UP = (BadRequest, Failed, OwnFailure)


def missing(*packages: str, extra: str = "") -> OwnFailure:
    """One line that says which Python packages are missing, and how to get them."""
    names = " ".join(packages)
    debian = " ".join(f"python3-{package}" for package in packages).replace("_", "-")
    what = "packages" if len(packages) > 1 else "package"
    return OwnFailure(
        f"this needs the Python {what} {' and '.join(packages)}: scripts/setup installs what a "
        f"checkout needs, elsewhere pip install {names}, or apt install {debian}"
        + (f" (the extra {extra})" if extra else "")
    )


def need(module: str, extra: str) -> ModuleType:
    """The module of an optional package; without it one line that names the extra it is in."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing(error.name or module.partition(".")[0], extra=extra) from None
