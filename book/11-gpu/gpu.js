// Attention tile by tile: which numbers travel between memory and the chip, and how many bytes that makes.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// test_figure_gpu.py. The second part draws. Nothing here asks a kernel: the same code runs in the book's
// static page and in JupyterLab.

import { agrees, choice, paces, presets, slider } from "../figures/common/controls.js";
import { announcer, figure, h, newId, s } from "../figures/common/elements.js";
import { fill, inARow, show } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** The tiles (i, j) in the order in which they are worked at, row by row; causal leaves out those above the diagonal. */
export function tiles({ rows, columns, causal }, { n }) {
  const list = [];
  for (let i = 0; i < n / rows; i++) {
    for (let j = 0; j < n / columns; j++) {
      if (!causal || j * columns < (i + 1) * rows) list.push({ i, j });
    }
  }
  for (const [k, tile] of list.entries()) {
    tile.first = k === 0 || list[k - 1].i !== tile.i;
    tile.last = k === list.length - 1 || list[k + 1].i !== tile.i;
  }
  return list;
}

/** Bytes read and written after so many tiles. */
export function tiled(state, sizes) {
  const { d, size } = sizes;
  const moved = { read: 0, written: 0 };
  for (const { first, last } of tiles(state, sizes).slice(0, state.step)) {
    moved.read += size * d * (2 * state.columns + (first ? state.rows : 0));
    if (last) moved.written += size * d * state.rows;
  }
  return moved;
}

/** Bytes read and written after so many of the three steps that keep a table of scores. */
export function naive(step, { n, d, size }) {
  const steps = [[2 * n * d, n * n], [n * n, n * n], [n * n + n * d, n * d]];
  const moved = { read: 0, written: 0 };
  for (const [read, written] of steps.slice(0, step)) {
    moved.read += size * read;
    moved.written += size * written;
  }
  return moved;
}

/** Bytes on the chip: a block of Q, tiles of K and V, and, wider, a tile of scores and the sums of Z. */
export function chip({ rows, columns }, { d, size, sum_size }) {
  return [size * rows * d, size * columns * d, size * columns * d, sum_size * rows * columns, sum_size * rows * d];
}

/** Everything that the figure shows of a state. */
export function look(state, sizes) {
  const all = tiles(state, sizes);
  const steps = state.way === "naive" ? 3 : all.length;
  const moved = state.way === "naive" ? naive(state.step, sizes) : tiled(state, sizes);
  const held = chip(state, sizes);
  // What products read lies in shared memory, what they add to in registers.
  const rooms = [held.slice(0, 3), held.slice(3)].map((some) => some.reduce((sum, x) => sum + x, 0));
  return { steps, moved, whole: naive(3, sizes), held, rooms, fits: rooms.every((own, k) => own <= sizes.limits[k]),
    skipped: (sizes.n / state.rows) * (sizes.n / state.columns) - all.length };
}

/** Bytes with a unit, in thousands. */
export function inBytes(x) {
  if (x < 1000) return `${x} bytes`;
  return x < 1e6 ? `${Math.round(x / 1e3)} KB` : `${(x / 1e6).toFixed(1)} MB`;
}

/** Bytes as a chip's memories are given: in units of 1024. */
export const inKiB = (x) => `${Math.round(x / 1024).toLocaleString("en")} KiB`;

// ---- drawing ---------------------------------------------------------------------------------------------

const BOX = { x: 62, y: 84, side: 204, strip: 20 };

/** A strip of blocks, lying or standing; `lit` says which blocks are full. */
function blocks(name, x, y, lying, count, lit) {
  const length = BOX.side / count;
  return Array.from({ length: count }, (_, k) => s("rect", {
    class: `abh-strip abh-of-${name}${lit(k) ? " abh-lit" : ""}`,
    x: lying ? x + k * length : x, y: lying ? y : y + k * length,
    width: lying ? length : BOX.strip, height: lying ? BOX.strip : length }));
}

/** The four strips around the square; `lit` says of each which of its blocks are full. */
function strips(high, wide, lit) {
  const { x, y, side } = BOX;
  return [...blocks("q", x - 34, y, false, high, lit.q), ...blocks("k", x, y - 56, true, wide, lit.k),
    ...blocks("v", x, y - 30, true, wide, lit.v), ...blocks("z", x + side + 14, y, false, high, lit.z)];
}

/** The naive way: all scores at once, as one table in memory. */
function asTable(step) {
  const { x, y, side } = BOX;
  const kind = ["todo", "scores", "weights", "weights"][step];
  const lit = { q: () => step === 1, k: () => step === 1, v: () => step === 3, z: () => step >= 3 };
  return [...strips(1, 1, lit), s("rect", { class: `abh-tile abh-${kind}`, x, y, width: side, height: side })];
}

