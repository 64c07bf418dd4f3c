# SPDX-License-Identifier: MIT
"""The pages of the site and how they hang together, for scripts/dev/site.

Pages retain their paths below the root, so that links between documents need no change. Links to
other files lead to copies as text, links to public headers to pages made of their comments.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import site_drawings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "manuals"))
from header_facts import Header, read_header  # noqa: E402

MAP = "docs/README.md"
HOME = "README.md"
HEADERS = "pools/include/poolshim"
HEADER_PAGES = "docs/headers"
SETTINGS = "docs/site"
PICTURES = {".svg", ".png"}

HEADING = re.compile(r"^(##|###) (.+)$")
ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)#\s]+)\)")
CODE = re.compile(r"^ *(```|~~~).*?^ *\1|`[^`\n]*`|<!--.*?-->", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)
NAME = re.compile(r"`([^`]+)`|\b((?:ps|PS|POOLSHIM|poolshim)_\w+(?:\(\)|=\w+)?|ps::\w+(?:::\w+)*)")
MARKUP = re.compile(r"[\\`*_\[\]|]")

Nav = list[Any]


class SiteError(Exception):
    """The faults of the documents, a line each."""


def read_map(text: str) -> Iterator[tuple[str, str, str]]:
    """Tab, section ("": none) and link of each row."""
    tab = section = ""
    for line in text.splitlines():
        heading = HEADING.match(line)
        if heading:
            is_tab = heading[1] == "##"
            tab, section = (heading[2], "") if is_tab else (tab, heading[2])
        row = ROW.match(line)
        if row and tab:
            yield tab, section, row[2]


def join(page: str, link: str) -> str:
    """The place of a link of a page, from the root."""
    return os.path.normpath(PurePosixPath(page).parent / unquote(link))


class Pages:
    """All pages of a checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.problems: list[str] = []
        self.files: set[str] = set()  # pictures, and texts that are no pages
        self.drawn: dict[str, str] = {}  # place -> SVG
        self.headers = self.read_headers()
        self.nav = self.read_nav()
        self.check_map()
        self.stop()

    def stop(self) -> None:
        if self.problems:
            raise SiteError("\n".join(self.problems))

    def read_headers(self) -> dict[str, Header]:
        """Place of the page -> header."""
        read = [read_header(path) for path in sorted((self.root / HEADERS).glob("*.h*"))]
        shown = [header for header in read if not header.is_internal]
        return {f"{HEADER_PAGES}/{one.file.replace('.', '_')}.md": one for one in shown}

    # ---- navigation ----

    def read_nav(self) -> Nav:
        """Reads the navigation for mkdocs. A folder's README adds the pages in its tables."""
        nav: Nav = [{"Overview": [HOME, MAP]}]
        self.listed = [HOME, MAP]
        for tab, section, link in read_map((self.root / MAP).read_text()):
            if not any(tab in one for one in nav):
                nav.append({tab: []})
            place: Nav = next(one[tab] for one in nav if tab in one)
            if section:
                if not any(isinstance(one, dict) and section in one for one in place):
                    place.append({section: []})
                place = next(one[section] for one in place
                             if isinstance(one, dict) and section in one)  # fmt: skip
            place.append(self.entry(join(MAP, link)))
        return nav

    def entry(self, name: str) -> Any:
        """A page, or the section of a folder."""
        if name == HEADERS:
            index = f"{HEADER_PAGES}/README.md"
            self.listed += [index, *self.headers]
            titles = [{f"poolshim/{one.file}": page} for page, one in self.headers.items()]
            return {"Headers": [{"Overview": index}, *titles]}
        self.listed.append(name)
        folder = PurePosixPath(name).parent
        if PurePosixPath(name).name != HOME or str(folder) in (".", "docs"):
            return name
        if not (self.root / name).exists():
            return name
        links = [join(name, row[2]) for row in
                 map(ROW.match, (self.root / name).read_text().splitlines()) if row]  # fmt: skip
        inner = [one for one in links if PurePosixPath(one).parent == folder]
        self.listed += inner
        if not inner:
            return name
        return {title_of((self.root / name).read_text()): [{"Overview": name}, *inner]}

    def check_map(self) -> None:
        there = {path.relative_to(self.root).as_posix()
                 for path in (self.root / "docs").rglob("*.md")}  # fmt: skip
        self.problems += [f"{MAP}: no row has a link to {name}"
                          for name in sorted(there - set(self.listed))]  # fmt: skip
        made = {f"{HEADER_PAGES}/README.md", *self.headers}
        self.problems += [f"{MAP}: no such document: {name}" for name in self.listed
                          if name not in made and not (self.root / name).is_file()]  # fmt: skip

    def config(self, pages: Path, output: Path) -> str:
        """mkdocs' settings; JSON is YAML."""
        project = (self.root / "CMakeLists.txt").read_text()
        version = re.findall(r"^project\(\w+ VERSION ([0-9.]+)", project, re.MULTILINE)[0]
        more = {"docs_dir": str(pages), "site_dir": str(output), "nav": self.nav,
                "copyright": f"poolshim {version}, MIT licence"}  # fmt: skip
        lines = [f"{key}: {json.dumps(value)}" for key, value in more.items()]
        return (self.root / SETTINGS / "mkdocs.yml").read_text() + "\n".join(lines) + "\n"

    # ---- pages ----

    def write(self, folder: Path) -> None:
        """All that mkdocs reads."""
        texts = {page: header_page(header) for page, header in self.headers.items()}
        texts[f"{HEADER_PAGES}/README.md"] = header_index(self.headers)
        for name in self.listed:
            if name not in texts:
                texts[name] = self.page(name, (self.root / name).read_text())
        self.stop()
        for name, text in (texts | self.drawn).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        for name in self.files:
            target = folder / self.place_of(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / name, target)
        shutil.copytree(self.root / SETTINGS, folder / "site",
                        ignore=shutil.ignore_patterns("*.yml"))  # fmt: skip

    def page(self, name: str, text: str) -> str:
        """A document with its links led on, and without its comments."""
        made, end = [], 0
        for code in CODE.finditer(text):
            made.append(self.led_on(name, text[end : code.start()]))
            made.append("" if code[0].startswith("<!--") else code[0])
            end = code.end()
        return "".join(made) + self.led_on(name, text[end:])

    def led_on(self, page: str, prose: str) -> str:
        prose = site_drawings.LINK.sub(lambda link: self.drawing(page, link), prose)
        return LINK.sub(lambda link: link[1] + self.target(page, link[2]) + link[3], prose)

    def drawing(self, page: str, link: re.Match[str]) -> str:
        """A link to the source of a picture becomes the picture."""
        place = join(page, link[2])
        if not site_drawings.is_drawn(place) or not (self.root / place).is_file():
            return link[0]
        try:
            picture = site_drawings.draw(self.root / place, link[1])
        except site_drawings.DrawingError as error:
            self.problems.append(f"{page}: {error}")
            return link[0]
        made = str(PurePosixPath(place).with_suffix(".svg"))
        self.drawn[made] = picture
        return f"![{link[1]}]({os.path.relpath(made, PurePosixPath(page).parent)})"

    def target(self, page: str, link: str) -> str:
        place = join(page, link)
        if ELSEWHERE.match(link) or place in self.drawn:
            return link
        name, mark, anchor = link.partition("#")
        place = join(page, name)
        if place in self.listed:
            return link
        if place == HEADERS:
            found = f"{HEADER_PAGES}/README.md"
        elif place.startswith(f"{HEADERS}/"):
            found = f"{HEADER_PAGES}/{PurePosixPath(place).name.replace('.', '_')}.md"
        elif (self.root / place / HOME).is_file():
            found = f"{place}/{HOME}"
        elif (self.root / place).is_file() and not place.endswith(".md"):
            self.files.add(place)
            found = self.place_of(place)
        else:
            self.problems.append(f"{page}: {link}: {place} is no page; {MAP} lists the pages")
            return link
        return os.path.relpath(found, PurePosixPath(page).parent) + mark + anchor

    @staticmethod
    def place_of(name: str) -> str:
        """The place of a copied file; one that browsers do not show becomes text."""
        return name if PurePosixPath(name).suffix in PICTURES else f"files/{name}.txt"


