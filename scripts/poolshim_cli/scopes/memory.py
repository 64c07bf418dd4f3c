# SPDX-License-Identifier: MIT
"""Which calls give memory of a frame or of a pool, and where the function ends that frame or pool.

A function opens frames by PS_SCOPE, PS_STACK_SCOPE, ps::scope, or push and pop; it makes pools of
its own by ps_region_create and the like, ps::region, ps::stack, and ends them. A frame or a pool
is named by a key: "thread" is the stack of the thread, a number the variable with that id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .tree import Node, children, walk

LineOf = Callable[[Node], int]

THREAD = "thread"
T_NAME = re.compile(r"(\w+_)?t_\w+")
OWN_NAME = re.compile(r"ps_\w+|poolshim_\w+")
THREAD_CALL = re.compile(r"ps_t_(alloc|alloc_aligned|zalloc|realloc|memdup|strdup|printf)")
POOL_CALL = re.compile(
    r"ps_(stack|region)_(alloc\w*|zalloc|realloc\w*|memdup|strn?dup|strcat|v?printf)"
)
# They return their first argument, or a place in it.
PASSING = re.compile(
    r"(__builtin_)?(_*)(str(n?cpy|n?cat|r?chr|str|pbrk)|stp?n?cpy|mem(cpy|move|set|r?chr|pcpy))\w*"
)
METHOD = re.compile(
    r"(try_)?(allocate|reallocate|make\w*|create\w*|strdup|copy|printf|write_text)"
)
CXX_FRAME = re.compile(r"(ps::)?scope")
CXX_POOL = re.compile(r"(ps::)?(region|stack)")
CXX_THREAD = re.compile(r"(ps::)?t_stack")
OPENERS = re.compile(r"ps_t_push|ps_stack_push")
CLOSERS = re.compile(r"ps_t_(pop|unwind)|ps_stack_(pop|unwind)")
ENDERS = re.compile(r"ps_(region|stack)_destroy")


@dataclass(frozen=True)
class Memory:
    """The origin of a pointer: a call."""

    key: str
    order: int  # of the call
    is_by_name: bool  # of a t_ function, or a marked one


@dataclass(frozen=True)
class Span:
    """A frame or a pool, from where it begins to where it ends, for places in `block`."""

    key: str
    begin: int
    end: int  # the order of the call that ends it, or of the last node of its block
    block: Node
    line: int
    is_pool: bool
    is_automatic: bool  # ends on every way out of the block


def stripped(node: Node) -> Node:
    """Without casts and parentheses."""
    while node["kind"] in PASSED_OVER and len(children(node)) == 1:
        node = children(node)[0]
    return node


PASSED_OVER = {
    "ImplicitCastExpr", "CStyleCastExpr", "ParenExpr", "CXXStaticCastExpr", "ExprWithCleanups",
    "CXXReinterpretCastExpr", "CXXConstCastExpr", "MaterializeTemporaryExpr", "ConstantExpr",
    "CXXBindTemporaryExpr", "CXXFunctionalCastExpr",
}  # fmt: skip


def variable_of(node: Node) -> Node | None:
    """The declaration that an expression names."""
    node = stripped(node)
    if node["kind"] == "UnaryOperator" and node.get("opcode") == "&":
        node = stripped(children(node)[0])
    declared: Node | None = node.get("referencedDecl") if node["kind"] == "DeclRefExpr" else None
    return declared if declared and declared["kind"] in ("VarDecl", "ParmVarDecl") else None


def callee_of(call: Node) -> str:
    """The name of the function that a call of C calls."""
    parts = children(call)
    if call["kind"] != "CallExpr" or not parts:
        return ""
    return str(stripped(parts[0]).get("referencedDecl", {}).get("name", ""))


def type_of(node: Node) -> str:
    """As it is written, without const, reference and struct."""
    text = str(node.get("type", {}).get("qualType", ""))
    return re.sub(r"\b(const|struct|class) ", "", text).strip(" &")


def key_of(pool: Node) -> str:
    """The pool that an argument is."""
    if callee_of(stripped(pool)) == "ps_t":
        return THREAD
    variable = variable_of(pool)
    return str(variable["id"]) if variable else "another"


def is_pointer(node: Node) -> bool:
    """Whether the type leads to memory."""
    text = node.get("type", {})
    whole = str(text.get("desugaredQualType", text.get("qualType", "")))
    return "*" in whole or "string_view" in whole or "span<" in whole or whole.endswith("&")


def method_memory(call: Node) -> Memory | None:
    """Of a member function of ps::scope, ps::stack, ps::region, ps::t_stack."""
    member = children(call)[0] if children(call) else None
    if member is None or not METHOD.fullmatch(str(member.get("name", "")).lstrip("->.")):
        return None
    pool = stripped(children(member)[0]) if children(member) else None
    if pool is None:
        return None
    if CXX_THREAD.fullmatch(type_of(pool)):
        return Memory(THREAD, call["order"], False)
    variable = variable_of(pool)
    return Memory(str(variable["id"]), call["order"], False) if variable else None


def memory_of(call: Node, marked: set[str]) -> Memory | None:
    """The memory that a call returns, if it is known."""
    if call["kind"] == "CXXMemberCallExpr":
        return method_memory(call)
    name = callee_of(call)
    if THREAD_CALL.fullmatch(name):
        return Memory(THREAD, call["order"], False)
    if POOL_CALL.fullmatch(name):
        return Memory(key_of(children(call)[1]), call["order"], False)
    is_named = T_NAME.fullmatch(name) and not OWN_NAME.fullmatch(name)
    if (is_named or name in marked) and is_pointer(call):
        return Memory(THREAD, call["order"], True)
    return None


def passes(call: Node) -> bool:
    """Whether a call returns its first argument."""
    return PASSING.fullmatch(callee_of(call)) is not None and len(children(call)) > 1


def block_of(node: Node) -> Node:
    """The block around it."""
    while "parent" in node and node["kind"] not in ("CompoundStmt", "LambdaExpr"):
        node = node["parent"]
    return node


def last_of(node: Node) -> int:
    """The highest order in it."""
    return max(one["order"] for one in walk(node))


def is_inside(node: Node, block: Node) -> bool:
    """Whether the block is around it."""
    while node is not block and "parent" in node:
        node = node["parent"]
    return node is block


def scope_key(variable: Node) -> str:
    """The stack whose frame a variable opens, that ends with its block; empty: it opens none."""
    shape = type_of(variable)
    calls = [one for one in walk(variable) if one["kind"] == "CallExpr"]
    has_cleanup = any(one["kind"] == "CleanupAttr" for one in children(variable))
    if has_cleanup and any(callee_of(one) == "ps_t_push" for one in calls):
        return THREAD
    opened = next((one for one in calls if callee_of(one) == "ps_stack_scope_open"), None)
    if has_cleanup and opened:
        return key_of(children(opened)[1])
    return THREAD if CXX_FRAME.fullmatch(shape) else ""


def automatic(function: Node, line_of: LineOf) -> Iterator[Span]:
    """Frames and pools that are variables."""
    for variable in walk(function):
        if variable["kind"] != "VarDecl" or variable.get("storageClass") == "static":
            continue
        shape = type_of(variable)
        is_pool = CXX_POOL.fullmatch(shape) is not None
        is_object = "&" not in str(variable.get("type", {}).get("qualType", ""))
        keys = [scope_key(variable)]
        if is_object and (is_pool or CXX_FRAME.fullmatch(shape)):
            keys.append(str(variable["id"]))
        block = block_of(variable)
        for key in filter(None, keys):
            yield Span(key, variable["order"], last_of(block), block, line_of(variable), is_pool,
                       True)  # fmt: skip


def closed_by(call: Node) -> str:
    """The stack whose frame a call closes; empty: none."""
    name = callee_of(call)
    if not CLOSERS.fullmatch(name):
        return ""
    return THREAD if name.startswith("ps_t_") else key_of(children(call)[1])


def opened_by(call: Node) -> str:
    """The stack in which a call opens a frame that no variable closes."""
    name = callee_of(call)
    holder = call.get("parent", call)
    if not OPENERS.fullmatch(name) or any(one["kind"] == "CleanupAttr" for one in children(holder)):
        return ""
    return THREAD if name.startswith("ps_t_") else key_of(children(call)[1])


def by_hand(function: Node, line_of: LineOf) -> Iterator[Span]:
    """Frames between push and pop, pools of a local variable before they are destroyed."""
    begun: dict[str, Node] = {}
    for call in walk(function):
        if opened_by(call):
            begun[opened_by(call)] = call
        key = closed_by(call)
        if key in begun:
            yield Span(key, begun[key]["order"], call["order"], block_of(call), line_of(begun[key]),
                       False, False)  # fmt: skip
        if ENDERS.fullmatch(callee_of(call)):
            variable = variable_of(children(call)[1])
            if variable and variable["kind"] == "VarDecl":
                yield Span(str(variable["id"]), -1, call["order"], block_of(call), line_of(call),
                           True, False)  # fmt: skip
