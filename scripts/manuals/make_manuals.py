#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the manual pages and the shells' completions, which the build installs.

scripts/manuals/make_manuals.py DIR    DIR/man/man1, man3, man7 and DIR/completions

poolshim(1) and the completions come from the parsers of the command, libpoolshim(7) from
shim/config.def, the pages of section 3 from the public headers. Needs Python 3.10, nothing else.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

if sys.version_info < (3, 10):
    sys.exit("scripts/manuals/make_manuals.py: this needs Python 3.10 or later")
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import completions  # noqa: E402
import option_table  # noqa: E402
from command_facts import ROOT, SUMMARY, Command, Option, commands  # noqa: E402
from header_facts import Header, read_header  # noqa: E402
from poolshim_cli.places import checkout_version  # noqa: E402

HEADERS = ROOT / "pools" / "include" / "poolshim"

LIBRARY = """\
libpoolshim.so replaces malloc, free and their relatives, the aliases of glibc, and all forms of C++
operator new and delete, in any dynamically linked program, unchanged. It needs libc and nothing
else. Static programs, and programs that bring their own allocator inside the executable, do not see
a preloaded library; set-user-ID programs ignore LD_PRELOAD from untrusted places. libpoolshim.a is
the same library as a part of a program, static or not:
cc -static program.c $(pkg-config --static --libs poolshim).
poolshim doctor says whether the library takes effect in a program, and why not.

A signal handler that has interrupted one of these functions must not call one, as POSIX says: the
heap of the thread is in the middle of a change. The program mostly ends with the message of a
double free, whatever the number of its threads, and sometimes goes on. A handler that interrupts
other code may allocate and free.

The child of vfork, and of clone with CLONE_VM and CLONE_VFORK, may allocate and free. One that is
made by the bare system call must not, in a process of more than two threads per processor.

libpoolshim-pools has allocators for objects whose lifetimes follow a pattern. Each header of
<poolshim/> is the manual of its family, and a page of section 3.
"""
VALUES = """\
Sizes are decimal digits, alone (bytes) or with a unit in upper or lower case: K, Ki and KiB are
1024 bytes, KB is 1000; likewise M and G. With a unit there may be a fraction, as in 0.5G. Switches
take 0, 1, true, false, on, off. Lists are separated by commas. A variable that is set and empty
counts as not set.

A wrong value costs one line on stderr, and the default remains in force; with POOLSHIM_STRICT=1 the
program stops before main with exit status 78. In a program that gains privileges when it starts all
POOLSHIM_* variables are ignored.
"""


# ---- roff ----


