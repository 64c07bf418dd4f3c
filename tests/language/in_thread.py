# SPDX-License-Identifier: MIT
"""A thread, beside threads that allocate without end."""

import threading

from turns import BLOCK_BYTES, BLOCKS, kept, run

is_over = threading.Event()


def busy() -> None:
    while not is_over.is_set():
        for _ in range(100):
            bytearray(500)


def leak_in_thread() -> None:
    for _ in range(BLOCKS):
        kept.append(bytearray(BLOCK_BYTES))  # PLANTED leak_in_thread


def step() -> None:
    threads = [threading.Thread(target=busy) for _ in range(3)]
    for one in threads:
        one.start()
    planted = threading.Thread(target=leak_in_thread)
    planted.start()
    planted.join()
    is_over.set()
    for one in threads:
        one.join()
    is_over.clear()


if __name__ == "__main__":
    run(step)
