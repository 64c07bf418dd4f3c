# SPDX-License-Identifier: MIT
"""Replaces packages that a command imports, while its parser is read.

    with stand_in.packages():
        module = importlib.import_module("poolshim_cli.compare.command")

The build has Python's own library alone. Of click there is what a parser is made of; of the others
every name is an empty class.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

REPLACED = ("click", "rich", "tomli")
FORGOTTEN = (*REPLACED, "poolshim_cli")


class ParamType:
    """A kind of value, with the name that click gives it."""

    name = "text"


def kind(name: str) -> type:
    """A kind whose limits do not matter here."""
    return type(name, (ParamType,), {"name": name, "__init__": lambda *_, **__: None})


class Option:
    """One option as it was declared."""

    def __init__(self, *names: str, **given: Any) -> None:
        flags = [name for name in names if name.startswith("-")]
        self.opts = [name.partition("/")[0] for name in flags]
        self.secondary_opts = [name.partition("/")[2] for name in flags if "/" in name]
        self.is_flag = bool(given.get("is_flag"))
        self.metavar = given.get("metavar")
        declared = given.get("type")
        self.type = kind("integer")() if declared is int else declared or ParamType()
        self.help = given.get("help")
        self.default = given.get("default")
        self.show_default = bool(given.get("show_default"))


class Command:
    """A function with its options, first to last."""

    def __init__(self, function: Any) -> None:
        self.help = inspect.cleandoc(function.__doc__ or "")
        self.params = getattr(function, "options", [])[::-1]


def option(*names: str, **given: Any) -> Callable[[Any], Any]:
    """A decorator; the one nearest to the function is applied first."""

    def add(function: Any) -> Any:
        function.options = [*getattr(function, "options", []), Option(*names, **given)]
        return function

    return add


class Anything(ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Replacing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the replaced packages, installed or not, and their submodules."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns None for a module that is not replaced."""
        if name.partition(".")[0] not in REPLACED:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Empty."""
        return Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Fills click."""
        if module.__name__ == "click":
            vars(module).update(
                option=option, Option=Option, Command=Command, ParamType=ParamType,
                argument=lambda *_, **__: lambda function: function,
                command=lambda *_, **__: Command, UNPROCESSED=None,
                Path=kind("path"), IntRange=kind("integer range"), FloatRange=kind("float range"),
            )  # fmt: skip


def taken_out() -> dict[str, ModuleType]:
    """Takes the modules out that differ with and without the substitutes."""
    names = [name for name in sys.modules if name.partition(".")[0] in FORGOTTEN]
    return {name: sys.modules.pop(name) for name in names}


@contextlib.contextmanager
def packages() -> Iterator[None]:
    """Imports inside see the substitutes; those before and after do not."""
    before = taken_out()
    finder = Replacing()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        taken_out()
        sys.modules.update(before)
