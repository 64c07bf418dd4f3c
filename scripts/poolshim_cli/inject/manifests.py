# SPDX-License-Identifier: MIT
"""Manifests of Kubernetes as texts: JSON, or YAML where the package PyYAML is installed.

    documents, write = read(text); outcomes = inject_all(documents, settings); write(documents)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import BadRequest, need
from .pods import Outcome, inject
from .wishes import Settings, Table

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job")
DEPTH = 8  # of lists in lists

Write = Callable[[list[Any]], str]


def as_json(documents: list[Any]) -> str:
    """The one document."""
    return json.dumps(documents[0], indent=2, ensure_ascii=False) + "\n"


def read(text: str) -> tuple[list[Any], Write]:
    """The documents, and how they are written again."""
    try:
        if text.lstrip().startswith("{"):
            return [json.loads(text)], as_json
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadRequest(f"this is no JSON: {error}") from None
    yaml = need("yaml", "kubernetes")
    try:
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
    except (yaml.YAMLError, RecursionError) as error:
        raise BadRequest(f"this is no YAML: {' '.join(str(error).split())}") from None
    return documents, lambda found: yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True)


def pods_of(document: Any, depth: int = 0) -> Iterator[tuple[str, Table, str]]:
    """A name for messages, and the table and the key that a pod is at."""
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise BadRequest("a document is no object of Kubernetes: it has no kind")
    kind = document["kind"]
    name = f"{kind}/{(document.get('metadata') or {}).get('name', '')}"
    spec = document.get("spec")
    if kind.endswith("List") and isinstance(document.get("items"), list) and depth < DEPTH:
        for item in document["items"]:
            yield from pods_of(item, depth + 1)
    elif kind == "Pod":
        yield name, {"pod": document}, "pod"
    elif kind in (*WORKLOADS, "CronJob"):
        if kind == "CronJob" and isinstance(spec, dict):
            spec = (spec.get("jobTemplate") or {}).get("spec")
        if not isinstance(spec, dict) or not isinstance(spec.get("template"), dict):
            raise BadRequest(f"{name} has no template of pods")
        yield name, spec, "template"


def inject_all(documents: list[Any], settings: Settings) -> list[tuple[str, Outcome]]:
    """Changes the pods in place; other objects remain."""
    found = []
    for document in documents:
        for name, table, key in pods_of(document):
            outcome = inject(table[key], settings)
            table[key].update(outcome.pod)
            found.append((name, outcome))
    return found
