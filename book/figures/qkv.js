// Attention for one query in two dimensions, to take hold of and move.
//
// The first part is the mathematics: pure functions, exported, compared with the course's Python in
// tests/test_figure_qkv.py. The second part draws. figures/common.js stands before this file. Nothing here asks a
// kernel: the same code runs in the book's static page and in JupyterLab.

// ---- mathematics -----------------------------------------------------------------------------------------

/** One query q (d_k), keys K (n, d_k), values V (n, d_v) -> scores (n), weights (n), output (d_v). */
export function attend(q, K, V) {
  const scores = K.map((k) => dot(q, k));
  const weights = softmax(scores);
  const output = V[0].map((_, c) => weights.reduce((sum, a, j) => sum + a * V[j][c], 0));
  return { scores, weights, output };
}

/** Running sums of a_j v_j: n + 1 points, from the origin to the output. */
export function partialSums(weights, V) {
  const points = [V[0].map(() => 0)];
  weights.forEach((a, j) => points.push(points[j].map((p, c) => p + a * V[j][c])));
  return points;
}

/** Corners of the convex hull of points in the plane, anticlockwise (Andrew's monotone chain). */
export function convexHull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const half = (list) => {
    const chain = [];
    for (const p of list) {
      while (chain.length > 1 && turn(chain.at(-2), chain.at(-1), p) <= 0) chain.pop();
      chain.push(p);
    }
    return chain.slice(0, -1);
  };
  return [...half(sorted), ...half(sorted.reverse())];
}

// ---- drawing ---------------------------------------------------------------------------------------------

const RANGE = 2.6; // the planes show -RANGE to RANGE
const LIMIT = 2.4; // how far the query can be pulled
const HALF = 160; // half the width of a plane in its own units
const UNIT = HALF / RANGE;
const STEP = 0.1;

const clamp = (x) => Math.min(LIMIT, Math.max(-LIMIT, x));
const place = ([x, y]) => [HALF + UNIT * x, HALF - UNIT * y];

function line(from, to, className) {
  const [x1, y1] = place(from);
  const [x2, y2] = place(to);
  return s("line", { x1, y1, x2, y2, class: className });
}

/** A line with a head at its end; nothing when it is too short to have a direction. */
function arrow(from, to, className, head = 9) {
  const [x1, y1] = place(from);
  const [x2, y2] = place(to);
  const length = Math.hypot(x2 - x1, y2 - y1);
  const group = s("g", { class: `abh-arrow ${className}` });
  if (length < 0.5) return group;
  const size = Math.min(head, length * 0.6);
  const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
  const [bx, by] = [x2 - size * ux, y2 - size * uy];
  const wing = size * 0.45;
  group.append(
    s("line", { x1, y1, x2: bx, y2: by }),
    s("polygon", { points: `${x2},${y2} ${bx - wing * uy},${by + wing * ux} ${bx + wing * uy},${by - wing * ux}` }),
  );
  return group;
}

/** A name beside a point, pushed away from the origin so that it stays clear of the arrow. */
function label(text, at, className = "", push = 15) {
  const [x, y] = place(at);
  const length = Math.hypot(...at) || 1;
  const across = at[0] / length;
  const nearEdge = Math.abs(at[0]) > 0.6 * RANGE; // there a name beside the point would be cut off
  const anchor = Math.abs(across) < 0.6 || nearEdge ? "middle" : across > 0 ? "start" : "end";
  const node = s("text", {
    x: x + push * across,
    y: Math.min(2 * HALF - 8, Math.max(14, y - (push * at[1]) / length + 4)),
    "text-anchor": anchor,
    class: `abh-label ${className}`,
  });
  node.textContent = text;
  return node;
}

/** Grid, axes and their numbers: the same on both planes. */
function grid() {
  const group = s("g", { class: "abh-grid" });
  for (const t of [-2, -1, 0, 1, 2]) {
    const kind = t === 0 ? "abh-axis" : "";
    group.append(line([t, -RANGE], [t, RANGE], kind), line([-RANGE, t], [RANGE, t], kind));
    if (t === 0) continue;
    const [x] = place([t, 0]);
    const [, y] = place([0, t]);
    const across = s("text", { x, y: HALF + 13, class: "abh-tick", "text-anchor": "middle" });
    const up = s("text", { x: HALF - 5, y: y + 4, class: "abh-tick", "text-anchor": "end" });
    across.textContent = up.textContent = String(t).replace("-", "\u2212");
    group.append(across, up);
  }
  return group;
}

function plane() {
  const layer = s("g");
  const svg = s("svg", { viewBox: `0 0 ${2 * HALF} ${2 * HALF}`, role: "img" }, grid(), layer);
  return { svg, layer };
}

