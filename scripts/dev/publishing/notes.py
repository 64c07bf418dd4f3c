# SPDX-License-Identifier: MIT
"""The notes of a release: its part of CHANGELOG.md, and how its files are verified."""

from __future__ import annotations

import re

from .tools import PublishError

VERIFY = """
## Verification

```sh
sha256sum -c SHA256SUMS
{signature}```

The files were made from commit {commit} by `scripts/package`, which makes the same bytes again.
"""
SIGNATURE = "gpg --import poolshim.asc\ngpg --verify SHA256SUMS.asc SHA256SUMS\n"


def changes(changelog: str, version: str) -> str:
    """The part of a version, without its heading."""
    heading = rf"^## {re.escape(version)}(?: \([^)\n]*\))?\n"
    found = re.search(rf"{heading}(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise PublishError(f"CHANGELOG.md says nothing of {version}")
    return found[1].strip()


def notes(changelog: str, version: str, commit: str, is_signed: bool) -> str:
    """The text of a release."""
    verify = VERIFY.format(signature=SIGNATURE if is_signed else "", commit=commit)
    return f"# poolshim {version}\n\n{changes(changelog, version)}\n{verify}"
