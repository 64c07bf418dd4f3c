# SPDX-License-Identifier: MIT
"""The history in a flight record: resident and live memory by time, parts, marks; and its growth.

    history = flight.history_of(pprof.read(Path("poolshim-20261129T165700-1.pb")))
    history.growth_of(flight.RESIDENT).rate

shim/flight_record.c writes it, as three rings in one field of the profile. The process may have
been killed while it wrote: an entry counts once its ring's count says so, and the oldest entry of a
full ring, which is overwritten next, does not count.

Growth is looked for in the whole time, then in the last half of it, the last quarter and so on: in
the longest of these times in which the memory grew to the end.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from .errors import BadRequest
from .explain.growth import Floors
from .foreign.text import printable
from .pprof import Profile
from .sizes import MIB, mib
from .why.growth import (
    MINUTE_S,
    POINTS_MAX,
    Rate,
    Series,
    duration,
    floors_of,
    rate_of,
    seconds_until,
)

VERSION = 2
GROWTH = re.compile(r"resident memory (?:grew|shrank) by ")  # the comment for other readers
HEAD = struct.Struct("<4I3Q")
CAPACITY_MOST = 1 << 16
POINT, PARTS, MARK = struct.Struct("<3Q"), struct.Struct("<7Q"), struct.Struct("<3Q24s")
BYTES_MOST = 1 << 56
TIME_MOST_MS = 1 << 48
SPANS = 5  # that growth is looked for in: the whole, a half, a quarter, ...
CLEAR_SPREADS = 6.0  # of growth in a part of the time: of five parts one may rise by chance
EVEN_LEAST_S = 2.0  # below it the process may not have run most of the time: by points, not by time
SPAN_LEAST_S = 0.05
RATE_LEAST_S = 10.0  # for which growth is given as a rate in sentences, too


@dataclass(frozen=True)
class Point:
    """Bytes at one moment; live by the samples, pools included."""

    at_s: float  # since 1970
    resident: int
    live: int


@dataclass(frozen=True)
class Parts:
    """Bytes at one moment, counted; `limit`: 0 where there is none, or it was not known yet."""

    at_s: float
    resident: int
    live: int
    pools: int
    slabs: int
    pages: int
    limit: int

    @property
    def free(self) -> int:
        """That malloc retained."""
        return self.slabs + self.pages

    @property
    def other(self) -> int:
        """That is not the heap's."""
        return max(0, self.resident - self.live - self.pools - self.free)


@dataclass(frozen=True)
class Mark:
    """The usage that was compared with the limit, as it came near."""

    at_s: float
    usage: int
    limit: int
    source: str


@dataclass(frozen=True)
class Growth:
    """Of a figure, in the last seconds. rate: None of too few points."""

    span_s: float
    gained: int
    rate: Rate | None
    is_lasting: bool  # it grew in each part of the time, to the end

    def to_json(self) -> dict[str, Any]:
        """Bytes."""
        rate = self.rate
        return {"seconds": round(self.span_s, 3), "bytes": self.gained,
                "is_lasting": self.is_lasting,
                "per_minute": round(MINUTE_S * rate.per_s) if rate else None,
                "low": round(MINUTE_S * rate.low) if rate else None,
                "high": round(MINUTE_S * rate.high) if rate else None}  # fmt: skip


def live(point: Point) -> float:
    """A figure of a point."""
    return float(point.live)


def resident(point: Point) -> float:
    """Another one."""
    return float(point.resident)


def evenly(series: Series) -> Series:
    """The series at even times, on the lines between its points: there are more while memory grows,
    and none while nothing is allocated, but one as that begins again."""
    if len(series) < 2 or series[-1][0] <= series[0][0]:
        return series
    count = min(len(series), POINTS_MAX)
    start_s, step_s = series[0][0], (series[-1][0] - series[0][0]) / (count - 1)
    found, at = [series[0]], 0
    for number in range(1, count - 1):
        at_s = start_s + number * step_s
        while series[at + 1][0] < at_s:
            at += 1
        (before_s, before), (after_s, after) = series[at], series[at + 1]
        found.append((at_s, before + (after - before) * (at_s - before_s) / (after_s - before_s)))
    return [*found, series[-1]]


