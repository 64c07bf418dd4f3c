# SPDX-License-Identifier: MIT
"""The site: every document is in it, every link leads somewhere, nothing comes from elsewhere.

    scripts/test tests/repo/test_site.py

mkdocs checks links and anchors; scripts/dev/site the map, and links to files that are no pages.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import Browser, Page, find_browser
from conftest import ROOT, run_captured
from linting.documents import links_of
from table import each_row

pytest.importorskip("mkdocs", reason="mkdocs is not installed: run scripts/setup")
pytest.importorskip("material", reason="mkdocs-material is not installed: run scripts/setup")
BUILDER = ROOT / "scripts" / "dev" / "site"
HEADERS = ROOT / "pools" / "include" / "poolshim"
WIDTHS = (380, 1280)


def build(tree: Path, output: Path) -> tuple[int, str]:
    command = [sys.executable, tree / BUILDER.relative_to(ROOT), "--output", output]
    done = run_captured(command, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once; without a warning."""
    folder = tmp_path_factory.mktemp("site") / "site"
    assert build(ROOT, folder) == (0, "")
    return folder


class Loaded(HTMLParser):
    """What a page loads by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        is_loaded = tag == "link" and values.get("rel") not in ("canonical", "prev", "next")
        if is_loaded or tag in ("script", "img", "iframe", "source", "video"):
            self.found += [values[name] for name in ("href", "src", "srcset") if values.get(name)]


def pages(site: Path) -> dict[str, str]:
    return {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}


def page_of(name: str) -> str:
    """Of a document, in the site."""
    folder, _, file = name.rpartition("/")
    page = "index.html" if file == "README.md" else file.removesuffix(".md") + ".html"
    return f"{folder}/{page}".lstrip("/")


def every_document_is_a_page(site: Path) -> None:
    there = set(pages(site))
    documents = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert len(documents) > 30
    assert {page_of(name) for name in documents} <= there
    listed = [link.partition("#")[0] for link in links_of((ROOT / "docs/README.md").read_text())]
    for link in listed:
        name = os.path.normpath(f"docs/{link}")
        assert page_of(name) in there or not name.endswith(".md"), link


def every_public_function_has_an_anchor(site: Path) -> None:
    names = pages(site)
    for header in sorted(HEADERS.glob("*.h*")):
        page = names.get(f"docs/headers/{header.name.replace('.', '_')}.html")
        functions = re.findall(r"^PS_API [^;(]*?\b(ps_\w+)\(", header.read_text(), re.MULTILINE)
        if page is None:
            assert "the library's own" in header.read_text()
            continue
        missing = [name for name in functions if name not in page and not name.endswith("_slow")]
        assert len(missing) <= 1, missing  # one is internal, as its comment says
    assert 'id="ps_region_create"' in names["docs/headers/region_h.html"]


def nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for name, text in pages(site).items():
        found = Loaded(text).found
        assert found, name
        assert not [one for one in found if re.match(r"(https?:)?//", one)], name
        local = [one.partition("#")[0].partition("?")[0] for one in found]
        assert not [one for one in local if one and not one.startswith(("data:", "/"))
                    and not ((site / name).parent / one).exists()], name  # fmt: skip
    sheets = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", sheets)


def comments_of_the_sources_are_left_out(site: Path) -> None:
    for name, text in pages(site).items():
        article = text.partition("<article")[2].partition("</article")[0]
        assert "&lt;!--" not in re.sub(r"<(code|pre).*?</\1>", "", article, flags=re.DOTALL), name
        assert "<!-- figure" not in article and "SPDX-License" not in article, name


@each_row(
    "check",
    [
        every_document_is_a_page,
        every_public_function_has_an_anchor,
        nothing_is_loaded_from_elsewhere,
        comments_of_the_sources_are_left_out,
    ],
)
def test_the_site(site: Path, check: Callable[[Path], None]) -> None:
    check(site)


# ---- faults ----


def small_in(tmp_path: Path) -> Path:
    """A tree with two documents and a header, which the site is built of."""
    tree = tmp_path / "tree"
    for name in ("scripts/dev/site", "scripts/dev/site_pages.py", "scripts/dev/site_drawings.py",
                 "scripts/manuals/header_facts.py", "CMakeLists.txt",
                 "pools/include/poolshim/frames.h"):  # fmt: skip
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    shutil.copytree(ROOT / "docs" / "site", tree / "docs" / "site")
    (tree / "README.md").write_text("# Small\n\n[all](docs/README.md)\n")
    rows = "| [One](one.md) | |\n| [Headers](../pools/include/poolshim) | |\n"
    (tree / "docs/README.md").write_text(f"# Map\n\n## Tab\n\n| A | B |\n|---|---|\n{rows}")
    (tree / "docs/one.md").write_text("# One\n\n## A heading\n\n[top](../README.md#small)\n")
    return tree


def add(document: Path, *lines: str) -> None:
    with document.open("a") as file:
        file.write("\n\n" + "\n\n".join(lines) + "\n")


def a_small_tree_is_built(small: Path, tmp_path: Path) -> None:
    add(small / "docs/one.md", "[text](../CMakeLists.txt) [again](#a-heading)",
        "[header](../pools/include/poolshim/frames.h)", "```\n<!-- kept --> [x](none.md)\n```",
        "<!-- dropped -->")  # fmt: skip
    assert build(small, tmp_path / "site") == (0, "")
    text = (tmp_path / "site/docs/one.html").read_text()
    assert "../files/CMakeLists.txt.txt" in text and 'href="headers/frames_h.html"' in text
    assert "kept" in text and "dropped" not in text
    assert (tmp_path / "site/files/CMakeLists.txt.txt").exists()


def a_drawing_stands_where_its_source_is_linked(small: Path, tmp_path: Path) -> None:
    """Without dot the document links to the source file."""
    if shutil.which("dot") is None:
        pytest.skip("dot is not installed: run scripts/setup")
    (small / "docs/box.dot").write_text('digraph { a [label="inside"] }\n')
    add(small / "docs/one.md", "[a box](box.dot)", "See [the source](box.dot).")
    assert build(small, tmp_path / "site") == (0, "")
    text = (tmp_path / "site/docs/one.html").read_text()
    assert re.search(r'<img alt="a box" src="box\.svg"', text)
    assert "../files/docs/box.dot.txt" in text
    assert "inside" in (tmp_path / "site/docs/box.svg").read_text()
    (small / "docs/box.dot").write_text("digraph {\n")
    status, said = build(small, tmp_path / "site")
    assert status == 1 and said.startswith("docs/one.md: box.dot: ")


def links_to_what_is_missing_are_found(small: Path, tmp_path: Path) -> None:
    links = ["none.md", "none.txt", "none.svg", "two.md"]
    (small / "two.md").touch()
    add(small / "docs/one.md", *(f"![a]({link})" for link in links[2:]), "[a](none.md)",
        "[a](none.txt) [a](../two.md)")  # fmt: skip
    status, said = build(small, tmp_path / "site")
    assert status == 1
    assert [line.split()[1] for line in said.splitlines()] == [
        "none.svg:", "two.md:", "none.md:", "none.txt:", "../two.md:"]  # fmt: skip


def anchors_that_are_missing_are_found(small: Path, tmp_path: Path) -> None:
    add(small / "docs/one.md", "[a](README.md#none)", "[a](#nothing)",
        "[a](../pools/include/poolshim/frames.h#none)")  # fmt: skip
    status, said = build(small, tmp_path / "site")
    assert status == 1
    for anchor in ("#none'", "#nothing'", "headers/frames_h.md#none'"):
        assert anchor in said, said
    assert "Aborted with 3 warnings" in said


def a_document_that_the_map_lacks_is_found(small: Path, tmp_path: Path) -> None:
    (small / "docs/two.md").write_text("# Two\n")
    status, said = build(small, tmp_path / "site")
    assert (status, said) == (1, "docs/README.md: no row has a link to docs/two.md\n")
    (small / "docs/one.md").rename(small / "docs/three.md")
    status, said = build(small, tmp_path / "site")
    assert status == 1 and "no such document: docs/one.md" in said


@each_row(
    "check",
    [
        a_small_tree_is_built,
        a_drawing_stands_where_its_source_is_linked,
        links_to_what_is_missing_are_found,
        anchors_that_are_missing_are_found,
        a_document_that_the_map_lacks_is_found,
    ],
)
def test_a_small_tree(tmp_path: Path, check: Callable[[Path, Path], None]) -> None:
    check(small_in(tmp_path), tmp_path)


# ---- in a browser ----


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if find_browser() is None:
        pytest.skip("chromium is not installed")
    with Browser() as one:
        yield one


@each_row("width", WIDTHS)
@each_row(
    "name", ["index.html", "docs/index.html", "docs/options.html", "docs/command.html",
             "docs/headers/region_h.html", "bench/index.html"],
)  # fmt: skip
def a_page_fits_its_screen(site: Path, browser: Browser, name: str, width: int) -> None:
    page = browser.open(site / name, width, 800)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.complaints() == []
    assert not [one for one in page.requests() if not one.startswith(("file:", "data:", "blob:"))]


def wait_for(page: Page, condition: str) -> bool:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if page.evaluate(condition):
            return True
        time.sleep(0.05)
    return False


def it_has_the_colours_of_the_system_and_searches_files(site: Path, browser: Browser) -> None:
    page = browser.open(site / "docs/architecture.html", 1280, 800)
    for scheme, name in (("dark", "slate"), ("light", "default")):
        page.prefer(scheme)
        assert wait_for(page, f"document.body.dataset.mdColorScheme === '{name}'")
    page = browser.open(site / "index.html", 1280, 800)
    page.evaluate("document.querySelector('[data-md-component=search-query]').focus()")
    page.call("Input.insertText", text="POOLSHIM_PURGE_DELAY_MS")
    links = "[...document.querySelectorAll('.md-search-result__link')].map(one => one.href)"
    assert wait_for(page, f"{links}.some(one => one.includes('options.html'))")


@each_row("check", [a_page_fits_its_screen, it_has_the_colours_of_the_system_and_searches_files])
def test_pages_in_a_browser(site: Path, browser: Browser, check: Callable[..., None]) -> None:
    check(site=site, browser=browser)
