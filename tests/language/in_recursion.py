# SPDX-License-Identifier: MIT
"""A function that calls itself more often than a stack has frames."""

from turns import BLOCK_BYTES, BLOCKS, kept, run

DEPTH = 300


def descend(depth: int) -> None:
    if depth > 0:
        descend(depth - 1)
        return
    for _ in range(BLOCKS):
        kept.append(bytearray(BLOCK_BYTES))  # PLANTED descend


def step() -> None:
    descend(DEPTH)


if __name__ == "__main__":
    run(step)
