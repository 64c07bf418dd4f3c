# SPDX-License-Identifier: MIT
"""Pods of Kubernetes for tests, as an API server has them, and a JSON Patch applied to one.

    review = review_of(pod_of([container_of("app")], annotations={...}))
"""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

Table = dict[str, Any]


def container_of(name: str = "app", **more: Any) -> Table:
    return {"name": name, "image": "service", **more}


def pod_of(containers: list[Table] | None = None, **more: Any) -> Table:
    """A pod; labels and annotations are of its metadata, others of its spec."""
    metadata = {key: more.pop(key) for key in ("labels", "annotations") if key in more}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "service", **metadata},
        "spec": {"containers": containers or [container_of()], **more},
    }  # fmt: skip


def review_of(pod: Any, **more: Any) -> Table:
    """The question of an API server."""
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "CREATE", "namespace": "shop",
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": pod, **more,
    }  # fmt: skip
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def patched(pod: Table, response: Table) -> Table:
    """The pod that an API server makes of the answer: `add` into a table, as RFC 6902 has it."""
    found = copy.deepcopy(pod)
    if "patch" not in response:
        return found
    assert response["patchType"] == "JSONPatch"
    for step in json.loads(base64.b64decode(response["patch"])):
        assert step["op"] == "add"
        *folders, last = step["path"].removeprefix("/").split("/")
        place = found
        for name in folders:
            place = place[name]
        place[last] = step["value"]
    return found


def variables(container: Table) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container.get("env", [])}