/** Tile by tile: which are done, which is worked at, which are left out. */
function asTiles(state, sizes) {
  const [high, wide] = [sizes.n / state.rows, sizes.n / state.columns];
  const all = tiles(state, sizes);
  const now = all[state.step - 1];
  const parts = strips(high, wide, {
    q: (k) => now?.i === k, k: (k) => now?.j === k, v: (k) => now?.j === k,
    z: (k) => now && (k < now.i || (k === now.i && now.last)),
  });
  const place = new Map(all.map((tile, k) => [`${tile.i},${tile.j}`, k]));
  const [w, t] = [BOX.side / wide, BOX.side / high];
  for (let i = 0; i < high; i++) {
    for (let j = 0; j < wide; j++) {
      const k = place.get(`${i},${j}`);
      const kind = k === undefined ? "skipped" : k === state.step - 1 ? "now" : k < state.step ? "past" : "todo";
      const [left, top] = [BOX.x + j * w, BOX.y + i * t];
      parts.push(s("rect", { class: `abh-tile abh-${kind}`, x: left + 1, y: top + 1, width: w - 2, height: t - 2 }));
      if (kind === "skipped") {
        parts.push(s("path", { class: "abh-cross", d: `M${left + 3} ${top + 3}L${left + w - 3} ${top + t - 3}` }));
      }
    }
  }
  return parts;
}

/** The names of the matrices, and the diagonal where it matters. */
function lettering({ causal }) {
  const { x, y, side } = BOX;
  const names = [["Q", x - 40, y + 15, "end"], ["K", x - 8, y - 41, "end"], ["V", x - 8, y - 15, "end"],
    ["Z", x + side + 24, y - 8, "middle"]];
  return [
    ...(causal ? [s("path", { class: "abh-diagonal", d: `M${x} ${y}L${x + side} ${y + side}` })] : []),
    ...names.map(([name, left, top, anchor]) => s("text", { class: "abh-name", x: left, y: top, "text-anchor": anchor }, name)),
  ];
}

/** The matrices in memory: strips of Q, K, V and Z, and the square of scores between them. */
function inMemory(text, sizes) {
  const picture = s("svg", { viewBox: "0 18 326 278", role: "img" });
  const note = h("p", { class: "abh-note" });
  return {
    node: h("section", { class: "abh-panel abh-memory", "aria-label": text.memory }, h("h4", {}, text.memory), note, picture),
    set(state, words, said) {
      const naively = state.way === "naive";
      note.textContent = fill(naively ? text.table : text.no_table, words);
      picture.setAttribute("aria-label", said);
      picture.replaceChildren(...(naively ? asTable(state.step) : asTiles(state, sizes)), ...lettering(state));
    },
  };
}

/** What lies on the chip: a row for each part, its shape and its bytes, and below the parts of each room how much of
 *  it they take; the naive way's results only pass through. */
function onChip(text, { d, limits }) {
  const cells = text.parts.map(() => [h("td", {}), h("td", {})]);
  const rows = text.parts.map((name, k) => h("tr", {}, h("th", { scope: "row" }, h("i", { class: `abh-part-${k}` }), name), ...cells[k]));
  const totals = text.rooms.map((name) => {
    const share = h("td", { colspan: "2" });
    return { share, node: h("tr", { class: "abh-total" }, h("th", { scope: "row" }, name), share) };
  });
  const held = h("table", {}, h("tbody", {}, ...rows.slice(0, 3), totals[0].node, ...rows.slice(3), totals[1].node));
  const limit = h("p", { class: "abh-limit" }, text.limit);
  const passing = h("p", { class: "abh-passing" }, text.passing);
  return {
    node: h("section", { class: "abh-panel abh-chip", "aria-label": text.chip }, h("h4", {}, text.chip), held, limit, passing),
    set({ way, rows: high, columns }, seen) {
      held.hidden = limit.hidden = way === "naive";
      passing.hidden = way !== "naive";
      const shapes = [[high, d], [columns, d], [columns, d], [high, columns], [high, d]];
      cells.forEach(([shape, bytes], k) => {
        shape.textContent = shapes[k].join(" × ");
        bytes.textContent = inKiB(seen.held[k]);
      });
      totals.forEach(({ share, node }, k) => {
        share.textContent = fill(text.room, { held: Math.round(seen.rooms[k] / 1024), limit: inKiB(limits[k]) });
        node.classList.toggle("abh-too-much", seen.rooms[k] > limits[k]);
      });
    },
  };
}

