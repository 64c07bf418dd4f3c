# SPDX-License-Identifier: MIT
"""What the loader would load and in which order, by its own word, and whose malloc then serves.

The program's own loader is run with --list: it loads everything and stops before any code of the
program or of a library runs. Its order is the order in which it looks symbols up.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .. import elf
from .findings import FATAL, FINE, NOTE, WARNING, Diagnosis
from .program import C_NAMES, NEW_NAMES, libc_of

LISTED = re.compile(r"^\t(?:\S+ => )?(\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
ABSENT = re.compile(
    r"rror (?:while )?loading shared librar(?:y|ies):? (\S+): "
    r"(?:cannot open shared object|No such file)"
)
REFUSED = re.compile(r"object '([^']*)' from (LD_PRELOAD|/etc/ld.so.preload) cannot be preloaded")
# They define malloc or operator new where no other library does: no finding names them.
ORDINARY = re.compile(
    r"^(libc|libstdc\+\+|libc\+\+|libc\+\+abi|ld-(linux|musl)[^.]*|ld64)\.so|^ld-2|^libc\.musl-"
)
TIMEOUT_S = 30


def list_libraries(
    diagnosis: Diagnosis, program: elf.Elf, preload: str, env: Mapping[str, str]
) -> list[elf.Elf]:
    """The files that would be mapped, without the program, in order; empty if the loader failed."""
    # The kernel follows links before the loader sees a path, so that $ORIGIN is the file's folder;
    # a loader that is given a link takes the link's folder for it.
    command = [program.interpreter, "--list", str(program.path.resolve())]
    clean = {name: value for name, value in env.items() if not name.startswith("LD_TRACE")}
    try:
        done = subprocess.run(
            command, env={**clean, "LD_PRELOAD": preload}, capture_output=True, text=True,
            errors="replace", timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        diagnosis.add("loader-failed", WARNING, f"{program.interpreter} --list: {error}")
        return []
    for name in ABSENT.findall(done.stderr):
        diagnosis.add("library-absent", FATAL, f"{program.path} needs {name}, which is not found")
        return []
    for name, origin in REFUSED.findall(done.stderr):
        diagnosis.add("preload-refused", WARNING, f"{origin} names {name}, which cannot be loaded")
    found = []
    # musl's loader is its libc: it names itself first, and again where its malloc is in the order.
    is_musl = libc_of(program) == "musl"
    for text in LISTED.findall(done.stdout)[1 if is_musl else 0 :]:
        try:
            found.append(elf.read(Path(text)))
        except (OSError, elf.Malformed):
            continue  # the vdso has no file
    if not found:
        said = next(iter(done.stderr.splitlines()), f"exit status {done.returncode}")
        diagnosis.add("loader-failed", FATAL, f"the loader refuses {program.path}: {said}")
    return found


def check_order(diagnosis: Diagnosis, program: elf.Elf, found: list[elf.Elf], ours: Path) -> None:
    """The library whose malloc comes first; the others that bring one."""
    order = [program, *found]
    places = [at for at, file in enumerate(order) if file.path.resolve() == ours]
    if not places:
        diagnosis.add("not-loaded", FATAL, f"the loader leaves {ours.name} out")
        return
    first = next(file for file in order if file.defines("malloc"))
    if first.path.resolve() == ours:
        diagnosis.add("first", FINE, f"{ours.name} is loaded, and its malloc comes first")
    elif first is not program:
        diagnosis.add(
            "other-first", FATAL,
            f"{first.path} comes before poolshim, and its malloc serves",
            "take it out of LD_PRELOAD",
        )  # fmt: skip
    for file in order[places[0] + 1 :]:
        if not ORDINARY.match(file.path.name) and file.defines("malloc"):
            diagnosis.add(
                "replaced", NOTE,
                f"{file.path} also defines malloc; poolshim's comes first, so it is loaded but "
                "unused",
            )  # fmt: skip


def check_bindings(diagnosis: Diagnosis, found: list[elf.Elf], ours: Path) -> None:
    """Libraries whose own calls cannot be redirected."""
    for file in found:
        if ORDINARY.match(file.path.name) or file.path.resolve() == ours:
            continue
        inside = [name for name in (*C_NAMES, *NEW_NAMES) if file.defines(name)]
        if file.is_symbolic and inside:
            diagnosis.add(
                "symbolic", WARNING,
                f"{file.path} is linked with -Bsymbolic and defines {', '.join(inside)}: its own "
                "calls use those",
            )  # fmt: skip
