# SPDX-License-Identifier: MIT
"""The settings of the command and the annotations of a pod: what a pod gets.

    wishes = wishes_of(pod["metadata"], settings); wishes.limit

Nothing here changes a pod.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .. import limits
from ..errors import BadRequest
from ..live.options import Words

DOMAIN = "poolshim.dev/"
INJECT = f"{DOMAIN}inject"  # a label, since the API server selects pods by labels
CONTAINERS, LIMIT = f"{DOMAIN}containers", f"{DOMAIN}limit"
LIMIT_HARD, FLIGHT = f"{DOMAIN}limit-hard", f"{DOMAIN}flight"
STATUS = f"{DOMAIN}status"  # the answer
KNOWN = {INJECT, CONTAINERS, LIMIT, LIMIT_HARD, FLIGHT, STATUS}
SWITCH = {"true": True, "false": False}
IMAGE = re.compile(r"[^\s,]+")
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([mkKMGi]|[KMG]i)?")
PULLS = ("Always", "IfNotPresent", "Never")
SWITCHES = {"--flight", "--image-volume"}
VALUED = {"--image", "--pull", "--limit", "--limit-hard", "--cpu", "--memory"}

Table = dict[str, Any]


class Unfit(Exception):
    """The pod stays as it is; the text says why."""


@dataclass(frozen=True)
class Settings:
    """Of the command: they are of all pods."""

    image: str
    pull: str = "IfNotPresent"
    limit: str = "80%"
    limit_hard: str = "off"
    cpu: str = "50m"
    memory: str = "32Mi"
    has_flight: bool = False
    is_image_volume: bool = False


@dataclass(frozen=True)
class Wishes:
    """Of one pod. names: of containers; none: all that are no init containers."""

    limit: str
    limit_hard: str
    has_flight: bool
    names: tuple[str, ...] = ()


def check_limit(name: str, text: str) -> str:
    """A limit that the library understands."""
    try:
        limits.word_of(text)
    except ValueError as error:
        raise Unfit(f"{name}: {text} {error}") from None
    return text


def settings_of(request: Words) -> Settings:
    """The options of the command line."""
    values = request.values
    if "--image" not in values:
        raise BadRequest("which image has the library? --image NAME")
    found = Settings(
        image=values["--image"],
        pull=values.get("--pull", Settings.pull),
        limit=values.get("--limit", Settings.limit),
        limit_hard=values.get("--limit-hard", Settings.limit_hard),
        cpu=values.get("--cpu", Settings.cpu),
        memory=values.get("--memory", Settings.memory),
        has_flight="--flight" in request.switches,
        is_image_volume="--image-volume" in request.switches,
    )
    if not IMAGE.fullmatch(found.image):
        raise BadRequest(f"--image: {found.image!r} is no name of an image")
    if found.pull not in PULLS:
        raise BadRequest(f"--pull: {found.pull} is none of {', '.join(PULLS)}")
    for name in ("cpu", "memory"):
        if not QUANTITY.fullmatch(getattr(found, name)):
            raise BadRequest(f"--{name}: {getattr(found, name)!r} is no quantity such as 50m, 32Mi")
    try:
        check_limit("--limit", found.limit)
        check_limit("--limit-hard", found.limit_hard)
    except Unfit as error:
        raise BadRequest(str(error)) from None
    return found


def table_of(table: Table, key: str) -> Table:
    """A table in another; empty where there is none."""
    found = table.get(key) or {}
    if not isinstance(found, dict):
        raise Unfit(f"{key} is no table")
    return found


def texts_of(metadata: Table, key: str) -> dict[str, str]:
    """Labels or annotations."""
    found = table_of(metadata, key)
    if not all(isinstance(one, str) for one in found.values()):
        raise Unfit(f"metadata.{key} is no table of texts")
    return found


def is_refused(pod: Table) -> bool:
    """Does the pod say no?"""
    metadata = table_of(pod, "metadata")
    return any(texts_of(metadata, key).get(INJECT) == "false" for key in ("labels", "annotations"))


def wishes_of(metadata: Table, settings: Settings) -> Wishes:
    """The annotations, and what the command has for those that are not there."""
    found = texts_of(metadata, "annotations")
    for name in found:
        if name.startswith(DOMAIN) and name not in KNOWN:
            known = ", ".join(sorted(KNOWN - {STATUS, INJECT}))
            raise Unfit(f"no annotation {name}; there are {known}")
    flight = found.get(FLIGHT, "true" if settings.has_flight else "false")
    if flight not in SWITCH:
        raise Unfit(f"{FLIGHT}: {flight} is neither true nor false")
    names = tuple(one.strip() for one in found.get(CONTAINERS, "").split(",") if one.strip())
    if CONTAINERS in found and not names:
        raise Unfit(f"{CONTAINERS} names no container")
    return Wishes(
        check_limit(LIMIT, found.get(LIMIT, settings.limit)),
        check_limit(LIMIT_HARD, found.get(LIMIT_HARD, settings.limit_hard)),
        SWITCH[flight],
        names,
    )
