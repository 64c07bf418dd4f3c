// SPDX-License-Identifier: MIT
// See at_import.js.
"use strict";
const { BLOCK_BYTES, BLOCKS, kept } = require("./turns.js");

for (let i = 0; i < BLOCKS; i++) {
    kept.push(Buffer.alloc(BLOCK_BYTES)); // PLANTED <anonymous>
}
