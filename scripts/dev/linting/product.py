# SPDX-License-Identifier: MIT
"""Rules on the code of the libraries: where a kind of construct is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from linting.code import PUBLIC_BASE
from linting.rules import register
from linting.tree import Tree, is_c, is_product, matching, without_comments

PUBLIC = "pools/include/"
EXAMPLES = "pools/examples/"
ENGINE = "pools/engine/"
ARCH = f"{ENGINE}arch/"
GUARD = re.compile(r"^#ifndef (\w+_H(?:PP)?)\n#define \1$", re.MULTILINE)
# What a public header has to ask, beside its guard and the language.
ALLOWED = {
    PUBLIC_BASE: {
        "#ifndef __cplusplus",
        "#if defined(__clang__) && __clang_major__ < 11",
        "#ifdef __clang__",
        "#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L)",
    },
    # -fno-exceptions, -fno-rtti: nothing else can tell.
    PUBLIC + "poolshim/detail.hpp": {"#ifdef __cpp_exceptions", "#ifdef __cpp_rtti"},
    # C++17 has no other way to create in a constant.
    PUBLIC + "poolshim/fixed.hpp": {"#ifdef __cpp_lib_constexpr_dynamic_alloc"},
}
Found = Iterator[tuple[int, str]]


@register("conditional", is_product)
def conditional(tree: Tree, name: str) -> Found:
    """#if only in arch/, os/, base/{compiler,atomic}.h, poison.h; else guards and __cplusplus."""
    free = (ARCH, f"{ENGINE}os/", f"{ENGINE}base/compiler.h", f"{ENGINE}base/atomic.h")
    if name.startswith(free) or name.endswith("/poison.h"):
        return
    guard = GUARD.search(tree.text(name))
    allowed = {"#ifdef __cplusplus", f"#ifndef {guard[1]}" if guard else ""}
    allowed |= ALLOWED.get(name, set())
    code = tree.view(without_comments, name)
    for number, line in matching(r"^\s*#\s*(if|ifdef|ifndef|elif)\b", code):
        if line not in allowed:
            yield number, line


@register("processor", lambda name: is_c(name) and not name.startswith(ARCH))
def processor(tree: Tree, name: str) -> Found:
    """Only pools/engine/arch/ asks for the processor; tests/arch/ has a file for each."""
    pattern = r"\b__(x86_64|amd64|i386|aarch64|arm|riscv|loongarch|powerpc|s390|mips)"
    yield from matching(pattern, tree.view(without_comments, name))


@register("atomic", is_product)
def atomic(tree: Tree, name: str) -> Found:
    """Atomics come from base/atomic.h; public headers and examples may name the builtins."""
    is_part = name.startswith(ARCH) and name.endswith("/atomic.h")
    if not is_part and not name.startswith((PUBLIC, EXAMPLES, f"{ENGINE}base/atomic.h")):
        pattern = r"__atomic_|__sync_|stdatomic|\b_Atomic\b"
        for number, line in matching(pattern, tree.view(without_comments, name)):
            yield number, f"not through base/atomic.h: {line}"


@register("silent-engine", lambda name: is_product(name) and name.startswith(ENGINE))
def silent_engine(tree: Tree, name: str) -> Found:
    """The engine reads no environment, prints nothing and calls no allocator but its own."""
    pattern = r"<stdio\.h>|\bgetenv\(|\benviron\b|[^_\w](malloc|calloc|realloc|free|dlsym)\("
    yield from matching(pattern, tree.view(without_comments, name))


@register("posix-name", is_product)
def posix_name(tree: Tree, name: str) -> Found:
    """No type is called _t, which POSIX reserves."""
    yield from matching(r"^\s*(typedef\b.*|\}\s*)\b\w+_t;", tree.text(name))
