# SPDX-License-Identifier: MIT
"""Containers over pools: what the compiler refuses, Abseil's containers, and the cost of nodes.

    scripts/test tests/pools/test_pools_containers.py
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from instructions import count_instructions, require_valgrind
from table import each_row

INCLUDE = ROOT / "pools" / "include"
HERE = ROOT / "tests" / "pools"


def build(source: Path, program: Path, build_dir: Path, *flags: str) -> None:
    command = ["g++", "-std=c++17", "-O2", f"-I{ROOT}", f"-I{INCLUDE}", source, "-o", program]
    done = run_captured([*command, build_dir / "libpoolshim-pools.a", "-pthread", *flags])
    assert done.returncode == 0, done.stderr


# A container that a pool of one type does not fit, and the advice that the compiler prints.
ALLOCATOR = "Use ps::node_allocator<T> of <poolshim/containers.hpp>"
REFUSED = {
    "list": ("std::list<int, ps::allocator<int, ps::pool<int>>> c(p);", "ps::pool<int>", ALLOCATOR),
    "list of long": (
        "std::list<long, ps::allocator<long, ps::pool<long>>> c(p);", "ps::pool<long>", ALLOCATOR),
    "map": (
        "std::map<int, int, std::less<int>, ps::allocator<pair, ps::pool<pair>>> c(p);",
        "ps::pool<pair>", ALLOCATOR),
    "unchecked": (
        "std::list<int, ps::allocator<int, ps::unchecked_pool<int>>> c(p);",
        "ps::unchecked_pool<int>", ALLOCATOR),
    "bounded": (
        "std::list<int, ps::allocator<int, ps::bounded<int>>> c(p);", "ps::bounded<int>",
        ALLOCATOR),
    "fixed": (
        "std::list<int, ps::allocator<int, ps::fixed<int, 9>>> c(p);", "ps::fixed<int, 9>",
        ALLOCATOR),
    "size": (
        "static_assert(ps::node_size<std::vector<int>>::bytes != 0); (void)p;", "ps::pool<int>",
        "ps::node_size knows no nodes of this container"),
}  # fmt: skip
PROGRAM = """
#include <list>
#include <map>
#include <poolshim/adapters.hpp>
#include <poolshim/bounded.hpp>
#include <poolshim/containers.hpp>
#include <poolshim/fixed.hpp>
#include <poolshim/pool.hpp>
#include <vector>
using pair = std::pair<const int, int>;
template <class C> void fill(C &c) { c.insert(c.end(), typename C::value_type()); }
template <class P> void use(P &p) { {BODY} {FILL} }
void caller({POOL} &p) { use<{POOL}>(p); }
"""


def compilers() -> list[str]:
    return [name for name in ("g++", "clang++-16") if shutil.which(name)]


@each_row("name", REFUSED)
def test_compilers_refuse_pools_that_do_not_fit_and_say_what_does(
    name: str, tmp_path: Path
) -> None:
    body, pool, advice = REFUSED[name]
    source = tmp_path / "refused.cpp"
    text = PROGRAM.replace("{POOL}", pool).replace("{BODY}", body)
    source.write_text(text.replace("{FILL}", "" if name == "size" else "fill(c);"))
    fitting = tmp_path / "fitting.cpp"
    fitting.write_text(text.replace(body, "(void)p;").replace("{FILL}", ""))
    for compiler in compilers():
        command = [compiler, "-std=c++17", "-fsyntax-only", f"-I{INCLUDE}"]
        assert run_captured([*command, fitting]).returncode == 0
        refused = run_captured([*command, source])
        # Compilers cut the message into lines of their own.
        words = " ".join(refused.stderr.replace('"', " ").split())
        assert refused.returncode != 0 and advice in words, refused.stderr


def test_containers_of_abseil_and_of_the_newest_standard(build_dir: Path, tmp_path: Path) -> None:
    packages = ["absl_flat_hash_map", "absl_node_hash_map", "absl_btree", "absl_inlined_vector"]
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    found = run_captured(["pkg-config", "--cflags", "--libs", *packages])
    if found.returncode != 0:
        pytest.skip("Abseil is not installed")
    program = tmp_path / "other"
    build(HERE / "containers_other.cpp", program, build_dir, "-std=c++2b", *found.stdout.split())
    done = run_captured([program])
    assert done.returncode == 0, done.stdout + done.stderr


def test_nodes_cost_what_they_cost_by_a_pool_that_is_made_by_hand(
    build_dir: Path, tmp_path: Path
) -> None:
    """Instructions of the whole program: 40,000 nodes, so that the allocator's beginning and end
    are below the hundredth that is allowed."""
    require_valgrind()
    program = tmp_path / "cost"
    build(HERE / "containers_cost.cpp", program, build_dir)
    rest = count_instructions(program, "hand", "none")
    for load in ("list", "map", "hashed"):
        hand = count_instructions(program, "hand", load) - rest
        made = count_instructions(program, "made", load) - rest
        assert made <= hand * 1.01, f"{load}: {made} instructions, by hand {hand}"
