// Attention for one query in two dimensions, to go through step by step and to take hold of.
//
// The first part is the mathematics: pure functions, exported, compared with the course's Python in
// test_figure_qkv.py. The second part draws. Nothing here asks a kernel: the same code runs in the book's
// static page and in JupyterLab.

import { button, choice, stepper, tries } from "../figures/common/controls.js";
import { announcer, figure, h, newId, s } from "../figures/common/elements.js";
import { dot, largest, matmul, softmax } from "../figures/common/mathematics.js";
import { fill, plain, show } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** One query q (d_k), keys K (n, d_k), values V (n, d_v) -> scores (n), powers (n), weights (n), output (d_v). */
export function attend(q, K, V) {
  const scores = K.map((k) => dot(q, k));
  const powers = scores.map((score) => Math.exp(score));
  const weights = softmax(scores);
  const output = V[0].map((_, c) => weights.reduce((sum, a, j) => sum + a * V[j][c], 0));
  return { scores, powers, weights, output };
}

/** Running sums of a_j v_j: n + 1 points, from the origin to the output. */
export function partialSums(weights, V) {
  const points = [V[0].map(() => 0)];
  weights.forEach((a, j) => points.push(points[j].map((p, c) => p + a * V[j][c])));
  return points;
}

// ---- drawing ---------------------------------------------------------------------------------------------

const SIDE = 320; // a plane in its own units
const LIMIT = 4; // how far the query can be pulled
const STEP = 0.1;
const STEPS = ["project", "dot", "exponential", "divide", "add"];

const vector = (v) => `(${v.map((x) => decimals(x)).join(", ")})`;
/** A number as it is where it is whole, and else with so many decimals. */
const decimals = (x, digits = 2) => show(x, Math.abs(x - Math.round(x)) < 1e-9 ? 0 : digits);
/** A positive number with three decimals; what they cannot show is not called zero. */
const share = (x) => (x > 0 && x < 0.0005 ? "<0.001" : show(x, 3));
/** Powers of e, with as many decimals as the smallest of them needs. */
const powerText = (powers) => (x) => (x < 0.0005 ? share(x) : decimals(x, Math.min(...powers) < 0.995 ? 3 : 2));
/** A factor of a product: in brackets where it has a sign. */
const factor = (x) => (x < 0 ? `(${plain(x)})` : plain(x));

