# SPDX-License-Identifier: MIT
"""Breaches and good texts for the rules of scripts/dev/lint, planted in a copy of the tree's texts.

A row of BREACHES is a rule, a file, a text for it, and a part of what the rule says of that. The
text may be a function of the file's own text, or None for a file that is removed. GOOD has texts in
which the rule finds nothing; ELSEWHERE breaches that are found in another file, or by two files.
"""

from __future__ import annotations

from collections.abc import Callable

Text = str | None | Callable[[str], str]
LINES, FUNCTION_LINES, COLUMNS = 450, 60, 100
LONG_BODY = "    x();\n" * FUNCTION_LINES
HEADER = """/* SPDX-License-Identifier: MIT */
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
PS_INLINE int ps_a_do(int n) {
    return ps_free(n) + span_free(n);
}
#endif
"""


def add(text: str) -> Callable[[str], str]:
    return lambda before: f"{before}\n{text}\n"


def change(old: str, new: str) -> Callable[[str], str]:
    def replaced(before: str) -> str:
        assert old in before, f"nothing to change: {old}"
        return before.replace(old, new)

    return replaced


def row(left: str, right: str) -> Callable[[str], str]:
    """A table with one row at the end of a guide."""
    return add(f"\n| a | poolshim |\n|---|---|\n| {left} | {right} |")


def code(text: str) -> Callable[[str], str]:
    """Code words in CONTRIBUTING.md."""
    return add(f"`{text}`")


FORM: list[tuple[str, str, Text]] = [
    ("length", "shim/a.c", "\n" * (LINES + 1)),
    ("columns", "shim/a.c", "x" * (COLUMNS + 1)),
    ("columns", "scripts/a", "x \n"),
    ("columns", "scripts/a", "\tx\n"),
    ("licence", "shim/a.c", "/* licence: MIT */\nint x;\n"),
    ("first-comment", "shim/a.c", "/* SPDX-License-Identifier: MIT */\n#include <a.h>\n"),
    ("first-comment", "bench/a.py", "# SPDX-License-Identifier: MIT\nimport os\n"),
    ("name", "pools/engine/base/util.h", HEADER),
    ("leftover", "shim/a.c", "/* TO" "DO: later */\n"),
    ("function-length", "shim/a.c", "int f(void) {\n" + LONG_BODY + "}\n"),
    ("function-length", "shim/a.c", "int f(int a,\n      int b) {\n" + LONG_BODY + "}\n"),
    ("function-length", "tests/a.c", "int f(void)\n{\n" + LONG_BODY + "}\n"),
    ("function-length", "bench/a.py", "def f():\n" + LONG_BODY),
    ("python", "scripts/a.py", "x = (\n"),
    ("core-dump", "core", "x"),
    ("core-dump", "bench/vgcore.123", "x"),
]  # fmt: skip

PRODUCT: list[tuple[str, str, Text]] = [
    ("conditional", "pools/engine/heap/a.c", "int x;\n  # ifdef FAST\n#endif\n"),
    ("conditional", "pools/engine/heap/a.h", HEADER + "#if PS_CHECKED\n#endif\n"),
    ("processor", "pools/engine/os/a.c", "#if defined(__x86_64__)\n#endif\n"),
    ("processor", "tests/unit/a.c", "#ifdef __riscv\n#endif\n"),
    ("include", "pools/engine/os/a.c", "#include PS_ARCH_PART(gone.h)\n"),
    ("atomic", "pools/engine/heap/a.c", "x = __atomic_load_n(&y, 0);\n"),
    ("atomic", "shim/a.c", "#include <stdatomic.h>\n"),
    ("silent-engine", "pools/engine/os/a.c", 'x = getenv("A");\n'),
    ("silent-engine", "pools/engine/heap/a.c", "    free(p);\n"),
    ("posix-name", "pools/engine/heap/a.c", "typedef struct x ps_x_t;\n"),
    *(("include", path, f'#include "{header}"\n') for path, header in [
        ("pools/engine/base/a.h", "pools/engine/os/os.h"),
        ("pools/engine/page/a.c", "pools/engine/heap/mode.h"),
        ("pools/engine/small/a.c", "shim/config.h"),
        ("pools/engine/heap/a.c", "pools/region/region.h"),
        ("pools/engine/heap/a.c", "pools/include/poolshim/region.h"),
        ("pools/region/a.c", "pools/engine/heap/mode.h"),
        ("pools/region/a.c", "pools/stack/stack.h"),
        ("pools/region/a.c", "pools/pages/pages.h"),
        ("pools/common/a.c", "pools/pages/pages.h"),
        ("pools/include/poolshim/a.h", "pools/engine/base/config.h"),
        ("pools/rust/native/a.c", "shim/config.h"),
        ("pools/rust/native/a.c", "pools/region/region.h"),
        ("pools/engine/os/a.c", "../os/os.h"),
        ("pools/engine/os/a.c", "pools/engine/os/os_linux.c"),
        ("pools/engine/os/a.c", "os.h"),
    ]),
    ("include", "pools/engine/os/a.c", ' # include "os.h"\n'),
    ("include-cycle", "pools/engine/base/a.h", '#include "pools/engine/base/a.h"\n'),
    ("layers-listed", "pools/README.md", "| `os/` |\n| `base/` |\n"),
]  # fmt: skip