@dataclass
class History:
    """All of it, each in the order of time."""

    points: list[Point] = field(default_factory=list)
    parts: list[Parts] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    @property
    def last(self) -> Point:
        """The last point."""
        return self.points[-1]

    @property
    def span_s(self) -> float:
        """Between the first point and the last one."""
        return self.last.at_s - self.points[0].at_s

    @property
    def limit(self) -> int:
        """The limit that was near at the last mark, or else known; 0: none."""
        limits = [one.limit for one in self.parts if one.limit] + [one.limit for one in self.marks]
        return limits[-1] if limits else 0

    def growth_of(self, amount: Callable[[Point], float]) -> Growth:
        """In the longest time up to the last point in which it grew; or in all of it."""
        series = [(one.at_s, amount(one)) for one in self.points]
        return growth_of(series, self.last.resident)

    def seconds_to_limit(self, growth: Growth) -> tuple[float, float, float] | None:
        """After the last point, until the limit would be reached: earliest, at the rate, latest."""
        left = self.limit - self.last.resident
        if not growth.is_lasting or left <= 0:
            return None
        return seconds_until(left, growth.rate)

    def to_json(self) -> dict[str, Any]:
        """Bytes, and seconds since 1970."""
        grown = self.growth_of(resident)
        until = self.seconds_to_limit(grown)
        return {
            "seconds": round(self.span_s, 3), "points": len(self.points),
            "last": vars(self.last), "parts": vars(self.parts[-1]) if self.parts else None,
            "limit_bytes": self.limit or None,
            "mark": vars(self.marks[-1]) if self.marks else None,
            "growth": {"resident": grown.to_json(), "live": self.growth_of(live).to_json()},
            "seconds_to_limit": dict(zip(("low", "at_rate", "high"), map(finite, until),
                                         strict=True)) if until else None,
        }  # fmt: skip


def finite(seconds: float) -> float | None:
    """For JSON, which has no infinity."""
    return round(seconds, 3) if seconds < float("inf") else None


def spread_of(series: Series) -> float:
    """The median distance from a line."""
    rate = rate_of(series)
    slope = rate.per_s if rate else 0.0
    left = [value - slope * at_s for at_s, value in series]
    middle = median(left)
    return median(abs(one - middle) for one in left)


def growth_of(series: Series, whole: float) -> Growth:
    """whole: the memory. Growth has to be a share."""
    span_s = series[-1][0] - series[0][0]
    for number in range(SPANS):
        found = [one for one in series if one[0] >= series[-1][0] - span_s]
        found = evenly(found) if span_s >= EVEN_LEAST_S else found
        floors: Floors = floors_of(found)
        is_clear = number == 0 or floors.gained >= CLEAR_SPREADS * spread_of(found)
        if floors.is_lasting(round(whole)) and is_clear:
            gained = round(found[-1][1] - found[0][1])
            return Growth(found[-1][0] - found[0][0], gained, rate_of(found), True)
        span_s /= 2
        if span_s < SPAN_LEAST_S:
            break
    every = evenly(series)
    return Growth(every[-1][0] - every[0][0], round(every[-1][1] - every[0][1]), rate_of(every),
                  False)  # fmt: skip


def growth_text(growth: Growth) -> str:
    """'88.1 MiB in 12 s, 429.8 MiB a minute (95 %: 401.2 to 450.0)'."""
    text = f"{mib(growth.gained)} MiB in {duration(growth.span_s)}"
    rate = growth.rate
    if rate is None or growth.span_s < RATE_LEAST_S:
        return text
    low, per, high = (MINUTE_S * one / MIB for one in (rate.low, rate.per_s, rate.high))
    return f"{text}, {per:.1f} MiB a minute (95 %: {low:.1f} to {high:.1f})"


