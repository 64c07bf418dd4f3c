# SPDX-License-Identifier: MIT
"""Builds and runs the models of lock-free parts: what has a .model beside it, and litmus.c.

<name>.model beside a model says what it is made of, one thing a line:

    sources: pools/engine/small/span.c                           the code under test, as it is
    headers: pools/engine/os/lock.h                     of these, what bounds and faults are in
    bound: pools/engine/os/lock.c: SPIN_COUNT 64 => SPIN_COUNT 1     a constant made small
    define: NAME=text                                         a macro, in all of them
    fault: scenario/name: function: old => new                a planted fault, and who finds it

See tests/models/README.md; scripts/dev/models runs them from the command line.
"""

from __future__ import annotations

import fcntl
import re
import subprocess
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPLORER = ROOT / "tests" / "models"
BUILD = ROOT / "build" / "models"
WARNINGS = ["-Wall", "-Wextra"]
FLAGS = ["-std=gnu11", "-O1", "-g", "-D_GNU_SOURCE"]
PATHS = [f"-I{ROOT}", f"-I{EXPLORER}", f"-I{ROOT}/pools/include"]
# Code under test: each access calls the explorer; checks are on.
WATCHED = ["-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0", "-DPS_CHECKED=1"]
WATCHED += ["-DPS_EXPLORED=1", "-Wno-tsan"]
WATCHED += ["-Dmemset=explore_memset", "-Dmemcpy=explore_memcpy", "-Dmemmove=explore_memmove"]
WATCHED += ["-fno-builtin", "-fno-inline"]


@dataclass
class Fault:
    name: str
    place: str  # a function or a file
    old: str
    new: str

    @property
    def scenario(self) -> str:
        return self.name.split("/")[0]


@dataclass
class Model:
    path: Path
    sources: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)
    bounds: list[Fault] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.stem


def read_model(path: Path) -> Model:
    model = Model(path)
    plan = path.with_suffix(".model")
    for line in plan.read_text().splitlines() if plan.exists() else []:
        key, _, rest = line.partition(": ")
        if key == "sources":
            model.sources += rest.split()
        elif key == "headers":
            model.headers += rest.split()
        elif key == "define":
            model.defines.append(f"-D{rest}")
        elif key == "bound":
            place, change = rest.split(": ", 1)
            model.bounds.append(Fault("bound", place, *change.split(" => ")))
        else:
            assert key == "fault", f"{plan}: {line}"
            name, place, change = rest.split(": ", 2)
            model.faults.append(Fault(name, place, *change.split(" => ")))
    return model


@lru_cache(maxsize=1)
def models() -> list[Model]:
    plans = [*EXPLORER.glob("*.model"), *(ROOT / "pools").glob("**/models/*.model")]
    paths = sorted(plan.with_suffix(".c") for plan in plans)
    return [read_model(path) for path in [EXPLORER / "litmus.c", *paths]]


def with_fault(text: str, fault: Fault) -> str | None:
    """The text with the fault; None where the place is not in it. The old text is there once."""
    start, end = 0, len(text)
    if not fault.place.endswith((".c", ".h")):
        match = re.search(rf"^\w.*\b{fault.place}\([^;]*?\{{\n", text, re.MULTILINE)
        if match is None:
            return None
        start, end = match.start(), text.index("\n}\n", match.start())
    body = text[start:end]
    assert body.count(fault.old) == 1, f"{fault.name}: {body.count(fault.old)} times: {fault.old}"
    return text[:start] + body.replace(fault.old, fault.new) + text[end:]


