# SPDX-License-Identifier: MIT
"""The code of a module, when it is imported."""

import importlib
import sys

from turns import kept, run


def step() -> None:
    sys.modules.pop("loaded_module", None)
    kept.append(importlib.import_module("loaded_module"))


if __name__ == "__main__":
    run(step)
