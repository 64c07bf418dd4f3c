# SPDX-License-Identifier: MIT
"""A method of a class."""

from turns import BLOCK_BYTES, BLOCKS, kept, run


class Cache:
    def __init__(self) -> None:
        self.size = BLOCK_BYTES

    def add(self) -> None:
        block = bytes(10)
        kept.append(
            block * (self.size // 10)  # PLANTED Cache.add
        )


def step() -> None:
    cache = Cache()
    for _ in range(BLOCKS):
        cache.add()


if __name__ == "__main__":
    run(step)