# ---- headers ----


def title_of(text: str) -> str:
    return next(line[2:] for line in text.splitlines() if line.startswith("# "))


def plain(text: str) -> str:
    """Words of a comment in Markdown: names as code, nothing as markup."""
    made, end = [], 0
    for name in NAME.finditer(text):
        made += [escaped(text[end : name.start()]), f"`{name[1] or name[2]}`"]
        end = name.end()
    return "".join(made) + escaped(text[end:])


def escaped(text: str) -> str:
    return MARKUP.sub(r"\\\g<0>", html.escape(text, quote=False))


def paragraphs(lines: list[str]) -> Iterator[str]:
    """The paragraphs of a comment; indented lines are an example or a list."""
    for part in re.split(r"\n\s*\n", "\n".join(lines)):
        rows = part.splitlines()
        while rows:
            is_code = rows[0].startswith("  ")
            count = next((number for number, row in enumerate(rows)
                          if row.startswith("  ") != is_code), len(rows))  # fmt: skip
            block, rows = rows[:count], rows[count:]
            margin = min(len(row) - len(row.lstrip()) for row in block)
            yield code_block([row[margin:] for row in block]) if is_code else plain(" ".join(block))


def code_block(lines: list[str], language: str = "c") -> str:
    return "\n".join([f"```{language}", *lines, "```"])


def header_page(header: Header) -> str:
    language = "cpp" if header.file.endswith(".hpp") else "c"
    parts = [f"# poolshim/{header.file}", code_block([f"#include <poolshim/{header.file}>"]),
             *paragraphs(header.text)]  # fmt: skip
    for section in header.sections:
        parts.append(f"## {section.name[:1].upper()}{section.name[1:]}")
        for entry in section.entries:
            names = dict.fromkeys(re.findall(r"\b(ps_\w+)\(", "\n".join(entry.code)))
            parts.append("".join(f'<a id="{name}"></a>' for name in names))
            parts += [code_block(entry.code, language), *paragraphs(entry.text)]
    return "\n\n".join(part for part in parts if part) + "\n"


def header_index(headers: dict[str, Header]) -> str:
    rows = [f"| [`{one.file}`]({PurePosixPath(page).name}) | {plain(one.summary)} |"
            for page, one in headers.items()]  # fmt: skip
    return "\n".join([
        "# Headers", "",
        "The public headers, `#include <poolshim/...>`; each page is made from its comments. The "
        "same text is in section 3 of the manual: `man poolshim_region.h`.", "",
        "| Header | Subject |", "|---|---|", *rows, "",
    ])  # fmt: skip
