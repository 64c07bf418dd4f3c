// SPDX-License-Identifier: MIT
// Handlers of an event, and a timer that emits it.
"use strict";
const { EventEmitter } = require("node:events");
const { BLOCK_BYTES, BLOCKS, kept, run } = require("./turns.js");

const emitter = new EventEmitter();
emitter.on("data", function onData(bytes) {
    kept.push(Buffer.alloc(bytes)); // PLANTED onData
});

function step() {
    return new Promise((resolve) => {
        setImmediate(function emitAll() {
            for (let i = 0; i < BLOCKS; i++) {
                emitter.emit("data", BLOCK_BYTES);
            }
            resolve();
        });
    });
}

module.exports = { step };
if (require.main === module) {
    run(step);
}
