# SPDX-License-Identifier: MIT
"""Text that another process chose, as it is shown: no control characters, which a terminal obeys.

    printable("a\033[2J") == "a?[2J"
"""

from __future__ import annotations


def printable(text: str) -> str:
    """Each control character, and what else cannot be shown, as a question mark."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or 0xDC80 <= ord(letter) <= 0xDCFF else "?"
        for letter in text
    )
