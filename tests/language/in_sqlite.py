# SPDX-License-Identifier: MIT
"""A library of C that releases the interpreter's lock while it allocates."""

import sqlite3

from turns import BLOCK_BYTES, BLOCKS, run

database = sqlite3.connect(":memory:")
database.execute("create table texts (text)")


def insert() -> None:
    database.execute("insert into texts values (zeroblob(?))", [BLOCK_BYTES])  # PLANTED insert


def step() -> None:
    for _ in range(BLOCKS):
        insert()


if __name__ == "__main__":
    run(step)
