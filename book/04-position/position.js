// One layer of attention over words in any order and at any place, to see what moves with them and what doesn't.
//
// The first part is the mathematics: pure functions, exported, compared with the course's Python in
// test_figure_position.py. The second part draws. Nothing here asks a kernel: the same code runs in the book's
// static page and in JupyterLab.

import { button, choice, presets, slider } from "../figures/common/controls.js";
import { announcer, figure, h, newId } from "../figures/common/elements.js";
import { dot, largest, matmul, softmax } from "../figures/common/mathematics.js";
import { fill, show } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** One position -> d numbers: sine and cosine of d / 2 angles, from fast to slow. */
export function encodePosition(p, d, base = 10000) {
  return Array.from({ length: d }, (_, j) => {
    const angle = p / base ** ((j - (j % 2)) / d);
    return j % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/** A query or key x (d) at position p, each pair of columns turned by its own angle -> (d). */
export function rotate(x, p, base = 10000) {
  return x.map((value, j) => {
    const angle = p * base ** (-(j - (j % 2)) / x.length);
    return value * Math.cos(angle) + (j % 2 ? x[j - 1] : -x[j + 1]) * Math.sin(angle);
  });
}

/** Words X (n, d_model) in the order they stand, the first at place `start` -> weights (n, n), outputs (n, d_v). */
export function layer(X, W_q, W_k, W_v, encoding, start) {
  const rows = encoding === "sinusoidal"
    ? X.map((x, i) => encodePosition(start + i, x.length).map((e, j) => x[j] + e))
    : X;
  let [Q, K] = [matmul(rows, W_q), matmul(rows, W_k)];
  if (encoding === "rotary") [Q, K] = [Q, K].map((M) => M.map((x, i) => rotate(x, start + i)));
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
 * each: n numbers, one per word, by their old places; words: the largest of them; places: place by place; mean: of the mean.
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

/** A vector as a line for each number: a ring where it was, a dot where it is, and the number itself. */
function lines(width, [low, high]) {
  const parts = Array.from({ length: width }, () => {
    const [zero, ring, thread, dot_] = ["zero", "ring", "thread", "dot"].map((name) => h("i", { class: `abh-${name}` }));
    zero.style.left = `${(100 * -low) / (high - low)}%`;
    const number = h("span", {});
    return { ring, thread, dot: dot_, number,
      line: h("div", { class: "abh-line" }, h("div", { class: "abh-axis", "aria-hidden": "true" }, zero, thread, ring, dot_), number) };
  });
  const at = (x) => (100 * (Math.min(high, Math.max(low, x)) - low)) / (high - low);
  return {
    nodes: parts.map((part) => part.line),
    set(before, now) {
      parts.forEach((part, c) => {
        const [from, to] = [at(before[c]), at(now[c])];
        part.ring.style.left = `${from}%`;
        part.dot.style.left = `${to}%`;
        part.thread.style.left = `${Math.min(from, to)}%`;
        part.thread.style.width = `${Math.abs(to - from)}%`;
        part.number.textContent = show(now[c]);
      });
    },
  };
}

/** A row of the table for each word: its weights, its output, how far that has changed; and the mean below. */
function table(tokens, text, width, reach) {
  const names = tokens.map((token) => h("th", { scope: "col", class: "abh-name" }, token));
  const lastName = h("th", { scope: "col", class: "abh-output" }, text.output);
  const head = h("tr", {}, h("th", { scope: "col", class: "abh-word-column" }, text.word), ...names, lastName,
    h("th", { scope: "col", class: "abh-change" }, text.change));
  const rows = tokens.map((token, word) => {
    const place = h("span", { class: "abh-place" });
    const grip = h("button", { type: "button", class: "abh-grip" }, place, " ", h("span", { class: "abh-token" }, token));
    const cells = tokens.map(() => h("td", { class: "abh-cell" }, h("i", { "aria-hidden": "true" }), h("span", {})));
    const plot = lines(width, reach);
    const output = h("td", { class: "abh-output" }, ...plot.nodes);
    const change = h("td", { class: "abh-change" });
    const row = h("tr", {}, h("th", { scope: "row" }, grip), ...cells, output, change);
    row.dataset.word = word;
    return { row, grip, place, cells, plot, output, change };
  });
  const body = h("tbody", {}, ...rows.map((r) => r.row));
  const mean = { plot: lines(width, reach), change: h("td", { class: "abh-change" }) };
  const foot = h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, text.mean), ...tokens.map(() => h("td", {})),
    h("td", { class: "abh-output" }, ...mean.plot.nodes), mean.change));
  const tell = ({ change }, far) => {
    change.textContent = show(far);
    change.classList.toggle("abh-moved", far >= SAME);
  };

  return {
    node: h("table", { class: "abh-rows" }, h("thead", {}, head), body, foot),
    rows, body, names,
    /** Put the rows into an order. The row of `fixed` is never detached, so that it keeps focus and pointer. */
    place(order, fixed) {
      const at = order.indexOf(fixed);
      order.slice(0, at).forEach((word) => body.insertBefore(rows[word].row, rows[fixed].row));
      order.slice(at + 1).forEach((word) => body.append(rows[word].row));
      lastName.before(...reorder(names, order));
      rows.forEach((r) => r.output.before(...reorder(r.cells, order)));
    },
    set(order, selected, start, before, now, change) {
      order.forEach((word, i) => {
        const r = rows[word];
        r.place.textContent = start + i;
        r.grip.setAttribute("aria-label", fill(text.handle, { word: tokens[word], place: start + i }));
        r.row.classList.toggle("abh-selected", word === selected);
        r.row.dataset.change = change.each[word];
        tell(r, change.each[word]);
        r.plot.set(before.outputs[word], now.outputs[i]);
        order.forEach((other, j) => {
          const [cell, weight] = [r.cells[other], now.weights[i][j]];
          cell.dataset.weight = weight;
          cell.style.setProperty("--weight", weight);
          cell.lastChild.textContent = show(weight);
        });
      });
      mean.plot.set(...change.means);
      tell(mean, change.mean);
    },
  };
}

/** What is said of words, places and means: how far each has moved, and the name of what that shows. */
function findings(text) {
  const all = [["words", "equivariant"], ["places", "invariant"], ["means", "invariant"]].map(([name, property]) => {
    const [gap, tag] = [h("b", { class: "abh-gap" }), h("span", { class: "abh-tag" })];
    return { gap, tag, property, row: h("div", {}, h("dt", {}, text[name]), h("dd", {}, gap, " ", tag)) };
  });
  return {
    node: h("dl", {}, ...all.map((one) => one.row)),
    set: (change, ordered, start) => [change.words, change.places, change.mean].forEach((far, i) => {
      const { gap, tag, property } = all[i];
      const name = ordered ? "same" : property;
      gap.dataset.gap = far;
      gap.textContent = show(far);
      tag.textContent = ordered && start === 0 ? "" : text[far < SAME ? name : `not_${name}`];
    }),
  };
}

/** Let a row be dragged by its word, and moved by arrow keys.
 *
 *  at(): the place where it stands; select(): it was taken; to(place): it is dragged there; by(±1): a key moves it.
 */
function hold({ row, grip }, body, n, { at, select, to, by }) {
  let held = null; // where the pointer took hold, and at which place
  grip.addEventListener("focus", select);
  grip.addEventListener("pointerdown", (event) => {
    grip.setPointerCapture(event.pointerId);
    grip.focus();
    held = { y: event.clientY, at: at() };
    row.classList.add("abh-held");
    event.preventDefault();
    select();
  });
  grip.addEventListener("pointermove", (event) => {
    if (!held) return;
    const box = body.getBoundingClientRect();
    const height = box.height / n;
    const place = Math.min(n - 1, Math.max(0, Math.floor((event.clientY - box.top) / height)));
    to(place);
    const shift = event.clientY - held.y - (place - held.at) * height;
    row.style.transform = `translateY(${Math.min(height / 2, Math.max(-height / 2, shift))}px)`;
  });
  grip.addEventListener("lostpointercapture", () => {
    held = null;
    row.classList.remove("abh-held");
    row.style.transform = "";
  });
  grip.addEventListener("keydown", (event) => {
    const way = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!way) return;
    event.preventDefault();
    event.stopPropagation();
    by(way);
  });
}

