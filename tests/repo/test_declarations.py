# SPDX-License-Identifier: MIT
"""Every symbol of the libraries has one declaration, in the header where a reader expects it.

    scripts/test tests/repo/test_declarations.py

A function or variable with external linkage in FOLDER/x_y.c is declared once, in one of

- FOLDER/x_y.h, or FOLDER/x.h where x_y.c is a part of x;
- FOLDER/<FOLDER>.h, the one interface header of the folder;
- a public header, pools/include/poolshim/, for what programs may call;
- the header of another folder that calls it, marked PS_HOOK there: a hook, which may have several
  definitions, one for each library.

Names of libc and of C++ have their row in shim/entry_points.def instead. A name that headers have,
inline functions included, is in one header only.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT

PUBLIC = "pools/include/poolshim/"
ENTRY_POINT = re.compile(r"^PS_\w+\((\w+)\b", re.MULTILINE)
COMMENT_OR_TEXT = re.compile(
    r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
ATTRIBUTE = re.compile(r"__attribute__ ?\(\(.*?\)\)\)?|\bPS_[A-Z_]+\b(\([^()]*\))? ?")
THREAD_LOCAL = re.compile(r"\bPS_THREAD_LOCAL_LINE\(([^(),]*), (\w+)\)")
TYPE_OR_LOCAL = re.compile(r"(typedef|_Static_assert|__extension__ typedef)\b")
FUNCTION = re.compile(r"[\w\s*]*?[\s*](\w+) ?\(")
FORWARD = re.compile(r"(struct|union|enum) \w+$")
VARIABLE = re.compile(r".*?(\w+)\s*(?:\[[^=]*\])*\s*(?:=.*)?$")


@dataclass
class Statement:
    """One declaration or definition at file level."""

    name: str
    path: str
    is_definition: bool
    is_static: bool
    is_hook: bool


def at_file_level(text: str) -> Iterator[tuple[str, bool]]:
    """Statements, with {} for each pair of braces; whether it is a function with its body."""
    text = COMMENT_OR_TEXT.sub(lambda match: '""' if match[0][0] == '"' else " ", text)
    text = re.sub(r'extern ""\s*\{', "", DIRECTIVE.sub("", text))
    text = THREAD_LOCAL.sub(r"\1 \2", text)
    depth, statement = 0, ""
    for character in text:
        if character == "{":
            depth += 1
        elif character == "}":
            depth = max(0, depth - 1)
            head = " ".join(statement.split())
            if depth == 0 and ATTRIBUTE.sub("", head).rstrip().endswith(")") and "=" not in head:
                yield head, True
                statement = ""
            elif depth == 0:
                statement += "{}"
        elif depth == 0 and character == ";":
            yield " ".join(statement.split()), False
            statement = ""
        elif depth == 0:
            statement += character


def read(path: str, text: str) -> Iterator[Statement]:
    for whole, is_body in at_file_level(text):
        plain = ATTRIBUTE.sub("", whole).strip()
        if not plain or TYPE_OR_LOCAL.match(plain) or re.match(r"\w+( \w+)? ?\{\}$", plain):
            continue
        is_static = "static " in plain or "PS_INLINE" in whole
        is_extern = plain.startswith("extern ")
        found = FUNCTION.match(plain) if "(" in plain.split("=")[0] else None
        if found is None and (FORWARD.match(plain) or not (is_extern or path.endswith(".c"))):
            continue
        name = found or VARIABLE.match(plain)
        if name is not None:
            defines = is_body if found else not is_extern or "alias(" in whole
            yield Statement(name[1], path, defines, is_static, "PS_HOOK" in whole)


def product_files(root: Path) -> Iterator[str]:
    for top in ("pools", "shim"):
        for path in sorted((root / top).rglob("*.[ch]")):
            if path.parent.name not in ("examples", "models"):
                yield path.relative_to(root).as_posix()


def expected_headers(path: str) -> set[str]:
    """Where what a source defines may be declared, public headers aside."""
    source = Path(path)
    words = source.stem.split("_")
    names = {"_".join(words[:count]) for count in range(1, len(words) + 1)} | {source.parent.name}
    return {f"{source.parent}/{name}.h" for name in names}


def problems_of(root: Path) -> list[str]:
    entry_points = set(ENTRY_POINT.findall((root / "shim" / "entry_points.def").read_text()))
    of_name: dict[str, list[Statement]] = defaultdict(list)
    for path in product_files(root):
        for statement in read(path, (root / path).read_text()):
            if path.endswith(".h") or not statement.is_static:
                of_name[statement.name].append(statement)
    found = []
    for name, statements in of_name.items():
        if name not in entry_points:
            found += [f"{name}: {problem}" for problem in problems_with(statements)]
    return sorted(found)


def problems_with(statements: list[Statement]) -> Iterator[str]:
    headers = {one.path for one in statements if one.path.endswith(".h")}
    definitions = [one.path for one in statements if one.is_definition]
    is_hook = any(one.is_hook for one in statements)
    if len(headers) > 1:
        yield f"declared in {', '.join(sorted(headers))}"
    if not definitions:
        yield f"declared in {', '.join(sorted(headers))} and defined nowhere"
    if len(set(definitions)) > 1 and not is_hook:
        yield f"defined in {', '.join(sorted(set(definitions)))}"
    for one in statements:
        if one.path.endswith(".c") and not one.is_definition:
            yield f"declared in a source, {one.path}"
    for path in definitions:
        if path.endswith(".c") and not headers:
            yield f"{path}: in no header, and not static"
        elif path.endswith(".c") and not is_hook:
            wrong = {h for h in headers if not h.startswith(PUBLIC)} - expected_headers(path)
            if wrong:
                yield f"{path}: declared in {', '.join(sorted(wrong))}"


def test_every_symbol_is_declared_once_and_where_it_is_expected() -> None:
    problems = problems_of(ROOT)
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("library", ["libpoolshim-core.a", "libpoolshim-pools.a"])
def test_no_symbol_of_the_libraries_is_missed(build_dir: Path, library: str) -> None:
    """What the linker knows is read from the sources too; else the test above is blind."""
    command = ["nm", "-g", "--defined-only", str(build_dir / library)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    symbols = set(re.findall(r"^[0-9a-f]+ [TDBRVW] (\w+)$", listed, re.MULTILINE))
    known = {
        statement.name
        for path in product_files(ROOT)
        for statement in read(path, (ROOT / path).read_text())
        if statement.is_definition and not statement.is_static
    }
    assert len(symbols) > 100
    assert not symbols - known


GOOD = {
    "shim/entry_points.def": "PS_ENTRY(malloc, void *, (size_t bytes))\n",
    "shim/malloc.c": "void *malloc(size_t bytes) { return 0; }\n",
    "pools/region/region.h": "struct a;\nvoid ps_region_a(struct a *a);\nextern int ps_region_n;\n",
    "pools/region/chunks.c": "int ps_region_n = 1;\nvoid ps_region_a(struct a *a) {\n}\n"
    "static int ps_local(void) { return 0; }\nstruct b {\n    int x;\n};\n",
    "pools/engine/os/lock.h": "PS_INLINE int ps_lock_b(void) { return 1; }\n"
    "/* void ps_no(void); */\nPS_COLD int ps_lock_c(int (*f)(void)) __attribute__((pure));\n",
    "pools/engine/os/lock_slow.c": "int ps_lock_c(int (*f)(void)) {\n    return f() {}; }\n",
    "pools/engine/base/check.h": "PS_HOOK void ps_failed(const char *text);\n",
    "pools/engine/os/fatal.c": 'void ps_failed(const char *text) { say("{"); }\n',
}


def plant(root: Path, changed: dict[str, str]) -> list[str]:
    for name, text in {**GOOD, **changed}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return problems_of(root)


def test_good_tree_is_accepted(tmp_path: Path) -> None:
    assert plant(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("pools/region/a.c", "int ps_region_x(void) { return 0; }\n",
         "ps_region_x: pools/region/a.c: in no header, and not static"),
        ("pools/region/a.c", "int ps_region_v[2] = {1, 2};\n",
         "ps_region_v: pools/region/a.c: in no header, and not static"),
        ("pools/region/a.c", "void ps_region_a(struct a *a);\n",
         "ps_region_a: declared in a source, pools/region/a.c"),
        ("pools/fifo/fifo.h", "void ps_region_a(struct a *a);\n",
         "ps_region_a: declared in pools/fifo/fifo.h, pools/region/region.h"),
        ("pools/fifo/fifo.h", "static inline int ps_lock_b(int a) { return a; }\n",
         "ps_lock_b: declared in pools/engine/os/lock.h, pools/fifo/fifo.h"),
        ("pools/fifo/fifo.h", "int ps_fifo_gone(void);\n",
         "ps_fifo_gone: declared in pools/fifo/fifo.h and defined nowhere"),
        ("pools/engine/base/check.h", "void ps_failed(const char *text);\n",
         "ps_failed: pools/engine/os/fatal.c: declared in pools/engine/base/check.h"),
        ("pools/region/other.c", "int ps_region_n = 2;\n",
         "ps_region_n: defined in pools/region/chunks.c, pools/region/other.c"),
    ],
)  # fmt: skip
def test_planted_breach_is_found(tmp_path: Path, path: str, text: str, problem: str) -> None:
    assert problem in plant(tmp_path, {path: text})