DECLARED = {
    ("pools/region/a.c", "int ps_region_x(void) { return 0; }\n"):
        "ps_region_x: in no header, and not static",
    ("pools/region/a.c", "int ps_region_v[2] = {1, 2};\n"):
        "ps_region_v: in no header, and not static",
    ("pools/region/a.c", "int ps_lock_acquire_slow(struct a *a);\n"):
        "ps_lock_acquire_slow: declared in a source",
    ("pools/engine/base/a.h", "void ps_lock_acquire_slow(struct a *a);\n"):
        "ps_lock_acquire_slow: declared in pools/engine/base/a.h, pools/engine/os/lock.h",
    ("pools/engine/base/a.h", "PS_INLINE int ps_lock_self(int a) { return a; }\n"):
        "ps_lock_self: declared in pools/engine/base/a.h, pools/engine/os/lock.h",
    ("pools/region/a.h", "int ps_region_gone(void);\n"):
        "ps_region_gone: declared in pools/region/a.h and defined nowhere",
    ("pools/engine/os/lock_a.c", 'void ps_lock_acquire_slow(int a) { say("{"); }\n'):
        "ps_lock_acquire_slow: defined in pools/engine/os/lock.c, pools/engine/os/lock_a.c",
}  # fmt: skip

LANGUAGE: list[tuple[str, str, Text]] = [
    *(("person", path, text) for path in ("shim/a.c", "docs/a.md") for text in (
        "The owner: he looks.", "Whoever frees", "who frees", "all but\nfor one", "nobody waits",
        "Everybody waits", "someone", "the dearest")),
    *(("retired", "docs/a.md", text) for text in (
        "a hot run", "wakes an owner", "a 64 KiB slice", "Recent blocks", "the orphanage",
        "robs it")),
    ("retired", "shim/a.c", "/* wakes an\n * owner */"),
    ("dialect", "shim/a.c", "/* What is freed here. */"),
    ("dialect", "shim/a.c", "/* It is\n * told: to settle. */"),
    ("dialect", "shim/a.c", "/* Settles: Of a span. */"),
    ("dialect", "shim/a.c", "/* the thread looks\n * at it */"),
]  # fmt: skip

PHRASES = ("what is", "holds", "holding", "kept", "of those", "stayed", "behind", "waits", "stood")
FOLDERS = ("pools", "shim", "tests", "bench", "scripts", "docs", "root")