/** A plane from `low` to `high` both ways, with its grid, axes and numbers. */
function plane(low, high) {
  const unit = SIDE / (high - low);
  const place = ([x, y]) => [(x - low) * unit, (high - y) * unit];
  const line = (from, to, className) => {
    const [x1, y1] = place(from);
    const [x2, y2] = place(to);
    return s("line", { x1, y1, x2, y2, class: className });
  };
  const grid = s("g", { class: "abh-grid" });
  for (let t = Math.ceil(low); t <= high; t++) {
    const kind = t === 0 ? "abh-axis" : "";
    grid.append(line([t, low], [t, high], kind), line([low, t], [high, t], kind));
    if (t === 0 || t % 2) continue;
    const [x, below] = place([t, 0]);
    const [left, y] = place([0, t]);
    const across = s("text", { x, y: below + 15, class: "abh-tick", "text-anchor": "middle" });
    const up = s("text", { x: left - 6, y: y + 4, class: "abh-tick", "text-anchor": "end" });
    across.textContent = up.textContent = String(t).replace("-", "\u2212");
    grid.append(across, up);
  }
  const layer = s("g");
  const svg = s("svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, role: "img" }, grid, layer);

  /** A line with a head at its end; nothing when it is too short to have a direction. */
  const arrow = (from, to, className, head = 10) => {
    const [x1, y1] = place(from);
    const [x2, y2] = place(to);
    const length = Math.hypot(x2 - x1, y2 - y1);
    const drawn = s("g", { class: `abh-arrow ${className}` });
    if (length < 0.5) return drawn;
    const size = Math.min(head, length * 0.6);
    const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
    const [bx, by] = [x2 - size * ux, y2 - size * uy];
    const wing = size * 0.45;
    drawn.append(
      s("line", { x1, y1, x2: bx, y2: by }),
      s("polygon", { points: `${x2},${y2} ${bx - wing * uy},${by + wing * ux} ${bx + wing * uy},${by - wing * ux}` }),
    );
    return drawn;
  };

  /** A name beside a point, pushed away from the origin, and kept inside the plane. */
  const label = (text, at, className = "", push = 16) => {
    const [x, y] = place(at);
    const length = Math.hypot(...at) || 1;
    const across = at[0] / length;
    const half = 4 * text.length;
    const anchor = Math.abs(across) < 0.6 ? "middle" : across > 0 ? "start" : "end";
    const shift = anchor === "middle" ? 0 : anchor === "start" ? half : -half;
    const middle = Math.min(SIDE - half - 4, Math.max(half + 4, x + push * across + shift));
    const node = s("text", {
      x: middle, y: Math.min(SIDE - 6, Math.max(14, y - (push * at[1]) / length + 5)),
      "text-anchor": "middle", class: `abh-label ${className}`,
    });
    node.textContent = text;
    return node;
  };
  return { low, high, svg, layer, place, line, arrow, label };
}

const COLUMNS = ["key", "score", "power", "weight", "value", "part"];
const FROM = { key: 0, score: 1, power: 2, weight: 3, value: 0, part: 4 }; // the step that fills a column

/** The table: a row for each word, and what its columns sum to. */
function table(tokens, text) {
  const rows = tokens.map((token) => {
    const cells = Object.fromEntries(COLUMNS.map((name) => [name, h("td", { class: `abh-c-${name}` })]));
    const bar = h("div", { class: "abh-bar", "aria-hidden": "true" });
    const number = h("span", {});
    cells.weight.append(number, h("div", { class: "abh-track" }, bar));
    return { row: h("tr", {}, h("th", { scope: "row" }, token), ...Object.values(cells)), cells, bar, number };
  });
  const sums = Object.fromEntries(COLUMNS.map((name) => [name, h("td", { class: `abh-c-${name}` })]));
  const node = h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, text.word),
      ...COLUMNS.map((name) => h("th", { scope: "col", class: `abh-c-${name}` }, text[name])))),
    h("tbody", {}, ...rows.map((r) => r.row)),
    h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, text.total), ...Object.values(sums))));

  return {
    node,
    set(step, K, V, { scores, powers, weights, output }) {
      const total = powers.reduce((sum, p) => sum + p, 0);
      const power = powerText(powers);
      rows.forEach((r, j) => {
        r.row.dataset.score = scores[j];
        r.row.dataset.weight = weights[j];
        const shown = {
          key: vector(K[j]), score: plain(scores[j]), power: power(powers[j]), value: vector(V[j]),
          part: vector(V[j].map((x) => weights[j] * x)),
        };
        for (const [name, value] of Object.entries(shown)) r.cells[name].textContent = step >= FROM[name] ? value : "";
        r.number.textContent = step >= FROM.weight ? share(weights[j]) : "";
        r.bar.style.width = step >= FROM.weight ? `${100 * weights[j]}%` : "0";
      });
      const ends = { power: power(total), weight: "1", part: vector(output) };
      for (const [name, value] of Object.entries(ends)) sums[name].textContent = step >= FROM[name] ? value : "";
    },
  };
}

/** The query among the keys. From the dot product on, each key drops a thread onto the query's line: the score is that
 *  foot times |q|. */
