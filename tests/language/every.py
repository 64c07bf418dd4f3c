# SPDX-License-Identifier: MIT
"""All planted programs in one process, in turns."""

import importlib
from pathlib import Path

from turns import run

NAMES = sorted(one.stem for one in Path(__file__).parent.glob("[ai][tn]_*.py"))
STEPS = [importlib.import_module(name).step for name in NAMES]


def step() -> None:
    for one in STEPS:
        one()


if __name__ == "__main__":
    run(step)
