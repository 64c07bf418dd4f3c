// SPDX-License-Identifier: MIT
// A function.
"use strict";
const { BLOCK_BYTES, BLOCKS, kept, run } = require("./turns.js");

function leakHere() {
    kept.push(Buffer.alloc(BLOCK_BYTES)); // PLANTED leakHere
}

function step() {
    for (let i = 0; i < BLOCKS; i++) {
        leakHere();
    }
}

module.exports = { step };
if (require.main === module) {
    run(step);
}