function drawKeys(ask, tokens, q, K, { scores, weights }, step) {
  const length2 = dot(q, q);
  const pointed = length2 > 0.01;
  const far = pointed ? q.map((x) => (x * 9) / Math.sqrt(length2)) : [0, 0];
  const threads = step >= 1 && pointed
    ? [ask.line(far.map((x) => -x), far, "abh-queryline"),
      ...K.map((k, j) => ask.line(k, q.map((x) => (x * scores[j]) / length2), "abh-thread"))]
    : [];
  ask.layer.replaceChildren(
    ...threads,
    ...K.map((k) => ask.arrow([0, 0], k, "abh-k")),
    ...K.map((k, j) => {
      const size = step >= 3 ? 6 + 14 * Math.sqrt(weights[j]) : 9;
      const [cx, cy] = ask.place(k);
      return s("rect", { x: cx - size / 2, y: cy - size / 2, width: size, height: size, rx: 2, class: "abh-kmark" });
    }),
    ask.arrow([0, 0], q, "abh-q", 12),
    ...K.map((k, j) => ask.label(tokens[j], k, "abh-ktext", 18)),
    ask.label("q", pointed ? q : [0.01, 0.01], "abh-qtext", 26),
  );
}

/** The values, and in the last step the sum of their parts. */
function drawValues(mix, tokens, V, { weights, output }, step) {
  const chain = partialSums(weights, V);
  const [zx, zy] = mix.place(output);
  mix.layer.replaceChildren(
    s("polygon", { points: V.map((v) => mix.place(v).join(",")).join(" "), class: "abh-hull" }),
    ...V.map((v) => mix.arrow([0, 0], v, "abh-v abh-faint")),
    ...V.map((v, j) => {
      const [cx, cy] = mix.place(v);
      return s("circle", { cx, cy, r: step >= 3 ? 3 + 7 * Math.sqrt(weights[j]) : 5, class: "abh-vmark" });
    }),
    ...(step < 4 ? [] : [
      ...V.map((_, j) => mix.arrow(chain[j], chain[j + 1], `abh-v abh-part${j % 2}`, 8)),
      mix.line([0, 0], output, "abh-zline"),
      s("polygon", { points: `${zx},${zy - 9} ${zx + 9},${zy} ${zx},${zy + 9} ${zx - 9},${zy}`, class: "abh-zmark" }),
      mix.label("z", output, "abh-ztext", 20),
    ]),
    ...V.map((v, j) => mix.label(tokens[j], v, "abh-vtext", 16)),
  );
}

/** Let the query be dragged over its plane, set by a click, and moved by arrow keys. */
function holdQuery(handle, ask, query, move) {
  const under = (event) => {
    const box = ask.svg.getBoundingClientRect();
    const across = ask.high - ask.low;
    return [((event.clientX - box.left) / box.width) * across + ask.low,
      ask.high - ((event.clientY - box.top) / box.height) * across];
  };
  handle.addEventListener("pointerdown", (event) => {
    handle.setPointerCapture(event.pointerId);
    handle.focus();
    event.preventDefault();
  });
  handle.addEventListener("pointermove", (event) => {
    if (handle.hasPointerCapture(event.pointerId)) move(under(event));
  });
  ask.svg.addEventListener("click", (event) => move(under(event)));
  handle.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!way) return;
    event.preventDefault();
    event.stopPropagation(); // the page uses left and right to turn pages
    const size = event.shiftKey ? 5 * STEP : STEP;
    move(query().map((x, c) => x + size * way[c]));
  });
}

/** Who gets most, in a sentence that knows of ties. */
function best(weights, tokens, text) {
  const most = largest(weights);
  if (most.length === weights.length) return text.all_alike;
  return fill(most.length > 1 ? text.some_alike : text.one_best, { best: most.map((j) => tokens[j]).join(text.and) });
}

/** What sentences say of a query q among keys and values. */
function told(tokens, text, q, K, V, { scores, powers, weights, output }) {
  const power = powerText(powers);
  return {
    query: vector(q), output: vector(output), total: power(powers.reduce((sum, p) => sum + p, 0)),
    best: best(weights, tokens, text),
    weights: tokens.map((token, j) => `${token} ${share(weights[j])}`).join(text.comma),
    dots: tokens.map((token, j) =>
      `${token} ${q.map((x, c) => `${factor(x)}·${factor(K[j][c])}`).join(" + ")} = ${plain(scores[j])}`).join("; "),
    powers: tokens.map((token, j) => `${token} ${power(powers[j])}`).join(text.comma),
    parts: tokens.map((_, j) => `${share(weights[j])}·${vector(V[j])}`).join(" + "),
  };
}

