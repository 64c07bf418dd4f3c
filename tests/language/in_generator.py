# SPDX-License-Identifier: MIT
"""A generator, which a C function drives."""

from collections.abc import Iterator

from turns import BLOCK_BYTES, BLOCKS, kept, run


def blocks() -> Iterator[bytearray]:
    for _ in range(BLOCKS):
        block = bytearray(BLOCK_BYTES)  # PLANTED blocks
        yield block


def step() -> None:
    kept.extend(blocks())


if __name__ == "__main__":
    run(step)
