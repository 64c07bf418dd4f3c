# SPDX-License-Identifier: MIT
"""`poolshim inject`: adds the library to the pods of manifests, without a cluster.

    kubectl get deployment web -o json | scripts/poolshim inject --image NAME | kubectl apply -f -

Exit status: 0 written; 1 a pod was left as it is; 2 usage, no manifest; 125 a package is missing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..errors import BadRequest, Failed
from ..live import options
from . import manifests, wishes

SETTINGS_HELP = f"""\
  --image NAME           the image with the library
  --pull POLICY          when it is pulled: Always, IfNotPresent, Never [IfNotPresent]
  --limit LIMIT          POOLSHIM_LIMIT of pods that do not say: a size, 80%, off [80%]
  --limit-hard LIMIT     POOLSHIM_LIMIT_HARD likewise [off]
  --flight               a flight record in each pod that does not say
  --image-volume         mount the image as a volume: no init container; the container runtime must
                         allow code in such volumes
  --cpu AMOUNT           of the init container, in pods that have amounts [50m]
  --memory AMOUNT        likewise [32Mi]
  -h, --help             print this text

Annotations of a pod, which go before these: {wishes.CONTAINERS} (names, separated by
commas), {wishes.LIMIT}, {wishes.LIMIT_HARD}, {wishes.FLIGHT} (true,
false). The label {wishes.INJECT}=false leaves a pod as it is."""
HELP = f"""usage: poolshim inject --image NAME [OPTIONS] [FILE]

Reads manifests of Kubernetes, from standard input without FILE, and writes them with the library in
each pod: a volume, an init container that copies the library there, LD_PRELOAD and the limit.
Images do not change. JSON; YAML where the Python package PyYAML is installed. No cluster is asked.
A line on standard error has the result for each pod.

{SETTINGS_HELP}

Exit status: 0 all pods have it, or say no, 1 another pod was left as it is, 2 usage or no manifest,
125 a package is missing.
"""


def text_of(names: list[str]) -> str:
    """The manifests."""
    if len(names) > 1:
        raise BadRequest("one file at a time")
    try:
        if not names or names[0] == "-":
            return sys.stdin.read()
        return Path(names[0]).read_text()
    except OSError as error:
        raise BadRequest(f"{names[0]}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadRequest("this is no text of UTF-8") from None


def main(words: list[str]) -> int:
    """Reads, changes, writes."""
    request = options.parse(words, wishes.SWITCHES, wishes.VALUED)
    if request.is_help:
        print(HELP, end="")
        return 0
    settings = wishes.settings_of(request)
    documents, write = manifests.read(text_of(request.rest))
    found = manifests.inject_all(documents, settings)
    if not found:
        raise BadRequest("there is no pod and no template of pods")
    for name, outcome in found:
        print(f"poolshim inject: {name}: {outcome.status}", file=sys.stderr)
    print(write(documents), end="")
    sys.stdout.flush()
    left = [name for name, outcome in found if outcome.notes and not outcome.done]
    if left:
        raise Failed(f"left as it is: {', '.join(left)}")
    return 0