DOCUMENTS: list[tuple[str, str, Text]] = [
    *(("link", "docs/a.md", link) for link in (
        "[a](missing.md)", "[a](README.md#missing)", "[a](#missing)", "[a]: missing.md",
        '<img src="missing.png">', "[a](guides#missing)", "[a](../../outside.md)")),
    ("path", "docs/a.md", "`bench/fast --only x`"),
    ("index", "docs/README.md", "# Documents\n"),
    ("index", "docs/decisions/README.md", "# Decisions\n"),
    ("decision", "docs/decisions/a.md", "# A\n\n## Context\n\n## Decision\n"),
    ("term", "docs/glossary.md", add("| zyzzyva | a thing that nothing mentions |")),
    ("term", "docs/glossary.md", add("| page | a page, once more |")),
    ("readme", "README.md", add("x\n" * 700)),
    ("readme", "README.md", change("# poolshim\n", "# Pools\n")),
    ("readme", "README.md", change("\n![", "\nx![")),
    ("readme", "README.md", change("scripts/bench", "scripts/fast")),
    *(("guide-names", "CONTRIBUTING.md", code(word)) for word in (
        "pools/engine/page/gone.c", "gone_nowhere.h", "scripts/gone --check", "ps_gone_nowhere()",
        "struct ps_gone_nowhere", "tests/gone/<name>.c", "bench/*.gone")),
    ("errands", "CONTRIBUTING.md", "## Places of changes\n"),
    ("errands", "CONTRIBUTING.md", change("| an option |", "| an option |\n| another option |")),
    ("one-policy", "CONTRIBUTING.md", change("page/retention.h", "page/huge.h")),
    ("one-policy", "pools/engine/page/purge.c", "int x;\n"),
    ("one-place", "pools/engine/heap/a.c", "ps_os_advise_huge(base, 1, true);\n"),
    ("one-place", "pools/engine/harden/guard.c", "int x;\n"),
]  # fmt: skip

MIGRATION = "docs/guides/from-jemalloc.md"
COUNTERPARTS = {
    "HEAP_PROFILE_TIME_INTERVAL": "POOLSHIM_PROFILE_EVERY",
    "HeapProfilerStart": "poolshim profile --pid",
    "SetMemoryLimit(n, kSoft)": "poolshim_set",
    "ReleaseMemoryToSystem(n)": "poolshim_purge",
    "SnapshotCurrent(ProfileType::kPeakHeap)": "POOLSHIM_PROFILE_PEAK",
    "opt.stats_interval": "POOLSHIM_STATS_EVERY",
    "stats.resident": "mallctl",
    "opt.prof_active": "poolshim profile --pid",
    "prof.dump": "mallctl",
    "mi_option_set": "poolshim_set",
    "TCMALLOC_TRACE_FILE": "POOLSHIM_TRACE",
    "thread.tcache.flush": "mallctl",
}

GUIDES: list[tuple[str, str, Text]] = [
    ("guide-row", MIGRATION, row("`opt.x`", "")),
    ("guide-option", MIGRATION, add("`POOLSHIM_GONE`")),
    ("guide-option", MIGRATION, add("`poolshim_gone(1)`")),
    ("guide-option", MIGRATION, add("`poolshim gone`")),
    ("guide-option", MIGRATION, add("`poolshim run --gone=1 -- app`")),
    ("guide-flag", MIGRATION, add("`poolshim profile --gone`")),
    *(("counterpart", MIGRATION, row(f"`{left}`", "nothing")) for left in COUNTERPARTS),
    ("guide-function", MIGRATION, add("`poolshim_gone`")),
    ("guide-function", MIGRATION, add('`mallctl("gone.name")`')),
]

SETTINGS: list[tuple[str, str, Text]] = [
    ("clang-version", ".clang-tidy", change("clang-tidy 16", "clang-tidy 17")),
    ("clang-version", "CONTRIBUTING.md", add("clang-format 15")),
    ("clang-version", "scripts/setup", change("clang-tidy-16 ", "clang-tidy-15 ")),
    ("editor", ".editorconfig", change("max_line_length = 100", "max_line_length = 80")),
    ("called", ".github/workflows/ci.yml", add("      - run: scripts/gone")),
    ("pinned", ".github/workflows/ci.yml", add("      - uses: actions/checkout@v4")),
    ("called", "scripts/dev/hooks/pre-commit", add("scripts/dev/gone --check")),
    ("container", ".devcontainer/devcontainer.json", "{}"),
    ("snippet", "docs/containers.md", add("Environment=POOLSHIM_GONE=1")),
    ("old-cmake", "cmake/a.cmake", "cmake_path(GET a b)\n"),
    ("old-cmake", "CMakeLists.txt", change("VERSION 3.16", "VERSION 3.25")),
]

