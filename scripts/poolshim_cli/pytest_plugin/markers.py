# SPDX-License-Identifier: MIT
"""The markers of the plugin, and their arguments.

    @pytest.mark.poolshim_limit("24 MiB")
    @pytest.mark.poolshim_no_growth(allow="0", rounds=10, warmup=2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest
from ..gate.arguments import ROUNDS, ROUNDS_LEAST, WARMUP
from ..sizes import size_of

if TYPE_CHECKING:
    import pytest

LIMIT, NO_GROWTH = "poolshim_limit", "poolshim_no_growth"
LINES = (
    f'{LIMIT}(size): with --poolshim, fail where more memory than size, such as "24 MiB", is live '
    "at once, of all that is allocated while the body of the test runs",
    f'{NO_GROWTH}(allow="0", rounds={ROUNDS}, warmup={WARMUP}): with --poolshim, repeat the '
    "test's body, and fail where live memory grows by more than allow in each repetition",
)
WARMUP_LEAST = 1  # the body as it runs without the marker


@dataclass(frozen=True)
class Growth:
    """The arguments of poolshim_no_growth."""

    allow: int = 0  # bytes in each repetition
    rounds: int = ROUNDS
    warmup: int = WARMUP


@dataclass(frozen=True)
class Plan:
    """The checks of a test."""

    limit: int | None = None  # bytes
    growth: Growth | None = None


def bytes_of(what: str, value: object, least: int) -> int:
    """A size: text, or a number of bytes."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadRequest(f'{what}: {value!r} is not a size such as "24 MiB"')
    try:
        found = value if isinstance(value, int) else size_of(value.strip())
    except ValueError as error:
        raise BadRequest(f"{what}: {value!r} {error}") from None
    if found < least:
        raise BadRequest(f"{what}: {value!r} is less than {least}")
    return found


def count_of(what: str, value: object, least: int) -> int:
    """A number of repetitions."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadRequest(f"{what}: {value!r} is no number from {least} on")
    return value


def named(name: str, mark: pytest.Mark, names: tuple[str, ...], most: int) -> dict[str, Any]:
    """The arguments by name; the first `most` may be without one."""
    given = f"there is {names[0]}" if len(names) == 1 else f"there are {', '.join(names)}"
    if len(mark.args) > most:
        raise BadRequest(f"{name}: {len(mark.args)} arguments without a name; {given}")
    found = dict(zip(names, mark.args, strict=False))
    for key, value in mark.kwargs.items():
        if key not in names:
            raise BadRequest(f"{name}: no argument {key}; {given}")
        if key in found:
            raise BadRequest(f"{name}: {key} is given twice")
        found[key] = value
    return found


def limit_of(mark: pytest.Mark) -> int:
    """The bytes of poolshim_limit."""
    found = named(LIMIT, mark, ("size",), 1)
    if not found:
        raise BadRequest(f'{LIMIT}: a size is missing, such as "24 MiB"')
    return bytes_of(LIMIT, found["size"], 1)


def growth_of(mark: pytest.Mark) -> Growth:
    """The arguments of poolshim_no_growth."""
    found = named(NO_GROWTH, mark, ("allow", "rounds", "warmup"), 1)
    return Growth(
        bytes_of(f"{NO_GROWTH}: allow", found.get("allow", 0), 0),
        count_of(f"{NO_GROWTH}: rounds", found.get("rounds", ROUNDS), ROUNDS_LEAST),
        count_of(f"{NO_GROWTH}: warmup", found.get("warmup", WARMUP), WARMUP_LEAST),
    )


def plan_of(item: pytest.Item) -> Plan:
    """By the nearest marker of each kind. BadRequest: an argument is wrong."""
    limit, growth = item.get_closest_marker(LIMIT), item.get_closest_marker(NO_GROWTH)
    return Plan(limit_of(limit) if limit else None, growth_of(growth) if growth else None)
