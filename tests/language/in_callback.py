# SPDX-License-Identifier: MIT
"""A function that C code of another library calls: the comparison of libc's qsort."""

import ctypes

from turns import BLOCK_BYTES, BLOCKS, kept, run

libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
steps = 0


@COMPARE
def compare(one: int, other: int) -> int:
    global steps
    if steps < BLOCKS:
        steps += 1
        kept.append(bytearray(BLOCK_BYTES))  # PLANTED compare
    return (one > other) - (one < other)


def step() -> None:
    global steps
    steps = 0
    libc.qsort((ctypes.c_int * (4 * BLOCKS))(), 4 * BLOCKS, ctypes.sizeof(ctypes.c_int), compare)


if __name__ == "__main__":
    run(step)
