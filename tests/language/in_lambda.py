# SPDX-License-Identifier: MIT
"""A lambda, which a C function calls in the midst of a sort."""

from turns import BLOCK_BYTES, BLOCKS, kept, run


def step() -> None:
    sorted(
        range(BLOCKS),
        key=lambda at: kept.append(
            bytearray(BLOCK_BYTES)  # PLANTED step.<locals>.<lambda>
        ) or -at,
    )  # fmt: skip


if __name__ == "__main__":
    run(step)
