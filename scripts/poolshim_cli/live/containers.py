# SPDX-License-Identifier: MIT
"""The container of a process, by the path of its control group; and the processes of a container.

    identity_of("/docker/4f3c...e1").container, processes_of("4f3c")

Container runtimes and kubelet write the ids into the names of the groups: nothing else is asked,
no runtime and no daemon. The path is the kernel's, a program in the container cannot change it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import NOT_FOUND, BadRequest, OwnFailure
from ..foreign import files
from ..foreign.text import printable

# docker-ID.scope, cri-containerd-ID.scope, libpod-ID, POD.slice:cri-containerd:ID, and a plain ID.
ID = re.compile(
    r"(?:(?:.*:)?(?:docker|crio|cri-containerd|containerd|libpod|nerdctl)[-:])?"
    r"([0-9a-f]{64}|[0-9a-f]{32}-[0-9]{5,20})(?:\.scope)?"
)
# Of LXC and of systemd-nspawn, which number their containers by names.
NAME = re.compile(r"(?:lxc\.payload\.(.+)|machine-(.+)\.scope)")
POD = re.compile(
    r"(?:.*[-:])?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
    r"(?:\.slice(?::.*)?)?"
)
ESCAPE = re.compile(r"\\x([0-9a-f]{2})")  # how systemd writes a dash in a unit's name
MEMORY, UNIFIED = "memory", ""
LISTED_MAX = 8
PLAIN_LEAST = 4  # digits of an id that has no word before it
SHORT_DIGITS = 12  # of an id, as runtimes list it
DIGITS = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Identity:
    """Of a process in no container all three are empty."""

    container: str = ""  # the whole id, or the name where the runtime uses names
    pod: str = ""  # the uid, with dashes
    group: str = ""  # the path down to the group of the container
    pod_group: str = ""  # and to that of the pod


def paths_in(text: str) -> dict[str, str]:
    """What /proc/PID/cgroup says: controller -> path; "" is the hierarchy of version 2."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split(":", 2)
        if len(words) == 3 and words[2].startswith("/"):
            for controller in words[1].split(","):
                found.setdefault(controller, words[2])
    return found


def identity_of(path: str) -> Identity:
    """Of the innermost container that a path of a control group names."""
    words, pod, pod_group = path.split("/"), "", ""
    found = Identity()
    for index, word in enumerate(words):
        is_pod, is_id, is_name = POD.fullmatch(word), ID.fullmatch(word), NAME.fullmatch(word)
        group = "/".join(words[: index + 1])
        if is_pod:
            pod, pod_group = is_pod[1].replace("_", "-"), group
        if is_id:
            found = Identity(is_id[1], pod, group, pod_group)
        elif is_name:
            name = ESCAPE.sub(lambda one: chr(int(one[1], 16)), is_name[1] or is_name[2])
            found = Identity(printable(name), pod, group, pod_group)
        elif index and words[index - 1] == "lxc" and word:
            found = Identity(printable(word), pod, group, pod_group)
    return found if found.container else Identity("", pod, "", pod_group)


def identity_in(paths: dict[str, str]) -> Identity:
    """By the first hierarchy that names a container: memory, version 2, any other."""
    first = [paths[name] for name in (MEMORY, UNIFIED) if name in paths]
    for path in [*first, *paths.values()]:
        found = identity_of(path)
        if found.container or found.pod:
            return found
    return Identity()


def paths_of(pid: int) -> dict[str, str]:
    """The groups of a process; none once it has ended."""
    try:
        return paths_in(files.read_proc(pid, "cgroup").decode(errors="replace"))
    except OSError:
        return {}


def is_asked_for(identity: Identity, text: str) -> bool:
    """Does a text name this container: the beginning of its id, its name, its pod's uid?"""
    is_hexadecimal = ID.fullmatch(identity.container) is not None
    return bool(text) and (
        text in (identity.container, identity.pod)
        or is_hexadecimal and identity.container.startswith(text)
    )


def group_of(paths: Mapping[str, str]) -> tuple[str, str] | None:
    """The controller and the path of the group that counts the memory of a process."""
    controller = MEMORY if MEMORY in paths else UNIFIED
    return (controller, paths[controller]) if controller in paths else None


def group_asked_for(path: str, text: str) -> str:
    """The part of a path down to the container, or the pod, that a text names; "" without."""
    found = identity_of(path)
    if not is_asked_for(found, text):
        return ""
    return found.pod_group if text == found.pod else found.group


def part_named(path: str, word: str) -> str:
    """The same of a plain word: an id needs some digits, and a group is named by one part of its
    path, with its type or without."""
    if len(word) >= PLAIN_LEAST or word == identity_of(path).container:
        group = group_asked_for(path, word)
        if group:
            return group
    words = path.split("/")
    for index, one in enumerate(words):
        if one and word in (one, one.rpartition(".")[0]):
            return "/".join(words[: index + 1])
    return ""


def short(path: str) -> str:
    """The last part of a group's path, with the beginning of an id only."""
    name = path.rpartition("/")[2] or path
    found = ID.fullmatch(name)
    return name.replace(found[1], found[1][:SHORT_DIGITS]) if found else name


def is_id(word: str) -> bool:
    """Can it only be the beginning of an id? Shorter ones may be names of programs."""
    return len(word) >= SHORT_DIGITS and set(word) <= DIGITS


def all_pids() -> list[int]:
    """Every process that /proc lists, in order."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def processes_of(text: str) -> list[int]:
    """The processes of a container, or of a pod by its uid; one line if there is none, or if the
    beginning of an id is that of several containers."""
    found: dict[str, list[int]] = {}
    for pid in all_pids():
        one = identity_in(paths_of(pid))
        if is_asked_for(one, text):
            found.setdefault(one.pod if one.pod == text else one.container, []).append(pid)
    if not found:
        raise OwnFailure(f"no container {printable(text)} has a process here", NOT_FOUND)
    if len(found) > 1:
        raise BadRequest(f"{text} begins {len(found)} container ids: {listed(sorted(found))}")
    return next(iter(found.values()))


def listed(words: list[str]) -> str:
    """The first of many words."""
    rest = len(words) - LISTED_MAX
    return ", ".join(words[:LISTED_MAX]) + (f" and {rest} more" if rest > 0 else "")
