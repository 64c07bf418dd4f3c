// SPDX-License-Identifier: MIT
// A function that calls itself, deeper than a stack of the profile.
"use strict";
const { BLOCK_BYTES, BLOCKS, kept, run } = require("./turns.js");

function descend(depth) {
    if (depth > 0) {
        return descend(depth - 1) + 1;
    }
    return kept.push(Buffer.alloc(BLOCK_BYTES)); // PLANTED descend
}

function step() {
    for (let i = 0; i < BLOCKS; i++) {
        descend(100);
    }
}

module.exports = { step };
if (require.main === module) {
    run(step);
}
