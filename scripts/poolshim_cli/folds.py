# SPDX-License-Identifier: MIT
"""Functions that allocate for their caller, which the name of a call site passes over.

    folds = Folds(["mylib::*", "@wrappers.txt"])
    folds.has("std::vector<int>::push_back(int&&)")    # True

A pattern is compared with a function's path: its name without return type, arguments and template
parameters, "std::vector::push_back". Of a method of Rust's traits there are two, of the type and of
the trait; both have to match, so that a trait of the program's own is not passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from pathlib import Path

from .errors import BadRequest

# C: a function that is called as malloc is, or passes on to it.
C_NAME = (
    r"(?:.*[._:])?(?:[a-z0-9]{0,8}_?(?:malloc|calloc|realloc|alloc|strdup|strndup|memdup|memalign)"
    r"(?:_usable|_n|0|_n0|0_n|_body|_with_gc|_impl|_lr|2)?|reallocarray)"
)
PATTERNS = (
    # C and the C library
    "try_alloc*", "tryalloc*", "aligned_alloc", "*vasprintf*", "*asprintf*",
    "*getdelim", "getline", "g_slice_alloc*", "g_slice_copy", "g_malloc*", "sqlite3*Malloc*",
    "sqlite3*Realloc*", "sqlite3MemMalloc", "pcache1Alloc", "xml*Malloc*", "Perl_safesys*",
    "luaM_malloc_", "luaM_realloc_", "luaM_saferealloc_", "luaM_growaux_", "_emalloc*",
    "_erealloc*", "_ecalloc", "_safe_*alloc*", "__zend_*alloc", "zend_mm_*", "CRYPTO_*alloc",
    # poolshim's pools
    "ps::*", *(f"ps_{family}_*" for family in (
        "arena", "bounded", "chunk", "chunks", "depot", "fifo", "fixed", "frames", "granules",
        "intrusive", "magazine", "offset", "pages", "pool", "pools", "region", "retire", "ring",
        "shared", "slice", "slots", "source", "stack", "store", "tlsf",
    )),
    # C++
    "operator new*", "*::operator new*", "std::*", "__gnu_cxx::*", "__cxxabiv1::*", "__cxa_*",
    "boost::container::*", "boost::unordered::*", "boost::allocator*",
    "absl::*container_internal::*", "absl::*inlined_vector_internal::*", "folly::f14::*",
    "folly::fbvector::*", "QArrayData::*", "QListData::*", "QHashData::*", "QtPrivate::*",
    "_M_allocate*", "_M_create*", "*::_M_allocate*", "*::allocate",
    # Rust's std, as that of C++, is above
    "__rustc::*", "__rust_*", "__rdl_*", "__rg_*", "hashbrown::*", "indexmap::*", "smallvec::*",
    # CPython
    "_PyObject_Malloc", "_PyObject_Calloc", "_PyObject_Realloc", "PyObject_Malloc",
    "PyObject_Calloc", "PyObject_Realloc", "_PyMem_*", "PyMem_*", "PyObject_*Alloc",
    "_PyObject_GC_*", "PyObject_GC_*", "_PyObject_New*", "PyObject_Init*", "_PyType_AllocNoTrack",
    "PyType_GenericAlloc", "pymalloc_*", "_PyObject_*Arena*", "allocate_from_new_pool",
    # Ruby
    "objspace_x*", "objspace_malloc*", "ruby_x*", "ruby_mimmalloc", "ruby_mimcalloc",
    "rb_x*alloc*", "rb_gc_impl_*alloc*", "rb_alloc_tmp_buffer*", "rb_aligned_malloc",
    "heap_page_allocate*", "newobj_*", "rb_newobj*", "rb_wb_*protected_newobj_of",
    "rb_ec_*newobj_of", "rb_gc_impl_new_obj",
    # node and V8
    "Builtin:*", "BytecodeHandler:*", "Stub:*", "node::*Malloc*", "node::*Realloc*",
    "node::*Calloc*", "v8::internal::Malloced::*", "v8::internal::AllocWithRetry*",
    "v8::internal::Alloc*Malloc*", "v8::base::*alloc*",
)  # fmt: skip
# Files of the standard libraries of interpreted languages.
LANGUAGE_LIBRARIES = re.compile(
    r"<frozen .*|<internal:.*|node:.*|.*/lib(?:64)?/ruby/(?:\d+\.\d+\.\d+|vendor_ruby)/.*"
    r"|.*/lib(?:64)?/python3\.\d+t?/(?!(?:site|dist)-packages/).*|.*/python3\d+\.zip/.*",
    re.S,
)
# Functions of the standard libraries of Java, Kotlin and Scala: their files have no folder.
JAVA_LIBRARIES = re.compile(r"(?:java|javax|jdk|sun|com\.sun|kotlin|scala)\..*")
JAVA_FILE = re.compile(r"[^/]*\.(?:java|kt|scala)|Unknown Source")
RUST_PATTERNS = ("alloc::*", "core::*")  # in C++ these are namespaces of programs
CLONE = re.compile(r"(?:\.(?:part|constprop|isra|cold|lto_priv|llvm)(?:\.\d+)?)+$"
                   r"|(?: \[clone [^\]]*\]| \(\.[\w.]+\))+$")  # fmt: skip
OPERATOR = re.compile(
    r"operator(?:\(\)|\[\]|<=>|<<=?|>>=?|<=|>=|->\*?|<|>|[-+*/%^&|~!=,]+| (?:new|delete)(?:\[\])?"
    r'|"" ?\w+)'
)
QUALIFIER = re.compile(r"(?: (?:const|volatile|noexcept|&&?))+(?=::|$)")
ARGUMENTS = re.compile(r"\)(?: const| volatile| noexcept| &&?| \[[^\]]*\]| \(\.[\w.]+\))*$")  # C++
CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}
NAMESPACE = "(anonymous namespace)"
TRAITS_MAX = 8  # of "<<<T as A>::B as C>::D as E>::f"
NAMES_MAX = 1 << 16
NAME_MAX = 1 << 13  # characters
FILE_MAX = 1 << 20  # bytes of patterns


def end_of(name: str, at: int) -> int:
    """The place after the bracket that closes the one there; the end if it never closes."""
    expected: list[str] = []
    while at < len(name):
        one = name[at]
        if one in CLOSING and not (one == "<" and expected[-1:] == [")"]):
            expected.append(CLOSING[one])
        elif expected and one == expected[-1] and name[at - 1 : at + 1] != "->":
            expected.pop()
            if not expected:
                return at + 1
        at += 1
    return len(name)


def plain(name: str) -> str:
    """A name of C or C++, or a Rust path, without bracketed parts and all before the last space."""
    out, at = "", 0
    while at < len(name):
        operator = OPERATOR.match(name, at)
        if operator and (at == 0 or not (name[at - 1].isalnum() or name[at - 1] == "_")):
            out, at = out + operator.group(), operator.end()
            at += name.startswith(" <", at)
        elif name.startswith("operator ", at):
            return out + name[at : name.find("(", at) if "(" in name[at:] else len(name)]
        elif name.startswith(NAMESPACE, at):
            out, at = out + NAMESPACE, at + len(NAMESPACE)
        elif name[at] == "{":
            end = end_of(name, at)
            out, at = out + name[at:end], end
        elif name[at] in CLOSING:
            at = end_of(name, at)
            qualifier = QUALIFIER.match(name, at)
            at = qualifier.end() if qualifier else at
        else:
            out, at = "" if name[at] == " " else out + name[at], at + 1
    return re.sub(r"(?:::){2,}", "::", out).removesuffix("::")


def cut_as(text: str) -> tuple[str, str]:
    """A type and a trait, of "T as Trait"; "" without a trait."""
    at = 0
    while at < len(text):
        if text.startswith(" as ", at):
            return text[:at], text[at + 4 :]
        at = end_of(text, at) if text[at] in CLOSING else at + 1
    return text, ""


@lru_cache(NAMES_MAX)
def paths_of(name: str) -> tuple[str, ...]:
    """What patterns are compared with; one of them, or type and trait of a method of Rust."""
    name = CLONE.sub("", name[:NAME_MAX])
    if not name.startswith("<"):
        return (plain(name),)
    found, left = [], [name]
    for _ in range(TRAITS_MAX):
        if not left:
            break
        one = left.pop()
        end = end_of(one, 0)
        rest = plain(one[end:])
        for part in cut_as(one[1 : end - 1]):
            part = part.removeprefix("dyn ")
            if part.startswith("<"):
                left.append(part + rest)
            elif "::" in part and part[0] not in "&*[(":
                found.append(plain(part) + rest)  # a type of a crate; others are of the language
    return tuple(found) or ("core" + plain(name[end_of(name, 0) :]),)


@dataclass
class Folds:
    """The functions to pass over: those above and the user's."""

    more: Iterable[str] = ()
    is_off: bool = False
    known: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        more = read(self.more)
        patterns = [f"(?:{C_NAME})\\Z", *map(translate, (*PATTERNS, *more))]
        self.own_pattern = re.compile("|".join(map(translate, more)) or r"(?!)")
        self.pattern = re.compile("|".join(patterns))
        self.rust_pattern = re.compile("|".join((*patterns, *map(translate, RUST_PATTERNS))))

    def has(self, name: str) -> bool:
        """Whether a function allocates for its caller."""
        if self.is_off:
            return False
        if name not in self.known:
            has_arguments = ARGUMENTS.search(name[:NAME_MAX]) is not None
            pattern = self.pattern if has_arguments else self.rust_pattern
            self.known[name] = all(pattern.match(path) for path in paths_of(name))
        return self.known[name]

    def has_line(self, file: str, function: str) -> bool:
        """Whether a function of an interpreted program is of its standard library, or passed over
        by the user's patterns, for its name or its file."""
        if self.is_off:
            return False
        if JAVA_FILE.fullmatch(file) and JAVA_LIBRARIES.match(function):
            return True
        return any(
            pattern.match(text) is not None
            for pattern, text in ((LANGUAGE_LIBRARIES, file), (self.own_pattern, file),
                                  (self.own_pattern, function))
        )  # fmt: skip


def read(words: Iterable[str]) -> list[str]:
    """The user's patterns; of @FILE its lines."""
    found = []
    for word in words:
        if not word.startswith("@"):
            found.append(word)
            continue
        try:
            with Path(word[1:]).open(errors="replace") as file:
                lines = file.read(FILE_MAX).splitlines()
        except OSError as error:
            raise BadRequest(f"--fold: {word[1:]}: {error.strerror}") from None
        found += [line.strip() for line in lines if line.strip() and line[:1] != "#"]
    return found
