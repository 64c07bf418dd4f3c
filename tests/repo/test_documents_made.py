# SPDX-License-Identifier: MIT
"""What documents take from elsewhere is as it is there: figures, drawings, sizes.

    scripts/test tests/repo/test_documents_made.py
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import ROOT, load_script, run_captured
from linting import Tree
from linting.language import prose_of
from table import each_row

SIZES = ROOT / "pools" / "README.md"
CODE_TOPS = ("pools", "shim")


def documents() -> list[Path]:
    return [ROOT / name for name in Tree.at(ROOT).documents()]


GEN_DOCS = load_script("gen-docs")
sys.path.insert(0, str(ROOT / "scripts" / "dev"))
import site_drawings  # noqa: E402

DRAWINGS = sorted((ROOT / "docs" / "pictures").glob("*.dot"))


# ---- figures ----

FIGURES, TABLES = GEN_DOCS.read_figures()


def documents_have_the_figures_of_their_sources() -> None:
    assert not [str(path) for path, text in GEN_DOCS.made().items() if path.read_text() != text]


def every_figure_names_its_command_and_date() -> None:
    content = GEN_DOCS.json.loads(GEN_DOCS.FIGURES.read_text())
    for figure in [*content["figures"].values(), *content["tables"].values()]:
        assert re.fullmatch(r"(scripts|bench|build|tests)/\S.*", figure["command"])
        assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", figure["date"])
        assert (ROOT / figure["command"].split()[0]).exists()


def an_outdated_figure_is_replaced() -> None:
    filled = GEN_DOCS.fill("<!-- figure: a.b -->1<!-- / -->", {"a.b": "2"}, {})
    assert filled == "<!-- figure: a.b -->2<!-- / -->"
    filled = GEN_DOCS.fill("<!-- table: t -->\nold\n<!-- / -->", {}, {"t": "| a |"})
    assert filled == "<!-- table: t -->\n| a |\n<!-- / -->"


@each_row(
    "text",
    ["<!-- figure: no.such -->1<!-- / -->", "<!-- figure: a.b -->1", "1<!-- / -->",
     "<!-- table: a.b -->1<!-- / -->"],
)  # fmt: skip
def an_unknown_name_and_a_lone_mark_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match=r"no figure|no table|other half"):
        GEN_DOCS.fill(text, {"a.b": "1"}, {})


def marked_figures() -> set[str]:
    text = "".join(path.read_text() for path in documents())
    return {name for kind, name, _ in GEN_DOCS.MARK.findall(text) if kind == "figure"}


def a_count_of_attacks_stands_between_marks_only() -> None:
    """Of all figures these change most often, and no other figure has their values. test_readme
    compares that of the README."""
    then = (ROOT / "docs" / "decisions", ROOT / "bench" / "results")  # what was so at the time
    values = {FIGURES[name] for name in marked_figures() if name.startswith("attacks.")}
    bare = re.compile(rf"(?<![\d.,])({'|'.join(values)})(?![\d.,]\d|\d)")
    found = []
    for path in documents():
        if path != ROOT / "README.md" and not any(map(path.is_relative_to, then)):
            text = re.sub(r"<!-- begin.*?<!-- end -->", "", path.read_text(), flags=re.DOTALL)
            found += [(path, one) for one in bare.findall(prose_of(GEN_DOCS.MARK.sub("", text)))]
    assert found == []


@each_row(
    "check",
    [
        documents_have_the_figures_of_their_sources,
        every_figure_names_its_command_and_date,
        an_outdated_figure_is_replaced,
        an_unknown_name_and_a_lone_mark_are_errors,
        a_count_of_attacks_stands_between_marks_only,
    ],
)
def test_figures(check: Callable[[], None]) -> None:
    check()


# ---- drawings ----


def pictures_of_outputs_are_those_of_the_documents() -> None:
    """And a page shows each."""
    answers = load_script("gen-answers")
    assert run_captured([answers.__file__, "--check"]).returncode == 0
    drawn = answers.pictures()
    pages = "".join(path.read_text() for path in documents())
    assert drawn and not [path.name for path in drawn if f"pictures/{path.name})" not in pages]
    compare = drawn[answers.PICTURES / "answer-compare.svg"]
    assert ">$ poolshim compare --from" in compare and 'class="less"' in compare


@each_row("source", DRAWINGS)
def drawings_fit_a_narrow_screen_and_have_dark_colours(source: Path) -> None:
    if not site_drawings.is_drawn(source.name):
        pytest.skip("dot is not installed: run scripts/setup")
    text = site_drawings.draw(source, "")
    width = re.search(r'<svg width="(\d+)pt"', text)
    assert width and int(width[1]) * 96 / 72 <= 384  # at 380 px hardly scaled
    assert "prefers-color-scheme:dark" in text
    colours = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', text))
    assert colours <= set(site_drawings.DARK)
    assert all(float(size) >= 9 for size in re.findall(r'font-size="([\d.]+)"', text))


def every_drawing_is_shown() -> None:
    text = "".join(path.read_text() for path in documents())
    shown = {Path(link).name for _, link in site_drawings.LINK.findall(text)}
    assert len(DRAWINGS) >= 2 and {path.name for path in DRAWINGS} <= shown


RESULTS = sorted(path for path in (ROOT / "bench" / "results").glob("*/*.json")
                 if '"curves": ' in path.read_text())  # fmt: skip


@each_row("path", RESULTS)
def memory_over_time_is_drawn(path: Path) -> None:
    text = site_drawings.draw(path, "<a title>")
    picture = ElementTree.fromstring(text)
    assert picture.findtext("{*}title") == "<a title>"
    names = [line.findtext("{*}title") for line in picture.iterfind("{*}polyline")]
    assert names == [one["name"] for one in json.loads(path.read_text())["allocators"]]
    places = [tuple(map(float, point.split(","))) for line in picture.iterfind("{*}polyline")
              for point in line.attrib["points"].split()]  # fmt: skip
    width, height = int(picture.attrib["width"]), int(picture.attrib["height"])
    assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


@each_row(
    "check",
    [
        pictures_of_outputs_are_those_of_the_documents,
        drawings_fit_a_narrow_screen_and_have_dark_colours,
        every_drawing_is_shown,
        memory_over_time_is_drawn,
    ],
)
def test_drawings(check: Callable[[], None]) -> None:
    check()


def test_what_cannot_be_drawn_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text('{"runs": []}')
    with pytest.raises(site_drawings.DrawingError, match=r"kept\.json has no curves"):
        site_drawings.draw(path, "")


# ---- sizes ----


def sizes_of(document: str) -> dict[str, int]:
    return {
        name: int(size)
        for name, size in re.findall(r"^\| `(struct ps_\w+)` \| (\d+) \|", document, re.MULTILINE)
    }


def header_of(structure: str) -> str:
    """The header that defines a structure, as seen from the root."""
    headers = [path for top in CODE_TOPS for path in (ROOT / top).rglob("*.h")]
    (found,) = (path for path in headers if f"\n{structure} {{" in path.read_text())
    return found.relative_to(ROOT).as_posix()


def compile_sizes(sizes: dict[str, int], folder: Path) -> subprocess.CompletedProcess[str]:
    lines = [f'#include "{header_of(name)}"' for name in sizes]
    lines += [
        f'_Static_assert(sizeof({name}) == {size}, "{name}");' for name, size in sizes.items()
    ]
    source = folder / "sizes.c"
    source.write_text("\n".join(lines) + "\n")
    command = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-fsyntax-only", f"-I{ROOT}"]
    return run_captured([*command, f"-I{ROOT}/pools/include", source])


def sizes_are_those_of_the_code(tmp_path: Path) -> None:
    sizes = sizes_of(SIZES.read_text())
    assert len(sizes) >= 5
    result = compile_sizes(sizes, tmp_path)
    assert result.returncode == 0, result.stderr


def a_wrong_size_is_found(tmp_path: Path) -> None:
    result = compile_sizes({"struct ps_run": 33}, tmp_path)
    assert "static assertion failed" in result.stderr


@each_row("check", [sizes_are_those_of_the_code, a_wrong_size_is_found])
def test_sizes(tmp_path: Path, check: Callable[[Path], None]) -> None:
    check(tmp_path)
