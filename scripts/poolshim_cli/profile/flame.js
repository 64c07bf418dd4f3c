// SPDX-License-Identifier: MIT
// Draws the stacks of #data into #chart, callers above callees: a frame is as wide as its bytes.
// A click or Enter zooms to a frame, Escape and #reset zoom out, #search marks the frames whose name
// contains a text. flame.py puts it into the page. No recursion: stacks may be deep.
"use strict";
const ROW_PX = 18, FRAME_MIN_PX = 1, LABEL_MIN_PX = 24;
const MARKED = "#e600e6";
const all = JSON.parse(document.getElementById("data").textContent);
const chart = document.getElementById("chart");
const details = document.getElementById("details");
const search = document.getElementById("search");
let zoomed = all, wanted = "";

const mib = bytes => (bytes / 1048576).toFixed(Math.abs(bytes) < 104857 ? 3 : 1) + " MiB";
const percent = bytes => (100 * bytes / (all.value || 1)).toFixed(1) + " %";
const label = node => `${node.name}: ${mib(node.value)}, ${percent(node.value)}`
    + (all.is_difference ? `, ${node.delta < 0 ? "" : "+"}${mib(node.delta)}` : "");
const isWanted = node => wanted !== "" && node.name.toLowerCase().includes(wanted);

// Every node once, callers first.
function* nodes() {
    const left = [all];
    while (left.length) {
        const node = left.pop();
        yield node;
        left.push(...node.children);
    }
}

for (const node of nodes())
    for (const child of node.children) child.parent = node;

function colour(node) {
    if (isWanted(node)) return MARKED;
    if (all.is_difference) {
        const share = Math.max(-1, Math.min(1, 4 * node.delta / (all.value || 1)));
        const rest = Math.round(240 * (1 - Math.abs(share)));
        return share < 0 ? `rgb(${rest},${rest},240)` : `rgb(240,${rest},${rest})`;
    }
    let hash = 0;
    for (const letter of node.name) hash = (hash * 31 + letter.codePointAt(0)) % 1000003;
    return `hsl(${hash % 50},80%,${65 + hash % 16}%)`;
}

function frame(node, left, width, depth, isCaller) {
    const made = document.createElement("div");
    made.className = isCaller ? "frame caller" : "frame";
    made.style.cssText = `left:${left}px;top:${depth * ROW_PX}px;width:${width}px`;
    made.style.background = colour(node);
    made.style.color = isWanted(node) ? "#fff" : "";
    made.textContent = width < LABEL_MIN_PX ? "" : node.name;
    made.title = label(node);
    made.tabIndex = 0;
    made.setAttribute("role", "button");
    made.addEventListener("click", () => zoom(node));
    made.addEventListener("keydown", event => event.key === "Enter" && zoom(node));
    for (const kind of ["mouseenter", "focus"])
        made.addEventListener(kind, () => { details.textContent = label(node); });
    return made;
}

// The callers of the zoomed frame have the whole width, its callees share it.
function draw() {
    const width = Math.max(300, chart.clientWidth);
    const made = [], callers = [];
    for (let node = zoomed.parent; node; node = node.parent) callers.unshift(node);
    callers.forEach((node, depth) => made.push(frame(node, 0, width, depth, true)));
    const left = [[zoomed, 0, width, callers.length]];
    let rows = 0;
    while (left.length) {
        const [node, start, wide, depth] = left.pop();
        made.push(frame(node, start, wide, depth, false));
        rows = Math.max(rows, depth + 1);
        let place = start;
        for (const child of node.children) {
            const own = wide * child.value / node.value;
            if (own >= FRAME_MIN_PX) left.push([child, place, own, depth + 1]);
            place += own;
        }
    }
    chart.replaceChildren(...made);
    chart.style.height = `${rows * ROW_PX}px`;
}

function zoom(node) {
    zoomed = node;
    draw();
}

// Of marked frames below one another the outermost counts.
function found() {
    let bytes = 0;
    const left = [all];
    while (left.length) {
        const node = left.pop();
        if (isWanted(node)) bytes += node.value;
        else left.push(...node.children);
    }
    return bytes;
}

search.addEventListener("input", () => {
    wanted = search.value.toLowerCase();
    draw();
    const bytes = wanted ? found() : 0;
    details.textContent = wanted ? `${mib(bytes)}, ${percent(bytes)}` : "";
});
document.getElementById("reset").addEventListener("click", () => zoom(all));
document.addEventListener("keydown", event => event.key === "Escape" && zoom(all));
window.addEventListener("resize", draw);
draw();
