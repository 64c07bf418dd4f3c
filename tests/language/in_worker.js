// SPDX-License-Identifier: MIT
// A thread with a heap of its own.
"use strict";
const { Worker, isMainThread, parentPort } = require("node:worker_threads");
const { BLOCK_BYTES, BLOCKS, kept, run } = require("./turns.js");

function leakInWorker() {
    for (let i = 0; i < BLOCKS; i++) {
        kept.push(Buffer.alloc(BLOCK_BYTES)); // PLANTED leakInWorker
    }
}

let worker;

function step() {
    worker ??= new Worker(__filename);
    return new Promise((resolve) => {
        worker.once("message", resolve);
        worker.postMessage("more");
    });
}

module.exports = { step };
if (!isMainThread) {
    parentPort.on("message", () => {
        kept.length = 0;
        leakInWorker();
        parentPort.postMessage("done");
    });
} else if (require.main === module) {
    run(step).then(() => process.exit());
}