BREACHES: list[tuple[str, str, Text, str]] = [
    *((*row, "") for row in [*FORM, *PRODUCT, *LANGUAGE, *DOCUMENTS, *GUIDES, *SETTINGS]),
    *(("declaration", *place, message) for place, message in DECLARED.items()),
]

# Rule, where it finds the breach, and the changes that make it.
ELSEWHERE: list[tuple[str, str, dict[str, Text]]] = [
    ("declaration", "pools/engine/small/a.c", {
        "pools/engine/base/a.h": "int ps_planted(void);\n",
        "pools/engine/small/a.c": "int ps_planted(void) { return 0; }\n"}),
    ("include-cycle", "pools/engine/heap/a.h", {
        "pools/engine/heap/a.h": '#include "pools/engine/heap/b.h"\n',
        "pools/engine/heap/b.h": '#include "pools/engine/heap/c.h"\n',
        "pools/engine/heap/c.h": '#include "pools/engine/heap/a.h"\n'}),
    ("link", "README.md", {"docs/limits.md": None}),
    ("counterpart-exception", "scripts/dev/linting/counterparts.py", {MIGRATION: "# None\n"}),
    *(("phrase", folder, {f"{folder}/a.md".removeprefix("root/"): f"{phrase} " * 2000})
      for folder, phrase in zip(FOLDERS * 2, PHRASES)),
]  # fmt: skip

GOOD: list[tuple[str, str, Text]] = [
    *((rule, "pools/engine/heap/good.h", HEADER) for rule in (
        "length", "columns", "licence", "first-comment", "name", "leftover", "function-length",
        "conditional", "processor", "atomic", "silent-engine", "posix-name", "declaration")),
    *(("include", path, f"#include {header}\n#include <stdio.h>\n") for path, header in [
        ("pools/engine/heap/a.c", '"pools/engine/base/config.h"'),
        ("pools/engine/heap/a.c", '"pools/engine/heap/mode.h"'),
        ("shim/a.c", '"pools/engine/heap/mode.h"'),
        ("shim/a.c", '"pools/pages/pages.h"'),
        ("pools/pages/a.c", '"pools/common/poison.h"'),
        ("pools/region/a.c", '"pools/engine/page/purge.h"'),
        ("pools/region/a.c", "<poolshim/region.h>"),
    ]),
    *((rule, "docs/a.md", text) for rule in ("person", "retired") for text in (
        "`PS_KEY_NOBODY`", "```\nwake()\n```", "[a](tests/wake.md)", "another", "but forks",
        "awake", "the central list of a slab")),
    ("dialect", "shim/a.c", "/* Looks up `what_looks`; x_gone is a list. */ int looks = 1;"),
    *(("link", "docs/a.md", link) for link in (
        "[a](README.md)", "[a](glossary.md#small-blocks)", "# A of `b`, twice\n[a](#a-of-b-twice)",
        "# A\n# A\n[a](#a-1)", '![a](pictures/layers.dot "title")', "[a](https://example.org/x#y)",
        "`[a](missing.md)`", "```\n[a](missing.md)\n```", "[a](guides)", "[a](../README.md)")),
    ("path", "docs/a.md", "`bench/turns` `bench/`, `bench/turns.c`; `bench/*.c`"),
    *(("guide-names", "CONTRIBUTING.md", code(word)) for word in (
        "pools/engine/page/purge.c", "front_path.h", "scripts/dev/fuzz <name> --merge", "-O2 -g",
        "ps_os_page_bytes()", "struct ps_settings", "tests/fuzz/<name>.c", "bench/*.toml",
        "heap: drain fronts before asking central", "size_bytes", "#if", "NULL")),
    *(("counterpart", MIGRATION, row(f"`{left}`", f"`{right}`"))
      for left, right in COUNTERPARTS.items()),
    *(("counterpart", MIGRATION, row(f"`{left}`", "nothing")) for left in (
        "opt.retain", "opt.junk", "mi_heap_contains", "GetOwnership", "opt.zero_realloc")),
    ("one-place", "pools/engine/heap/a.c", "ps_os_advise_huge_not(base);\n"),
]  # fmt: skip
