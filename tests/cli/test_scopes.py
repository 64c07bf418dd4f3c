# SPDX-License-Identifier: MIT
"""`poolshim scopes`: planted faults are found, each in its line; correct code gives no finding.

    scripts/test tests/cli/test_scopes.py
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row

POOLSHIM = ROOT / "scripts" / "poolshim"
EXAMPLES = ROOT / "pools" / "examples"
CLANG = next((name for name in ("clang", "clang-16") if shutil.which(name)), "")
pytestmark = pytest.mark.skipif(not CLANG, reason="no clang")

OPENS = "memory of a frame that it opens"
ENDS = "memory of a pool that it ends"
LEAVES = "memory of its caller's frame, but is not named"

# A line with a fault has a comment: "returns" or "stores", and what of. The others have none.
C_FAULTS = f"""
#include <poolshim/region.h>
#include <poolshim/stack.h>
#include <stdlib.h>
#include <string.h>
struct out {{ char *text; struct out *next; int number; }};
struct pair {{ char *name; int length; }};
static char *kept;
static struct pair kept_pair;

char *of_a_scope(const char *s) {{ PS_SCOPE; return ps_t_strdup(s); }} // returns {OPENS}
char *by_a_variable(const char *s) {{
    PS_SCOPE;
    char *copy = NULL;
    if (s != NULL) {{
        copy = ps_t_printf("%s!", s);
    }}
    char *end = copy + strlen(copy);
    *end = 0;
    return end; // returns {OPENS}
}}
int *by_a_macro(size_t n) {{
    PS_SCOPE;
    int *all = ps_t_new(int, n);
    return &all[1]; // returns {OPENS}
}}
char *by_strcpy(const char *s) {{
    PS_SCOPE;
    return strcpy(ps_t_alloc(strlen(s) + 1), s); // returns {OPENS}
}}
char *either(int n, char *given) {{
    PS_SCOPE;
    return n > 0 ? given : ps_t_strdup(given); // returns {OPENS}
}}
struct pair in_a_structure(const char *s) {{
    PS_SCOPE;
    struct pair pair = {{0}};
    pair.name = ps_t_strdup(s);
    return pair; // returns {OPENS}
}}
char *of_a_stack(struct ps_stack *stack) {{
    PS_STACK_SCOPE(stack);
    return ps_stack_strdup(stack, "a"); // returns {OPENS}
}}
char *by_push(struct ps_stack *stack) {{
    struct ps_stack_frame *frame = ps_stack_push(stack);
    char *copy = ps_stack_strdup(stack, "a");
    ps_stack_pop(stack, frame);
    return copy; // returns {OPENS}
}}
char *by_push_of_the_thread(void) {{
    struct ps_stack_frame *frame = ps_t_push();
    char *copy = ps_t_strdup("a");
    ps_t_pop(frame);
    return copy; // returns {OPENS}
}}
char *t_named_but_closed(void) {{ PS_SCOPE; return ps_t_strdup("a"); }} // returns {OPENS}
void to_a_global(void) {{
    PS_SCOPE;
    kept = ps_t_strdup("a"); // stores {OPENS}
    kept_pair.name = ps_t_strdup("b"); // stores {OPENS}
}}
void to_an_argument(struct out *out, char **text, char *texts[]) {{
    PS_SCOPE;
    char *copy = ps_t_strdup("a");
    out->text = copy; // stores {OPENS}
    *text = copy; // stores {OPENS}
    texts[1] = copy; // stores {OPENS}
}}
char *of_a_region(const char *s) {{
    struct ps_region *region = ps_region_create(NULL);
    char *copy = ps_region_strdup(region, s);
    ps_region_destroy(region);
    return copy; // returns {ENDS}
}}
char *of_an_own_stack(const char *s) {{
    struct ps_stack *stack = ps_stack_create(NULL);
    char *copy = ps_stack_strdup(stack, s);
    ps_stack_destroy(stack);
    return copy; // returns {ENDS}
}}
char *of_its_caller(const char *s) {{ return ps_t_strdup(s); }} // returns {LEAVES}
char *t_path(const char *s) {{ return ps_t_printf("/%s", s); }}
char *by_a_named_one(const char *s) {{ return t_path(s) + 1; }} // returns {LEAVES}
char *by_an_explicit_stack(const char *s) {{
    return ps_stack_strdup(ps_t(), s); // returns {LEAVES}
}}
void fill(struct out *out) {{ out->text = ps_t_strdup("a"); }} // stores {LEAVES}
PS_RETURNS_SCOPED char *marked(int n) {{ return ps_t_alloc((size_t)n); }}
char *by_a_marked_one(void) {{ return marked(3); }} // returns {LEAVES}
"""

C_CORRECT = """
#include <poolshim/region.h>
#include <poolshim/stack.h>
#include <stdlib.h>
#include <string.h>
struct out { char *text; struct out *next; int number; };
struct document { struct ps_region *region; char *title; };
static int total;

