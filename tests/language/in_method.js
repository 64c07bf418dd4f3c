// SPDX-License-Identifier: MIT
// A method of a class, and a call of several lines.
"use strict";
const { BLOCK_BYTES, BLOCKS, kept, run } = require("./turns.js");

class Cache {
    constructor(bytes) {
        this.bytes = bytes;
    }

    add(list) {
        list.push(
            Buffer.alloc(this.bytes), // PLANTED add
        );
    }
}

function step() {
    const cache = new Cache(BLOCK_BYTES);
    for (let i = 0; i < BLOCKS; i++) {
        cache.add(kept);
    }
}

module.exports = { step };
if (require.main === module) {
    run(step);
}
