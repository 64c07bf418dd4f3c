# SPDX-License-Identifier: MIT
"""Reviews of admission: the question of an API server about a pod, and the answer.

    body, said = answer(request_body, settings)

The answer always admits the pod. The format is admission.k8s.io/v1, the patch a JSON Patch.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from ..errors import BadRequest
from ..foreign.text import printable
from .pods import Outcome, inject
from .wishes import Settings, Table

VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
CHANGED = (("metadata", "annotations"), ("spec", "volumes"), ("spec", "initContainers"),
           ("spec", "containers"))  # fmt: skip
WARNING_MAX = 240  # characters: API servers cut a longer one


def question_of(body: bytes) -> Table:
    """The request of a review."""
    try:
        review: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}") from None
    if not isinstance(review, dict) or (review.get("apiVersion"), review.get("kind")) != (
        VERSION, KIND,
    ):  # fmt: skip
        raise BadRequest(f"the body is no {KIND} of {VERSION}")
    found = review.get("request")
    if not isinstance(found, dict) or not isinstance(found.get("uid"), str):
        raise BadRequest("the review has no request with a uid")
    return found


def patch_of(before: Table, after: Table) -> list[Table]:
    """The operations that make one pod of the other: whole lists, which add replaces."""
    found: list[Table] = []
    for part, key in CHANGED:
        old, new = before.get(part), after.get(part)
        if isinstance(old, dict) and isinstance(new, dict) and new.get(key) != old.get(key):
            found.append({"op": "add", "path": f"/{part}/{key}", "value": new[key]})
    return found


def is_new_pod(question: Table) -> bool:
    """Reviews of other objects and of changes are admitted as they are."""
    resource = question.get("resource")
    is_pod = isinstance(resource, dict) and resource.get("resource") == "pods"
    return is_pod and question.get("operation") == "CREATE"


def name_of(question: Table) -> str:
    """For the log. A pod of a controller has no name yet."""
    metadata = question["object"].get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    name = found.get("name") or f"{found.get('generateName', '')}*"
    return printable(f"{question.get('namespace', '')}/{name}")


def answer(body: bytes, settings: Settings) -> tuple[bytes, str]:
    """The answer, and a line for the log; empty: nothing was done."""
    question = question_of(body)
    response: Table = {"uid": question["uid"], "allowed": True}
    said = ""
    if is_new_pod(question):
        if not isinstance(question.get("object"), dict):
            raise BadRequest("the review has no pod")
        outcome = inject(question["object"], settings)
        respond(response, question["object"], outcome)
        said = f"{name_of(question)}: {printable(outcome.status)}"
    review = {"apiVersion": VERSION, "kind": KIND, "response": response}
    return json.dumps(review).encode(), said


def respond(response: Table, before: Table, outcome: Outcome) -> None:
    """Adds the patch and the warnings, which kubectl shows."""
    patch = patch_of(before, outcome.pod)
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
    if outcome.notes:
        response["warnings"] = [f"poolshim: {note}"[:WARNING_MAX] for note in outcome.notes]