/** Bars for the bytes that were read and written so far, and for the naive way's in all. */
function traffic(text) {
  const bars = ["so_far", "whole"].map((name) => {
    const read = h("div", { class: "abh-read" });
    const written = h("div", { class: "abh-written" });
    const number = h("span", { class: "abh-number-of" });
    return { read, written, number, node: h("div", { class: "abh-moved-row" }, h("span", {}, text[name]), number,
      h("div", { class: "abh-bar", "aria-hidden": "true" }, read, written)) };
  });
  const key = ["read", "written"].map((name) => h("span", { class: "abh-key" }, h("i", { class: `abh-${name}` }), text[name]));
  return {
    node: h("section", { class: "abh-panel abh-traffic", "aria-label": text.moved },
      h("h4", {}, text.moved, h("span", { class: "abh-keys" }, ...key)), ...bars.map((bar) => bar.node)),
    set(seen) {
      const most = seen.whole.read + seen.whole.written;
      [seen.moved, seen.whole].forEach((moved, k) => {
        bars[k].read.style.width = `${(100 * moved.read) / most}%`;
        bars[k].written.style.width = `${(100 * moved.written) / most}%`;
        bars[k].number.textContent = inBytes(moved.read + moved.written);
      });
    },
  };
}

/** Which rows of a matrix a tile has: "129 to 256". */
const span = (k, length, text) =>
  fill(text.span, { first: (k * length + 1).toLocaleString("en"), last: ((k + 1) * length).toLocaleString("en") });

/** What happens in a step, in sentences. */
function told(state, sizes, seen, words, text) {
  if (state.step === 0) return fill(text.begin, words);
  if (state.way === "naive") return fill(text.naive_steps[state.step], words);
  const tile = tiles(state, sizes)[state.step - 1];
  const said = [text.tile];
  if (state.step === seen.steps) said.push(text.done);
  else said.push(tile.last ? text.last : tile.first ? text.first : text.middle);
  if (seen.skipped) said.push(text.skipped);
  if (!seen.fits) said.push(text.too_much);
  return fill(inARow(said), { ...words, step: state.step, steps: seen.steps, i: span(tile.i, state.rows, text),
    j: span(tile.j, state.columns, text), skipped: seen.skipped, all: seen.skipped + seen.steps });
}

function render({ model, el }) {
  const text = model.get("text");
  const sizes = model.get("sizes");
  const sides = model.get("sides");
  const id = newId("abh-gpu");
  const ways = ["tiled", "naive"];
  let state = { ...model.get("state") };

  // A change of tiles keeps its place: the same share of the work is done.
  const change = (what) => {
    const done = state.step / look(state, sizes).steps;
    state = { ...state, ...what };
    state.step = state.step === 0 ? 0 : Math.max(1, Math.round(done * look(state, sizes).steps));
    draw();
  };
  const move = (step) => { state = { ...state, step }; draw(); };

  const way = choice(`${id}-way`, text.way, ways.map((name) => text.ways[name]), 0, (i) => change({ way: ways[i] }));
  const rows = choice(`${id}-rows`, text.rows, sides.map(String), 0, (i) => change({ rows: sides[i] }));
  const columns = choice(`${id}-columns`, text.columns, sides.map(String), 0, (i) => change({ columns: sides[i] }));
  const mask = choice(`${id}-mask`, text.mask, text.masks, 0, (i) => change({ causal: i === 1 }));
  const steps = slider(text.step, { min: 0, max: 1, step: 1 }, move, (x) => `${x} / ${look(state, sizes).steps}`);
  const walk = paces(text, move);
  const block = presets(text.try, model.get("tries"), text.tries, (wanted) => { state = { ...wanted }; draw(); });

  const [memory, held, moved] = [inMemory(text, sizes), onChip(text, sizes), traffic(text)];
  const summary = announcer();
  const root = figure("abh-gpu", text.title,
    block.node,
    h("div", { class: "abh-choices" }, way.node, mask.node, rows.node, columns.node),
    h("div", { class: "abh-walk" }, walk.back, steps.node, walk.next),
    h("div", { class: "abh-panels" }, memory.node, h("div", { class: "abh-side" }, held.node, moved.node)),
    summary.node);

  function draw() {
    const seen = look(state, sizes);
    const [most, soFar] = [seen.whole, seen.moved].map(({ read, written }) => read + written);
    const table = inBytes(sizes.size * sizes.n ** 2);
    const words = { n: sizes.n.toLocaleString("en"), d: sizes.d, bytes: table, table, moved: inBytes(soFar),
      naive: inBytes(most), ratio: show(most / soFar, 1) };
    const said = told(state, sizes, seen, words, text);

    way.set(ways.indexOf(state.way));
    rows.set(sides.indexOf(state.rows));
    columns.set(sides.indexOf(state.columns));
    mask.set(state.causal ? 1 : 0);
    for (const one of [rows, columns]) {
      for (const input of one.node.querySelectorAll("input")) input.disabled = state.way === "naive";
    }
    steps.input.max = seen.steps;
    steps.set(state.step);
    walk.set(state.step, seen.steps);
    block.mark((wanted) => agrees(state, wanted));
    memory.set(state, words, said);
    held.set(state, seen);
    moved.set(seen);
    root.dataset.now = JSON.stringify({ state, ...seen });
    summary.say(said);
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
