// One block whose parts are exchanged, from the layer of chapter 7 to one of today, and what a token depends on in a
// stack of such layers.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// test_figure_today.py. The second part draws. Nothing here needs a kernel: the same code runs in the book's static
// page and in JupyterLab.

import { agrees, choice, presets, slider } from "../figures/common/controls.js";
import { announcer, figure, h, newId, s, strip } from "../figures/common/elements.js";
import { dot, gelu, layerNorm, matmul, plus } from "../figures/common/mathematics.js";
import { fill, show } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

const meanOf = (x) => x.reduce((sum, number) => sum + number, 0) / x.length;
const sizeOf = (x) => Math.sqrt(dot(x, x) / x.length);

/** RMSNorm of one row (d,), with a gain of 1. */
export const normed = (x, epsilon = 1e-6) => {
  const size = Math.sqrt(dot(x, x) / x.length + epsilon);
  return x.map((number) => number / size);
};

/** A number times the logistic function of it. */
export const silu = (g) => g / (1 + Math.exp(-g));

/** A query or key (d_k,) at a place, its pairs turned. */
export function turned(x, place, base = 10000) {
  return x.map((number, k) => {
    const pair = k - (k % 2);
    const angle = place * base ** (-pair / x.length);
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    return k === pair ? number * cos - x[k + 1] * sin : x[pair] * sin + number * cos;
  });
}

/** One row (d,) through a gated network: (d, d_ff) twice, then (d_ff, d). */
export function gated(y, gate, up, down) {
  const [content] = matmul([y], up);
  return matmul([matmul([y], gate)[0].map((g, c) => silu(g) * content[c])], down)[0];
}

/** The weights of one row of scores; a sink of -Infinity is none. */
export function sunk(scores, sink = -Infinity) {
  const most = Math.max(sink, ...scores);
  const powers = scores.map((score) => Math.exp(score - most));
  const total = powers.reduce((sum, e) => sum + e, Math.exp(sink - most));
  return powers.map((e) => e / total);
}

