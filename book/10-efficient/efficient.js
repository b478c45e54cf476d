// Attention on one row of cards in five ways: what each computes, what it holds, and how far it is from the full one.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// test_figure_efficient.py. The second part draws. Nothing here asks a kernel: the same code runs in the
// book's static page and in JupyterLab.

import { agrees, choice, presets, slider } from "../figures/common/controls.js";
import { announcer, figure, h, newId, s } from "../figures/common/elements.js";
import { dot, matmul, softmax } from "../figures/common/mathematics.js";
import { fill, plain } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

const transpose = (A) => A[0].map((_, c) => A.map((row) => row[c]));
const divide = (A) => A.map((row) => { const sum = row.reduce((a, b) => a + b, 0); return row.map((x) => x / sum); });

/** Full attention: weights (n, n) and output (n, d). */
export function full(Q, K, V) {
  const A = matmul(Q, transpose(K)).map((row) => softmax(row.map((x) => x / Math.sqrt(Q[0].length))));
  return { A, Z: matmul(A, V) };
}

/** The same chunk by chunk, by the online softmax: for each query its maximum, its sum and its mixture so far. */
export function chunks(Q, K, V, size) {
  return Q.map((q) => {
    let m = -Infinity, l = 0, z = V[0].map(() => 0);
    for (let j = 0; j < K.length; j += size) {
      const scores = K.slice(j, j + size).map((k) => dot(q, k) / Math.sqrt(q.length));
      const top = Math.max(m, ...scores);
      const keep = Math.exp(m - top), e = scores.map((x) => Math.exp(x - top));
      l = keep * l + e.reduce((a, b) => a + b, 0);
      z = z.map((x, c) => keep * x + e.reduce((sum, w, i) => sum + w * V[j + i][c], 0));
      m = top;
    }
    return z.map((x) => x / l);
  });
}

/** Only keys at a distance of `window` at most. */
export function local(Q, K, V, window) {
  const A = Q.map((q, i) => {
    const from = Math.max(0, i - window), to = Math.min(K.length, i + window + 1);
    const some = softmax(K.slice(from, to).map((k) => dot(q, k) / Math.sqrt(q.length)));
    return K.map((_, j) => some[j - from] ?? 0);
  });
  return { A, Z: matmul(A, V) };
}

/** The feature map elu + 1. */
const phi = (rows) => rows.map((row) => row.map((x) => (x > 0 ? x + 1 : Math.exp(x))));

/** Linear attention: the output through a table (d, d), and the weights that it amounts to. */
export function linear(Q, K, V) {
  const q = phi(Q), k = phi(K), kT = transpose(k);
  const table = matmul(kT, V), sums = kT.map((row) => row.reduce((a, b) => a + b, 0));
  const Z = q.map((row) => { const sum = dot(row, sums); return matmul([row], table)[0].map((x) => x / sum); });
  return { A: divide(matmul(q, kT)), Z };
}

/** (h, n, d) -> (h, n, d): neighbours in groups, so that `count` different ones are left, each group its average. */
export function pooled(heads, count) {
  const share = heads.length / count;
  return heads.map((_, t) => {
    const alike = heads.slice(Math.floor(t / share) * share, Math.floor(t / share) * share + share);
    return alike[0].map((row, i) => row.map((_, c) => alike.reduce((sum, one) => sum + one[i][c], 0) / share));
  });
}

/** How far Z is from the right one: root of the summed squares of the difference, as a share of that of the right one. */
export function apart(Z, right) {
  const flat = (x) => x.flat(Infinity), a = flat(Z), b = flat(right);
  return Math.sqrt(a.reduce((sum, x, i) => sum + (x - b[i]) ** 2, 0) / b.reduce((sum, x) => sum + x * x, 0));
}

