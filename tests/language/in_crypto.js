// SPDX-License-Identifier: MIT
// Keys, whose memory a library in C takes.
"use strict";
const { createSecretKey } = require("node:crypto");
const { BLOCK_BYTES, BLOCKS, kept, run } = require("./turns.js");

const secret = Buffer.alloc(BLOCK_BYTES, "secret");

function open() {
    kept.push(createSecretKey(secret)); // PLANTED open
}

function step() {
    for (let i = 0; i < BLOCKS; i++) {
        open();
    }
}

module.exports = { step };
if (require.main === module) {
    run(step);
}
