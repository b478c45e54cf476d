// One layer of attention over words in any order, to see what moves with them and what doesn't.
//
// The first part is the mathematics: pure functions, exported, compared with the course's Python in
// tests/test_figure_position.py. The second part draws. figures/common.js stands before this file. Nothing here asks a
// kernel: the same code runs in the book's static page and in JupyterLab.

// ---- mathematics -----------------------------------------------------------------------------------------

/** One position -> d numbers: sine and cosine of d / 2 angles, from fast to slow. */
export function encodePosition(p, d, base = 10000) {
  return Array.from({ length: d }, (_, c) => {
    const angle = p / base ** ((c - (c % 2)) / d);
    return c % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/** A query or key x (d) at position p, each pair of columns turned by its own angle -> (d). */
export function rotate(x, p, base = 10000) {
  return x.map((value, c) => {
    const angle = p * base ** (-(c - (c % 2)) / x.length);
    return value * Math.cos(angle) + (c % 2 ? x[c - 1] : -x[c + 1]) * Math.sin(angle);
  });
}

/**
 * Words X (n, d_model) in the order they stand -> weights (n, n), outputs (n, d_v).
 *
 * `encoding` is none, sinusoidal or rotary; `strength` multiplies what is added, or the angle of the turn.
 */
export function layer(X, W_q, W_k, W_v, encoding, strength) {
  const rows = encoding === "sinusoidal"
    ? X.map((x, p) => encodePosition(p, x.length).map((e, c) => x[c] + strength * e))
    : X;
  let [Q, K] = [matmul(rows, W_q), matmul(rows, W_k)];
  if (encoding === "rotary") [Q, K] = [Q, K].map((M) => M.map((x, p) => rotate(x, strength * p)));
  const root = Math.sqrt(W_q[0].length);
  const weights = Q.map((q) => softmax(K.map((k) => dot(q, k) / root)));
  return { weights, outputs: matmul(weights, matmul(rows, W_v)) };
}

/** Row i of the result is row order[i]: P X. */
export function reorder(rows, order) {
  return order.map((i) => rows[i]);
}

/** The word at place `from`, put at place `to`; those between move up by one. */
export function moveWord(order, from, to) {
  const rest = order.filter((_, place) => place !== from);
  return [...rest.slice(0, to), order[from], ...rest.slice(to)];
}

/**
 * How far outputs (n, d_v) in a new order are from those in the old one: largest changes.
 *
 * each: n numbers, one a word, by their old places; words: the largest of them; places: place by place; mean: of the mean.
 */
export function changes(before, now, order) {
  const far = (a, b) => Math.max(...a.map((x, c) => Math.abs(x - b[c])));
  const mean = (Z) => Z[0].map((_, c) => Z.reduce((sum, z) => sum + z[c], 0) / Z.length);
  const each = before.map((z, word) => far(z, now[order.indexOf(word)]));
  return {
    each,
    words: Math.max(...each),
    places: Math.max(...before.map((z, place) => far(z, now[place]))),
    mean: far(mean(before), mean(now)),
    means: [mean(before), mean(now)],
  };
}

// ---- drawing ---------------------------------------------------------------------------------------------

const HALF = 160; // half the width of the plane in its own units
const ENCODINGS = ["none", "sinusoidal", "rotary"];
const SAME = 1e-9; // what is left below this is rounding

/** Move elements by `change`, and let them glide from where they were. */
function glide(nodes, change) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const from = still ? [] : nodes.map((node) => node.getBoundingClientRect());
  change();
  if (still) return;
  nodes.forEach((node, i) => {
    const to = node.getBoundingClientRect();
    const [dx, dy] = [from[i].left - to.left, from[i].top - to.top];
    if (dx || dy) node.animate([{ transform: `translate(${dx}px, ${dy}px)` }, { transform: "none" }], { duration: 220, easing: "ease-out" });
  });
}

/** A square plane with a grid, from -reach to reach in both directions. */
function plane(reach) {
  const place = ([x, y]) => [HALF + (HALF / reach) * x, HALF - (HALF / reach) * y];
  const grid = s("g", { class: "abh-grid" });
  for (let t = -Math.floor(reach); t <= reach; t += 1) {
    const [x, y] = place([t, t]);
    const kind = t === 0 ? "abh-axis" : "";
    grid.append(s("line", { x1: x, x2: x, y1: 0, y2: 2 * HALF, class: kind }), s("line", { x1: 0, x2: 2 * HALF, y1: y, y2: y, class: kind }));
  }
  const drawing = s("g");
  return { place, drawing, svg: s("svg", { viewBox: `0 0 ${2 * HALF} ${2 * HALF}`, role: "img" }, grid, drawing) };
}

function render({ model, el }) {
  const [tokens, text] = [model.get("tokens"), model.get("text")];
  const [X, ...matrices] = ["X", "W_q", "W_k", "W_v"].map((name) => model.get(name));
  const n = tokens.length;
  const old = tokens.map((_, i) => i);
  const sentence = (order) => reorder(tokens, order).join(" ");
  const id = newId("abh-position");

  // State: the order as it stands, how places enter, and which word is selected.
  let order = [...model.get("order")];
  let kind = model.get("encoding");
  let strength = model.get("strength");
  let selected = order[0];

  const kinds = choice(id, text.choose, ENCODINGS.map((name) => text[name]), kind, (i) => { kind = i; draw(); });
  const dial = slider(text.strength, { min: 0, max: 1, step: 0.05 }, (x) => { strength = x; draw(); });

  // 1. the words and their weights, one row a word
  const names = tokens.map((token) => h("th", { scope: "col", class: "abh-name" }, h("span", {}, token)));
  const lastName = h("th", { scope: "col", class: "abh-change", "aria-label": text.change_long }, h("span", {}, text.change));
  const head = h("tr", {}, h("th", { scope: "col", class: "abh-place" }, h("span", { class: "abh-hidden" }, text.place)),
    h("th", { scope: "col" }, text.word), ...names, lastName);
  const rows = tokens.map((token, word) => {
    const grip = h("button", { type: "button", class: "abh-grip" }, token);
    const number = h("td", { class: "abh-place" });
    const cells = tokens.map(() => h("td", { class: "abh-cell" }, h("i", { "aria-hidden": "true" }), h("span", {})));
    const change = h("td", { class: "abh-change" });
    const row = h("tr", {}, number, h("th", { scope: "row" }, grip), ...cells, change);
    row.dataset.word = word;
    hold(grip, word);
    return { row, grip, number, cells, change };
  });
  const body = h("tbody", {}, ...rows.map((r) => r.row));
  const moving = h("span", {});
  const steps = [[-1, "\u2191", text.up], [1, "\u2193", text.down]].map(([by, arrow, name]) => {
    const button = h("button", { type: "button", class: "abh-reset", "data-by": by }, `${arrow} ${name}`);
    button.addEventListener("click", () => step(selected, by));
    return button;
  });
  const reset = h("button", { type: "button", class: "abh-reset abh-back" }, fill(text.reset, { sentence: sentence(old) }));
  reset.addEventListener("click", () => arrange(old, selected));

  // 2. the outputs, and what of them has changed
  const outputs = plane(model.get("reach"));
  const { place } = outputs;
  const verdicts = [["words", "equivariant"], ["places", "invariant"], ["mean", "invariant"]].map(([name, property]) => {
    const gap = h("td", { class: "abh-gap" });
    const tag = h("td", { class: "abh-tag" });
    return { gap, tag, property, row: h("tr", {}, h("th", { scope: "row" }, text[name]), gap, tag) };
  });
  const compare = h("table", { class: "abh-compare" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, text.compare), h("th", { scope: "col", colspan: 2 }, text.largest))),
    h("tbody", {}, ...verdicts.map((v) => v.row)));
  const summary = announcer();

  const root = figure("abh-position", text.title, kinds.node,
    h("div", { class: "abh-sliders" }, dial.row),
    h("div", { class: "abh-panels" },
      panel(id, 1, text.order, text.order_note, h("table", { class: "abh-rows" }, h("thead", {}, head), body),
        h("div", { class: "abh-moves" }, moving, ...steps), reset, summary.node),
      panel(id, 2, text.watch, text.watch_note, h("div", { class: "abh-stage" }, outputs.svg), compare)));

  /** Put the words into another order. The row of `fixed` is never detached, so that it keeps focus and pointer. */
  function arrange(to, fixed, gliding = true) {
    if (to.every((word, i) => word === order[i])) return;
    order = to;
    const still = gliding ? [] : [rows[fixed].row];
    glide([...rows.map((r) => r.row).filter((row) => !still.includes(row)), ...names], () => place_rows(fixed));
    draw();
  }

  function place_rows(fixed) {
    const at = order.indexOf(fixed);
    order.slice(0, at).forEach((word) => body.insertBefore(rows[word].row, rows[fixed].row));
    order.slice(at + 1).forEach((word) => body.append(rows[word].row));
    lastName.before(...reorder(names, order));
    rows.forEach((r) => r.change.before(...reorder(r.cells, order)));
  }

  function step(word, by) {
    selected = word;
    const from = order.indexOf(word);
    const to = Math.min(n - 1, Math.max(0, from + by));
    if (to === from) draw();
    else arrange(moveWord(order, from, to), word);
  }

  /** Let a row be dragged by its word, and moved by arrow keys. */
  function hold(grip, word) {
    let start = null; // where the pointer took hold, and at which place
    grip.addEventListener("focus", () => { selected = word; draw(); });
    grip.addEventListener("pointerdown", (event) => {
      grip.setPointerCapture(event.pointerId);
      grip.focus();
      selected = word;
      start = { y: event.clientY, at: order.indexOf(word) };
      rows[word].row.classList.add("abh-held");
      event.preventDefault();
      draw();
    });
    grip.addEventListener("pointermove", (event) => {
      if (!start) return;
      const box = body.getBoundingClientRect();
      const height = box.height / n;
      const to = Math.min(n - 1, Math.max(0, Math.floor((event.clientY - box.top) / height)));
      arrange(moveWord(order, order.indexOf(word), to), word, false);
      const shift = event.clientY - start.y - (to - start.at) * height;
      rows[word].row.style.transform = `translateY(${Math.min(height / 2, Math.max(-height / 2, shift))}px)`;
    });
    const release = () => {
      start = null;
      rows[word].row.classList.remove("abh-held");
      rows[word].row.style.transform = "";
    };
    grip.addEventListener("lostpointercapture", release);
    grip.addEventListener("keydown", (event) => {
      const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      step(word, by);
    });
  }

  function draw() {
    const encoding = ENCODINGS[kind];
    const before = layer(X, ...matrices, encoding, strength);
    const now = layer(reorder(X, order), ...matrices, encoding, strength);
    const change = changes(before.outputs, now.outputs, order);
    const most = change.each.indexOf(change.words);
    const original = order.every((word, i) => word === i);

    kinds.set(kind);
    dial.set(strength);
    dial.input.disabled = encoding === "none";
    dial.row.classList.toggle("abh-off", encoding === "none");
    reset.disabled = original;

    order.forEach((word, i) => {
      const r = rows[word];
      const facts = { word: tokens[word], place: i + 1, n };
      r.number.textContent = i + 1;
      r.grip.setAttribute("aria-label", fill(text.handle, facts));
      r.row.classList.toggle("abh-selected", word === selected);
      r.row.dataset.change = change.each[word];
      r.change.textContent = show(change.each[word]);
      r.change.classList.toggle("abh-same", change.each[word] < SAME);
      order.forEach((other, j) => {
        const [cell, weight] = [r.cells[other], now.weights[i][j]];
        cell.dataset.weight = weight;
        cell.style.setProperty("--weight", weight);
        cell.lastChild.textContent = show(weight);
      });
    });
    moving.textContent = fill(text.move, { word: tokens[selected] });
    const at = order.indexOf(selected);
    steps[0].setAttribute("aria-disabled", String(at === 0));
    steps[1].setAttribute("aria-disabled", String(at === n - 1));

    const dots = tokens.map((_, word) => now.outputs[order.indexOf(word)]);
    outputs.drawing.replaceChildren(
      ...dots.map((dot_, word) => thread(before.outputs[word], dot_)),
      thread(...change.means),
      ...before.outputs.map((z, word) => mark(z, word, "abh-before", 8)),
      diamond(change.means[0], "abh-before", 8),
      ...dots.map((z, word) => label(tokens[word], z, change.means[1], word === selected ? "abh-chosen" : "")),
      ...dots.map((z, word) => mark(z, word, "abh-now", 4.5)),
      diamond(change.means[1], "abh-now", 5),
    );
    const pair = (word) => fill(text.at, { word: tokens[word], before: showVector(before.outputs[word]), now: showVector(dots[word]) });
    outputs.svg.setAttribute("aria-label", fill(text.picture, { outputs: old.map(pair).join("; ") }));

    [change.words, change.places, change.mean].forEach((gap, i) => {
      const { gap: cell, tag, property } = verdicts[i];
      cell.dataset.gap = gap;
      cell.textContent = show(gap);
      tag.textContent = original ? "" : text[gap < SAME ? property : `not_${property}`];
      tag.classList.toggle("abh-same", gap < SAME);
    });
    root.dataset.order = JSON.stringify(order);
    root.dataset.outputs = JSON.stringify(now.outputs);

    const facts = { sentence: sentence(order), word: tokens[most], change: show(change.words) };
    summary.say(fill(original ? text.summary_original : change.words < SAME ? text.summary_same : text.summary_changed, facts));
  }

  function thread(from, to) {
    const [[x1, y1], [x2, y2]] = [place(from), place(to)];
    return s("line", { x1, y1, x2, y2, class: "abh-thread" });
  }

  function mark(z, word, className, r) {
    const [cx, cy] = place(z);
    return s("circle", { cx, cy, r, class: `${className} ${word === selected ? "abh-chosen" : ""}` });
  }

  function diamond(z, className, r) {
    const [x, y] = place(z);
    return s("polygon", { points: `${x},${y - r} ${x + r},${y} ${x},${y + r} ${x - r},${y}`, class: className });
  }

  /** A name beside a point, pushed away from `centre`. */
  function label(name, z, centre, className) {
    const [x, y] = place(z);
    const [dx, dy] = [z[0] - centre[0], z[1] - centre[1]];
    const length = Math.hypot(dx, dy) || 1;
    const across = dx / length;
    const node = s("text", {
      x: Math.min(2 * HALF - 24, Math.max(24, x + 15 * across)),
      y: Math.min(2 * HALF - 8, Math.max(14, y - (17 * dy) / length + 4)),
      "text-anchor": Math.abs(across) < 0.5 ? "middle" : across > 0 ? "start" : "end",
      class: `abh-label ${className}`,
    });
    node.textContent = name;
    return node;
  }

  place_rows(selected);
  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