/** All that a state shows: for each method pairs, numbers held and cached, errors; and the weights of the head. */
export function compare([Q, K, V], { method, head, chunk, window, num_kv_heads }) {
  const heads = Q.length, n = Q[0].length, d = Q[0][0].length, d_v = V[0][0].length;
  const right = Q.map((_, t) => full(Q[t], K[t], V[t]));
  const some = pooled(K, num_kv_heads), few = pooled(V, num_kv_heads);
  const found = {
    full: right,
    chunks: Q.map((_, t) => ({ A: right[t].A, Z: chunks(Q[t], K[t], V[t], chunk) })),
    window: Q.map((_, t) => local(Q[t], K[t], V[t], window)),
    linear: Q.map((_, t) => linear(Q[t], K[t], V[t])),
    grouped: Q.map((_, t) => full(Q[t], some[t], few[t])),
  };
  let near = 0;
  for (let i = 0; i < n; i++) near += Math.min(n, i + window + 1) - Math.max(0, i - window);
  const pairs = { full: n * n, chunks: n * n, window: near, linear: 0, grouped: n * n };
  const held = { full: n * n, chunks: n * (Math.min(chunk, n) + 2), window: near, linear: d * (d_v + 1), grouped: n * n };
  const each = heads * (d + d_v);
  const cache = { full: each, chunks: each, window: each, linear: 0, grouped: num_kv_heads * (d + d_v) };
  const rows = Object.fromEntries(Object.keys(found).map((name) => [name, {
    pairs: pairs[name], held: held[name], cache: cache[name],
    error: apart(found[name][head].Z, right[head].Z),
    error_all: apart(found[name].map((one) => one.Z), right.map((one) => one.Z)),
  }]));
  let kept = 0;
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) if (Math.abs(i - j) <= window) kept += right[head].A[i][j] / n;
  return { rows, A: found[method][head].A, kept };
}

// ---- drawing ---------------------------------------------------------------------------------------------

const CELL = 12, EDGE = 20; // in the picture's own pixels
const CONTROL = { chunk: "chunks", window: "window", num_kv_heads: "grouped" }; // what belongs to which method

/** The weights of a head as shades, with what a method leaves out and where its chunks end. */
function pattern(letters) {
  const n = letters.length, side = EDGE + n * CELL;
  const cells = Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) =>
    s("rect", { x: EDGE + j * CELL, y: EDGE + i * CELL, width: CELL, height: CELL, class: "abh-cell" })));
  const outline = s("g", { class: "abh-outline" });
  const label = (x, y, word) => s("text", { x, y, class: "abh-tick", "text-anchor": "middle" }, word);
  const picture = s("svg", { viewBox: `0 0 ${side + 2} ${side + 2}`, role: "img" },
    ...cells.flat(), outline,
    ...letters.map((word, j) => label(EDGE + (j + 0.5) * CELL, EDGE - 5, word)),
    ...letters.map((word, i) => label(EDGE - 9, EDGE + (i + 0.5) * CELL + 3.5, word)));
  const title = h("h4", {});
  return {
    node: h("section", { class: "abh-panel" }, title, picture),
    set(A, { method, window, chunk }, name, said) {
      A.forEach((row, i) => row.forEach((a, j) => {
        cells[i][j].style.fillOpacity = a;
        cells[i][j].classList.toggle("abh-out", method === "window" && Math.abs(i - j) > window);
      }));
      const starts = method === "chunks" ? letters.map((_, j) => j).filter((j) => j % chunk === 0) : [];
      outline.replaceChildren(...starts.map((j) => s("rect", {
        x: EDGE + j * CELL, y: EDGE, width: Math.min(chunk, n - j) * CELL, height: n * CELL, class: j === 0 ? "abh-first" : "",
      })));
      title.textContent = name;
      picture.setAttribute("aria-label", said);
    },
  };
}

