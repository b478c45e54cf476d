// One layer of attention over words in any order and at any place, to see what moves with them and what doesn't.
//
// The first part is the mathematics: pure functions, exported, compared with the course's Python in
// tests/test_figure_position.py. The second part draws. figures/common.js stands before this file. Nothing here asks a
// kernel: the same code runs in the book's static page and in JupyterLab.

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

function render({ model, el }) {
  const [tokens, text, reach] = ["tokens", "text", "reach"].map((name) => model.get(name));
  const [X, ...matrices] = ["X", "W_q", "W_k", "W_v"].map((name) => model.get(name));
  const n = tokens.length;
  const old = tokens.map((_, i) => i);
  const sentence = (order) => reorder(tokens, order).join(" ");
  const id = newId("abh-position");
  const own = { order: [...model.get("order")], kind: model.get("encoding"), start: model.get("start") };

  // State: the order as it stands, how places enter, the first word's place, and which word is selected.
  let { order, kind, start } = own;
  let selected = order[0];

  const tries = model.get("tries").map((wanted, i) => ({
    wanted,
    node: button(`${i + 1} ${text.tries[i]}`, () => set({ order: wanted.order, kind: wanted.encoding, start: wanted.start })),
  }));
  const reset = button(text.reset, () => set(own));
  const kinds = choice(id, text.choose, ENCODINGS.map((name) => text[name]), kind, (i) => { kind = i; draw(); });
  const first = slider(text.start_name, { min: 0, max: model.get("farthest"), step: 1 }, (x) => { start = x; draw(); }, String);
  first.row.firstChild.textContent = text.start;

  // One row per word: its weights, its output, how far that has changed.
  const names = tokens.map((token) => h("th", { scope: "col", class: "abh-name" }, token));
  const lastName = h("th", { scope: "col", class: "abh-output" }, text.output);
  const head = h("tr", {}, h("th", { scope: "col", class: "abh-word-column" }, text.word), ...names, lastName,
    h("th", { scope: "col", class: "abh-change" }, text.change));
  const rows = tokens.map((token, word) => {
    const place = h("span", { class: "abh-place" });
    const grip = h("button", { type: "button", class: "abh-grip" }, place, " ", h("span", { class: "abh-token" }, token));
    const cells = tokens.map(() => h("td", { class: "abh-cell" }, h("i", { "aria-hidden": "true" }), h("span", {})));
    const strip = lines(matrices[2][0].length, reach);
    const output = h("td", { class: "abh-output" }, ...strip.nodes);
    const change = h("td", { class: "abh-change" });
    const row = h("tr", {}, h("th", { scope: "row" }, grip), ...cells, output, change);
    row.dataset.word = word;
    hold(grip, word);
    return { row, grip, place, cells, strip, output, change };
  });
  const body = h("tbody", {}, ...rows.map((r) => r.row));
  const meanStrip = lines(matrices[2][0].length, reach);
  const meanChange = h("td", { class: "abh-change" });
  const foot = h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, text.mean), ...tokens.map(() => h("td", {})),
    h("td", { class: "abh-output" }, ...meanStrip.nodes), meanChange));
  const moving = h("span", {});
  const steps = [[-1, "\u2191", text.up], [1, "\u2193", text.down]].map(([by, arrow, name]) => {
    const node = button(`${arrow} ${name}`, () => step(selected, by));
    node.dataset.by = by;
    return node;
  });

  const verdicts = [["words", "equivariant"], ["places", "invariant"], ["means", "invariant"]].map(([name, property]) => {
    const [gap, tag] = [h("b", { class: "abh-gap" }), h("span", { class: "abh-tag" })];
    return { gap, tag, property, row: h("div", {}, h("dt", {}, text[name]), h("dd", {}, gap, " ", tag)) };
  });
  const summary = announcer();

  const root = figure("abh-position", text.title,
    h("div", { class: "abh-tries", role: "group", "aria-label": text.try },
      h("span", { "aria-hidden": "true" }, text.try), ...tries.map((one) => one.node), reset),
    h("div", { class: "abh-controls" }, kinds.node, first.row),
    summary.node,
    h("table", { class: "abh-rows" }, h("thead", {}, head), body, foot),
    h("div", { class: "abh-moves" }, h("p", { class: "abh-note" }, fill(text.note, { sentence: sentence(old) })), moving, ...steps),
    h("p", { class: "abh-compare" }, fill(text.compare, { sentence: sentence(old) })),
    h("dl", {}, ...verdicts.map((v) => v.row)));

  function set(state) {
    ({ kind, start } = state);
    arrange([...state.order], selected);
    draw();
  }

  /** Put the words into another order. The row of `fixed` is never detached, so that it keeps focus and pointer. */
  function arrange(to, fixed, gliding = true) {
    if (to.every((word, i) => word === order[i])) return;
    order = to;
    const still = gliding ? [] : [rows[fixed].row];
    glide([...rows.map((r) => r.row).filter((row) => !still.includes(row)), ...names], () => placeRows(fixed));
    draw();
  }

  function placeRows(fixed) {
    const at = order.indexOf(fixed);
    order.slice(0, at).forEach((word) => body.insertBefore(rows[word].row, rows[fixed].row));
    order.slice(at + 1).forEach((word) => body.append(rows[word].row));
    lastName.before(...reorder(names, order));
    rows.forEach((r) => r.output.before(...reorder(r.cells, order)));
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
    let held = null; // where the pointer took hold, and at which place
    grip.addEventListener("focus", () => { selected = word; draw(); });
    grip.addEventListener("pointerdown", (event) => {
      grip.setPointerCapture(event.pointerId);
      grip.focus();
      selected = word;
      held = { y: event.clientY, at: order.indexOf(word) };
      rows[word].row.classList.add("abh-held");
      event.preventDefault();
      draw();
    });
    grip.addEventListener("pointermove", (event) => {
      if (!held) return;
      const box = body.getBoundingClientRect();
      const height = box.height / n;
      const to = Math.min(n - 1, Math.max(0, Math.floor((event.clientY - box.top) / height)));
      arrange(moveWord(order, order.indexOf(word), to), word, false);
      const shift = event.clientY - held.y - (to - held.at) * height;
      rows[word].row.style.transform = `translateY(${Math.min(height / 2, Math.max(-height / 2, shift))}px)`;
    });
    const release = () => {
      held = null;
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
    const before = layer(X, ...matrices, encoding, 0);
    const now = layer(reorder(X, order), ...matrices, encoding, start);
    const change = changes(before.outputs, now.outputs, order);
    const isAt = (state) => kind === state.kind && start === state.start && order.every((word, i) => word === state.order[i]);
    const ordered = order.every((word, i) => word === i);

    kinds.set(kind);
    first.set(start);
    reset.disabled = isAt(own);
    for (const { node, wanted } of tries) node.setAttribute("aria-pressed", String(isAt({ ...wanted, kind: wanted.encoding })));

    order.forEach((word, i) => {
      const r = rows[word];
      r.place.textContent = start + i;
      r.grip.setAttribute("aria-label", fill(text.handle, { word: tokens[word], place: start + i }));
      r.row.classList.toggle("abh-selected", word === selected);
      r.row.dataset.change = change.each[word];
      r.change.textContent = show(change.each[word]);
      r.change.classList.toggle("abh-moved", change.each[word] >= SAME);
      r.strip.set(before.outputs[word], now.outputs[i]);
      order.forEach((other, j) => {
        const [cell, weight] = [r.cells[other], now.weights[i][j]];
        cell.dataset.weight = weight;
        cell.style.setProperty("--weight", weight);
        cell.lastChild.textContent = show(weight);
      });
    });
    meanStrip.set(...change.means);
    meanChange.textContent = show(change.mean);
    meanChange.classList.toggle("abh-moved", change.mean >= SAME);
    moving.textContent = fill(text.move, { word: tokens[selected] });
    const at = order.indexOf(selected);
    steps[0].setAttribute("aria-disabled", String(at === 0));
    steps[1].setAttribute("aria-disabled", String(at === n - 1));

    [change.words, change.places, change.mean].forEach((gap, i) => {
      const { gap: cell, tag, property } = verdicts[i];
      const name = ordered ? "same" : property;
      cell.dataset.gap = gap;
      cell.textContent = show(gap);
      tag.textContent = ordered && start === 0 ? "" : text[gap < SAME ? name : `not_${name}`];
    });
    root.dataset.order = JSON.stringify(order);
    root.dataset.outputs = JSON.stringify(now.outputs);

    const most = largest(change.each);
    const facts = {
      sentence: sentence(order), first: start, last: start + n - 1,
      most: fill(most.length > 1 ? text.some_most : text.one_most,
        { most: most.map((word) => tokens[word]).join(text.and), change: show(change.words) }),
    };
    const outcome = change.words < SAME ? "same" : "changed";
    summary.say(fill(ordered && start === 0 ? text.summary_original : text[`summary_${ordered ? "start" : "order"}_${outcome}`], facts));
  }

  placeRows(selected);
  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