def limit_text(history: History, growth: Growth) -> str:
    """Whether the limit was near, and else when it would have been reached; "" if neither is known.
    growth: of resident memory."""
    last_s = history.last.at_s
    if history.marks:
        mark = history.marks[-1]
        ago = duration(max(0.0, last_s - mark.at_s))
        return (f"the limit of {mib(mark.limit)} MiB was near {ago} before the last point: "
                f"{mib(mark.usage)} MiB were in use")  # fmt: skip
    until = history.seconds_to_limit(growth)
    if until is None:
        return ""
    soon, usual, late = map(duration, until)
    return (f"at this rate the limit of {mib(history.limit)} MiB would have been reached {usual} "
            f"after the last point ({soon} to {late})")  # fmt: skip


def remarks(history: History) -> list[str]:
    """The growth in sentences."""
    grown = history.growth_of(resident)
    every = (("live", history.growth_of(live)), ("resident", grown))
    found = [f"{name} memory grew to the end, by {growth_text(one)}" for name, one in every
             if one.is_lasting]  # fmt: skip
    found = found or [f"no lasting growth in {duration(history.span_s)}"]
    text = limit_text(history, grown)
    return [*found, text] if text else found


# ---- the file ----


class Damage(ValueError):
    """The numbers contradict themselves."""


def entries(data: bytes, shape: struct.Struct, capacity: int, count: int) -> list[tuple[Any, ...]]:
    """The entries of a ring, oldest first."""
    every = list(shape.iter_unpack(data[: capacity * shape.size]))
    if count < capacity:
        return every[:count]
    begin = count % capacity
    return every[begin + 1 :] + every[:begin]  # the one at begin is overwritten next


def checked(numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """An entry, whose first number is a time."""
    if not 0 < numbers[0] < TIME_MOST_MS or any(
        isinstance(one, int) and one >= BYTES_MOST for one in numbers[1:]
    ):
        raise Damage("an entry is out of range")
    return (numbers[0] / 1000, *numbers[1:])


def in_order(found: list[Any]) -> list[Any]:
    """Those after the last time that the clock of the machine was set back."""
    begin = max((at for at in range(1, len(found)) if found[at].at_s < found[at - 1].at_s),
                default=0)  # fmt: skip
    return found[begin:]


def parse(data: bytes) -> History:
    """The content of the field; Damage where it is none."""
    if len(data) < HEAD.size:
        raise Damage("it is too short")
    version, *rest = HEAD.unpack_from(data)
    if version != VERSION:
        raise Damage(f"it has version {version}, this command reads {VERSION}")
    capacities, counts = rest[:3], rest[3:]
    shapes = (POINT, PARTS, MARK)
    if not all(0 < one <= CAPACITY_MOST for one in capacities) or len(data) != HEAD.size + sum(
        capacity * shape.size for capacity, shape in zip(capacities, shapes, strict=True)
    ):
        raise Damage("its lengths contradict each other")
    at, rings = HEAD.size, []
    for shape, capacity, count in zip(shapes, capacities, counts, strict=True):
        rings.append([checked(one) for one in entries(data[at:], shape, capacity, count)])
        at += capacity * shape.size
    points, parts, marks = rings
    named = [(*one[:3], printable(one[3].rstrip(b"\0").decode(errors="replace"))) for one in marks]
    return History(in_order([Point(*one) for one in points]),
                   in_order([Parts(*one) for one in parts]), [Mark(*one) for one in named])


def history_of(profile: Profile, name: str) -> History | None:
    """The history in a profile; None: it is no flight record, or has no point yet. One line where
    it is damaged."""
    if not profile.history:
        return None
    try:
        found = parse(profile.history)
    except Damage as error:
        raise BadRequest(f"{name}: the history of the flight record is damaged: {error}") from None
    return found if found.points else None
