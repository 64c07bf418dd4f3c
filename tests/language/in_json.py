# SPDX-License-Identifier: MIT
"""A module of C that the standard library calls for the program."""

import json

from turns import BLOCK_BYTES, BLOCKS, kept, run

TEXT = json.dumps({"text": "x" * BLOCK_BYTES})


def load() -> None:
    kept.append(json.loads(TEXT))  # PLANTED load


def step() -> None:
    for _ in range(BLOCKS):
        load()


if __name__ == "__main__":
    run(step)
