// SPDX-License-Identifier: MIT
// All planted programs in one process, in turns; without the module, which runs when it is loaded.
"use strict";
const { readdirSync } = require("node:fs");
const { run } = require("./turns.js");

const names = readdirSync(__dirname).filter((one) => /^[ai][tn]_\w+\.js$/.test(one));
const steps = names.map((one) => require(`./${one}`).step);

run(async () => {
    for (const one of steps) {
        await one();
    }
});
