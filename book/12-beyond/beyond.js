// A picture to draw in, a small transformer that looks at it, and where each of its heads looks.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// test_figure_beyond.py. The second part draws. Nothing here asks a kernel: the same code runs in the book's
// static page and in JupyterLab.

import { choice, tries } from "../figures/common/controls.js";
import { announcer, figure, h, newId, s } from "../figures/common/elements.js";
import { affine, dot, gelu, largest, layerNorm, matmul, plus, softmax } from "../figures/common/mathematics.js";
import { fill, percent, show } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** A picture (side, side) -> its patches (n, p * p), row by row, each with its pixels row by row. */
export function patches(image, p) {
  const across = image[0].length / p;
  return Array.from({ length: (image.length / p) * across }, (_, j) => {
    const [top, left] = [Math.floor(j / across) * p, (j % across) * p];
    return image.slice(top, top + p).flatMap((row) => row.slice(left, left + p));
  });
}

/** The other way: patches (n, p * p) -> a picture (side, side). */
export function together(cut, p) {
  const across = Math.sqrt(cut.length);
  return Array.from({ length: across * p }, (_, y) => Array.from({ length: across * p }, (_, x) =>
    cut[Math.floor(y / p) * across + Math.floor(x / p)][(y % p) * p + (x % p)]));
}

/** Patches (n, size) through the model; returns the weights (layers, heads, 1 + n, 1 + n), the class token first, and
 *  the chances of each class. Without `places` no patch knows where it is. */
export function forward(X, model, places = true) {
  const { numbers, num_heads: heads, num_layers: layers } = model;
  const get = (name) => numbers[name];
  const norm = (x, name) => layerNorm(x, get(`${name}.weight`), get(`${name}.bias`));
  const through = (x, name) => affine(x, get(`${name}.weight`), get(`${name}.bias`));

  let stream = X.map((x, j) => (places ? plus(through(x, "embed"), get("places")[j]) : through(x, "embed")));
  stream.unshift(get("token"));
  const width = stream[0].length;
  const wide = width / heads;
  const weights = [];
  for (let layer = 0; layer < layers; layer++) {
    const block = `blocks.${layer}`;
    const qkv = stream.map((x) => through(norm(x, `${block}.norm1`), `${block}.qkv`));
    const cut = (which, t) => qkv.map((row) => row.slice(which * width + t * wide, which * width + (t + 1) * wide));
    weights.push([]);
    const messages = Array.from({ length: heads }, (_, t) => {
      const [Q, K, V] = [0, 1, 2].map((which) => cut(which, t));
      const A = Q.map((q) => softmax(K.map((k) => dot(q, k) / Math.sqrt(wide))));
      weights[layer].push(A);
      return matmul(A, V);
    });
    stream = stream.map((x, i) => plus(x, through(messages.flatMap((Z) => Z[i]), `${block}.out`)));
    stream = stream.map((x) =>
      plus(x, through(through(norm(x, `${block}.norm2`), `${block}.up`).map(gelu), `${block}.down`)));
  }
  return { weights, chances: softmax(through(norm(stream[0], "norm"), "read")) };
}

// ---- drawing ---------------------------------------------------------------------------------------------

const PATCH = 4; // pixels on a side
const SHOWN = 0.1; // a weight from here on is written in its patch
const DARK = 0.35; // and from here on in the paper's colour
// What "Shuffle the patches" does: where each patch comes from. Every patch moves.
const SHUFFLED = [10, 3, 12, 5, 8, 15, 1, 14, 6, 11, 4, 13, 2, 9, 0, 7];

const same = (one, two) => JSON.stringify(one) === JSON.stringify(two);

/** The lines between the patches of a picture. */
const cuts = (side) => Array.from({ length: side / PATCH - 1 }, (_, k) => (k + 1) * PATCH).flatMap((at) => [
  s("line", { x1: at, x2: at, y1: 0, y2: side, class: "abh-cut" }), s("line", { y1: at, y2: at, x1: 0, x2: side, class: "abh-cut" })]);

/** Let a picture be drawn in by a pointer or by keys.
 *
 *  now(): the picture and the pixel with the pen, as [row, column]; paint(place, value): a pixel gets a value;
 *  move(place): the pen goes there.
 */
