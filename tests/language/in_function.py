# SPDX-License-Identifier: MIT
"""A function."""

from turns import BLOCK_BYTES, BLOCKS, kept, run


def leak_here() -> None:
    kept.append(bytearray(BLOCK_BYTES))  # PLANTED leak_here


def step() -> None:
    for _ in range(BLOCKS):
        leak_here()


if __name__ == "__main__":
    run(step)
