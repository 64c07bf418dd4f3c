# SPDX-License-Identifier: MIT
"""Programs of random functions that allocate, and tell their stacks as V8 knows them.

    Path("one.js").write_text(generate(random.Random(1)))    # node one.js TURNS told.json

A stack is the names and lines of its functions, innermost first. The functions are arrows,
methods, generators and closures that V8's own functions call; those that are called often are
compiled, and small ones into their callers. In the last phase all allocate.
"""

from __future__ import annotations

import random

FUNCTIONS = 12
BLOCK_BYTES = 65536
HEAD = f"""
"use strict";
const told = new Map();
const kept = [];
Error.stackTraceLimit = 40;
Error.prepareStackTrace = (_, sites) => sites;
function nameOf(site) {{
    return `${{site.getFunctionName() || "<anonymous>"}}:${{site.getLineNumber()}}`;
}}
function take() {{
    const own = new Error().stack.filter((one) => one.getFileName() === __filename);
    const key = own.slice(1).map(nameOf).join(" ");
    told.set(key, (told.get(key) || 0) + 1);
    return Buffer.allocUnsafeSlow({BLOCK_BYTES});
}}
let left = 0, calls = 0, every = 1;
function isDue() {{
    calls++;
    return left > 0 && calls % every === 0 && left-- > 0;
}}
"""
FOOT = """
left = 60, every = 3;
for (let i = 0; i < 40; i++) phase();
left = 0;
for (let i = 0; i < Number(process.argv[2]); i++) phase();
left = 300, every = 5;
while (left > 0) phase();
require("node:fs").writeFileSync(process.argv[3], JSON.stringify([...told]));
"""
TAKES = (
    "take()", "take(\n        1,\n\n        take())", "take({\n        a: 1,\n        b: take() })",
    "[1, 2].map((one) =>\n        take(one))",
)  # fmt: skip
STATEMENTS = (
    "if (at % 7 === 0 && isDue())\n        {take};",
    "for (let i = 0; i < 3; i++)\n        sum +=\n            {call} | 0;",
    "sum += {call} | 0;",
    "try {{\n        if (at === 3 && isDue()) {take};\n        {call};\n    }} finally {{\n"
    "        sum++;\n    }}",
    "if (isDue()) {{ {take}; }}",
    "sum += [at].map(\n        (x) => x +\n            ({call} | 0))[0];",
)
ARGUMENTS = ("at", "at + 1", "1")
FORMS = (
    "const {name} = (at) => {{\n{body}\n    return sum;\n}};",
    "class C{name} {{\n    method(at) {{\n{body}\n    return sum;\n    }}\n}}\n"
    "const c{name} = new C{name}();\nfunction {name}(at) {{ return c{name}.method(at); }}",
    "function* g{name}(at) {{\n{body}\n    yield sum;\n    yield sum + 1;\n}}\n"
    "function {name}(at) {{\n    let all = 0;\n    for (const one of g{name}(at)) all += one;\n"
    "    return all;\n}}",
    "function {name}(at) {{\n{body}\n    return sum;\n}}",
    "function {name}(at) {{\n{body}\n    return sum;\n}}",
)


def generate(chance: random.Random) -> str:
    """A program."""
    text, names = [HEAD], [f"f{index}" for index in range(FUNCTIONS)]
    for index, name in enumerate(names):
        body = ["    let sum = 0;"]
        for _ in range(chance.randrange(1, 4)):
            callee = f"{chance.choice(names[: index or 1])}({chance.choice(ARGUMENTS)})"
            call = callee if index else "at"
            statement = chance.choice(STATEMENTS).format(take=chance.choice(TAKES), call=call)
            body.append("\n" * chance.randrange(3) + "    " + statement)
        text.append(chance.choice(FORMS).format(name=name, body="\n".join(body)))
    phase = "\n".join(f"    {name}(calls & 7);" for name in names)
    return "\n".join([*text, f"function phase() {{\n{phase}\n}}", FOOT])
