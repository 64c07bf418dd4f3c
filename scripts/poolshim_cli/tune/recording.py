# SPDX-License-Identifier: MIT
"""Reads what the library writes for POOLSHIM_RECORD, and believes nothing before it was checked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadRequest

VERSION = 2
FILE_BYTES_LIMIT = 256 << 20

Sizes = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Peak:
    """The live blocks at one moment: how many of each requested size."""

    live_bytes: int
    sizes: Sizes


@dataclass(frozen=True)
class Recording:
    """One process."""

    pid: int
    command: tuple[str, ...]
    page_bytes: int
    size_classes: tuple[int, ...]
    slab_bytes: tuple[int, ...]
    small_max_bytes: int
    usual_max_bytes: int  # of a run that is not recorded: larger requests take whole pages there
    peak_live_bytes: int
    peaks: tuple[Peak, ...]
    requests: Sizes

    @property
    def program(self) -> str:
        return Path(self.command[0]).name if self.command else "?"


class Malformed(ValueError):
    """The fault of a recording."""


def whole(value: Any, name: str, lowest: int = 0) -> int:
    """A whole number that is not negative; JSON's true is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise Malformed(f"{name} is {value!r}")
    return value


def sizes_of(pairs: Any, name: str) -> Sizes:
    """A list of [size, count]."""
    if not isinstance(pairs, list) or any(not isinstance(p, list) or len(p) != 2 for p in pairs):
        raise Malformed(f"{name} is no list of [size, count]")
    return tuple((whole(size, name), whole(count, name)) for size, count in pairs)


def peak_of(value: Any) -> Peak:
    """One entry of "peaks"."""
    return Peak(whole(value["live_bytes"], "live_bytes"), sizes_of(value["sizes"], "sizes"))


def parse(value: Any) -> Recording:
    """A recording from parsed JSON; Malformed, KeyError or TypeError if it is none."""
    if not isinstance(value, dict) or "poolshim_recording" not in value:
        raise Malformed("not a recording of poolshim")
    if value["poolshim_recording"] != VERSION:
        raise Malformed(
            f"format {value['poolshim_recording']!r}; this poolshim reads {VERSION}"
        )
    classes = tuple(whole(size, "size_classes", 8) for size in value["size_classes"])
    if not classes or any(a >= b for a, b in zip(classes, classes[1:], strict=False)):
        raise Malformed("size_classes are not ascending")
    if any(size % 16 and size != 8 for size in classes) or classes[-1] > 65536:
        raise Malformed("size_classes are not a legal table")
    return Recording(
        pid=whole(value["pid"], "pid"),
        command=tuple(str(word) for word in value["command"]),
        page_bytes=whole(value["page_bytes"], "page_bytes", 1),
        size_classes=classes,
        slab_bytes=tuple(whole(size, "slab_bytes", 1) for size in value["slab_bytes"]),
        small_max_bytes=whole(value["small_max_bytes"], "small_max_bytes", 8),
        usual_max_bytes=whole(value.get("usual_max_bytes", classes[-1]), "usual_max_bytes", 8),
        peak_live_bytes=whole(value["peak_live_bytes"], "peak_live_bytes"),
        peaks=tuple(peak_of(peak) for peak in value["peaks"]),
        requests=sizes_of(value["requests"], "requests"),
    )


def load(path: Path) -> Recording:
    """Reads one file; BadRequest with one line if that cannot be."""
    try:
        if path.stat().st_size > FILE_BYTES_LIMIT:
            raise BadRequest(f"{path}: too large for a recording")
        return parse(json.loads(path.read_bytes()))
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None
    except KeyError as error:
        raise BadRequest(f"{path}: not a recording of poolshim: {error} is missing") from None
    except Malformed as error:
        raise BadRequest(f"{path}: {error}") from None
    except (ValueError, TypeError, RecursionError):
        raise BadRequest(f"{path}: not a recording of poolshim") from None


def load_all(paths: Iterable[Path]) -> list[Recording]:
    """Reads several files; they must come from the same table, and are largest first."""
    recordings = [load(path) for path in paths]
    if len({(r.size_classes, r.usual_max_bytes) for r in recordings}) > 1:
        raise BadRequest("the recordings were made with different size classes; record them again")
    return sorted(recordings, key=lambda r: r.peak_live_bytes, reverse=True)
