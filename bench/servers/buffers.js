// SPDX-License-Identifier: MIT
// A proxy in node: buffers of 256 bytes to 512 KiB come from upstream, every fourth is compressed by
// the pool of threads, and the last 300 are cached. When the load ends seven of eight expire and the
// garbage is collected, then nothing happens until standard input ends.
//
//     node --expose-gc buffers.js REQUESTS
'use strict';
const zlib = require('zlib');

const CACHED = 300;
const STAYING = CACHED / 8;
const AT_ONCE = 16;
const requests = Number(process.argv[2]);

let state = 1;
const next = (limit) => {
  state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
  return (state >>> 8) % limit;
};

const cache = new Map();
let started = 0;
let finished = 0;
let bytes = 0;

function keep(key, body) {
  cache.delete(key);
  cache.set(key, body);
  if (cache.size > CACHED) {
    cache.delete(cache.keys().next().value);
  }
}

function finish(key, body) {
  keep(key, body);
  bytes += body.length;
  finished += 1;
  if (started < requests) {
    setImmediate(start);
  } else if (finished === requests) {
    if (bytes === 0) {
      throw new Error('nothing came');
    }
    while (cache.size > STAYING) {
      cache.delete(cache.keys().next().value);
    }
    global.gc();
    console.log('load ended');
    process.stdin.on('end', () => process.exit(0));
    process.stdin.resume();
  }
}

function start() {
  const number = started++;
  const chunks = [];
  let left = 256 << next(12);
  while (left > 0) {
    const chunk = Buffer.allocUnsafeSlow(Math.min(left, 1024 + next(64 << 10)));
    chunk.fill(number & 127);
    chunks.push(chunk);
    left -= chunk.length;
  }
  const body = Buffer.concat(chunks);
  const key = next(4 * CACHED);
  if (number % 4 === 0) {
    zlib.deflate(body, { level: 1 }, (error, packed) => {
      if (error) {
        throw error;
      }
      finish(key, packed);
    });
  } else {
    finish(key, body);
  }
}

for (let i = 0; i < Math.min(AT_ONCE, requests); i++) {
  start();
}
