// SPDX-License-Identifier: MIT
// A function that continues after it has waited.
"use strict";
const { BLOCK_BYTES, BLOCKS, kept, run } = require("./turns.js");

async function fetchAll(count) {
    for (let i = 0; i < count; i++) {
        await null;
        kept.push(Buffer.alloc(BLOCK_BYTES)); // PLANTED fetchAll
    }
}

async function step() {
    await fetchAll(BLOCKS);
}

module.exports = { step };
if (require.main === module) {
    run(step);
}