function render({ model, el }) {
  const [tokens, text, reach] = ["tokens", "text", "reach"].map((name) => model.get(name));
  const [X, ...matrices] = ["X", "W_q", "W_k", "W_v"].map((name) => model.get(name));
  const n = tokens.length;
  const sentence = (order) => reorder(tokens, order).join(" ");
  const original = { sentence: tokens.join(" ") };
  const id = newId("abh-position");
  const own = { order: [...model.get("order")], encoding: model.get("encoding"), start: model.get("start") };

  // State: the order as it stands, how places enter, the first word's place, and which word is selected.
  let { order, encoding, start } = own;
  let selected = order[0];

  const reset = button(text.reset, () => set(own));
  const block = presets(text.try, model.get("tries"), text.tries, set, reset);
  const kinds = choice(id, text.choose, ENCODINGS.map((name) => text[name]), encoding, (i) => { encoding = i; draw(); });
  const first = slider(text.start_name, { min: 0, max: model.get("farthest"), step: 1 }, (x) => { start = x; draw(); }, String);
  first.node.firstChild.textContent = text.start;

  const words = table(tokens, text, matrices[2][0].length, reach);
  words.rows.forEach((row, word) => hold(row, words.body, n, {
    at: () => order.indexOf(word),
    select: () => { selected = word; draw(); },
    to: (place) => arrange(moveWord(order, order.indexOf(word), place), word, false),
    by: (way) => step(word, way),
  }));
  const moving = h("span", {});
  const steps = [[-1, "\u2191", text.up], [1, "\u2193", text.down]].map(([by, arrow, name]) => {
    const node = button(`${arrow} ${name}`, () => step(selected, by));
    node.dataset.by = by;
    return node;
  });
  const verdicts = findings(text);
  const summary = announcer();

  const root = figure("abh-position", text.title,
    block.node,
    h("div", { class: "abh-controls" }, kinds.node, first.node),
    summary.node,
    words.node,
    h("div", { class: "abh-moves" }, h("p", { class: "abh-note" }, fill(text.note, original)), moving, ...steps),
    h("p", { class: "abh-compare" }, fill(text.compare, original)),
    verdicts.node);

  function set(state) {
    ({ encoding, start } = state);
    arrange([...state.order], selected);
    draw();
  }

  /** Put the words into another order; all rows glide but, while it is dragged, that of `fixed`. */
  function arrange(to, fixed, gliding = true) {
    if (to.every((word, i) => word === order[i])) return;
    order = to;
    const rows = words.rows.map((r) => r.row).filter((_, word) => gliding || word !== fixed);
    glide([...rows, ...words.names], () => words.place(order, fixed));
    draw();
  }

  function step(word, by) {
    selected = word;
    const from = order.indexOf(word);
    const to = Math.min(n - 1, Math.max(0, from + by));
    if (to === from) draw();
    else arrange(moveWord(order, from, to), word);
  }

  /** What has become of the words, in a sentence. */
  function said(change, ordered) {
    const most = largest(change.each);
    const facts = {
      sentence: sentence(order), first: start, last: start + n - 1,
      most: fill(most.length > 1 ? text.some_most : text.one_most,
        { most: most.map((word) => tokens[word]).join(text.and), change: show(change.words) }),
    };
    const outcome = change.words < SAME ? "same" : "changed";
    return fill(ordered && start === 0 ? text.summary_original : text[`summary_${ordered ? "start" : "order"}_${outcome}`], facts);
  }

  function draw() {
    const kind = ENCODINGS[encoding];
    const before = layer(X, ...matrices, kind, 0);
    const now = layer(reorder(X, order), ...matrices, kind, start);
    const change = changes(before.outputs, now.outputs, order);
    const ordered = order.every((word, i) => word === i);
    const isAt = (state) => encoding === state.encoding && start === state.start && order.every((word, i) => word === state.order[i]);

    kinds.set(encoding);
    first.set(start);
    reset.disabled = isAt(own);
    block.mark(isAt);
    words.set(order, selected, start, before, now, change);
    moving.textContent = fill(text.move, { word: tokens[selected] });
    const at = order.indexOf(selected);
    steps[0].setAttribute("aria-disabled", String(at === 0));
    steps[1].setAttribute("aria-disabled", String(at === n - 1));
    verdicts.set(change, ordered, start);
    root.dataset.order = JSON.stringify(order);
    root.dataset.outputs = JSON.stringify(now.outputs);
    summary.say(said(change, ordered));
  }

  words.place(order, selected);
  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
