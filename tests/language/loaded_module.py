# SPDX-License-Identifier: MIT
"""Allocates when it is imported."""

from turns import BLOCK_BYTES, BLOCKS

blocks = [bytes(10)] * BLOCKS
for at in range(BLOCKS):
    blocks[at] = bytes(BLOCK_BYTES)  # PLANTED <module>