function render({ model, el }) {
  const tokens = model.get("tokens");
  const X = model.get("X");
  const [Q, K, V] = ["W_q", "W_k", "W_v"].map((name) => matmul(X, model.get(name)));
  const text = model.get("text");
  const id = newId("abh-qkv");

  // State: the word that asks, the query as it stands, and the step.
  let chosen = model.get("chosen");
  let step = model.get("step");
  let q = [...Q[chosen]];
  let moved = false;

  const words = choice(id, text.choose, tokens, chosen, choose);
  const walk = stepper(id, text, text.step_names, step, (to) => { step = to; draw(); });

  const ask = plane(-4.5, 4.5);
  const mix = plane(-1, 5);
  const handle = h("button", { type: "button", class: "abh-handle" });
  const stage = h("div", { class: "abh-stage" }, ask.svg, handle);
  const steps = table(tokens, text);

  // Each acts on the query as it stands, and is open where it changes something and stays within reach.
  const turns = [
    [text.try_long, () => q.map((x) => 2 * x)],
    [text.try_zero, () => q.map(() => 0)],
    [text.try_turned, () => q.map((x) => -x)],
  ];
  const reset = button(text.reset, () => choose(chosen));
  const block = tries(text.try, turns.map(([name, to]) => [name, () => {
    step = STEPS.length - 1;
    move(to());
  }]), reset);

  const summary = announcer();
  const root = figure("abh-qkv", text.title,
    h("div", { class: "abh-top" }, words.node, walk.node),
    summary.node,
    h("div", { class: "abh-planes" },
      h("section", { class: "abh-ask", "aria-label": text.ask }, h("h4", {}, text.ask), stage),
      h("section", { class: "abh-mix", "aria-label": text.mix }, h("h4", {}, text.mix),
        h("div", { class: "abh-stage" }, mix.svg))),
    steps.node, block.node);
  holdQuery(handle, ask, () => q, move);

  function choose(i) {
    chosen = i;
    q = [...Q[i]];
    moved = false;
    draw();
  }

  /** Take the query somewhere, shortened along its own direction where it would leave the plane. */
  function move(to) {
    const shrink = Math.min(1, LIMIT / Math.max(...to.map(Math.abs)));
    q = to.map((x) => x * shrink);
    moved = q.some((x, c) => Math.abs(x - Q[chosen][c]) > 1e-9);
    draw();
  }

  function draw() {
    const now = attend(q, K, V);
    const facts = { word: tokens[chosen], x: vector(X[chosen]), ...told(tokens, text, q, K, V, now) };

    words.set(chosen);
    walk.set(step);
    root.dataset.step = step;
    reset.disabled = !moved;
    turns.forEach(([, to], i) => {
      const beyond = Math.max(...to().map(Math.abs)) > LIMIT + 1e-9;
      block.buttons[i].disabled = beyond || q.every((x) => x === 0);
    });
    root.dataset.query = JSON.stringify(q);
    root.dataset.output = JSON.stringify(now.output);
    const [left, top] = ask.place(q);
    handle.style.left = `${(100 * left) / SIDE}%`;
    handle.style.top = `${(100 * top) / SIDE}%`;
    handle.setAttribute("aria-label", fill(text.handle, facts));

    drawKeys(ask, tokens, q, K, now, step);
    ask.svg.setAttribute("aria-label", fill(text.ask_picture, facts));
    drawValues(mix, tokens, V, now, step);
    mix.svg.setAttribute("aria-label", fill(text.mix_picture, facts));
    steps.set(step, K, V, now);
    summary.say(fill(text[step === 0 && moved ? "say_project_moved" : `say_${STEPS[step]}`], facts));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
