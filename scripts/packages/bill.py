# SPDX-License-Identifier: MIT
"""The bill of materials of a release, as SPDX 2.3 in JSON, and the checksums.

The project contains no code of others: the bill names the files of dist/, the commit they come
from, and what they need where they run.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .archive import sha256
from .staging import Release, project_table


def identifier(text: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", text)


def package(name: str, version: str, licence: str, **more: Any) -> dict[str, Any]:
    return {"SPDXID": identifier(name), "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION", **more}  # fmt: skip


def needs(source: Path, glibc: str) -> list[tuple[str, str]]:
    """The dependencies at run time: name and version."""
    project = project_table(source)
    found = [("glibc", f">={glibc}")] if glibc else []  # sources alone need none
    found.append(("python3", str(project["requires-python"])))
    for row in project["dependencies"]:
        name, version = re.split(r"(?=[<>=!~;])", row, maxsplit=1)
        found.append((name, version.partition(";")[0].strip()))
    return found


def bill(what: Release, source: Path, glibc: str, files: Sequence[Path]) -> dict[str, Any]:
    """The whole document."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(what.epoch))
    main = package("poolshim", what.version, "MIT",
                   sourceInfo=f"git commit {what.commit}, by scripts/package")  # fmt: skip
    packages = [main]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", main["SPDXID"])]
    for path in files:
        sums = [{"algorithm": "SHA256", "checksumValue": sha256(path)}]
        one = package(path.name, what.version, "MIT", packageFileName=path.name, checksums=sums)
        packages.append(one)
        relations.append((one["SPDXID"], "GENERATED_FROM", main["SPDXID"]))
    for name, version in needs(source, glibc):
        one = package(name, version, "NOASSERTION")
        packages.append(one)
        relations.append((one["SPDXID"], "RUNTIME_DEPENDENCY_OF", main["SPDXID"]))
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"poolshim-{what.version}",
        "documentNamespace": f"urn:poolshim:{what.version}:{what.commit}",
        "creationInfo": {"created": created, "creators": ["Tool: scripts/package"]},
        "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                          for a, kind, b in relations],
    }  # fmt: skip


def write_bill(
    what: Release, source: Path, glibc: str, files: Sequence[Path], output: Path
) -> Path:
    path = output / f"poolshim-{what.version}.spdx.json"
    path.write_text(json.dumps(bill(what, source, glibc, files), indent=1) + "\n")
    return path


def write_checksums(files: Sequence[Path], output: Path) -> Path:
    """Writes the checksums for `sha256sum -c`."""
    path = output / "SHA256SUMS"
    path.write_text("".join(f"{sha256(one)}  {one.name}\n" for one in sorted(files)))
    return path