def compile_object(source: Path, output: Path, flags: list[str]) -> Path:
    """The object, made again only when the command or something that goes into it has changed."""
    depends = output.with_suffix(".d")
    made_by = output.with_suffix(".command")
    command = ["gcc", *FLAGS, *flags, *PATHS, "-MMD", "-MF", str(depends), "-c", str(source)]
    command += ["-o", str(output)]
    if output.exists() and made_by.exists() and made_by.read_text() == repr(command):
        parts = depends.read_text().replace("\\\n", " ").split(":", 1)[1].split()
        made = output.stat().st_mtime
        if all(Path(p).exists() and Path(p).stat().st_mtime <= made for p in parts):
            return output
    output.parent.mkdir(parents=True, exist_ok=True)
    made_by.unlink(missing_ok=True)
    subprocess.run(command, check=True, timeout=60)
    made_by.write_text(repr(command))
    return output


def changed(model: Model, source: str, fault: Fault | None, folder: Path) -> Path | None:
    """A copy of the source with the model's bounds and the fault; None: it has none of them."""
    text = (ROOT / source).read_text()
    new = text
    for bound in model.bounds:
        if bound.place == source:
            new = with_fault(new, bound) or new
    if fault is not None:
        new = with_fault(new, fault) or new
    if new == text:
        return None
    copy = folder / source
    copy.parent.mkdir(parents=True, exist_ok=True)
    if not copy.exists() or copy.read_text() != new:
        copy.write_text(new)
    return copy


def has_fault(source: str, fault: Fault) -> bool:
    text = (ROOT / source).read_text()
    return (with_fault(text, fault) or text) != text


def build(model: Model, fault: Fault | None = None) -> Path:
    """The program; one build at a time, since they share objects."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return build_alone(model, fault)


def build_alone(model: Model, fault: Fault | None) -> Path:
    as_is = BUILD / model.name / "as_is"
    folder = BUILD / model.name / fault.name if fault else as_is
    objects = [
        compile_object(EXPLORER / name, BUILD / f"{name}.o", ["-O2", *WARNINGS])
        for name in ("explore.c", "choices.c", "memory.c", "bytes.c", "habits.c", "hooks.c")
    ]
    bounded_headers = {h: changed(model, h, None, as_is) for h in model.headers}
    in_headers = [h for h in model.headers if fault and has_fault(h, fault)]
    for header in in_headers:
        changed(model, header, fault, folder)
    hits = len(in_headers)
    watched = [*WATCHED, *model.defines]
    watched += [f"-I{as_is}"] if any(bounded_headers.values()) else []
    weaker = [f"-I{folder}", f"-I{folder}/pools/include", "-include", str(EXPLORER / "weaker.h")]
    for source in [model.path.relative_to(ROOT).as_posix(), *model.sources]:
        name = source.replace("/", "-") + ".o"
        bounded = changed(model, source, None, as_is)
        planted = changed(model, source, fault, folder) if fault else None
        as_it_was = bounded.read_text() if bounded else None
        is_hit = planted is not None and planted.read_text() != as_it_was
        hits += is_hit
        if is_hit or in_headers:
            path = planted or ROOT / source
            objects.append(compile_object(path, folder / name, [*weaker, *watched]))
        else:
            path = bounded or ROOT / source
            objects.append(compile_object(path, as_is / name, [*watched, *WARNINGS]))
    assert fault is None or hits == 1, f"{fault.name}: in {hits} places"
    program = folder / model.name
    # Functions that the scenarios never call may be undefined.
    link = ["gcc", "-no-pie", "-Wl,--unresolved-symbols=ignore-all", "-o", str(program)]
    subprocess.run([*link, *map(str, objects)], check=True, timeout=60)
    return program


def run(program: Path, arguments: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
    )  # fmt: skip


def with_places(program: Path, text: str) -> str:
    """A trace with code addresses as function and line."""
    codes = sorted(set(re.findall(r"@ (0x[0-9a-f]+)$", text, re.MULTILINE)))
    if not codes:
        return text
    command = ["addr2line", "-fpse", str(program), *codes]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()
    places = dict(zip(codes, lines))
    return re.sub(r"@ (0x[0-9a-f]+)$", lambda m: f"@ {places[m[1]]}", text, flags=re.MULTILINE)
