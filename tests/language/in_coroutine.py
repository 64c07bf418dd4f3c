# SPDX-License-Identifier: MIT
"""A coroutine that another one awaits, in an event loop."""

import asyncio

from turns import BLOCK_BYTES, BLOCKS, kept, run


async def fetch() -> None:
    await asyncio.sleep(0)
    kept.append(bytearray(BLOCK_BYTES))  # PLANTED fetch


async def serve() -> None:
    for _ in range(BLOCKS):
        await fetch()


def step() -> None:
    asyncio.run(serve())


if __name__ == "__main__":
    run(step)