def escape(text: str) -> str:
    """Text for roff, outside of macros' arguments and inside."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^\.", r"\\&.", text.replace("`", "\\(ga"), flags=re.MULTILINE)


def filled(text: str) -> str:
    """A paragraph, a sentence or a clause a line, as roff prefers it."""
    return escape(re.sub(r"(?<=[.;:]) (?=\S)", "\n", " ".join(text.split())))


def heading(name: str) -> str:
    return f'.SH "{escape(name.upper())}"'


def code(lines: Iterable[str]) -> str:
    body = "\n".join(escape(line) for line in lines)
    return f".PP\n.in +4n\n.EX\n{body}\n.EE\n.in"


def item(tag: str, text: str) -> str:
    return f".TP\n{tag}\n{filled(text)}" if text else f".TP\n{tag}\n\\&"


def bold(text: str) -> str:
    return f"\\fB{escape(text)}\\fR"


def title(name: str, section: int) -> str:
    return "\n".join([
        '.\\" SPDX-License-Identifier: MIT',
        '.\\" Made by scripts/manuals/make_manuals.py.',
        f'.TH {escape(name)} {section} "" "poolshim {checkout_version()}" "poolshim"',
    ])  # fmt: skip


def name_section(name: str, summary: str) -> str:
    return f".SH NAME\n{escape(name)} \\- {escape(summary)}"


def paragraphs(text: str) -> list[str]:
    return [f".PP\n{filled(part)}" for part in text.strip().split("\n\n")]


def see_also(*pages: tuple[str, int]) -> list[str]:
    return [heading("see also"),
            ",\n".join(f"{bold(name)}({section})" for name, section in pages)]  # fmt: skip


# ---- poolshim(1) ----


def option_item(option: Option) -> str:
    value = option.metavar
    joint = "" if value.startswith("[=") else " "
    names = ", ".join(bold(name) for name in option.names)
    tag = f"{names}{joint}\\fI{escape(value)}\\fR" if value else names
    text = option.help[:1].upper() + option.help[1:]
    return item(tag, text if text.endswith((".", "]", ")")) or not text else f"{text}.")


def command_section(command: Command) -> Iterator[str]:
    yield f'.SS "{escape(command.usage)}"'
    for part in command.text:
        if not part.startswith(" "):
            yield f".PP\n{filled(part)}"
    yield from map(option_item, command.options)
    if command.settings:
        yield ".PP\nSettings of the library, each an option of\n.BR libpoolshim (7):"
        yield from map(option_item, command.settings)
    examples = [part.strip() for part in command.text if part.startswith(" ")]
    if examples:
        yield ".PP\nExamples:"
        yield code(examples)
    if command.status:
        yield f".PP\nExit status: {filled(command.status)}"


def command_page(found: list[Command]) -> str:
    usages = [f"{bold('poolshim')} {escape(one.usage.removeprefix('poolshim '))}" for one in found]
    parts = [
        title("POOLSHIM", 1), name_section("poolshim", SUMMARY),
        ".SH SYNOPSIS", "\n.br\n".join([*usages, f"{bold('poolshim')} \\-\\-help | \\-\\-version"]),
        ".SH DESCRIPTION",
        *(item(bold(one.name), f"{one.summary[:1].upper()}{one.summary[1:]}.") for one in found),
        ".PP\nThe first word that is no option begins the program's command line;\n"
        "\\-\\- before it makes this explicit.\n"
        "Times are seconds, or 500ms, 10s, 2m, 1h.",
        ".SH COMMANDS",
        *(line for one in found for line in command_section(one)),
        heading("exit status"),
        ".PP\n" + filled(
            "2 for a bad command line or file, 1 for a negative finding and for a command that "
            "failed, 125 to 127 for failures of poolshim itself, as env and timeout have them."),
        heading("environment"),
        item(bold("NO_COLOR"), "Without colours."),
        ".PP\nThe options of the library:\n.BR libpoolshim (7).",
        *see_also(("libpoolshim", 7), ("ld.so", 8)),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


# ---- libpoolshim(7) ----


def library_page(headers: list[Header]) -> str:
    parts = [
        title("LIBPOOLSHIM", 7), name_section("libpoolshim", "a drop-in malloc, and memory pools"),
        ".SH SYNOPSIS",
        f"{bold('LD_PRELOAD=libpoolshim.so.0')} \\fIprogram\\fR",
        ".br", f"{bold('poolshim run')} \\-\\- \\fIprogram\\fR",
        ".br", f"{bold('cc')} \\fIfiles\\fR {bold('-lpoolshim')}",
        ".br", f"{bold('cc')} \\fIfiles\\fR {bold('-lpoolshim-pools')}",
        ".SH DESCRIPTION", *paragraphs(LIBRARY),
        ".SH ENVIRONMENT", *paragraphs(VALUES),
    ]  # fmt: skip
    for row in option_table.read_options(option_table.TABLE.read_text()):
        default = option_table.default_of(row) or "empty"
        facts = f"{option_table.values_of(row)}; {default} by default.".replace("`", "")
        name = bold(f"POOLSHIM_{row.name}")
        parts.append(item(name, row.help) + f"\n.br\nValue: {escape(facts)}")
    parts += see_also(("poolshim", 1), *((header.page, 3) for header in headers))
    return "\n".join(parts) + "\n"


# ---- section 3 ----


def prose(lines: list[str]) -> Iterator[str]:
    """Paragraphs of a comment; lines that are set in are an example or a list."""
    for part in re.split(r"\n\s*\n", "\n".join(lines)):
        rows = part.splitlines()
        while rows:
            is_code = rows[0].startswith("  ")
            count = next((n for n, row in enumerate(rows) if row.startswith("  ") != is_code),
                         len(rows))  # fmt: skip
            block, rows = rows[:count], rows[count:]
            margin = min(len(row) - len(row.lstrip()) for row in block)
            if is_code:
                yield code(row[margin:] for row in block)
            else:
                yield f".PP\n{filled(' '.join(block))}"


def header_page(header: Header, others: list[Header]) -> str:
    parts = [
        title(header.page.upper(), 3), name_section(header.page, header.summary),
        ".SH SYNOPSIS", f".B #include <poolshim/{header.file}>",
        ".SH DESCRIPTION", *prose(header.text),
    ]  # fmt: skip
    for section in header.sections:
        parts.append(heading(section.name))
        for entry in section.entries:
            parts += [code(entry.code), *prose(entry.text)]
    stem = header.file.partition(".")[0]
    near = [other.page for other in others if other.file.partition(".")[0] == stem]
    parts += see_also(*((page, 3) for page in near if page != header.page), ("libpoolshim", 7))
    return "\n".join(parts) + "\n"


def tidy(page: str) -> str:
    """Removes paragraph marks after headings, which begin a paragraph themselves."""
    return re.sub(r"^(\.S[HS] .*\n)\.PP\n", r"\1", page, flags=re.MULTILINE)


def made() -> dict[str, str]:
    """Path below the folder -> content."""
    found = commands()
    read = [read_header(path) for path in sorted(HEADERS.glob("*.h*"))]
    headers = [header for header in read if not header.is_internal]
    pages = {"man/man1/poolshim.1": command_page(found),
             "man/man7/libpoolshim.7": library_page(headers)}  # fmt: skip
    pages |= {f"man/man3/{header.page}.3": header_page(header, headers) for header in headers}
    files = {name: tidy(page) for name, page in pages.items()}
    return files | {f"completions/{name}": text for name, text in completions.made(found).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    folder = parser.parse_args().folder
    files = made()
    for name in ("man", "completions"):  # also of pages whose header is gone
        shutil.rmtree(folder / name, ignore_errors=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
