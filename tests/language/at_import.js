// SPDX-License-Identifier: MIT
// The code of a module, when it is loaded.
"use strict";
const { run } = require("./turns.js");

function step() {
    delete require.cache[require.resolve("./loaded_module.js")];
    require("./loaded_module.js");
}

module.exports = { step };
if (require.main === module) {
    run(step);
}