int a_number(size_t n) { PS_SCOPE; int *all = ps_t_new(int, n); total = all[0]; return all[n - 1]; }
char *a_copy(const char *s) { PS_SCOPE; char *copy = ps_t_strdup(s); return strdup(copy); }
char *t_below(const char *s) {
    char *result = ps_t_alloc(strlen(s) + 1);
    {
        PS_SCOPE;
        int *counts = ps_t_new(int, 256);
        counts[0] = 1;
        strcpy(result, s);
    }
    return result;
}
char *t_before_push(const char *s) {
    char *result = ps_t_strdup(s);
    struct ps_stack_frame *frame = ps_t_push();
    char *work = ps_t_strdup(s);
    *work = 0;
    ps_t_pop(frame);
    return result;
}
char *of_the_given_region(struct ps_region *region, const char *s) {
    PS_SCOPE;
    char *work = ps_t_strdup(s);
    return ps_region_strdup(region, work);
}
char *of_the_given_stack(struct ps_stack *stack) { return ps_stack_strdup(stack, "a"); }
char *of_another_stack(struct ps_stack *stack, struct ps_stack *scratch) {
    PS_STACK_SCOPE(scratch);
    return ps_stack_strdup(stack, ps_stack_strdup(scratch, "a"));
}
void into_the_given_region(struct ps_region *region, struct out *out) {
    out->text = ps_region_strdup(region, "a");
}
PS_RETURNS_SCOPED void marked(struct out *out) { out->text = ps_t_strdup("a"); }
void t_fill(struct out *out) { out->text = ps_t_strdup("a"); }
struct document *made(const char *title) { /* destroyed only where it fails */
    struct ps_region *region = ps_region_create(NULL);
    struct document *document = ps_region_alloc(region, sizeof *document);
    if (document == NULL) {
        ps_region_destroy(region);
        return NULL;
    }
    document->region = region;
    document->title = ps_region_strdup(region, title);
    if (document->title == NULL) {
        goto failed;
    }
    return document;
failed:
    ps_region_destroy(region);
    return NULL;
}
int in_the_frame(const char *s) { /* a list whose nodes are all in it */
    PS_SCOPE;
    struct out *first = NULL;
    for (; *s != 0; s++) {
        struct out *node = ps_t_new(struct out, 1);
        node->text = ps_t_strdup(s);
        node->next = first;
        first = node;
    }
    char *texts[2] = {first->text, NULL};
    texts[1] = ps_t_strdup("b");
    return texts[1][0] + first->number;
}
char *of_a_member(struct out *out) {
    PS_SCOPE;
    char *s = ps_t_strdup("a");
    *s = 0;
    return out->text;
}
"""

CXX_FAULTS = f"""
#include <poolshim/region.hpp>
#include <poolshim/stack.hpp>
#include <string_view>
struct node {{ node *next; int value; }};
static node *kept;

int *of_a_scope() {{ ps::scope scope; int *x = scope.make<int>(3); return x; }} // returns {OPENS}
int *an_array() {{ ps::scope scope; return scope.make_array<int>(3); }} // returns {OPENS}
node &a_reference() {{
    ps::scope scope;
    node *n = scope.make<node>();
    return *n; // returns {OPENS}
}}
std::string_view of_a_region(std::string_view text) {{
    ps::region region;
    std::string_view copy = region.copy(text);
    return copy; // returns memory of a pool that ends with it
}}
template <class T> T *a_template() {{ ps::scope scope; return scope.make<T>(); }} // returns {OPENS}
int use() {{ return *a_template<int>(); }}
struct keeper {{
    node *member;
    void store() {{ ps::scope scope; member = scope.make<node>(); }} // stores {OPENS}
    void store_global() {{ PS_SCOPE; kept = ps_t_new(node, 1); }} // stores {OPENS}
}};
node *of_its_caller() {{ return ps::t_stack().make<node>(); }} // returns {LEAVES}

