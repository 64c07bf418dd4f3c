// SPDX-License-Identifier: MIT
// A generator, which another one delegates to.
"use strict";
const { BLOCK_BYTES, BLOCKS, kept, run } = require("./turns.js");

function* blocks(count) {
    for (let i = 0; i < count; i++) {
        yield Buffer.alloc(BLOCK_BYTES); // PLANTED blocks
    }
}

function* all() {
    yield* blocks(BLOCKS);
}

function step() {
    for (const one of all()) {
        kept.push(one);
    }
}

module.exports = { step };
if (require.main === module) {
    run(step);
}
