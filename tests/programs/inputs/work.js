// SPDX-License-Identifier: MIT
// What node programs do: objects, buffers, compression, hashes, worker threads.
const crypto = require('crypto');
const zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

function summarize(seed) {
    const rows = [];
    for (let i = 0; i < 20000; i++) {
        rows.push({ id: i, name: 'row ' + ((i * 7919 + seed) % 1009), list: [i, i % 7, 'x'] });
    }
    rows.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.id - b.id));
    const packed = zlib.gzipSync(JSON.stringify(rows), { level: 6 });
    const restored = zlib.gunzipSync(packed);
    return crypto.createHash('sha256').update(restored).digest('hex');
}

if (!isMainThread) {
    parentPort.postMessage([workerData, summarize(workerData)]);
} else {
    const results = [];
    for (let seed = 1; seed <= 4; seed++) {
        new Worker(__filename, { workerData: seed }).on('message', (message) => {
            results.push(message);
            if (results.length === 4) {
                results.sort((a, b) => a[0] - b[0]);
                console.log('workers: ' + results.length);
                results.forEach((result) => console.log(result[1]));
            }
        });
    }
    console.log('main: ' + summarize(0));
    const buffers = [];
    for (let i = 0; i < 2000; i++) {
        buffers.push(Buffer.alloc(1000 + i * 13, i % 256));
        if (i % 3 === 0) {
            buffers.splice(i % buffers.length, 1);
        }
    }
    console.log(crypto.createHash('sha256').update(Buffer.concat(buffers)).digest('hex'));
}