function render({ model, el }) {
  const tokens = model.get("tokens");
  const [Q, K, V] = ["Q", "K", "V"].map((name) => model.get(name));
  const text = model.get("text");
  const id = newId("abh-qkv");

  // State: the word that was chosen, and the query as it stands.
  let chosen = model.get("chosen");
  let q = [...Q[chosen]];
  let moved = false;

  const words = choice(id, text.choose, tokens, chosen, choose);

  // 1. the plane of queries and keys
  const ask = plane();
  const handle = h("button", { type: "button", class: "abh-handle" });
  const stage = h("div", { class: "abh-stage" }, ask.svg, handle);
  const sliders = [text.first, text.second].map((name, axis) =>
    slider(name, { min: -LIMIT, max: LIMIT, step: STEP / 2 }, (x) => move(axis === 0 ? [x, q[1]] : [q[0], x])));
  const reset = h("button", { type: "button", class: "abh-reset" }, text.reset);
  reset.addEventListener("click", () => choose(chosen));

  // 2. scores and weights
  const rows = tokens.map((token) => {
    const score = h("td", { class: "abh-score" });
    const bar = h("div", { class: "abh-bar" });
    const weight = h("td", { class: "abh-weight" });
    const row = h("tr", {}, h("th", { scope: "row" }, token), score,
      h("td", { class: "abh-track", "aria-hidden": "true" }, bar), weight);
    return { row, score, bar, weight };
  });
  const table = h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, text.word), h("th", { scope: "col" }, text.score),
      h("th", { scope: "col", colspan: 2 }, text.weight))),
    h("tbody", {}, ...rows.map((r) => r.row)),
    h("tfoot", {}, h("tr", {}, h("td", { colspan: 3 }, text.total), h("td", { class: "abh-weight" }, "1.00"))));

  // 3. the plane of values
  const mix = plane();
  const result = h("p", { class: "abh-result" });
  const summary = announcer();

  const root = figure("abh-qkv", text.title, words.node,
    h("div", { class: "abh-panels" },
      panel(id, 1, text.ask, text.ask_note, stage, h("div", { class: "abh-sliders" }, ...sliders.map((x) => x.row)), reset),
      panel(id, 2, text.weigh, text.weigh_note, table),
      panel(id, 3, text.mix, text.mix_note, h("div", { class: "abh-stage" }, mix.svg), result, summary.node)));

  function choose(i) {
    chosen = i;
    q = [...Q[i]];
    moved = false;
    draw();
  }

  function move(to) {
    q = to.map(clamp);
    moved = true;
    draw();
  }

  /** The point of the plane under the pointer. */
  function under(event) {
    const box = ask.svg.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * 2 * RANGE - RANGE,
      RANGE - ((event.clientY - box.top) / box.height) * 2 * RANGE];
  }

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
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation(); // the page uses left and right to turn pages
    const size = event.shiftKey ? 5 * STEP : STEP;
    move(q.map((x, c) => x + size * step[c]));
  });

  function draw() {
    const { scores, weights, output } = attend(q, K, V);
    const best = weights.indexOf(Math.max(...weights));
    const facts = {
      word: tokens[chosen], query: showVector(q), best: tokens[best],
      percent: Math.round(100 * weights[best]), output: showVector(output),
      weights: tokens.map((token, j) => `${token} ${show(weights[j])}`).join(", "),
    };

    words.set(chosen);
    sliders.forEach((x, axis) => x.set(q[axis]));
    reset.disabled = !moved;
    const [left, top] = place(q);
    handle.style.left = `${(100 * left) / (2 * HALF)}%`;
    handle.style.top = `${(100 * top) / (2 * HALF)}%`;
    handle.setAttribute("aria-label", fill(text.handle, facts));

    // Each key drops a thread onto the line of the query: the score is that foot's distance times |q|.
    const length2 = dot(q, q);
    const feet = K.map((k, j) => (length2 > 0.01 ? q.map((x) => (x * scores[j]) / length2) : [0, 0]));
    const far = length2 > 0.01 ? q.map((x) => (x * 4) / Math.sqrt(length2)) : [0, 0];
    ask.layer.replaceChildren(
      line(far.map((x) => -x), far, "abh-queryline"),
      ...K.map((k, j) => line(k, feet[j], "abh-thread")),
      ...K.map((k) => arrow([0, 0], k, "abh-k")),
      ...K.map(([x, y], j) => {
        const size = 5 + 12 * Math.sqrt(weights[j]);
        const [cx, cy] = place([x, y]);
        return s("rect", { x: cx - size / 2, y: cy - size / 2, width: size, height: size, rx: 2, class: "abh-kmark" });
      }),
      arrow([0, 0], q, "abh-q", 12),
      ...K.map((k, j) => label(tokens[j], k, "abh-ktext", 14 + 6 * weights[j])),
      label("q", q, "abh-qtext", 22),
    );
    ask.svg.setAttribute("aria-label", fill(text.ask_picture, facts));

    rows.forEach((r, j) => {
      r.row.dataset.score = scores[j];
      r.row.dataset.weight = weights[j];
      r.row.classList.toggle("abh-best", j === best);
      r.score.textContent = show(scores[j]);
      r.weight.textContent = show(weights[j]);
      r.bar.style.width = `${100 * weights[j]}%`;
    });

    const sums = partialSums(weights, V);
    const [zx, zy] = place(output);
    mix.layer.replaceChildren(
      s("polygon", { points: convexHull(V).map((p) => place(p).join(",")).join(" "), class: "abh-hull" }),
      ...V.map((v) => arrow([0, 0], v, "abh-v abh-faint")),
      ...V.map((v, j) => {
        const [cx, cy] = place(v);
        return s("circle", { cx, cy, r: 3 + 6 * Math.sqrt(weights[j]), class: "abh-vmark" });
      }),
      ...V.map((v, j) => arrow(sums[j], sums[j + 1], `abh-v abh-part${j % 2}`, 8)),
      line([0, 0], output, "abh-zline"),
      s("polygon", { points: `${zx},${zy - 9} ${zx + 9},${zy} ${zx},${zy + 9} ${zx - 9},${zy}`, class: "abh-zmark" }),
      ...V.map((v, j) => label(tokens[j], v, "abh-vtext", 14 + 4 * weights[j])),
      label("z", output, "abh-ztext", 19),
    );
    mix.svg.setAttribute("aria-label", fill(text.mix_picture, facts));
    result.textContent = fill(text.result, facts);
    root.dataset.output = JSON.stringify(output);

    summary.say(fill(moved ? text.summary_moved : text.summary, facts));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
