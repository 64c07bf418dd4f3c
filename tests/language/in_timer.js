// SPDX-License-Identifier: MIT
// Timers.
"use strict";
const { BLOCK_BYTES, BLOCKS, kept, run } = require("./turns.js");

function later(resolve) {
    return setTimeout(() => {
        kept.push(Buffer.alloc(BLOCK_BYTES)); // PLANTED <anonymous>
        resolve();
    }, 0);
}

function step() {
    return Promise.all(Array.from({ length: BLOCKS }, () => new Promise(later)));
}

module.exports = { step };
if (require.main === module) {
    run(step);
}