/** The table of the methods: what each computes and keeps, and how far it is from full attention. */
function costs(names, text, share) {
  const rows = names.map((name, i) => {
    const fields = ["pairs", "held", "cache", "error"].map((what) => {
      const bar = h("i", { "aria-hidden": "true", class: `abh-bar abh-of-${what}` }), number = h("span", {});
      return { what, bar, number, node: h("td", {}, number, h("span", { class: "abh-track" }, bar)) };
    });
    return { name, fields, node: h("tr", {}, h("th", { scope: "row" }, text.methods[i]), ...fields.map((one) => one.node)) };
  });
  const together = h("p", { class: "abh-note" });
  const node = h("section", { class: "abh-panel" }, h("h4", {}, text.table),
    h("table", {}, h("thead", {}, h("tr", {}, ...text.columns.map((word, i) =>
      h("th", { scope: "col" }, word, h("small", {}, text.units[i]))))), h("tbody", {}, ...rows.map((row) => row.node))), together);
  return {
    node,
    set(found, method) {
      for (const { name, fields, node: line } of rows) {
        line.classList.toggle("abh-chosen", name === method);
        for (const { what, bar, number } of fields) {
          const value = found[name][what], longest = Math.max(...names.map((one) => found[one][what]));
          number.textContent = what === "error" ? share(value) : String(value);
          bar.style.width = `${longest < 1e-9 ? 0 : (100 * value) / longest}%`;
        }
      }
      together.textContent = fill(text.of_all, { error: share(found[method].error_all) });
    },
  };
}

function render({ model, el }) {
  const text = model.get("text"), letters = model.get("letters"), qkv = model.get("qkv"), stops = model.get("stops");
  const names = ["full", "chunks", "window", "linear", "grouped"];
  const n = letters.length, id = newId("abh-efficient");
  let state = { ...model.get("state") };

  const change = (what) => { state = { ...state, ...what }; draw(); };
  const method = choice(`${id}-method`, text.method, text.methods, names.indexOf(state.method), (i) => change({ method: names[i] }));
  const head = choice(`${id}-head`, text.head, qkv[0].map((_, t) => String(t + 1)), state.head, (t) => change({ head: t }));
  const sliders = Object.keys(CONTROL).map((name) => ({ name, ...slider(text[name], { min: 0, max: stops[name].length - 1, step: 1 },
    (at) => change({ [name]: stops[name][at], method: CONTROL[name] }), (at) => String(stops[name][at])) }));
  const block = presets(text.try, model.get("tries"), text.tries, change);

  // An error in percent, with a digit more where it is small; "exact" is a word of the text.
  const share = (x) => (x < 1e-9 ? text.exact : fill(text.percent, { number: x < 0.0995 ? plain(100 * x, 1) : String(Math.round(100 * x)) }));
  const weights = pattern(letters);
  const table = costs(names, text, share);
  const summary = announcer();
  const root = figure("abh-efficient", text.title,
    block.node,
    h("div", { class: "abh-choices" }, method.node, head.node),
    h("div", { class: "abh-sliders" }, ...sliders.map((one) => one.node)),
    h("div", { class: "abh-panels" }, weights.node, table.node), summary.node);

  /** What a state shows, in sentences. */
  function told(now) {
    const chosen = now.rows[state.method];
    const words = { head: state.head + 1, pairs: chosen.pairs, held: chosen.held, cache: chosen.cache, all: n * n,
      error: share(chosen.error), window: state.window, kept: share(now.kept), num_kv_heads: state.num_kv_heads,
      whole: now.rows.full.cache };
    const whole = state.method === "grouped" && state.num_kv_heads === qkv[0].length;
    const said = fill(text[`say_${state.method}${whole ? "_all" : ""}`], words);
    const picture = fill(text.pattern_label, { ...words, n, method: text.methods[names.indexOf(state.method)], most: said });
    return { said, picture, title: fill(text.pattern, words) };
  }

  function draw() {
    const now = compare(qkv, state);
    const { said, picture, title } = told(now);
    method.set(names.indexOf(state.method));
    head.set(state.head);
    for (const one of sliders) {
      one.set(stops[one.name].indexOf(state[one.name]));
      one.input.setAttribute("aria-valuetext", String(state[one.name]));
      one.node.classList.toggle("abh-idle", CONTROL[one.name] !== state.method);
    }
    block.mark((wanted) => agrees(state, wanted));
    weights.set(now.A, state, title, picture);
    table.set(now.rows, state.method);
    root.dataset.now = JSON.stringify({ state, rows: now.rows, kept: now.kept });
    summary.say(said);
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
