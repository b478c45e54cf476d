// Attention tile by tile: which numbers travel between memory and the chip, and how many bytes that makes.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// tests/test_figure_gpu.py. The second part draws. figures/common.js stands before this file. Nothing here asks a
// kernel: the same code runs in the book's static page and in JupyterLab.

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
  return { steps, moved, whole: naive(3, sizes), held, on_chip: held.reduce((sum, x) => sum + x, 0),
    skipped: (sizes.n / state.rows) * (sizes.n / state.columns) - all.length };
}

/** Bytes with a unit, in thousands. */
export function inBytes(x) {
  if (x < 1000) return `${x} bytes`;
  return x < 1e6 ? `${Math.round(x / 1e3)} KB` : `${(x / 1e6).toFixed(1)} MB`;
}

// ---- drawing ---------------------------------------------------------------------------------------------

const BOX = { x: 62, y: 84, side: 204, strip: 20 };

function render({ model, el }) {
  const text = model.get("text");
  const sizes = model.get("sizes");
  const sides = model.get("sides");
  const id = newId("abh-gpu");
  const ways = ["tiled", "naive"];
  let state = { ...model.get("state") };

  // A change of tiles keeps its place: the same share of the work is done.
  const change = (what) => {
    const before = look(state, sizes).steps;
    const share = state.step / before;
    state = { ...state, ...what };
    const after = look(state, sizes).steps;
    state.step = state.step === 0 ? 0 : Math.max(1, Math.round(share * after));
    draw();
  };
  const move = (step) => { state = { ...state, step }; draw(); };

  const way = choice(`${id}-way`, text.way, ways.map((name) => text.ways[name]), 0, (i) => change({ way: ways[i] }));
  const rows = choice(`${id}-rows`, text.rows, sides.map(String), 0, (i) => change({ rows: sides[i] }));
  const columns = choice(`${id}-columns`, text.columns, sides.map(String), 0, (i) => change({ columns: sides[i] }));
  const mask = choice(`${id}-mask`, text.mask, text.masks, 0, (i) => change({ causal: i === 1 }));
  const steps = slider(text.step, { min: 0, max: 1, step: 1 }, move, (x) => `${x} / ${look(state, sizes).steps}`);
  const back = button(text.back, () => move(Math.max(0, state.step - 1)), "abh-back");
  const next = button(text.next, () => move(Math.min(look(state, sizes).steps, state.step + 1)), "abh-next");
  const tries = model.get("tries").map((wanted, i) => ({
    wanted, node: button(`${i + 1} ${text.tries[i]}`, () => { state = { ...wanted }; draw(); }),
  }));

  const picture = s("svg", { viewBox: "0 18 326 278", role: "img" });
  const note = h("p", { class: "abh-note" });
  const memory = h("section", { class: "abh-panel abh-memory", "aria-label": text.memory },
    h("h4", {}, text.memory), note, picture);
  const cells = text.parts.map(() => [h("td", {}), h("td", {})]);
  const together = h("td", {});
  const held = h("table", {}, h("tbody", {},
    ...text.parts.map((name, k) => h("tr", {}, h("th", { scope: "row" }, h("i", { class: `abh-part-${k}` }), name), ...cells[k])),
    h("tr", { class: "abh-total" }, h("th", { scope: "row", colspan: "2" }, text.together), together)));
  const passing = h("p", { class: "abh-passing" }, text.passing);
  const onChip = h("section", { class: "abh-panel abh-chip", "aria-label": text.chip }, h("h4", {}, text.chip), held, passing);

  const bars = ["so_far", "whole"].map((name) => {
    const read = h("div", { class: "abh-read" });
    const written = h("div", { class: "abh-written" });
    const number = h("span", { class: "abh-number-of" });
    return { read, written, number, node: h("div", { class: "abh-moved-row" }, h("span", {}, text[name]), number,
      h("div", { class: "abh-bar", "aria-hidden": "true" }, read, written)) };
  });
  const key = ["read", "written"].map((name) => h("span", { class: "abh-key" }, h("i", { class: `abh-${name}` }), text[name]));
  const traffic = h("section", { class: "abh-panel abh-traffic", "aria-label": text.moved },
    h("h4", {}, text.moved, h("span", { class: "abh-keys" }, ...key)), ...bars.map((bar) => bar.node));

  const summary = announcer();
  const root = figure("abh-gpu", text.title,
    h("div", { class: "abh-tries", role: "group", "aria-label": text.try },
      h("span", { "aria-hidden": "true" }, text.try), ...tries.map((one) => one.node)),
    h("div", { class: "abh-choices" }, way.node, mask.node, rows.node, columns.node),
    h("div", { class: "abh-walk" }, back, steps.row, next),
    h("div", { class: "abh-panels" }, memory, h("div", { class: "abh-side" }, onChip, traffic)),
    summary.node);

  /** A strip of blocks, lying or standing; `lit` says which blocks are full. */
  function strip(name, x, y, lying, count, lit) {
    const length = BOX.side / count;
    return Array.from({ length: count }, (_, k) => s("rect", {
      class: `abh-strip abh-of-${name}${lit(k) ? " abh-lit" : ""}`,
      x: lying ? x + k * length : x, y: lying ? y : y + k * length,
      width: lying ? length : BOX.strip, height: lying ? BOX.strip : length }));
  }

  function paint() {
    const { x, y, side } = BOX;
    const plain = state.way === "naive";
    const [high, wide] = plain ? [1, 1] : [sizes.n / state.rows, sizes.n / state.columns];
    const all = tiles(state, sizes);
    const now = plain ? null : all[state.step - 1];
    const ended = plain ? state.step >= 3 : false;
    const place = new Map(all.map((tile, k) => [`${tile.i},${tile.j}`, k]));
    const parts = [
      ...strip("q", x - 34, y, false, high, (k) => (plain ? state.step === 1 : now?.i === k)),
      ...strip("k", x, y - 56, true, wide, (k) => (plain ? state.step === 1 : now?.j === k)),
      ...strip("v", x, y - 30, true, wide, (k) => (plain ? state.step === 3 : now?.j === k)),
      ...strip("z", x + side + 14, y, false, high, (k) =>
        (plain ? ended : now && (k < now.i || (k === now.i && now.last)))),
    ];
    if (plain) {
      const kind = ["todo", "scores", "weights", "weights"][state.step];
      parts.push(s("rect", { class: `abh-tile abh-${kind}`, x, y, width: side, height: side }));
    } else {
      for (let i = 0; i < high; i++) {
        for (let j = 0; j < wide; j++) {
          const k = place.get(`${i},${j}`);
          const kind = k === undefined ? "skipped" : k === state.step - 1 ? "now" : k < state.step ? "past" : "todo";
          const [left, top, w, t] = [x + (j * side) / wide, y + (i * side) / high, side / wide, side / high];
          parts.push(s("rect", { class: `abh-tile abh-${kind}`, x: left + 1, y: top + 1, width: w - 2, height: t - 2 }));
          if (kind === "skipped") {
            parts.push(s("path", { class: "abh-cross", d: `M${left + 3} ${top + 3}L${left + w - 3} ${top + t - 3}` }));
          }
        }
      }
    }
    if (state.causal) parts.push(s("path", { class: "abh-diagonal", d: `M${x} ${y}L${x + side} ${y + side}` }));
    const names = [["Q", x - 40, y + 15, "end"], ["K", x - 8, y - 41, "end"], ["V", x - 8, y - 15, "end"],
      ["Z", x + side + 24, y - 8, "middle"]];
    for (const [name, left, top, anchor] of names) {
      parts.push(s("text", { class: "abh-name", x: left, y: top, "text-anchor": anchor }, name));
    }
    picture.replaceChildren(...parts);
  }

  function draw() {
    const seen = look(state, sizes);
    const plain = state.way === "naive";
    way.set(ways.indexOf(state.way));
    rows.set(sides.indexOf(state.rows));
    columns.set(sides.indexOf(state.columns));
    mask.set(state.causal ? 1 : 0);
    for (const one of [rows, columns]) for (const input of one.node.querySelectorAll("input")) input.disabled = plain;
    steps.input.max = seen.steps;
    steps.set(state.step);
    back.disabled = state.step === 0;
    next.disabled = state.step === seen.steps;
    for (const { node, wanted } of tries) {
      node.setAttribute("aria-pressed", String(Object.keys(wanted).every((name) => wanted[name] === state[name])));
    }
    const { n, d, size } = sizes;
    const words = { n: n.toLocaleString("en"), d, bytes: inBytes(size * n * n), table: inBytes(size * n * n) };
    note.textContent = fill(plain ? text.table : text.no_table, words);
    held.hidden = plain;
    passing.hidden = !plain;
    const shapes = [[state.rows, d], [state.columns, d], [state.columns, d], [state.rows, state.columns], [state.rows, d]];
    cells.forEach(([shape, bytes], k) => {
      shape.textContent = shapes[k].join(" × ");
      bytes.textContent = inBytes(seen.held[k]);
    });
    together.textContent = inBytes(seen.on_chip);
    const most = seen.whole.read + seen.whole.written;
    [seen.moved, seen.whole].forEach((moved, k) => {
      bars[k].read.style.width = `${(100 * moved.read) / most}%`;
      bars[k].written.style.width = `${(100 * moved.written) / most}%`;
      bars[k].number.textContent = inBytes(moved.read + moved.written);
    });
    root.dataset.now = JSON.stringify({ state, ...seen });

    words.moved = inBytes(seen.moved.read + seen.moved.written);
    words.naive = inBytes(most);
    words.ratio = show(most / (seen.moved.read + seen.moved.written), 1);
    const said = [];
    if (state.step === 0) said.push(text.begin);
    else if (plain) said.push(text.naive_steps[state.step]);
    else {
      const tile = tiles(state, sizes)[state.step - 1];
      const span = (k, length) => `${(k * length + 1).toLocaleString("en")} to ${((k + 1) * length).toLocaleString("en")}`;
      Object.assign(words, { step: state.step, steps: seen.steps, i: span(tile.i, state.rows), j: span(tile.j, state.columns),
        skipped: seen.skipped, all: seen.skipped + seen.steps });
      said.push(text.tile);
      if (state.step === seen.steps) said.push(text.done);
      else said.push(tile.last ? text.last : tile.first ? text.first : text.middle);
      if (seen.skipped) said.push(text.skipped);
    }
    const sentence = fill(said.join(" "), words);
    picture.setAttribute("aria-label", sentence);
    paint();
    summary.say(sentence);
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
