# SPDX-License-Identifier: MIT
"""Names for the call sites of a profile, by llvm-symbolizer or addr2line, whichever is installed.

    names = symbols.names_of(profile)
    names[location]     # ["inlined function", "function"], innermost first; [] where none is known

A file that has changed since the program ran is not used: its build id tells. Code that lies in no
file, such as a virtual machine's, takes its names from /tmp/perf-PID.map, where that is given.
"""

from __future__ import annotations

import bisect
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import elf
from .pprof import Location, Mapping, Profile

TOOLS = ("llvm-symbolizer", "addr2line")
ENDS_ANSWER = 0  # an address that is asked for after each other one, to tell where its lines end
UNKNOWN = "??"


@dataclass
class Symbols:
    """What is known of the sites of a profile."""

    names: dict[Location, list[str]] = field(default_factory=dict)
    lines: dict[Location, list[str]] = field(default_factory=dict)  # file:line of each function
    notes: list[str] = field(default_factory=list)  # what is missing, a line each

    def of(self, location: Location) -> list[str]:
        """The functions at a site, innermost first; never empty."""
        known = list(location.names) or self.names.get(location, [])
        return known or [place_of(location)]

    def lines_of(self, location: Location) -> list[str]:
        """The same with file:line, where the file has lines: "main (src/main.c:12)"."""
        names, lines = self.of(location), self.lines.get(location, [])
        if len(lines) != len(names):
            return names
        return [
            name if line.startswith(UNKNOWN) else f"{name} ({line})"
            for name, line in zip(names, lines, strict=True)
        ]


def place_of(location: Location) -> str:
    """A site without a name: the file, and the address in it."""
    if location.mapping is None or not location.mapping.path:
        return f"0x{location.address:x}"
    return f"{Path(location.mapping.path).name}+0x{offset_of(location, location.mapping):x}"


def offset_of(location: Location, mapping: Mapping) -> int:
    """Of a site in its file."""
    return location.address - mapping.start + mapping.offset


def command_of(tool: str, path: Path) -> list[str]:
    """Reads addresses from standard input; writes two lines per function, innermost first."""
    if tool.endswith("llvm-symbolizer"):
        return [tool, "--output-style=GNU", "--functions=linkage", "--demangle", "--inlines",
                f"--obj={path}"]  # fmt: skip
    return [tool, "-f", "-C", "-i", "-e", str(path)]


def ask(tool: str, path: Path, addresses: list[int]) -> list[list[tuple[str, str]]]:
    """The functions at each address of a file, each with file:line."""
    questions = "".join(f"0x{address:x}\n0x{ENDS_ANSWER:x}\n" for address in addresses)
    done = subprocess.run(
        command_of(tool, path), input=questions, capture_output=True, text=True, errors="replace",
        check=False,
    )  # fmt: skip
    answers: list[list[tuple[str, str]]] = []
    pairs = list(zip(*[iter(done.stdout.splitlines())] * 2, strict=False))
    current: list[tuple[str, str]] = []
    for function, line in pairs:
        is_end = bool(current) and function == UNKNOWN and line.startswith(UNKNOWN)
        if not is_end:
            current.append((function, line.partition(" (discriminator")[0]))
            continue
        answers.append([pair for pair in current if pair[0] != UNKNOWN])
        current = []
    return answers if len(answers) == len(addresses) else [[] for _ in addresses]


def name_in_file(
    symbols: Symbols, tool: str, root: Path, mapping: Mapping, sites: list[Location]
) -> None:
    """Adds the names of the sites of one mapping."""
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
    for site, pairs in zip(sites, ask(tool, path, addresses), strict=True):
        symbols.names[site] = [name for name, _ in pairs]
        symbols.lines[site] = [line for _, line in pairs]


def read_perf_map(path: Path) -> list[tuple[int, int, str]]:
    """Start, length and name of each function that a virtual machine has listed, in order."""
    found = []
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        start, _, rest = line.partition(" ")
        length, _, name = rest.partition(" ")
        try:
            found.append((int(start, 16), int(length, 16), name))
        except ValueError:
            continue
    return sorted(found)


def name_by_map(
    symbols: Symbols, sites: Iterable[Location], table: list[tuple[int, int, str]]
) -> None:
    """Adds the names of sites that lie in no file."""
    starts = [start for start, _, _ in table]
    for site in sites:
        index = bisect.bisect_right(starts, site.address) - 1
        if index >= 0 and site.address < table[index][0] + table[index][1]:
            symbols.names[site] = [table[index][2]]


def names_of(
    profile: Profile, perf_map: Path | None = None, root: Path = Path("/")
) -> Symbols:
    """Names for all sites of a profile, as far as they are known, by files below `root`."""
    symbols = Symbols()
    by_mapping: dict[Mapping | None, list[Location]] = {}
    for site in dict.fromkeys(one for sample in profile.samples for one in sample.locations):
        if not site.names:
            by_mapping.setdefault(site.mapping, []).append(site)
    if perf_map is not None:
        name_by_map(symbols, by_mapping.get(None, []), read_perf_map(perf_map))
    tool = next((path for path in map(shutil.which, TOOLS) if path is not None), None)
    if tool is None:
        symbols.notes.append(
            f"neither {TOOLS[0]} nor {TOOLS[1]} is installed: addresses have no names "
            "(apt install binutils)"
        )
        return symbols
    for mapping, sites in by_mapping.items():
        if mapping is not None:
            name_in_file(symbols, tool, root, mapping, sites)
    return symbols
