# SPDX-License-Identifier: MIT
"""The script that an interpreter runs, by its command line.

    name_of(["/usr/bin/python3", "-u", "/srv/app.py", "--port=80"])     "app.py"
    name_of(["java", "-Xmx1g", "-jar", "shop.jar"])                     "shop.jar"
    name_of(["python3", "-m", "gunicorn", "app:app"])                   "gunicorn"

The interpreters share their syntax: options, the script, the script's arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

INTERPRETER = re.compile(r"(python|pypy|ruby|node|nodejs|perl|php|java)[\d.]*(t|d)?")
NAMING = {"-m", "-jar", "--jar"}  # the next word names the program
WITH_VALUE = {"-W", "-X", "-I", "-r", "-cp", "-classpath", "--class-path", "-p", "--module-path",
              "--require", "--import"}  # fmt: skip
WITHOUT_SCRIPT = {"-c", "-e", "--eval", "-"}


def base_of(word: str) -> str:
    """Without its directory."""
    return word.rpartition("/")[2]


def name_of(words: Sequence[str]) -> str:
    """Empty: the program is no interpreter, or runs no script."""
    if not words or not INTERPRETER.fullmatch(base_of(words[0])):
        return ""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] in WITHOUT_SCRIPT:
            return ""
        if words[at] in NAMING:
            at += 1
            break
        at += 2 if words[at] in WITH_VALUE else 1
    return base_of(words[at]) if at < len(words) else ""
