# SPDX-License-Identifier: MIT
"""The rules: memory that a function must not return or store.

1. Memory of a frame that the function closes, or of a pool that it ends: never.
2. Memory of its caller's frame, of the thread's stack: only if its name says so, t_something, or
   PS_RETURNS_SCOPED.

The origins of the pointers in local variables are gathered from all assignments, in whatever order
they run. Memory of a pool that is a parameter, a member or a global is the caller's business. What
a pointer leads to is not followed: `return node->next` returns what was stored there.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import memory
from .memory import THREAD, Memory, Span
from .tree import Node, Source, children, walk

ASSIGNMENTS = {"="}
POINTING = {"+", "-"}
WHOLE = {"InitListExpr", "CXXConstructExpr", "CXXTemporaryObjectExpr", "StmtExpr", "CXXNewExpr",
         "CompoundLiteralExpr", "CXXParenListInitExpr"}  # fmt: skip


@dataclass(frozen=True, order=True)
class Finding:
    """One line of the report."""

    line: int
    function: str
    message: str


class Checker:
    """One function."""

    def __init__(self, source: Source, function: Node) -> None:
        self.source = source
        self.function = function
        self.name = str(function.get("name", ""))
        self.spans = [*memory.automatic(function, source.line_of),
                      *memory.by_hand(function, source.line_of)]  # fmt: skip
        self.origins: dict[str, set[Memory]] = {}
        self.locals = {one["id"] for one in walk(function) if one["kind"] == "VarDecl" and
                       one.get("storageClass") != "static"}  # fmt: skip
        self.found: set[Finding] = set()

    def is_allowed(self) -> bool:
        """Whether its caller is told."""
        return (memory.T_NAME.fullmatch(self.name) is not None or
                self.name in self.source.marked)  # fmt: skip

    # --- the memory that an expression leads to ---

    def of(self, node: Node) -> set[Memory]:
        """The memory that the value of an expression points to."""
        node = memory.stripped(node)
        kind, parts = node["kind"], children(node)
        if kind == "DeclRefExpr":
            return self.origins.get(str(node.get("referencedDecl", {}).get("id")), set())
        if kind in ("CallExpr", "CXXMemberCallExpr"):
            known = memory.memory_of(node, self.source.marked)
            if known:
                return {known}
            return self.of(parts[1]) if memory.passes(node) else set()
        if kind in ("ConditionalOperator", "BinaryConditionalOperator"):
            return self.of_all(parts[1:] if kind == "ConditionalOperator" else parts)
        if kind == "BinaryOperator":
            return self.of_binary(str(node.get("opcode")), parts)
        if kind == "UnaryOperator":
            return self.of_unary(str(node.get("opcode")), parts[0])
        if kind in WHOLE:
            return self.of_whole(node, parts)
        if kind == "MemberExpr" and not node.get("isArrow"):
            return self.of(parts[0]) if parts and memory.is_pointer(node) else set()
        return set()

    def of_all(self, nodes: list[Node]) -> set[Memory]:
        """Any of them."""
        return set().union(*(self.of(one) for one in nodes))

    def of_whole(self, node: Node, parts: list[Node]) -> set[Memory]:
        """A value made of others; a placement new is where its place is."""
        if node["kind"] == "StmtExpr":
            block = children(parts[0])
            return self.of(block[-1]) if block else set()
        return self.of_all([one for one in parts if memory.is_pointer(one) or
                            one["kind"] == "InitListExpr"])  # fmt: skip

    def of_binary(self, opcode: str, parts: list[Node]) -> set[Memory]:
        """Pointers move, and assignments have a value."""
        if opcode == ",":
            return self.of(parts[1])
        if opcode in ASSIGNMENTS:
            return self.of(parts[1])
        pointers = [one for one in parts if memory.is_pointer(one)]
        return self.of_all(pointers) if opcode in POINTING and len(pointers) == 1 else set()

    def of_unary(self, opcode: str, part: Node) -> set[Memory]:
        """&p->field, &p[i], p++."""
        if opcode == "&":
            return self.of_place(part)
        return self.of(part) if opcode in ("++", "--") else set()

    def of_place(self, place: Node) -> set[Memory]:
        """The memory in which an object lies."""
        place = memory.stripped(place)
        kind, parts = place["kind"], children(place)
        if kind == "MemberExpr":
            return self.of(parts[0]) if place.get("isArrow") else self.of_place(parts[0])
        if kind == "ArraySubscriptExpr":
            return self.of_all([one for one in parts if memory.is_pointer(one)])
        if kind == "UnaryOperator" and place.get("opcode") == "*":
            return self.of(parts[0])
        return set()

    # --- where it goes ---

    def gather(self) -> None:
        """The origins of all local variables. Ends: a set only grows, and there are few calls."""
        is_new = True
        while is_new:
            is_new = False
            for node in walk(self.function):
                target, value = self.assigned(node)
                if target and value is not None:
                    added = self.of(value) - self.origins.get(target, set())
                    self.origins.setdefault(target, set()).update(added)
                    is_new = is_new or bool(added)

    def assigned(self, node: Node) -> tuple[str, Node | None]:
        """The local variable that a node changes, or a member of it, and the value."""
        if node["kind"] == "VarDecl" and node.get("init"):
            values = [one for one in children(node) if not one["kind"].endswith("Attr")]
            return str(node["id"]), values[-1] if values else None
        if node["kind"] != "BinaryOperator" or node.get("opcode") not in ASSIGNMENTS:
            return "", None
        place, value = children(node)
        place = memory.stripped(place)
        while place["kind"] == "MemberExpr" and not place.get("isArrow"):
            place = memory.stripped(children(place)[0])
        variable = memory.variable_of(place) if place["kind"] == "DeclRefExpr" else None
        is_local = variable is not None and variable["id"] in self.locals
        return (str(variable["id"]), value) if variable and is_local else ("", None)

    def ended(self, one: Memory, sink: Node) -> Span | None:
        """The frame or pool of the memory that ends before the sink's value is used."""
        for span in self.spans:
            is_of_it = span.key == one.key and span.begin < one.order <= span.end
            if is_of_it and (span.is_automatic or span.end < sink["order"] and
                             memory.is_inside(sink, span.block)):  # fmt: skip
                return span
        return None

    def judge(self, sink: Node, verb: str, found: set[Memory]) -> None:
        """One place where memory leaves."""
        for one in sorted(found, key=lambda memory: memory.order):
            span = self.ended(one, sink)
            if span:
                self.report(sink, f"{verb} memory of {owner_of(span)} in line {span.line}")
            elif one.key == THREAD and not self.is_allowed():
                self.report(sink, f"{verb} memory of its caller's frame, but is not named t_... "
                            "nor marked PS_RETURNS_SCOPED")  # fmt: skip

    def report(self, sink: Node, message: str) -> None:
        """Each line once."""
        self.found.add(Finding(self.source.line_of(sink), self.name, message))

    def is_foreign(self, place: Node) -> bool:
        """Whether others see the place: a global, or memory of no frame."""
        place = memory.stripped(place)
        kind, parts = place["kind"], children(place)
        if kind == "DeclRefExpr":
            variable = memory.variable_of(place)
            return variable is not None and variable["kind"] == "VarDecl" and \
                variable["id"] not in self.locals  # fmt: skip
        if kind == "MemberExpr" and not place.get("isArrow"):
            return self.is_foreign(parts[0])
        if kind == "MemberExpr" or kind == "ArraySubscriptExpr" or \
                (kind == "UnaryOperator" and place.get("opcode") == "*"):  # fmt: skip
            return bool(parts) and self.is_others(parts[0])
        return False

    def is_others(self, pointer: Node) -> bool:
        """Whether it points to memory that is not this function's own."""
        pointer = memory.stripped(pointer)
        if pointer["kind"] == "CXXThisExpr":
            return True
        variable = memory.variable_of(pointer) if pointer["kind"] == "DeclRefExpr" else None
        return variable is not None and variable["id"] not in self.locals

    def check(self) -> set[Finding]:
        """All of it."""
        self.gather()
        for node in walk(self.function):
            if node["kind"] == "ReturnStmt" and children(node):
                value = children(node)[0]
                is_reference = str(self.function["type"]["qualType"]).split("(")[0].endswith("&")
                found = self.of_place(value) if is_reference else \
                    self.of(value) if self.is_leading(value) else set()  # fmt: skip
                self.judge(node, "returns", found)
            elif node["kind"] == "BinaryOperator" and node.get("opcode") in ASSIGNMENTS:
                place, value = children(node)
                if self.is_foreign(place):
                    self.judge(node, "stores", self.of(value))
        return self.found

    def is_leading(self, value: Node) -> bool:
        """Whether the value can lead to memory: a pointer, a structure."""
        return (memory.is_pointer(value) or
                memory.stripped(value)["kind"] in {"DeclRefExpr", *WHOLE})  # fmt: skip


def owner_of(span: Span) -> str:
    """What a message calls it."""
    if not span.is_pool:
        return "a frame that it opens"
    return "a pool that ends with it" if span.is_automatic else "a pool that it ends"


def findings(source: Source) -> list[Finding]:
    """Of all its functions, by line."""
    return sorted(set().union(*(Checker(source, one).check() for one in source.functions)))
