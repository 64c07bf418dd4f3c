// SPDX-License-Identifier: MIT
// A module, whose name is a URL.
import turns from "./turns.js";

export function leakInModule(count) {
    while (count-- > 0) {
        turns.kept.push(Buffer.alloc(turns.BLOCK_BYTES)); // PLANTED leakInModule
    }
}

turns.run(() => leakInModule(turns.BLOCKS));