int a_number() {{ ps::scope scope; int *x = scope.make<int>(3); return *x; }}
node *of_the_given(ps::region_ref region) {{ return region.make<node>(); }}
node *t_node() {{ return ps::t_stack().make<node>(); }}
std::string_view the_given(std::string_view text) {{
    ps::region region;
    region.copy(text);
    return text;
}}
int by_a_lambda() {{
    ps::scope scope;
    auto make = [&] {{ return scope.make<int>(1); }};
    return *make();
}}
"""


def scopes(*words: object, status: int) -> str:
    """What the command prints."""
    done = run_captured([POOLSHIM, "scopes", *map(str, words)], timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status < 2 else done.stderr


def planted(text: str) -> dict[int, str]:
    """The line of each fault, and the beginning of its message."""
    rows = [(number, re.search("// (.*)", line)) for number, line in enumerate(text.split("\n"), 1)]
    return {number: found.group(1) for number, found in rows if found}


def check_faults(path: Path, text: str) -> None:
    """Each planted fault is found, and nothing else."""
    path.write_text(text)
    said = json.loads(scopes("--json", path, status=1))
    found = {one["line"]: one["message"] for one in said}
    wanted = planted(text)
    assert set(found) == set(wanted), f"found {found}"
    assert all(found[line].startswith(wanted[line]) for line in wanted), f"found {found}"


def test_faults_of_c_are_found(tmp_path: Path) -> None:
    check_faults(tmp_path / "faults.c", C_FAULTS)


def test_faults_of_cxx_are_found(tmp_path: Path) -> None:
    check_faults(tmp_path / "faults.cpp", CXX_FAULTS)


def test_correct_functions_give_no_finding(tmp_path: Path) -> None:
    path = tmp_path / "correct.c"
    path.write_text(C_CORRECT)
    assert re.fullmatch(r"nothing found in 13 functions\n", scopes(path, status=0))


def test_the_examples_give_no_finding() -> None:
    paths = sorted(EXAMPLES.glob("*.c"))
    said = scopes(*paths, "--", f"-I{ROOT}", "-D_GNU_SOURCE", status=0)
    assert said.startswith("nothing found in")


@each_row("path", sorted((EXAMPLES / "programs").glob("*.cpp")))
def test_the_programs_give_no_finding(path: Path) -> None:
    assert scopes(path, "--", f"-I{ROOT}", status=0).startswith("nothing found in")


def test_a_finding_has_file_line_and_function(tmp_path: Path) -> None:
    path = tmp_path / "a.c"
    path.write_text("#include <poolshim/stack.h>\n\nchar *name(void) { PS_SCOPE;\n"
                    '    return ps_t_strdup("a");\n}\n')  # fmt: skip
    assert scopes(path, status=1) == (f"{path}:4: name returns memory of a frame that it opens in "
                                      "line 3\n")  # fmt: skip


def test_flags_come_from_compile_commands(tmp_path: Path) -> None:
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "own.h").write_text("#include <poolshim/stack.h>\n")
    path = tmp_path / "a.c"
    path.write_text('#include <own.h>\nchar *name(void) { PS_SCOPE; return ps_t_strdup(TEXT); }\n')
    entry = {"directory": str(tmp_path), "file": "a.c",
             "command": "gcc -Iinclude -DTEXT='\"a b\"' -MD -MF a.d -o a.o -c a.c"}  # fmt: skip
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry]))
    assert ":2: name returns" in scopes("-p", tmp_path, path, status=1)
    other = tmp_path / "b.c"
    other.write_text("")
    assert "has no such file" in scopes("-p", tmp_path, other, status=2)


REFUSED = {  # words, exit status, part of the line
    "no file": ([], 2, "which files? poolshim scopes FILE... -- FLAG..."),
    "missing file": (["no/such.c"], 2, "no/such.c: No such file or directory"),
    "no source": ([str(ROOT / "README.md")], 2, "clang cannot read"),
    "unknown option": (["--fast", "a.c"], 2, "no option --fast"),
    "missing build": (["-p", "no/such", "a.c"], 2, "no/such/compile_commands.json: No such file"),
    "missing clang": (["--clang", "no-such-clang", "a.c"], 127, "no no-such-clang here"),
}


@each_row("name", list(REFUSED))
def test_wrong_input_is_one_line(name: str) -> None:
    words, status, part = REFUSED[name]
    said = scopes(*words, status=status)
    assert part in said and said.count("\n") == 1


def test_a_broken_list_of_commands_is_one_line(tmp_path: Path) -> None:
    for text, part in (("{", "no JSON"), ("[1]", "no list of commands")):
        (tmp_path / "compile_commands.json").write_text(text)
        said = scopes("-p", tmp_path, "a.c", status=2)
        assert part in said and said.count("\n") == 1
