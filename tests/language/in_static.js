// SPDX-License-Identifier: MIT
// A static method with a private field, and slow memory that is not from node's pool.
"use strict";
const { BLOCK_BYTES, BLOCKS, kept, run } = require("./turns.js");

class Store {
    static #bytes = BLOCK_BYTES;

    static fill(count) {
        for (let i = 0; i < count; i++) {
            kept.push(Buffer.allocUnsafeSlow(Store.#bytes)); // PLANTED fill
        }
    }
}

function step() {
    Store.fill(BLOCKS);
}

module.exports = { step };
if (require.main === module) {
    run(step);
}
