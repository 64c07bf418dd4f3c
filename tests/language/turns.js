// SPDX-License-Identifier: MIT
// What the planted programs share, as turns.py: a step once, or, live, at each x of the input; hot:
// after so many that their functions are optimized.
"use strict";
const BLOCK_BYTES = 100_000;
const BLOCKS = 150; // of a step
const STEPS_BEFORE = 25;
const kept = [];

function churn() {
    for (let i = 0; i < 100; i++) {
        Buffer.alloc(BLOCK_BYTES);
    }
}

async function run(step) {
    if (process.argv[2] !== "live") {
        for (let i = 0; process.argv[2] === "hot" && i < STEPS_BEFORE; i++) {
            await step();
            kept.length = 0;
        }
        return step();
    }
    console.log(1);
    for await (const words of process.stdin) {
        for (const word of String(words)) {
            await (word === "x" ? step() : churn());
            console.log(2);
        }
    }
}

module.exports = { BLOCK_BYTES, BLOCKS, kept, run };
