# SPDX-License-Identifier: MIT
"""Files that a script makes from others: written where they differ, or compared.

For gen-answers, gen-docs, gen-guides and gen-overview beside this file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

Files = Mapping[Path, str | None]  # the content of each, None of one that is to be deleted


def outdated(files: Files) -> list[Path]:
    """The files whose text differs from the one to write."""
    return [path for path, text in files.items()
            if (path.read_text() if path.exists() else None) != text]  # fmt: skip


def asked_to_check(about: str) -> bool:
    """Reads the arguments of a script, whose docstring begins with what it does."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    return bool(parser.parse_args().check)


def write_or_check(files: Files, is_check: bool) -> int:
    """The exit status: 1 if a check finds a file outdated, which it names."""
    found = outdated(files)
    for path in found:
        text = files[path]
        if is_check:
            script = Path(sys.argv[0]).name
            print(f"{path} is not up to date: run scripts/dev/{script}", file=sys.stderr)
        elif text is None:
            path.unlink()
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    return 1 if is_check and found else 0
