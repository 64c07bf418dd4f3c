# SPDX-License-Identifier: MIT
"""Names for the call sites of a profile, by llvm-symbolizer or addr2line, whichever is installed.

    names = symbols.names_of(profile)
    names[location]     # ["inlined function", "function"], innermost first; [] where none is known

A file that has changed since the program ran is not used: its build id tells. Code that lies in no
file, such as a virtual machine's, takes its names from /tmp/perf-PID.map, where that is given.
"""

from __future__ import annotations

import bisect
import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import elf
from .callsites import Frame
from .errors import Failed
from .foreign.perf_map import PerfMap
from .foreign.text import printable
from .pprof import Location, Mapping, Profile

TOOLS = ("llvm-symbolizer", "addr2line")
UNKNOWN = "??"
RUST = re.compile(r"::h[0-9a-f]{16}$")
RUST_ESCAPES = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")",
                "C": ","}  # fmt: skip
RUST_CHARACTER = re.compile(r"\$u([0-9a-f]{1,4})\$")
ADDRESS = re.compile(r"0x[0-9a-f]+")  # the line that begins an answer
TOOL_SECONDS = 600  # for a file; the debug information of a browser takes a minute


@dataclass
class Symbols:
    """Names, lines and addresses of the sites of a profile."""

    names: dict[Location, list[str]] = field(default_factory=dict)
    lines: dict[Location, list[str]] = field(default_factory=dict)  # file:line of each function
    addresses: dict[Location, int] = field(default_factory=dict)  # of its file, as it was linked
    notes: list[str] = field(default_factory=list)  # on missing names, a line each

    def of(self, location: Location) -> list[str]:
        """The functions at a site, innermost first; never empty."""
        known = list(location.names) or self.names.get(location, [])
        return known or [self.place_of(location)]

    def frames_of(self, locations: Iterable[Location]) -> list[Frame]:
        """The functions of a stack, innermost first."""
        frames = []
        for location in locations:
            if location.line is not None:
                frames.append(Frame(location.line.title, source=location.line.file,
                                    line=location.line))  # fmt: skip
                continue
            names, lines = self.of(location), self.lines.get(location, [])
            is_place = not location.names and not self.names.get(location)
            file = location.mapping.path if location.mapping is not None else ""
            sources = [line.rpartition(":")[0] for line in lines if len(lines) == len(names)]
            for name, source in zip(names, sources or [""] * len(names), strict=True):
                frames.append(
                    Frame(name, file, "" if source.startswith(UNKNOWN) else source, is_place)
                )
        return frames

    def place_of(self, location: Location) -> str:
        """A site without a name: file+address, as addr2line takes it; file@offset where the file
        was not read."""
        if location.mapping is None or not location.mapping.path:
            return f"0x{location.address:x}"
        name = printable(Path(location.mapping.path).name)
        if location in self.addresses:
            return f"{name}+0x{self.addresses[location]:x}"
        return f"{name}@0x{offset_of(location, location.mapping):x}"

    def lines_of(self, location: Location) -> list[str]:
        """The same with file:line, where the file has lines: "main (src/main.c:12)"."""
        names, lines = self.of(location), self.lines.get(location, [])
        if len(lines) != len(names):
            return names
        return [
            name if line.startswith(UNKNOWN) else f"{name} ({line})"
            for name, line in zip(names, lines, strict=True)
        ]


def offset_of(location: Location, mapping: Mapping) -> int:
    """The offset of a site in its file."""
    return location.address - mapping.start + mapping.offset


def readable(name: str) -> str:
    """A name of Rust's older mangling, which llvm-symbolizer leaves half way, as addr2line prints
    it: "<T as alloc::string::ToString>::to_string". Another name as it is."""
    if not RUST.search(name):
        return name
    parts = []
    for part in RUST.sub("", name).split("::"):
        part = part[1:] if part.startswith("_$") else part
        for escape, text in RUST_ESCAPES.items():
            part = part.replace(f"${escape}$", text)
        part = RUST_CHARACTER.sub(lambda found: chr(int(found.group(1), 16)), part)
        parts.append(part.replace("..", "::"))
    return "::".join(parts)


def command_of(tool: str, path: Path) -> list[str]:
    """Reads addresses from standard input; writes each, then two lines per function, innermost
    first."""
    if tool.endswith("llvm-symbolizer"):
        return [tool, "--output-style=GNU", "--functions=linkage", "--demangle", "--inlines", "-a",
                f"--obj={path}"]  # fmt: skip
    return [tool, "-a", "-f", "-C", "-i", "-e", str(path)]


