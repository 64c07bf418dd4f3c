# SPDX-License-Identifier: MIT
"""Call sites have the names of the program's own functions: layers of allocation are passed over,
inlined or not, and two functions never share a row.

    scripts/test tests/cli/test_cli_folds.py
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from programs import compile_program
from table import each_row
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import pprof, symbols  # noqa: E402
from poolshim_cli.advise import patterns, trace  # noqa: E402
from poolshim_cli.advise.order import facts_of  # noqa: E402
from poolshim_cli.advise.report import made_at  # noqa: E402
from poolshim_cli.callsites import CallSites, Frame  # noqa: E402
from poolshim_cli.folds import Folds, paths_of  # noqa: E402
from poolshim_cli.pprof import Line  # noqa: E402
from poolshim_cli.profile.sites import rows_of  # noqa: E402

pytestmark = pytest.mark.preload

MAIN = ROOT / "scripts" / "poolshim_cli" / "__main__.py"
MIB = 1 << 20
FOLDS = Folds()
LAYERS = [
    "xmalloc", "zmalloc", "ztrymalloc_usable", "xmalloc.part.0", "g_strdup", "ngx_alloc",
    "asprintf", "_emalloc", "luaM_malloc_",
    "operator new(unsigned long)", "operator new[](unsigned long, std::nothrow_t const&)",
    "std::vector<int, std::allocator<int> >::push_back(int const&)",
    "void std::vector<int, std::allocator<int> >::emplace_back<int>(int&&)",
    "std::__1::vector<int>::__append(unsigned long) [clone .cold]",
    "std::_MakeUniq<app::Row>::__single_object std::make_unique<app::Row>()",
    "std::_Function_handler<void (), main::{lambda()#1}>::_M_invoke(std::_Any_data const&)",
    "__gnu_cxx::new_allocator<app::Row>::allocate(unsigned long, void const*)",
    "absl::lts_20230125::container_internal::raw_hash_set<app::Row>::resize(unsigned long)",
    "alloc::vec::Vec<T,A>::push", "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
    "<T as alloc::string::ToString>::to_string", "alloc::slice::<impl [T]>::to_vec",
    "<[app::Row]>::to_vec", "<&app::Row as core::fmt::Debug>::fmt", "__rustc::__rust_alloc",
    "<<alloc::vec::Vec<T> as core::iter::IntoIterator>::IntoIter as core::iter::Iterator>::next",
    "<hashbrown::raw::RawTable<(u64, app::Row)>>::insert::<hashbrown::map::make_hasher<u64>>",
    "_PyObject_Calloc", "PyObject_Malloc", "_PyMem_RawMalloc", "PyMem_Realloc",
    "PyType_GenericAlloc", "_PyObject_GC_NewVar", "objspace_xmalloc0", "ruby_xcalloc",
    "rb_wb_protected_newobj_of", "node::UncheckedMalloc(unsigned long)",
]  # fmt: skip
OWN = [
    "main", "sdsnewlen", "load_users", "PyList_New", "rb_str_new", "xmlNewNode", "mystd::push",
    "load_users(std::vector<int, std::allocator<int> >)", "core::Engine::load(int) const",
    "alloc::Arena::grow(unsigned long) [clone .isra.0]", "std::vector<int> app::load<int>(int)",
    "(anonymous namespace)::load()", "main::{lambda(int)#1}::operator()(int) const",
    "main::'lambda'(int)::operator()(int) const", "app::Row::operator std::string() const",
    "std::ostream& operator<<(std::ostream&, app::Row const&)", "app::main::{{closure}}",
    "auto app::load<std::less<int> >(int)::{lambda(auto:1)#1}::operator()<int>(int) const",
    "<app::Row as core::clone::Clone>::clone", "<alloc::vec::Vec<T> as app::Load>::load",
    "app::<impl core::fmt::Display for app::Row>::fmt", "<<<<", "std", "operator", "a<b", "",
]  # fmt: skip
SOURCE = r"""
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>
#define SITE __attribute__((noinline)) void
auto &orders = *new std::vector<std::vector<int>>, &users = *new std::vector<std::vector<int>>;
auto &names = *new std::unordered_map<int, std::string>;
int *volatile row;
SITE load_orders() {
    for (int i = 0; i < 1000; i++) {
        std::vector<int> made(2000, i);
        orders.push_back(std::move(made));
    }
}
SITE load_users() {
    for (int i = 0; i < 4000; i++) {
        std::vector<int> made(1000, i);
        users.push_back(std::move(made));
    }
}
SITE load_names() {
    for (int i = 0; i < 10000; i++) {
        names[i] = std::string(400, 'a');
    }
}
template <class T> SITE load_rows(T count) {
    for (int i = 0; i < 1000; i++) {
        row = new int[count];
    }
}
int main() {
    load_orders();
    load_users();
    load_names();
    load_rows<int>(1000);
    load_rows<long>(1000);
    return 0;
}
"""
SIZES = {"load_orders()": 7.7, "load_users()": 15.3, "load_names()": 4.4,
         "void load_rows<int>(int)": 3.8, "void load_rows<long>(long)": 3.8}  # fmt: skip
RUST = r"""
#[inline(never)] fn load_orders() -> Vec<Vec<i32>> {
    let mut all = Vec::new();
    for i in 0..1000 { all.push(vec![i; 2000]); }
    all
}
#[inline(never)] fn load_names() -> std::collections::HashMap<u64, String> {
    let mut all = std::collections::HashMap::new();
    for i in 0..10000u64 { all.insert(i, "a".repeat(400 + (i % 2) as usize)); }
    all
}
fn main() {
    let all = (load_orders(), load_names());
    println!("{}", all.0.len() + all.1.len());
    std::mem::forget(all);
}
"""


def report_of(build: Path, *words: str | os.PathLike[str]) -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POOLSHIM_")}
    env = {**kept, "POOLSHIM_BUILD_DIR": str(build), "POOLSHIM_PROFILE_SEED": "1"}
    done = run_captured([sys.executable, MAIN, *words], env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def site(*frames: str | Frame, folds: Folds = FOLDS, is_short: bool = False) -> Any:
    stack = [Frame(one, "/bin/program") if isinstance(one, str) else one for one in frames]
    return CallSites([[stack]], folds, is_short).of(stack)


def place(text: str) -> Frame:
    return Frame(text, "/lib/" + text.partition("+")[0], is_place=True)


@each_row("name", LAYERS)
def test_layers_of_allocation(name: str) -> None:
    assert FOLDS.has(name), paths_of(name)


@each_row("name", OWN)
def test_functions_of_programs(name: str) -> None:
    assert not FOLDS.has(name), paths_of(name)


def test_a_site_is_the_innermost_own_function() -> None:
    start = ("__libc_start_call_main", "__libc_start_main", "_start")
    assert site("zmalloc", "sdsnewlen", "createObject", "main", *start) == (
        "sdsnewlen", ("createObject", "main"))  # fmt: skip
    deep = [f"std::layer_{i}<int>()" for i in range(30)]
    assert site(*deep, "load()", "std::for_each()", "main") == ("load()", ("main",))
    assert site("xmalloc") == ("xmalloc", ())
    assert site("operator new(unsigned long)", "std::locale::init()", *start) == (
        "std::locale::init()", ())  # fmt: skip
    assert site() == ("[no stack]", ())
    assert site("xmalloc", "main", folds=Folds(is_off=True)) == ("xmalloc", ("main",))


def test_unnamed_callers_are_not_merged_in_a_named_one() -> None:
    ends = [Frame("__libc_start_call_main", "/lib/libc.so"), place("a.out+0x10")]
    found = {
        site(place("a.out+0x12"), place("a.out+0x34"), *ends)[0],
        site(place("a.out+0x56"), place("a.out+0x34"), *ends)[0],
        site(place("a.out+0x12"), Frame("g_main_loop_run", "/lib/libglib.so"), *ends)[0],
    }
    assert found == {"a.out+0x12", "a.out+0x56"}
    ruby = Frame("rb_str_new", "/lib/libruby.so")
    layer = Frame("ruby_xmalloc", "/lib/libruby.so")
    inner = (place("libruby.so+0x1"), layer, place("libruby.so+0x2"))
    assert site(*inner, ruby, "main") == ("rb_str_new (libruby.so+0x2)", ("main",))
    assert site(place("libruby.so+0x3"), ruby, "main")[0] == "rb_str_new (libruby.so+0x3)"


def test_functions_of_one_name_are_told_apart_by_their_files() -> None:
    frames = [Frame("init", "/bin/program", source) for source in ("/a/x.c", "/a/y.c")]
    frames += [Frame("init", "/lib/libz.so"), Frame("main", "/bin/program", "/a/x.c")]
    sites = CallSites([[[one] for one in frames]], FOLDS)
    assert [sites.of([one])[0] for one in frames] == [
        "init (x.c)", "init (y.c)", "init (libz.so)", "main"]  # fmt: skip
    frames = [Frame("init", "/bin/program", source) for source in ("/a/x/u.c", "/a/y/u.c")]
    sites = CallSites([[frames]], FOLDS)
    assert [sites.of([one])[0] for one in frames] == ["init (x/u.c)", "init (y/u.c)"]
    # Two profiles of one program, built in different folders, are compared by name.
    sites = CallSites([[frames[:1]], [frames[1:]]], FOLDS)
    assert [sites.of([one])[0] for one in frames] == ["init", "init"]


def test_short_names_are_those_of_one_function() -> None:
    names = ("void load<int>(int)", "void load<long>(long)", "std::string app::name<int>(int)")
    frames = [Frame(one, "/bin/program") for one in names]
    sites = CallSites([[frames]], FOLDS, is_short=True)
    assert [sites.of([one])[0] for one in frames] == [*names[:2], "app::name"]


def python(file: str, function: str, number: int = 1) -> Frame:
    line = Line(file, function, number)
    return Frame(line.title, source=file, line=line)


def test_a_line_of_an_interpreted_program_is_the_site() -> None:
    inner = [Frame("PyList_New", "/usr/bin/python3.11"), Frame("scan", "/lib/_json.so")]
    library = python("/usr/lib/python3.11/json/decoder.py", "JSONDecoder.decode", 337)
    loads = python("/usr/lib64/python3.11/json/__init__.py", "loads", 346)
    load, module = python("/srv/app/load.py", "load", 12), python("/srv/app/main.py", "<module>", 3)
    end = [Frame("run_host", "/bin/host"), place("host+0x10"), Frame("__libc_start_main", "/lib/c")]
    stack = [*inner, library, loads, load, library, module, *end]
    assert site(*stack) == ("load.py:12 load", ("main.py:3 <module>", "run_host"))
    assert site(*stack, folds=Folds(["load"]))[0] == "main.py:3 <module>"
    assert site(*stack, folds=Folds(["/srv/app/load.py"]))[0] == "main.py:3 <module>"
    assert site(*stack, folds=Folds(is_off=True))[0] == "PyList_New"
    assert site(*inner, library, loads, *end)[0] == "decoder.py:337 JSONDecoder.decode"
    for package in ("/usr/lib/python3/dist-packages", "/venv/lib/python3.14t/site-packages"):
        assert site(*inner, python(f"{package}/six.py", "alloc", 5), load)[0] == "six.py:5 alloc"
    for library in ("/usr/lib/ruby/vendor_ruby/json.rb", "/opt/lib/ruby/3.2.0/set.rb",
                    "<internal:gc>", "node:internal/buffer", "node:fs"):  # fmt: skip
        assert site(*inner, python(library, "add"), load)[0] == "load.py:12 load"
    assert site(python("<frozen importlib._bootstrap>", "_load", 0), load)[0] == "load.py:12 load"


def test_lines_of_files_of_one_name_are_told_apart() -> None:
    frames = [python(f"/srv/{folder}/__init__.py", "<module>") for folder in "ab"]
    sites = CallSites([[frames]], FOLDS)
    assert [sites.of([one])[0] for one in frames] == [
        f"__init__.py:1 <module> ({folder}/__init__.py)" for folder in "ab"]  # fmt: skip


def test_an_interpreter_is_a_layer_where_the_program_has_names() -> None:
    inner = [Frame(name, "/usr/lib/libpython3.12.so.1.0") for name in ("PyList_New", "_PyEval")]
    load = Frame("py::load:/srv/my app.py")
    assert site(*inner, load, inner[1], "main")[0] == load.name
    extension = Frame("make_array", "/lib/array.so")
    assert site(extension, *inner, load) == ("make_array", (load.name,))
    assert site(*inner, "main")[0] == "PyList_New"
    node = Frame("v8::internal::Factory::NewArray(int)", "/usr/bin/node")
    assert site(node, Frame("Builtin:ArrayMap"), Frame("JS:*load /srv/app.js:1:1"), node)[0] == (
        "JS:*load /srv/app.js:1:1")  # fmt: skip


@pytest.fixture(scope="module")
def saved(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of SOURCE, whose file is not deleted."""
    folder = tmp_path_factory.mktemp("inlined")
    program = compile_program(folder, "program.cpp", SOURCE, "-O2", "-g")
    path = folder / "p.pb.gz"
    need("addr2line")
    found = report_of(
        build_dir, "profile", "--interval", "16KiB", "--json", "-o", path, "--", program
    )
    assert {row["name"] for row in found["sites"][:5]} == set(SIZES)
    return path


