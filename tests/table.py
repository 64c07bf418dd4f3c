# SPDX-License-Identifier: MIT
"""One test over a table: each row is checked, and all rows that fail are reported at once.

For rows that take little: a table of them is one check, and one line of the report of pytest. A
test whose rows take seconds is better parametrised, so that processors share them.

    @each_row("text, wanted", [("1K", 1024), ("1M", 1 << 20)])
    def test_sizes(text: str, wanted: int) -> None:
        assert size_of(text) == wanted
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

SHOWN = 200  # characters of a row


def each_row(
    names: str | Iterable[str], rows: Iterable[Any], ids: object = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """In the place of pytest.mark.parametrize, with the same arguments.

    Each row has a tmp_path of its own, undoes what it changed by monkeypatch, and reads of capsys
    what it printed itself. It skips alone; the test skips if all rows do. Other fixtures are made
    once for all rows: where one depends on tmp_path, parametrise.
    """
    listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [values_of(row, len(listed)) for row in rows]

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(check)
        fixtures = [one for name, one in signature.parameters.items() if name not in listed]

        @functools.wraps(check)
        def checked(**given: Any) -> None:
            failures, skipped = [], []
            for number, row in enumerate(table):
                values = dict(zip(listed, row, strict=True))
                try:
                    run_row(check, number, {**given, **values})
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except (Exception, pytest.fail.Exception) as problem:
                    failures.append(f"row {number}, {shown(values)}\n{told(problem, check)}")
            if failures:
                pytest.fail(f"{len(failures)} of {len(table)} rows:\n" + "\n".join(failures), False)
            if skipped and len(skipped) == len(table):
                raise skipped[0]

        checked.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return checked

    return decorate


def values_of(row: Any, count: int) -> tuple[Any, ...]:
    """As pytest takes a row: one value bare, several in a sequence, or any in pytest.param."""
    if hasattr(row, "marks"):
        assert not row.marks, "a row has no marks of its own here"
        return tuple(row.values)
    return tuple(row) if count > 1 else (row,)


def run_row(check: Callable[..., None], number: int, values: dict[str, Any]) -> None:
    if "tmp_path" in values:
        folder: Path = values["tmp_path"] / f"row{number}"
        folder.mkdir()
        values["tmp_path"] = folder
    if "capsys" in values:
        values["capsys"].readouterr()
    if "monkeypatch" in values:
        with values["monkeypatch"].context() as patch:
            check(**{**values, "monkeypatch": patch})
    else:
        check(**values)


def shown(values: dict[str, Any]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def told(problem: BaseException, check: Callable[..., None]) -> str:
    """The line of the test, and the message, as pytest explains an assertion."""
    if isinstance(problem, pytest.fail.Exception):
        return str(problem)
    places = traceback.extract_tb(problem.__traceback__)
    lines = [place.lineno for place in places if place.filename == check.__code__.co_filename]
    kind = "" if isinstance(problem, AssertionError) else f"{type(problem).__name__}: "
    return f"  line {lines[-1] if lines else '?'}: {kind}{problem}"