def ask(tool: str, path: Path, addresses: list[int]) -> list[list[tuple[str, str]]]:
    """The functions at each address of a file, each with file:line; fewer where the tool fails.

    An answer ends where the next address is repeated. Any marker that is asked for in between may
    have a name of its own: at address 0 are the functions that --gc-sections removed.
    """
    try:
        done = subprocess.run(
            command_of(tool, path), input="".join(f"0x{address:x}\n" for address in addresses),
            capture_output=True, text=True, errors="replace", check=False, timeout=TOOL_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return []
    lines, at = [printable(line) for line in done.stdout.split("\n")], 0
    answers: list[list[tuple[str, str]]] = []
    for address in addresses:
        if not ADDRESS.fullmatch(lines[at]) or int(lines[at], 16) != address:
            break
        at += 1
        pairs = []
        while at + 2 < len(lines) and not ADDRESS.fullmatch(lines[at]):
            pairs.append((readable(lines[at]), lines[at + 1].partition(" (discriminator")[0]))
            at += 2
        answers.append([pair for pair in pairs if pair[0] != UNKNOWN])
    return answers


def without_nearest(
    tool: str, file: elf.Elf, addresses: list[int], answers: list[list[tuple[str, str]]]
) -> None:
    """Removes names that addr2line takes from the nearest symbol although its function ends before
    the address, as it does for static functions of stripped files."""
    starts = {at: file.ended_before(address) for at, address in enumerate(addresses[: len(answers)])
              if len(answers[at]) == 1 and answers[at][0][1].startswith(UNKNOWN)}  # fmt: skip
    asked = {at: start for at, start in starts.items() if start is not None}
    for at, pairs in zip(asked, ask(tool, file.path, list(asked.values())), strict=False):
        if answers[at] == pairs:
            answers[at] = []


def name_in_file(
    symbols: Symbols, tool: str | None, root: Path, mapping: Mapping, sites: list[Location]
) -> None:
    """Adds the addresses of the sites of one mapping, and what the tool says of them."""
    path = root / mapping.path.lstrip("/") if mapping.path.startswith("/") else Path(mapping.path)
    if not path.is_file():
        if mapping.path.startswith("/"):
            symbols.notes.append(f"{mapping.path} is not there: its functions have no names")
        return
    try:
        file = elf.read(path)
        if mapping.build_id and file.build_id != mapping.build_id:
            symbols.notes.append(f"{mapping.path} has changed since: its functions have no names")
            return
        addresses = [file.address_at(offset_of(site, mapping)) for site in sites]
    except (OSError, elf.Malformed):
        symbols.notes.append(
            f"{mapping.path} cannot be read as a program: its functions have no names"
        )
        return
    symbols.addresses.update(zip(sites, addresses, strict=True))
    if tool is None:
        return
    answers = ask(tool, path, addresses)
    if tool.endswith("addr2line"):
        with contextlib.suppress(elf.Malformed):
            without_nearest(tool, file, addresses, answers)
    if len(answers) < len(sites):
        symbols.notes.append(f"{Path(tool).name} fails to read {mapping.path}: {len(sites)} call "
                             f"sites, {len(answers)} answers")  # fmt: skip
    for site, pairs in zip(sites, answers, strict=False):
        symbols.names[site] = [name for name, _ in pairs]
        symbols.lines[site] = [line for _, line in pairs]


def name_by_map(
    symbols: Symbols, sites: Iterable[Location], perf_map: PerfMap
) -> None:
    """Adds the names of sites that lie in no file."""
    try:
        table = perf_map.read()
    except Failed as error:
        symbols.notes.append(str(error))
        return
    starts = [start for start, _, _ in table]
    for site in sites:
        index = bisect.bisect_right(starts, site.address) - 1
        if index >= 0 and site.address < table[index][0] + table[index][1]:
            symbols.names[site] = [table[index][2]]


def names_of(
    profile: Profile, perf_map: PerfMap | None = None, root: Path = Path("/")
) -> Symbols:
    """Names for all sites of a profile, as far as they are known, by files below `root`."""
    symbols = Symbols()
    by_mapping: dict[Mapping | None, list[Location]] = {}
    for site in dict.fromkeys(one for sample in profile.samples for one in sample.locations):
        if not site.names:
            by_mapping.setdefault(site.mapping, []).append(site)
    if perf_map is not None:
        name_by_map(symbols, by_mapping.get(None, []), perf_map)
    tool = next((path for path in map(shutil.which, TOOLS) if path is not None), None)
    if tool is None:
        symbols.notes.append(
            f"neither {TOOLS[0]} nor {TOOLS[1]} is installed: addresses have no names "
            "(apt install binutils)"
        )
    for mapping, sites in by_mapping.items():
        if mapping is not None:
            name_in_file(symbols, tool, root, mapping, sites)
    return symbols