function hold(board, svg, side, { now, paint, move }) {
  /** The pixel under a pointer, or nothing. */
  function under(event) {
    const box = svg.getBoundingClientRect();
    const place = [event.clientY - box.top, event.clientX - box.left].map((x) => Math.floor((x / box.width) * (side + 0.2) - 0.1));
    return place.every((x) => x >= 0 && x < side) ? place : null;
  }

  let painting = null; // the value that a press paints while it moves
  board.addEventListener("pointerdown", (event) => {
    const place = under(event);
    if (!place) return;
    painting = 1 - now().image[place[0]][place[1]];
    board.setPointerCapture(event.pointerId);
    paint(place, painting);
  });
  board.addEventListener("pointermove", (event) => {
    const { pen } = now();
    const place = painting === null ? null : under(event);
    if (place && (place[0] !== pen[0] || place[1] !== pen[1])) paint(place, painting);
  });
  for (const name of ["pointerup", "pointercancel"]) board.addEventListener(name, () => { painting = null; });
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  board.addEventListener("keydown", (event) => {
    const { image, pen } = now();
    if (event.key in moves) {
      move(pen.map((x, axis) => Math.min(side - 1, Math.max(0, x + moves[event.key][axis]))));
    } else if (event.key === " " || event.key === "Enter") {
      paint(pen, 1 - image[pen[0]][pen[1]]);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation(); // the page would turn
  });
}

/** The picture to draw in, with the pen, and a frame around the patch that asks. */
function canvas(side, text, held) {
  const pixels = Array.from({ length: side }, (_, row) => Array.from({ length: side }, (_, column) =>
    s("rect", { x: column, y: row, width: 1, height: 1, class: "abh-pixel" })));
  const penMark = s("rect", { width: 1, height: 1, class: "abh-pen" });
  const asking = s("rect", { width: PATCH, height: PATCH, class: "abh-asking" });
  const svg = s("svg", { viewBox: `-0.1 -0.1 ${side + 0.2} ${side + 0.2}`, "aria-hidden": "true" },
    ...pixels.flat(), ...cuts(side), asking, penMark);
  const board = h("div", { class: "abh-board", tabindex: "0", role: "application" }, svg);
  hold(board, svg, side, held);
  return {
    node: h("div", { class: "abh-canvas" }, board, h("p", { class: "abh-caption" }, text.draw)),
    set(image, [row, column], asks) {
      pixels.forEach((line, y) => line.forEach((pixel, x) => pixel.classList.toggle("abh-on", image[y][x] === 1)));
      penMark.setAttribute("x", column);
      penMark.setAttribute("y", row);
      asking.setAttribute("x", Math.floor(column / PATCH) * PATCH);
      asking.setAttribute("y", Math.floor(row / PATCH) * PATCH);
      asking.style.display = asks ? "" : "none";
      board.setAttribute("aria-label", fill(text.picture, {
        side, row: row + 1, column: column + 1, pixel: image[row][column] ? text.on : text.off,
      }));
    },
  };
}

/** A head: its weights over the patches of the picture, and below it that of the class token. */
function headPicture(t, side, text) {
  const across = side / PATCH;
  const cells = Array.from({ length: across * across }, (_, j) => {
    const [x, y] = [(j % across) * PATCH, Math.floor(j / across) * PATCH];
    return {
      tint: s("rect", { x, y, width: PATCH, height: PATCH, class: "abh-tint" }),
      number: s("text", { x: x + PATCH / 2, y: y + PATCH / 2 + 0.55, class: "abh-weight" }),
    };
  });
  const svg = s("svg", { viewBox: `0 0 ${side} ${side}`, role: "img" }, ...cells.map((cell) => cell.tint), ...cuts(side),
    ...cells.map((cell) => cell.number));
  const own = h("span", { class: "abh-self" });
  const name = fill(text.head, { number: t + 1 });
  const line = h("div", { class: "abh-head-line" }, h("span", { class: "abh-head-name" }, name), own);
  return {
    node: h("div", { class: "abh-head" }, svg, line),
    set([token, ...weights]) {
      cells.forEach(({ tint, number }, j) => {
        tint.style.setProperty("--a", `${Math.round(100 * weights[j])}%`);
        number.textContent = weights[j] >= SHOWN ? show(weights[j]) : "";
        number.classList.toggle("abh-over", weights[j] >= DARK);
      });
      own.textContent = fill(text.self, { weight: show(token) });
      svg.setAttribute("aria-label", fill(text.weights_picture, {
        head: name, weights: weights.map((a) => show(a)).join(text.comma), token: show(token),
      }));
    },
  };
}

/** A shape and its chance. */
function answer(shape, text) {
  const bar = h("span", { class: "abh-bar" });
  const number = h("span", { class: "abh-share" });
  const name = h("span", { class: "abh-shape" }, text[`shape_${shape}`]);
  const node = h("li", {}, name, number, h("span", { class: "abh-track" }, bar));
  return {
    node,
    set(p, isMost) {
      bar.style.width = `${100 * p}%`;
      number.textContent = percent(p);
      node.classList.toggle("abh-most", isMost);
    },
  };
}

/** How much of the weights (heads, 1 + n) falls on the left half of the picture, on average over the heads. */
function onTheLeft(weights, across) {
  const isLeft = (j) => j > 0 && (j - 1) % across < across / 2;
  return weights.flatMap((row) => row.filter((_, j) => isLeft(j))).reduce((sum, a) => sum + a, 0) / weights.length;
}

function render({ model, el }) {
  const text = model.get("text");
  const vit = model.get("model");
  const shapes = model.get("shapes");
  const [start, swapped, alone] = model.get("starts");
  const others = model.get("others");
  const side = start.length;
  const across = side / PATCH;
  const id = newId("abh-beyond");

  // State: the picture, whether patches know where they are, which layer, who asks, and the pixel with the pen.
  let image = start;
  let places = true;
  let layer = 0;
  let asks = 0; // 0: the class token, 1: the patch with the pen
  let pen = [5, 3]; // row, column
  let other = 0;

  const layers = choice(`${id}-layer`, text.layer, Array.from({ length: vit.num_layers }, (_, l) => String(l + 1)), layer,
    (l) => { layer = l; draw(); });
  const who = choice(`${id}-asks`, text.asks, [text.token, text.patch], asks, (i) => { asks = i; draw(); });
  const board = canvas(side, text, {
    now: () => ({ image, pen }),
    paint(place, value) {
      pen = place;
      image = image.map((row, y) => row.map((pixel, x) => (y === place[0] && x === place[1] ? value : pixel)));
      draw();
    },
    move(place) {
      pen = place;
      draw();
    },
  });
  const heads = Array.from({ length: vit.num_heads }, (_, t) => headPicture(t, side, text));
  const answers = shapes.map((shape) => answer(shape, text));

  /** Another picture, and whether patches know where they are. */
  function present(one, known = true) {
    image = one;
    places = known;
    draw();
  }
  const block = tries(text.try, [
    [text.try_swap, () => present(places && same(image, swapped) ? start : swapped)],
    [text.try_forget, () => present(image, false)],
    [text.try_shuffle, () => { const cut = patches(image, PATCH); present(together(SHUFFLED.map((j) => cut[j]), PATCH)); }],
    [text.try_alone, () => present(alone)],
    [text.try_other, () => { present(others[other % others.length]); other += 1; }],
    [text.try_empty, () => present(image.map((row) => row.map(() => 0)))],
  ]);

  const summary = announcer();
  const root = figure("abh-beyond", text.title,
    block.node,
    h("div", { class: "abh-choices" }, layers.node, who.node),
    summary.node,
    h("div", { class: "abh-look" }, board.node, h("div", { class: "abh-four" }, ...heads.map((head) => head.node))),
    h("p", { class: "abh-caption" }, text.chances),
    h("ul", { class: "abh-answers" }, ...answers.map((one) => one.node)));

  function draw() {
    const now = forward(patches(image, PATCH), vit, places);
    const [row, column] = pen.map((x) => Math.floor(x / PATCH));
    const from = asks ? 1 + row * across + column : 0;
    const shown = now.weights[layer].map((A) => A[from]);
    const left = onTheLeft(shown, across);
    const [most] = largest(now.chances);

    layers.set(layer);
    who.set(asks);
    board.set(image, pen, asks);
    heads.forEach((head, t) => head.set(shown[t]));
    answers.forEach((one, k) => one.set(now.chances[k], k === most));
    root.dataset.now = JSON.stringify({ image, places, layer, from, left, ...now });
    const looks = fill(asks ? text.look_patch : text.look_token, {
      row: row + 1, column: column + 1, left: show(left), layer: layer + 1,
    });
    summary.say(fill(places ? text.say : text.say_forgot, {
      most: text[`shape_${shapes[most]}`], share: percent(now.chances[most]), looks,
    }));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