/** So many rows of numbers of mean 0 and variance 1: mulberry32, three of its numbers for each of ours. */
export function drawn(seed, rows, columns) {
  let word = seed >>> 0;
  const one = () => {
    word = (word + 0x6d2b79f5) >>> 0;
    let t = Math.imul(word ^ (word >>> 15), word | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return Array.from({ length: rows }, () => Array.from({ length: columns }, () => 2 * (one() + one() + one() - 1.5)));
}

/** The tokens and weights of the example, by name. */
export function weights({ n, d, heads, shift, loud, seed }) {
  const [hidden, few] = [4 * d, Math.floor((8 * d) / 3)];
  const shapes = [
    ["X", n, d, 1.3], ["places", n + shift, d, 0.8],
    ["W_q", d, d, loud / Math.sqrt(d)], ["W_k", d, d, loud / Math.sqrt(d)],
    ["W_v", d, d, d ** -0.5], ["W_o", d, d, d ** -0.5],
    ["W_1", d, hidden, d ** -0.5], ["W_2", hidden, d, hidden ** -0.5],
    ["W_gate", d, few, d ** -0.5], ["W_up", d, few, d ** -0.5], ["W_down", few, d, few ** -0.5],
  ];
  const found = Object.fromEntries(shapes.map(([name, rows, columns, factor], k) =>
    [name, drawn(seed + k, rows, columns).map((row) => row.map((x) => factor * x))]));
  found.X = found.X.map((row) => row.map((x) => x + 0.5));
  found.sinks = Array.from({ length: heads }, (_, t) => -1 + (3.5 * t) / (heads - 1));
  return found;
}

/** How many tokens a token sees in a layer, itself included. */
const sees = (kind, layer, { n, window }) => (kind === "full" || (kind === "mixed" && layer % 3 === 2) ? n : window);

/** For each layer from the last to the first, then for the tokens: which places the chosen token depends on. */
export function reached(token, kind, sizes) {
  const found = [[token]];
  for (let layer = sizes.layers - 1; layer >= 0; layer--) {
    const wide = sees(kind, layer, sizes);
    const first = Math.max(0, Math.min(...found.at(-1)) - wide + 1);
    found.push(Array.from({ length: token - first + 1 }, (_, k) => first + k)); // no gap: windows overlap
  }
  return found;
}

/** All that a state shows: for each part what it does, and the stream of the chosen token. */
export function computed(state, W, sizes) {
  const { d, heads, layers, shift, bytes } = sizes;
  const [wide, kv, i] = [d / heads, Number(state.kv), state.token];
  const isLearned = state.positions === "learned";
  const one = new Array(d).fill(1), zero = new Array(d).fill(0);
  const norm = (x) => (state.norm === "rms" ? normed(x) : layerNorm(x, one, zero));
  const first = Math.max(0, i - sees(state.layers, 0, sizes) + 1);
  const cut = (x, t) => x.slice(t * wide, (t + 1) * wide);

  /** Rows as they enter, normed, and the scores (heads, seen), if the text is moved by some places. */
  function scored(by) {
    const X = W.X.slice(0, i + 1).map((x, j) => (isLearned ? plus(x, W.places[j + by]) : x));
    const Y = X.map(norm);
    const made = (x, t, j) => {
      const vector = state.qk === "on" ? normed(cut(x, t)) : cut(x, t);
      return isLearned ? vector : turned(vector, j + by);
    };
    const [Q] = matmul([Y[i]], W.W_q), K = matmul(Y.slice(first), W.W_k);
    const S = Array.from({ length: heads }, (_, t) => {
      const q = made(Q, t, i);
      return K.map((k, m) => dot(q, made(k, Math.floor((t * kv) / heads), first + m)) / Math.sqrt(wide));
    });
    return { X, Y, S };
  }

  const { X, Y, S } = scored(0);
  const moved = scored(shift).S;
  const A = S.map((row, t) => sunk(row, state.sink === "on" ? W.sinks[t] : -Infinity));
  const V = matmul(Y.slice(first), W.W_v);
  const joined = A.flatMap((row, t) => {
    const shared = V.map((v) => cut(v, Math.floor((t * kv) / heads)));
    return matmul([row], shared)[0];
  });
  const after = plus(X[i], matmul([joined], W.W_o)[0]);
  const isGated = state.network === "swiglu";
  const added = isGated ? gated(norm(after), W.W_gate, W.W_up, W.W_down)
    : matmul([matmul([norm(after)], W.W_1)[0].map(gelu)], W.W_2)[0];
  const rows = Array.from({ length: layers }, (_, layer) => Math.min(i + 1, sees(state.layers, layer, sizes)))
    .reduce((sum, x) => sum + x, 0);
  const per = 2 * kv * wide * bytes;
  const hidden = (isGated ? W.W_gate : W.W_1)[0].length;
  return {
    stream: [X[i], Y[i], after, plus(after, added)],
    mean: meanOf(Y[i]), size: sizeOf(Y[i]),
    hidden, params: (isGated ? 3 : 2) * d * hidden,
    most: Math.max(...S.flat().map(Math.abs)),
    gap: Math.max(...S.flatMap((row, t) => row.map((x, m) => Math.abs(x - moved[t][m])))),
    per, rows, bytes: rows * per,
    reach: reached(i, state.layers, sizes).at(-1).length,
    sums: A.map((row) => row.reduce((sum, a) => sum + a, 0)),
  };
}

// ---- drawing ---------------------------------------------------------------------------------------------

const FULL = 4.5; // a bar of this number has the whole height
const BARS = [360, 34];
const CELL = 15, HIGH = 20, EDGE = 56; // in the grid's own pixels

/** Rows of bars: the token's numbers as they enter, normed, and after each of both sums. */
function streams(text) {
  const kinds = ["", "abh-normed", "abh-attended", "abh-done"];
  const rows = text.strips.map((name, k) => {
    const picture = s("svg", { viewBox: `0 0 ${BARS[0]} ${BARS[1]}`, preserveAspectRatio: "none", role: "img" });
    const size = h("span", { class: "abh-size" });
    return { name, kind: kinds[k], picture, size, node: h("div", { class: "abh-strip" },
      h("span", { class: "abh-strip-name" }, name), picture, size) };
  });
  return {
    node: h("section", { class: "abh-panel" }, h("h4", {}, text.stream), ...rows.map((row) => row.node)),
    set(stream) {
      rows.forEach(({ name, kind, picture, size }, k) => {
        picture.replaceChildren(...strip(stream[k], BARS, FULL, kind));
        const words = { name, mean: show(meanOf(stream[k])), size: show(sizeOf(stream[k])) };
        size.textContent = fill(text.size, words);
        picture.setAttribute("aria-label", fill(text.strip_label, words));
      });
    },
  };
}

/** A grid of layers and tokens: what the chosen token sees in each, and what reaches it through others. */
function grid(text, sizes) {
  const { n, layers } = sizes;
  const y = (row) => 2 + row * (HIGH + 2);
  const cells = Array.from({ length: layers }, (_, row) => Array.from({ length: n }, (_, j) =>
    s("rect", { x: EDGE + j * (CELL + 2), y: y(row), width: CELL, height: HIGH, rx: 3, class: "abh-cell" })));
  const names = Array.from({ length: layers }, (_, row) => s("text", {
    x: EDGE - 8, y: y(row) + 15, class: "abh-tick", "text-anchor": "end",
  }, fill(text.layer, { number: layers - row })));
  const picture = s("svg", { viewBox: `0 0 ${EDGE + n * (CELL + 2)} ${y(layers)}`, role: "img" }, ...cells.flat(), ...names);
  const title = h("h4", {});
  return {
    node: h("section", { class: "abh-panel" }, title, picture),
    set(token, pattern, reach) {
      const found = reached(token, pattern, sizes);
      const seen = Array.from({ length: layers }, (_, layer) => Math.min(token + 1, sees(pattern, layer, sizes)));
      cells.forEach((line, row) => line.forEach((cell, j) => {
        const isSeen = j <= token && j > token - seen[layers - 1 - row];
        const kind = isSeen ? "abh-seen" : found[row + 1].includes(j) ? "abh-reached" : "";
        cell.setAttribute("class", `abh-cell ${kind} ${j === token ? "abh-asks" : ""}`);
      }));
      title.textContent = fill(text.grid, { token: token + 1 });
      picture.setAttribute("aria-label", fill(text.grid_label, {
        layers, n, token: token + 1, seen: seen.join(text.comma), reach,
      }));
    },
  };
}

/** A part of the block: its name, what can be chosen, and a line on what it does now. */
function part(id, name, options, text, onChoose) {
  const chips = choice(`${id}-${name}`, text.parts[name], text.options[name], 0, (k) => onChoose(options[k]));
  const effect = h("span", { class: "abh-effect" });
  return {
    node: h("div", { class: `abh-part abh-part-${name}` }, chips.node, effect),
    set(chosen, words) {
      chips.set(options.indexOf(chosen));
      effect.textContent = fill(text.effect[`${name}_${chosen}`] ?? text.effect[name], words);
    },
  };
}

function render({ model, el }) {
  const text = model.get("text"), sizes = model.get("sizes"), order = model.get("parts"), steps = model.get("steps");
  const W = weights(sizes);
  const id = newId("abh-today");
  let state = { ...steps[0] };
  let about = "norm"; // the part that the summary is about

  const whole = (x) => String(x).replace(/\B(?=(\d{3})+$)/g, text.thousands);
  const change = (what) => {
    state = { ...state, ...what };
    draw();
  };
  const block = presets(text.try, steps, text.steps, (to) => {
    const at = steps.indexOf(to);
    about = at === 0 ? "norm" : order[at - 1][0];
    change({ ...to, token: state.token });
  });
  const parts = order.map(([name, options]) => ({ name, ...part(id, name, options, text, (chosen) => {
    about = name;
    change({ [name]: chosen });
  }) }));
  const token = slider(text.token, { min: 1, max: sizes.n, step: 1 }, (i) => change({ token: i - 1 }), String);
  const stream = streams(text), layers = grid(text, sizes);
  const summary = announcer();
  const root = figure("abh-today", text.title,
    block.node,
    h("div", { class: "abh-parts" }, ...parts.map((one) => one.node)),
    summary.node,
    h("div", { class: "abh-sliders" }, token.node),
    h("div", { class: "abh-panels" }, stream.node, layers.node));

  function draw() {
    const now = computed(state, W, sizes);
    const words = {
      mean: show(now.mean), size: show(now.size), hidden: now.hidden, params: whole(now.params), most: show(now.most),
      limit: show(Math.sqrt(sizes.d / sizes.heads)), gap: now.gap < 1e-9 ? "0" : show(now.gap), per: now.per,
      rows: now.rows, bytes: whole(now.bytes), reach: now.reach, low: show(Math.min(...now.sums)), high: show(Math.max(...now.sums)),
      token: state.token + 1, shift: sizes.shift, window: sizes.window, layers: sizes.layers, kv: state.kv, heads: sizes.heads,
    };
    for (const one of parts) one.set(state[one.name], words);
    block.mark((wanted) => agrees(state, { ...wanted, token: state.token }));
    token.set(state.token + 1);
    stream.set(now.stream);
    layers.set(state.token, state.layers, now.reach);
    root.dataset.now = JSON.stringify({ state, ...now });
    summary.say(fill(text.say[`${about}_${state[about]}`] ?? text.say[about], words));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
