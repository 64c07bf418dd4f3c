# SPDX-License-Identifier: MIT
"""Adds the library to a pod: a volume, the init container that fills it, variables and mounts.

    outcome = inject(pod, settings); outcome.pod, outcome.done, outcome.notes

The pod that is passed is not changed. A pod that has all of it already comes back equal. Where the
whole cannot be added, nothing but the annotation with the reason is.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field

from .wishes import (
    STATUS,
    Settings,
    Table,
    Unfit,
    Wishes,
    is_refused,
    table_of,
    texts_of,
    wishes_of,
)

VOLUME, FLIGHT_VOLUME = "poolshim", "poolshim-flight"
PLACE, FLIGHT_PLACE = "/poolshim", "/poolshim-flight"
# glibc's loader replaces $LIB by its folder of libraries, each of which the image has. musl's takes
# the words as they are, and the image has a folder of that name, with the library for musl.
LIBRARY = f"{PLACE}/$LIB/libpoolshim.so"
PRELOAD = "LD_PRELOAD"
OTHERS = re.compile(
    r"lib(jemalloc|tcmalloc|mimalloc|hoard|scudo|snmalloc|rpmalloc|poolshim)(?![a-z])"
)
SANITIZER = re.compile(r"lib(a|t|m|l|hwa)san\b|libclang_rt\.\w*san")
FOLDERS = ("/lib", "/lib64", "/$LIB")  # of the image
NOBODY = 65534
SIZE = "16Mi"  # at most, of the libraries


@dataclass
class Outcome:
    """A pod after the attempt."""

    pod: Table
    done: list[str] = field(default_factory=list)  # names of containers
    notes: list[str] = field(default_factory=list)  # parts left out, and why

    @property
    def status(self) -> str:
        """In one line."""
        head = f"injected: {', '.join(self.done)}" if self.done else "skipped"
        return f"{head} ({'; '.join(self.notes)})" if self.notes else head


def listed(table: Table, key: str) -> list[Table]:
    """A list of tables; empty where there is none."""
    found = table.get(key) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Unfit(f"{key} is no list of tables")
    return found


def named(tables: list[Table], name: str) -> Table | None:
    """The table of a name."""
    return next((one for one in tables if one.get("name") == name), None)


def check_system(spec: Table) -> None:
    """Linux alone has the loader."""
    selected = table_of(spec, "nodeSelector").get("kubernetes.io/os", "linux")
    system = table_of(spec, "os").get("name") or selected
    if system != "linux":
        raise Unfit(f"the pod is for {system}, the library for linux")


def source_of(spec: Table, settings: Settings) -> Table:
    """The volume with the library."""
    if settings.is_image_volume:
        return {"image": {"reference": settings.image, "pullPolicy": settings.pull}}
    return {"emptyDir": {"sizeLimit": SIZE}}


def add_volume(spec: Table, name: str, source: Table) -> None:
    """Adds a volume, unless an earlier injection has."""
    there = named(listed(spec, "volumes"), name)
    if there is None:
        spec["volumes"] = [*listed(spec, "volumes"), {"name": name, **source}]
    elif not set(source) <= set(there):
        raise Unfit(f"the pod has a volume {name} of its own")


def init_container(spec: Table, settings: Settings) -> Table:
    """The container that copies the library. It changes neither the quality of service of the pod
    nor what the strictest profile of pod security says of it."""
    context: Table = {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True, "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    if table_of(spec, "securityContext").get("runAsUser") == 0:
        context["runAsUser"] = NOBODY
    found: Table = {
        "name": VOLUME, "image": settings.image, "imagePullPolicy": settings.pull,
        "command": ["/bin/cp", "-Rf", *FOLDERS, f"{PLACE}/"], "securityContext": context,
        "volumeMounts": [{"name": VOLUME, "mountPath": PLACE}],
    }  # fmt: skip
    containers = [*listed(spec, "containers"), *listed(spec, "initContainers")]
    if spec.get("resources") or any(one.get("resources") for one in containers):
        # As much is requested as allowed: a pod of the class Guaranteed remains one.
        amounts = {"cpu": settings.cpu, "memory": settings.memory}
        found["resources"] = {"requests": amounts, "limits": dict(amounts)}
    return found


def add_init(spec: Table, settings: Settings) -> None:
    """The first of the init containers, so that others may use the library."""
    there = listed(spec, "initContainers")
    if named(there, VOLUME) is None:
        spec["initContainers"] = [init_container(spec, settings), *there]


def preload_of(container: Table) -> tuple[str, str]:
    """LD_PRELOAD with the library first, and a remark on the others."""
    before = named(listed(container, "env"), PRELOAD) or {}
    if "valueFrom" in before:
        raise Unfit(f"its {PRELOAD} comes from elsewhere, so the value is not known")
    entries = [one for one in str(before.get("value") or "").replace(":", " ").split()
               if one != LIBRARY]  # fmt: skip
    if any(SANITIZER.search(one) for one in entries):
        raise Unfit(f"its {PRELOAD} has a sanitizer, which must be first")
    others = [one.rpartition("/")[2] for one in entries if OTHERS.search(one)]
    said = f"{PRELOAD} names another allocator ({', '.join(others)}): the library is put first"
    return ":".join([LIBRARY, *entries]), said if others else ""


def mounts_of(container: Table, wishes: Wishes) -> list[Table]:
    """Those that the container lacks."""
    there = listed(container, "volumeMounts")
    wanted = [{"name": VOLUME, "mountPath": PLACE, "readOnly": True}]
    if wishes.has_flight:
        wanted.append({"name": FLIGHT_VOLUME, "mountPath": FLIGHT_PLACE,
                       "subPath": str(container["name"])})  # fmt: skip
    for mount in there:
        path = str(mount.get("mountPath", "")).rstrip("/")
        if any(path == one["mountPath"] and mount.get("name") != one["name"] for one in wanted):
            raise Unfit(f"it has a mount of its own at {path}")
    return [one for one in wanted if named(there, str(one["name"])) is None]


def change_container(container: Table, wishes: Wishes) -> str:
    """Variables and mounts. A variable of the library that is there remains."""
    preload, said = preload_of(container)
    container["volumeMounts"] = [*listed(container, "volumeMounts"), *mounts_of(container, wishes)]
    variables = [dict(one) for one in listed(container, "env") if one.get("name") != PRELOAD]
    wanted = {"POOLSHIM_LIMIT": wishes.limit}
    if wishes.limit_hard != "off":
        wanted["POOLSHIM_LIMIT_HARD"] = wishes.limit_hard
    if wishes.has_flight:
        wanted["POOLSHIM_FLIGHT"] = FLIGHT_PLACE
    variables += [{"name": name, "value": value} for name, value in wanted.items()
                  if named(variables, name) is None]  # fmt: skip
    place = next((at for at, one in enumerate(listed(container, "env"))
                  if one.get("name") == PRELOAD), len(variables))  # fmt: skip
    variables.insert(place, {"name": PRELOAD, "value": preload})
    container["env"] = variables
    return said


def chosen(spec: Table, wishes: Wishes) -> list[Table]:
    """The containers that are meant."""
    usual = listed(spec, "containers")
    if not usual:
        raise Unfit("the pod has no containers")
    every = [*usual, *(one for one in listed(spec, "initContainers") if one.get("name") != VOLUME)]
    if not all(isinstance(one.get("name"), str) for one in every):
        raise Unfit("a container has no name")
    if not wishes.names:
        return usual
    lacking = [name for name in wishes.names if named(every, name) is None]
    if lacking:
        there = ", ".join(one["name"] for one in every)
        raise Unfit(f"no container {', '.join(lacking)}; there are {there}")
    return [one for one in every if one["name"] in wishes.names]


def change(pod: Table, settings: Settings, outcome: Outcome) -> None:
    """All of it, in place."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        raise Unfit("the pod has no spec")
    wishes = wishes_of(table_of(pod, "metadata"), settings)
    check_system(spec)
    for container in chosen(spec, wishes):
        trial = copy.deepcopy(container)
        try:
            said = change_container(trial, wishes)
        except Unfit as error:
            outcome.notes.append(f"{container['name']} is left out: {error}")
            continue
        container.update(trial)
        outcome.done.append(container["name"])
        if said:
            outcome.notes.append(f"{container['name']}: {said}")
    if outcome.done:
        add_volume(spec, VOLUME, source_of(spec, settings))
        if not settings.is_image_volume:
            add_init(spec, settings)
        if wishes.has_flight:
            # No limit of its size: the pod would be evicted there. The library bounds the records.
            add_volume(spec, FLIGHT_VOLUME, {"emptyDir": {}})


def inject(pod: Table, settings: Settings) -> Outcome:
    """The pod with the library, or with the reason why not."""
    try:
        if is_refused(pod):
            return Outcome(pod)
        outcome = Outcome(copy.deepcopy(pod))
        change(outcome.pod, settings, outcome)
    except Unfit as error:
        outcome = Outcome(copy.deepcopy(pod), notes=[str(error)])
    try:
        metadata = table_of(outcome.pod, "metadata")
        annotations = {**texts_of(metadata, "annotations"), STATUS: outcome.status}
        outcome.pod["metadata"] = {**metadata, "annotations": annotations}
    except Unfit:
        pass  # a manifest that the API server refuses anyway
    return outcome
