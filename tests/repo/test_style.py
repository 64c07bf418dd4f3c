# SPDX-License-Identifier: MIT
"""The house rules that a machine can check. Each rule is proven by text that breaks it.

    scripts/test tests/repo/test_style.py
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

FOLDERS = ("pools", "shim", "tests", "bench", "scripts", "cmake", ".ci", "docs")
C_SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".def"}
CODE_SUFFIXES = C_SUFFIXES | {".py", ".sh", ".cmake", ".in", ".rs", ""}
LINES_MAX = 450
FUNCTION_LINES_MAX = 60
COLUMNS_MAX = 100
BANNED_STEMS = {"util", "utils", "misc", "helper", "helpers", "common"}
PUBLIC = "pools/include/"
PUBLIC_BASE = PUBLIC + "poolshim/common.h"
EXAMPLES = "pools/examples/"
ENGINE = "pools/engine/"

FUNCTION_OPENS = re.compile(r"\S.*\)[^;=]*\{$|\{$|[ \t]+\S.*\) ?((const|noexcept) )*\{$")

Rule = Callable[[str, str], Iterator[str]]


def project_files() -> list[str]:
    """Paths from the root, of everything that is code."""
    found = [ROOT / "CMakeLists.txt"]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.suffix in CODE_SUFFIXES]
    paths = [path.relative_to(ROOT).as_posix() for path in found if path.is_file()]
    return sorted(p for p in paths if "__pycache__" not in p and "bench/results" not in p)


def is_c(path: str) -> bool:
    return Path(path).suffix in C_SUFFIXES


def is_product(path: str) -> bool:
    return is_c(path) and path.startswith(("pools/", "shim/"))


def without_comments(text: str) -> str:
    """C text with comments and string contents blanked, line numbers kept."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"'

    def blank(match: re.Match[str]) -> str:
        return '""' if match[0][0] == '"' else "\n" * match[0].count("\n")

    return re.sub(pattern, blank, text, flags=re.DOTALL)


