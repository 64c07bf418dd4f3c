# SPDX-License-Identifier: MIT
"""Manual pages are made of their sources by Python alone, complete, and without faults for groff.

    scripts/test tests/repo/test_manuals.py
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row

MANUALS = ROOT / "scripts" / "manuals"
COMMAND = ROOT / "scripts" / "poolshim"

sys.path.insert(0, str(MANUALS))
import command_facts  # noqa: E402
import header_facts  # noqa: E402
import make_manuals  # noqa: E402

MADE = make_manuals.made()
PAGES = {Path(name).name: text for name, text in MADE.items() if name.startswith("man/")}
FACTS = {command.name: command for command in command_facts.commands()}
HEADERS = [
    header_facts.read_header(path)
    for path in sorted((ROOT / "pools" / "include" / "poolshim").glob("*.h*"))
]


def test_the_script_writes_them_without_a_package_and_removes_others(tmp_path: Path) -> None:
    """-E -S: no click, no rich, which the build may lack."""
    other = tmp_path / "man" / "man3" / "poolshim_gone.h.3"
    other.parent.mkdir(parents=True)
    other.touch()
    command = [sys.executable, "-E", "-S", MANUALS / "make_manuals.py", tmp_path]
    result = run_captured(command)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    written = {path.relative_to(tmp_path).as_posix(): path.read_text()
               for path in tmp_path.rglob("*") if path.is_file()}  # fmt: skip
    assert written == MADE


def reading_the_parsers_leaves_the_real_packages() -> None:
    import click

    assert "make_context" in dir(click.Command)
    assert click is sys.modules["click"]


@each_row("name", FACTS)
def test_no_option_is_missed(build_dir: Path, name: str) -> None:
    """What --help prints at the start of a line, and nothing else."""
    result = run_captured([COMMAND, name, "--help"])
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if re.match(r" {2,6}-", line)]
    shown = {flag for line in lines
             for flag in re.findall(r"(?:^ +|, )(--?[a-z][a-z-]*)", line)}  # fmt: skip
    command = FACTS[name]
    known = {flag for one in [*command.options, *command.settings] for flag in one.names}
    assert shown == known


def every_option_of_the_library_is_in_its_page() -> None:
    text = PAGES["libpoolshim.7"]
    table = (ROOT / "shim" / "config.def").read_text()
    rows = re.findall(r"^PS_OPTION\(\s*(\w+),", table, re.MULTILINE)
    assert len(rows) > 10
    assert rows == re.findall(r"^\\fBPOOLSHIM_(\w+)\\fR$", text, re.MULTILINE)


@each_row("header", HEADERS)
def every_public_function_has_a_place_in_its_page(header: header_facts.Header) -> None:
    source = (ROOT / "pools" / "include" / "poolshim" / header.file).read_text()
    if header.is_internal:
        assert f"{header.page}.3" not in PAGES
        return
    names = set(re.findall(r"^PS_API [^;(]*?\b(ps_\w+)\(", source, re.MULTILINE))
    text = PAGES[f"{header.page}.3"]
    missing = {name for name in names if name not in text and not name.endswith("_slow")}
    internal = re.findall(r"(?:Internal|Out of line|The library's own)(.*?)\n\n", source, re.DOTALL)
    assert not {name for name in missing if name not in " ".join(internal)}


@each_row("name", PAGES)
def a_page_has_no_faults(name: str) -> None:
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    result = run_captured(["groff", "-man", "-ww", "-z", "-Tutf8"], input=PAGES[name])
    assert (result.returncode, result.stderr) == (0, "")
    assert re.search(r"^\.SH NAME\n\S+ \\- \w", PAGES[name], re.MULTILINE)


@each_row(
    "check",
    [
        every_option_of_the_library_is_in_its_page,
        every_public_function_has_a_place_in_its_page,
        a_page_has_no_faults,
        reading_the_parsers_leaves_the_real_packages,
    ],
)
def test_pages(check: Callable[[], None]) -> None:
    check()


def a_header_is_read_by_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "box.h"
    path.write_text("""/* SPDX-License-Identifier: MIT */
/*
 * box.h - things in a box: one each.
 *
 *     box_put(1);
 */
#ifndef POOLSHIM_BOX_H
#define POOLSHIM_BOX_H

/* --- Making -------- */

/* Makes one. */
PS_API struct box *box_create(int count,
                              int more);

/* Internal to the library. */
struct box {
    int x;
};

/* Counts. */
static inline int box_count(void) {
    return 1;
}
#endif
""")
    header = header_facts.read_header(path)
    assert (header.summary, header.text[-1]) == ("things in a box", "    box_put(1);")
    (section,) = header.sections
    assert section.name == "Making"
    create, count = section.entries
    assert create.code[0].startswith("struct box *box_create(int count,") and len(create.code) == 2
    assert (count.code, count.text) == (["int box_count(void);"], ["Counts."])


def private_parts_of_a_class_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "box.hpp"
    path.write_text("""// SPDX-License-Identifier: MIT
// box.hpp - things in a box.
#ifndef POOLSHIM_BOX_HPP
#define POOLSHIM_BOX_HPP
namespace ps {

// Holds one.
class box {
  public:
    int get() const { return value_; }

  private:
    int value_;
};

// Holds two.
class pair {};
}
#endif
""")
    text = str(header_facts.read_header(path).sections)
    assert "get() const;" in text and "Holds two." in text and "value_" not in text


def a_header_without_its_name_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "box.h"
    path.write_text("/* SPDX-License-Identifier: MIT */\n/* Things in a box. */\n")
    with pytest.raises(ValueError, match="does not start with its name"):
        header_facts.read_header(path)


@each_row(
    "check",
    [
        a_header_is_read_by_its_parts,
        private_parts_of_a_class_are_left_out,
        a_header_without_its_name_is_an_error,
    ],
)
def test_headers_are_read(tmp_path: Path, check: Callable[[Path], None]) -> None:
    check(tmp_path)
