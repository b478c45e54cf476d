// A picture to draw in, a small transformer that looks at it, and where each of its heads looks.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// tests/test_figure_beyond.py. The second part draws. figures/common.js stands before this file. Nothing here asks a
// kernel: the same code runs in the book's static page and in JupyterLab.

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
const percent = (p) => `${p > 0.995 && p < 1 ? ">99" : (100 * p).toFixed(0)}%`;

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

  const copy = (one) => one.map((row) => [...row]);
  const patchOf = ([row, column]) => Math.floor(row / PATCH) * across + Math.floor(column / PATCH);

  const layers = choice(`${id}-layer`, text.layer, Array.from({ length: vit.num_layers }, (_, l) => String(l + 1)), layer,
    (l) => { layer = l; draw(); });
  const who = choice(`${id}-asks`, text.asks, [text.token, text.patch], asks, (i) => { asks = i; draw(); });

  // ---- the picture ----

  const pixels = Array.from({ length: side }, (_, row) => Array.from({ length: side }, (_, column) =>
    s("rect", { x: column, y: row, width: 1, height: 1, class: "abh-pixel" })));
  const lines = () => Array.from({ length: across - 1 }, (_, k) => (k + 1) * PATCH).flatMap((at) => [
    s("line", { x1: at, x2: at, y1: 0, y2: side, class: "abh-cut" }), s("line", { y1: at, y2: at, x1: 0, x2: side, class: "abh-cut" })]);
  const penMark = s("rect", { width: 1, height: 1, class: "abh-pen" });
  const asking = s("rect", { width: PATCH, height: PATCH, class: "abh-asking" });
  const canvas = s("svg", { viewBox: `-0.1 -0.1 ${side + 0.2} ${side + 0.2}`, "aria-hidden": "true" },
    ...pixels.flat(), ...lines(), asking, penMark);
  const board = h("div", { class: "abh-board", tabindex: "0", role: "application" }, canvas);

  /** The pixel under a pointer, or nothing. */
  function under(event) {
    const box = canvas.getBoundingClientRect();
    const place = [event.clientY - box.top, event.clientX - box.left].map((x) => Math.floor((x / box.width) * (side + 0.2) - 0.1));
    return place.every((x) => x >= 0 && x < side) ? place : null;
  }

  function set([row, column], value) {
    pen = [row, column];
    if (image[row][column] !== value) {
      image = copy(image);
      image[row][column] = value;
    }
    draw();
  }

  let painting = null; // the value that a press paints while it moves
  board.addEventListener("pointerdown", (event) => {
    const place = under(event);
    if (!place) return;
    painting = 1 - image[place[0]][place[1]];
    board.setPointerCapture(event.pointerId);
    set(place, painting);
  });
  board.addEventListener("pointermove", (event) => {
    const place = painting === null ? null : under(event);
    if (place && (place[0] !== pen[0] || place[1] !== pen[1])) set(place, painting);
  });
  for (const name of ["pointerup", "pointercancel"]) board.addEventListener(name, () => { painting = null; });
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  board.addEventListener("keydown", (event) => {
    if (event.key in moves) {
      pen = pen.map((x, axis) => Math.min(side - 1, Math.max(0, x + moves[event.key][axis])));
      draw();
    } else if (event.key === " " || event.key === "Enter") {
      set(pen, 1 - image[pen[0]][pen[1]]);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation(); // the page would turn
  });

  // ---- the heads ----

  const heads = Array.from({ length: vit.num_heads }, (_, t) => {
    const cells = Array.from({ length: across * across }, (_, j) => {
      const [x, y] = [(j % across) * PATCH, Math.floor(j / across) * PATCH];
      return {
        tint: s("rect", { x, y, width: PATCH, height: PATCH, class: "abh-tint" }),
        number: s("text", { x: x + PATCH / 2, y: y + PATCH / 2 + 0.55, class: "abh-weight" }),
      };
    });
    const svg = s("svg", { viewBox: `0 0 ${side} ${side}`, role: "img" }, ...cells.map((cell) => cell.tint), ...lines(),
      ...cells.map((cell) => cell.number));
    const self = h("span", { class: "abh-self" });
    const name = fill(text.head, { number: t + 1 });
    const line = h("div", { class: "abh-head-line" }, h("span", { class: "abh-head-name" }, name), self);
    return { cells, svg, self, name, node: h("div", { class: "abh-head" }, svg, line) };
  });

  const answers = shapes.map((shape) => {
    const bar = h("span", { class: "abh-bar" });
    const number = h("span", { class: "abh-share" });
    const name = h("span", { class: "abh-shape" }, text[`shape_${shape}`]);
    return { bar, number, node: h("li", {}, name, number, h("span", { class: "abh-track" }, bar)) };
  });

  /** Another picture, and whether patches know where they are. */
  function present(one, known = true) {
    image = copy(one);
    places = known;
    draw();
  }
  const tries = [
    [text.try_swap, () => present(places && same(image, swapped) ? start : swapped)],
    [text.try_alone, () => present(alone)],
    [text.try_shuffle, () => { const cut = patches(image, PATCH); present(together(SHUFFLED.map((j) => cut[j]), PATCH)); }],
    [text.try_forget, () => present(image, false)],
    [text.try_other, () => { present(others[other % others.length]); other += 1; }],
    [text.try_empty, () => present(image.map((row) => row.map(() => 0)))],
  ].map(([name, press]) => button(name, press));

  const summary = announcer();
  const root = figure("abh-beyond", text.title,
    h("div", { class: "abh-choices" }, layers.node, who.node),
    summary.node,
    h("div", { class: "abh-look" },
      h("div", { class: "abh-canvas" }, board, h("p", { class: "abh-caption" }, text.draw)),
      h("div", { class: "abh-four" }, ...heads.map((head) => head.node))),
    h("p", { class: "abh-caption" }, text.chances),
    h("ul", { class: "abh-answers" }, ...answers.map((answer) => answer.node)),
    h("div", { class: "abh-tries", role: "group", "aria-label": text.try },
      h("span", { "aria-hidden": "true" }, text.try), ...tries));

  function draw() {
    const now = forward(patches(image, PATCH), vit, places);
    const from = asks ? 1 + patchOf(pen) : 0;
    const shown = now.weights[layer].map((A) => A[from]);

    layers.set(layer);
    who.set(asks);
    pixels.forEach((row, y) => row.forEach((pixel, x) => pixel.classList.toggle("abh-on", image[y][x] === 1)));
    penMark.setAttribute("x", pen[1]);
    penMark.setAttribute("y", pen[0]);
    asking.setAttribute("x", Math.floor(pen[1] / PATCH) * PATCH);
    asking.setAttribute("y", Math.floor(pen[0] / PATCH) * PATCH);
    asking.style.display = asks ? "" : "none";
    board.setAttribute("aria-label", fill(text.picture, {
      side, row: pen[0] + 1, column: pen[1] + 1, pixel: image[pen[0]][pen[1]] ? text.on : text.off,
    }));
    heads.forEach((head, t) => {
      head.cells.forEach(({ tint, number }, j) => {
        const a = shown[t][j + 1];
        tint.style.setProperty("--a", `${Math.round(100 * a)}%`);
        number.textContent = a >= SHOWN ? show(a) : "";
        number.classList.toggle("abh-over", a >= DARK);
      });
      head.self.textContent = fill(text.self, { weight: show(shown[t][0]) });
      head.svg.setAttribute("aria-label", fill(text.weights_picture, {
        head: head.name, weights: shown[t].slice(1).map((a) => show(a)).join(", "), token: show(shown[t][0]),
      }));
    });
    now.chances.forEach((p, k) => {
      answers[k].bar.style.width = `${100 * p}%`;
      answers[k].number.textContent = percent(p);
    });
    const most = largest(now.chances)[0];
    answers.forEach((answer, k) => answer.node.classList.toggle("abh-most", k === most));

    // How much of the weight falls on the left half, on average over the heads.
    const left = shown.flat().reduce((sum, a, place) => {
      const j = (place % (1 + across * across)) - 1;
      return sum + (j >= 0 && j % across < across / 2 ? a : 0);
    }, 0) / vit.num_heads;
    root.dataset.now = JSON.stringify({ image, places, layer, from, left, ...now });
    const looks = fill(asks ? text.look_patch : text.look_token, {
      row: Math.floor(pen[0] / PATCH) + 1, column: Math.floor(pen[1] / PATCH) + 1, left: show(left), layer: layer + 1,
    });
    summary.say(fill(places ? text.say : text.say_forgot, {
      most: text[`shape_${shapes[most]}`], share: percent(now.chances[most]), looks,
    }));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

const same = (one, two) => JSON.stringify(one) === JSON.stringify(two);

export default { render };