def lines_matching(pattern: str, text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(pattern, line):
            yield number, line.strip()


def rule_length(path: str, text: str) -> Iterator[str]:
    count = text.count("\n")
    if count > LINES_MAX:
        yield f"{count} lines, the limit is {LINES_MAX}"


def rule_columns(path: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS_MAX:
            yield f"line {number}: {len(line)} columns, the limit is {COLUMNS_MAX}"
        if line != line.rstrip() or "\t" in line:
            yield f"line {number}: tab or trailing space"


def rule_licence(path: str, text: str) -> Iterator[str]:
    if not re.search(r"^(#|//|/\*) SPDX-License-Identifier: MIT( \*/)?$", text[:800], re.MULTILINE):
        yield "no SPDX line at the top"


def rule_first_comment(path: str, text: str) -> Iterator[str]:
    """After the SPDX line, before any code: what the file is for."""
    before, _, rest = text.partition("SPDX-License-Identifier: MIT")
    comment = r'(r?"""|# ?\w)' if before.endswith("# ") else r"(/\*|//)[\s*!]*[\w<]"
    rest = rest.removeprefix(" */").lstrip()
    if not re.match(comment, rest):
        yield "no comment that says what the file owns"


def rule_name(path: str, text: str) -> Iterator[str]:
    if Path(path).stem.lower() in BANNED_STEMS and path != PUBLIC_BASE:
        yield "a name that says nothing"


def rule_conditionals(path: str, text: str) -> Iterator[str]:
    """#if only in base/{compiler,atomic}.h, os/ and poison.h, but for guards, __cplusplus."""
    if not is_product(path) or path.startswith("pools/engine/os/"):
        return
    free = [f"pools/engine/base/{name}.h" for name in ("compiler", "atomic")]
    if path in free or path.endswith("/poison.h"):
        return
    guard = re.search(r"^#ifndef (\w+_H(?:PP)?)\n#define \1$", text, re.MULTILINE)
    allowed = {"#ifdef __cplusplus", f"#ifndef {guard[1]}" if guard else ""}
    if path == PUBLIC_BASE:
        allowed |= {"#ifndef __cplusplus", "#if defined(__clang__) && __clang_major__ < 11"}
    if path == PUBLIC + "poolshim/fixed.hpp":  # C++17 has no other way to create in a constant
        allowed |= {"#ifdef __cpp_lib_constexpr_dynamic_alloc"}
    for number, line in lines_matching(r"^\s*#\s*(if|ifdef|ifndef|elif)\b", without_comments(text)):
        if line not in allowed:
            yield f"line {number}: {line}"


def rule_atomics(path: str, text: str) -> Iterator[str]:
    """Public headers and examples may name the builtins: they include nothing of the engine."""
    is_free = path.startswith((PUBLIC, EXAMPLES)) or path == "pools/engine/base/atomic.h"
    if is_product(path) and not is_free:
        pattern = r"__atomic_|__sync_|stdatomic|\b_Atomic\b"
        for number, line in lines_matching(pattern, without_comments(text)):
            yield f"line {number}: not through base/atomic.h: {line}"


def rule_engine_is_silent(path: str, text: str) -> Iterator[str]:
    """The engine reads no environment, prints nothing and calls no allocator but its own."""
    if is_product(path) and path.startswith(ENGINE):
        pattern = r"<stdio\.h>|\bgetenv\(|\benviron\b|[^_\w](malloc|calloc|realloc|free|dlsym)\("
        for number, line in lines_matching(pattern, without_comments(text)):
            yield f"line {number}: {line}"


def rule_words(path: str, text: str) -> Iterator[str]:
    if is_product(path):
        for number, line in lines_matching(r"(?i)\b(segment|zone|slab)s?\b", text):
            yield f"line {number}: a word of other allocators: {line}"
        for number, line in lines_matching(r"^\s*(typedef\b.*|\}\s*)\b\w+_t;", text):
            yield f"line {number}: POSIX owns _t: {line}"


def rule_no_leftovers(path: str, text: str) -> Iterator[str]:
    for number, line in lines_matching(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", text):
        yield f"line {number}: {line}"


def rule_functions(path: str, text: str) -> Iterator[str]:
    """No function longer than FUNCTION_LINES_MAX, from its opening brace to its closing one."""
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    yield f"{node.name}: {length} lines, the limit is {FUNCTION_LINES_MAX}"
    elif is_c(path):
        opened = depth = outside = 0
        for number, line in enumerate(without_comments(text).splitlines(), 1):
            if FUNCTION_OPENS.match(line) and not opened:
                opened, outside = number, depth
            depth += line.count("{") - line.count("}")
            if opened and depth <= outside:
                if number - opened + 1 > FUNCTION_LINES_MAX:
                    yield f"line {opened}: {number - opened + 1} lines, not {FUNCTION_LINES_MAX}"
                opened = 0


RULES: list[Rule] = [
    rule_length, rule_columns, rule_licence, rule_first_comment, rule_name, rule_conditionals,
    rule_atomics, rule_engine_is_silent, rule_words, rule_no_leftovers, rule_functions,
]  # fmt: skip


@pytest.mark.parametrize("path", project_files())
def test_file_keeps_the_rules(path: str) -> None:
    text = (ROOT / path).read_text()
    problems = [f"{path}: {problem}" for rule in RULES for problem in rule(path, text)]
    assert not problems, "\n" + "\n".join(problems)


GOOD = """/* SPDX-License-Identifier: MIT */
/*
 * Owns nothing; malloc( and getenv( in a comment are no calls.
 */
#ifndef PS_GOOD_H
#define PS_GOOD_H
#ifdef __cplusplus
#endif
struct ps_a {
    int n;
};
int ps_a_do(int n) {
    return ps_free(n) + span_free(n);
}
#endif
"""
LONG_BODY = "    x();\n" * FUNCTION_LINES_MAX


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (rule_length, "shim/a.c", "\n" * (LINES_MAX + 1)),
        (rule_columns, "shim/a.c", "x" * (COLUMNS_MAX + 1)),
        (rule_columns, "scripts/a", "x \n"),
        (rule_licence, "shim/a.c", "/* licence: MIT */\nint x;\n"),
        (rule_first_comment, "shim/a.c", "/* SPDX-License-Identifier: MIT */\n#include <a.h>\n"),
        (rule_first_comment, "bench/a.py", "# SPDX-License-Identifier: MIT\nimport os\n"),
        (rule_name, "pools/engine/base/util.h", GOOD),
        (rule_conditionals, "pools/engine/heap/a.c", "int x;\n  # ifdef FAST\n#endif\n"),
        (rule_conditionals, "pools/engine/heap/a.h", GOOD + "#if PS_CHECKED\n#endif\n"),
        (rule_atomics, "pools/engine/heap/a.c", "x = __atomic_load_n(&y, 0);\n"),
        (rule_atomics, "shim/a.c", "#include <stdatomic.h>\n"),
        (rule_engine_is_silent, "pools/engine/os/a.c", 'x = getenv("A");\n'),
        (rule_engine_is_silent, "pools/engine/heap/a.c", "    free(p);\n"),
        (rule_words, "pools/engine/heap/a.c", "/* the slab's owner */\n"),
        (rule_words, "pools/engine/heap/a.c", "typedef struct x ps_x_t;\n"),
        (rule_no_leftovers, "shim/a.c", "/* TO" "DO: later */\n"),
        (rule_functions, "shim/a.c", "int f(void) {\n" + LONG_BODY + "}\n"),
        (rule_functions, "shim/a.c", "int f(int a,\n      int b) {\n" + LONG_BODY + "}\n"),
        (rule_functions, "tests/a.c", "int f(void)\n{\n" + LONG_BODY + "}\n"),
        (rule_functions, "bench/a.py", "def f():\n" + LONG_BODY),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)  # fmt: skip
def test_planted_breach_is_found(rule: Rule, path: str, text: str) -> None:
    assert list(rule(path, text))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_good_file_is_accepted(rule: Rule) -> None:
    assert not list(rule("pools/engine/heap/good.h", GOOD))


@pytest.mark.parametrize("path", [p for p in project_files() if is_product(p) and p.endswith(".h")])
def test_header_is_self_contained(path: str, tmp_path: Path) -> None:
    languages = [("c", "-std=gnu17")]
    if path.startswith("pools/include/"):
        languages += [("c", "-std=c99"), ("c++", "-std=c++17")]
    for language, standard in languages:
        command = ["gcc", "-x", language, standard, "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
        if not path.startswith("pools/include/"):
            command += ["-D_GNU_SOURCE", "-DPS_CHECKED=1", "-Wno-unused-function"]
        source = tmp_path / "includer"
        source.write_text(f'#include "{path}"\n#include "{path}"\nint used;\n')
        result = run_captured([*command, f"-I{ROOT}", f"-I{ROOT}/pools/include", source])
        assert result.returncode == 0, f"{standard}: {result.stderr}"


def formatter() -> str | None:
    """clang-format 16; another version may break lines elsewhere."""
    for name in ("clang-format-16", "clang-format"):
        program = shutil.which(name)
        if program and " 16." in run_captured([program, "--version"]).stdout:
            return program
    return None


def test_clang_format_has_nothing_to_change() -> None:
    program = formatter()
    if program is None:
        pytest.skip("clang-format 16 is not installed")
    paths = [p for p in project_files() if is_c(p) and not p.endswith(".def")]
    result = run_captured([program, "--dry-run", "-Werror", *paths], cwd=ROOT)
    places = sorted({line.split(":")[0] for line in result.stderr.splitlines() if "error:" in line})
    assert result.returncode == 0, f"{program} -i " + " ".join(places)