@each_row("tool", ["llvm-symbolizer", "addr2line"])
def test_inlined_allocations_belong_to_their_callers(
    saved: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(tool)
    monkeypatch.setattr(symbols, "TOOLS", (tool,))
    profile = pprof.read(saved)
    rows = rows_of(profile, symbols.names_of(profile), "inuse", FOLDS)
    sizes = {row.name: row.nbytes / MIB for row in rows}
    assert {name: sizes[name] for name in SIZES} == pytest.approx(SIZES, rel=0.25)


def test_the_user_s_patterns(build_dir: Path, saved: Path, tmp_path: Path) -> None:
    listed = tmp_path / "patterns"
    listed.write_text("# all that load\n\nload_*\n")
    read = ("profile", "--read", saved, "--json")
    folded = report_of(build_dir, *read, "--fold", f"@{listed}", "--fold=main?")["sites"][0]
    assert folded["name"] == "main" and folded["nbytes"] / MIB > 0.8 * sum(SIZES.values())
    raw = report_of(build_dir, *read, "--no-fold")["sites"]
    assert not {row["name"] for row in raw} & {"load_orders()", "load_users()"}


@each_row(
    "flags", [("-O",), ("-C", "opt-level=0", "-C", "symbol-mangling-version=v0")]
)
def test_rust_functions_have_their_memory(
    build_dir: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    need("addr2line")
    compiler = shutil.which("rustc")
    if compiler is None:
        pytest.skip("rustc is not installed")
    source = tmp_path / "app.rs"
    source.write_text(RUST)
    made = run_captured([compiler, "-g", *flags, "-o", tmp_path / "app", source], timeout=120)
    if made.returncode != 0:
        pytest.skip(f"rustc {' '.join(flags)} cannot build here: {made.stderr[-200:]}")
    output = tmp_path / "p.pb.gz"
    done = run_captured([sys.executable, MAIN, "profile", "--interval", "16KiB", "-o", output, "--",
                         tmp_path / "app"], env={**os.environ, "POOLSHIM_BUILD_DIR": str(build_dir),
                                                 "POOLSHIM_PROFILE_SEED": "1"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = report_of(build_dir, "profile", "--read", output, "--json")["sites"]
    sizes = {row["name"]: row["nbytes"] / MIB for row in rows[:2]}
    assert sizes == pytest.approx({"app::load_orders": 7.7, "app::load_names": 5.0}, rel=0.25)


@pytest.mark.slow
def test_explain_charges_each_function_with_its_own(build_dir: Path, tmp_path: Path) -> None:
    need("addr2line")
    waits = SOURCE.replace("return 0;\n}\n", "usleep(3000000);\n}\n")
    source = "#include <unistd.h>\n" + waits
    program = compile_program(tmp_path, "program.cpp", source, "-O2", "-g")
    found = report_of(build_dir, "explain", "--interval", "16KiB", "--json", "--", program)
    sizes = {row["name"]: row["live_bytes"] / MIB for row in found["sites"]}
    wanted = {name.removesuffix("()"): size for name, size in SIZES.items()}
    assert {name: sizes[name] for name in wanted} == pytest.approx(wanted, rel=0.3)


def test_patterns_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    done = run_captured([sys.executable, MAIN, "profile", "--fold", f"@{tmp_path}/x", "--", "true"])
    assert done.returncode == 2 and done.stderr == (
        f"poolshim profile: --fold: {tmp_path}/x: No such file or directory\n")  # fmt: skip


def test_advise_lists_a_site_from_the_program_s_own_function_on() -> None:
    found, names = trace.Trace(), symbols.Symbols()
    inner, outer = found.location(1), found.location(2)
    names.names = {inner: ["std::__new_allocator<int>::allocate(unsigned long)", "load()"],
                   outer: ["std::for_each()", "main"]}  # fmt: skip
    names.lines = {inner: ["new_allocator.h:1", "app.cpp:2"], outer: ["algo.h:3", "app.cpp:4"]}

    def lines_of(*key: int) -> list[str]:
        return made_at(found, patterns.Site(key, facts_of(found, []), None, ""), names)

    assert lines_of(1, 2) == [
        "load() (app.cpp:2)", "std::for_each() (algo.h:3)", "main (app.cpp:4)"]  # fmt: skip
    assert lines_of(2) == ["main (app.cpp:4)"]
    assert lines_of() == []
