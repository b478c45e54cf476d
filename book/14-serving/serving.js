// Six requests on a server with three slots: who runs in which step, and where the cache keeps their tokens.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// test_figure_serving.py. The second part draws. Nothing here needs a kernel: the same code runs in the book's static
// page and in JupyterLab.

import { choice, presets, slider, tries } from "../figures/common/controls.js";
import { announcer, figure, h, newId } from "../figures/common/elements.js";
import { fill, show } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

const range = (count) => Array.from({ length: count }, (_, k) => k);
const sum = (x) => x.reduce((all, number) => all + number, 0);

/** The requests in order of arrival, then of number. */
const inOrder = (arrivals) => range(arrivals.length).sort((r, other) => arrivals[r] - arrivals[other] || r - other);

/** For each request the step in which it starts and its slot: a free slot is taken at once. */
export function continuous(arrivals, steps, slots) {
  const free = new Array(slots).fill(0); // the step from which each slot is free
  const placed = [];
  for (const r of inOrder(arrivals)) {
    const start = Math.max(arrivals[r], Math.min(...free));
    const slot = free.findIndex((from) => from <= start);
    free[slot] = start + steps[r];
    placed[r] = { start, slot };
  }
  return placed;
}

/** The same for static batches: those that wait start together, and the next ones when all of them have ended. */
export function fixed(arrivals, steps, slots) {
  const placed = [];
  let queue = inOrder(arrivals), t = 0;
  while (queue.length) {
    t = Math.max(t, arrivals[queue[0]]);
    const batch = queue.filter((r) => arrivals[r] <= t).slice(0, slots);
    for (const [slot, r] of batch.entries()) placed[r] = { start: t, slot };
    t += Math.max(...batch.map((r) => steps[r]));
    queue = queue.filter((r) => !batch.includes(r));
  }
  return placed;
}

/** For each step the page table of each request; empty where it does not run. */
function tables(placed, steps, total, isShared, { page, prompt, prefix, pages }) {
  const now = steps.map(() => []);
  return range(total).map((t) => {
    const runs = (r) => placed[r].start <= t && t < placed[r].start + steps[r];
    for (const r of range(steps.length)) if (!runs(r)) now[r] = [];
    for (const r of range(steps.length).filter(runs)) {
      const needed = Math.ceil((prompt + t - placed[r].start) / page);
      while (now[r].length < needed) {
        const j = now[r].length;
        const kept = isShared && (j + 1) * page <= prefix ? now.find((table) => table.length > j) : undefined;
        now[r].push(kept ? kept[j] : range(pages).find((p) => !now.flat().includes(p)));
      }
    }
    return now.map((table) => [...table]);
  });
}

/** All that a state shows. */
export function computed(state, sizes) {
  const { arrivals, steps, schedule } = state;
  const { slots, page, prompt, longest } = sizes;
  const count = arrivals.length;
  const isShared = state.prefix === "shared";
  const placed = (schedule === "static" ? fixed : continuous)(arrivals, steps, slots);
  const ends = placed.map(({ start }, r) => start + steps[r] - 1);
  const total = Math.max(...ends) + 1;
  const now = Math.min(state.now, total - 1);
  const all = tables(placed, steps, total, isShared, sizes);
  const lengths = range(count).map((r) => (placed[r].start <= now && now <= ends[r] ? prompt + now - placed[r].start : 0));
  const owners = (t) => range(sizes.pages).map((p) => range(count).filter((r) => all[t][r].includes(p)));
  const held = owners(now);
  const before = now ? owners(now - 1) : held;
  const taken = held.filter((who) => who.length).length;
  const tokens = sum(lengths);
  const repeated = isShared ? sum(held.map((who) => Math.max(0, who.length - 1))) * page : 0;
  return {
    now, total, ends,
    starts: placed.map(({ start }) => start), slot: placed.map(({ slot }) => slot),
    idle: slots * total - sum(steps),
    wait: sum(placed.map(({ start }, r) => start - arrivals[r])) / count,
    end: sum(ends) / count,
    lengths, owners: held, tables: all[now],
    freed: range(sizes.pages).filter((p) => before[p].length && !held[p].length),
    taken, empty_rows: slots * longest - tokens, empty_pages: taken * page - (tokens - repeated),
    most: Math.max(...all.map((step) => new Set(step.flat()).size)),
  };
}

// ---- drawing ---------------------------------------------------------------------------------------------

const NAMES = "ABCDEF";
const LEAST = 16; // columns of the timeline, so that it does not jump
const nameOf = (r) => NAMES[r];
const colourOf = (r) => `abh-r${r}`;

/** Steps from left to right: the slots, and below them what each request does. A press chooses a step; a request's bar
 *  is dragged to another arrival. */
function timeline(text, sizes, count, { onStep, onDrag }) {
  const grid = h("div", { class: "abh-time", role: "img" });
  let columns = LEAST;
  const place = (node, row, column) => {
    node.style.gridArea = `${row} / ${column}`;
    return node;
  };
  const stepAt = (event) => {
    const box = grid.getBoundingClientRect();
    const edge = parseFloat(getComputedStyle(grid).gridTemplateColumns);
    return Math.floor((event.clientX - box.left - edge) / ((box.width - edge) / columns));
  };
  let drag = null;
  grid.addEventListener("pointerdown", (event) => {
    const { t, r } = event.target.dataset;
    if (r !== undefined) {
      drag = { r: Number(r), at: stepAt(event) };
      grid.setPointerCapture(event.pointerId);
      onDrag(drag.r, 0);
    } else if (t !== undefined) onStep(Number(t));
  });
  grid.addEventListener("pointermove", (event) => {
    const by = drag ? stepAt(event) - drag.at : 0;
    if (!by) return;
    drag.at += by;
    onDrag(drag.r, by);
  });
  for (const name of ["pointerup", "pointercancel"]) grid.addEventListener(name, () => { drag = null; });
  return {
    node: grid,
    set({ arrivals, steps, chosen }, found) {
      columns = Math.max(LEAST, found.total);
      grid.style.setProperty("--columns", columns);
      const cells = [];
      const runs = (r, t) => found.starts[r] <= t && t <= found.ends[r];
      for (const slot of range(sizes.slots)) {
        cells.push(place(h("span", { class: "abh-row" }, fill(text.slot, { number: slot + 1 })), slot + 1, 1));
        for (const t of range(columns)) {
          const r = range(count).find((one) => found.slot[one] === slot && runs(one, t));
          const kind = r !== undefined ? `abh-runs ${colourOf(r)}` : t < found.total ? "abh-idle" : "abh-after";
          cells.push(place(h("span", { class: `abh-box ${kind}`, "data-t": t }, r === undefined ? "" : nameOf(r)), slot + 1, t + 2));
        }
      }
      for (const r of range(count)) {
        const row = sizes.slots + 2 + r;
        const isChosen = r === chosen ? "abh-chosen" : "";
        cells.push(place(h("span", { class: `abh-row ${isChosen}` }, nameOf(r)), row, 1));
        for (const t of range(columns)) {
          const kind = runs(r, t) ? `abh-runs ${colourOf(r)}` : arrivals[r] <= t && t < found.starts[r] ? "abh-waits" : "abh-none";
          const drags = t >= arrivals[r] && t <= found.ends[r] ? { "data-r": r } : { "data-t": t };
          cells.push(place(h("span", { class: `abh-thin ${kind}`, ...drags }), row, t + 2));
        }
      }
      for (const t of range(columns)) {
        const tick = t % 2 ? "" : String(t);
        cells.push(place(h("span", { class: "abh-axis", "data-t": t }, tick), sizes.slots + count + 2, t + 2));
      }
      cells.push(place(h("span", { class: "abh-row" }, text.axis), sizes.slots + count + 2, 1));
      const mark = h("span", { class: "abh-now" });
      mark.style.gridArea = `1 / ${found.now + 2} / ${sizes.slots + count + 2} / ${found.now + 3}`;
      grid.replaceChildren(...cells, mark);
      grid.setAttribute("aria-label", range(count).map((r) => fill(text.request_label, {
        name: nameOf(r), arrives: arrivals[r], start: found.starts[r], end: found.ends[r], slot: found.slot[r] + 1, steps: steps[r],
      })).join(" "));
    },
  };
}

/** The cache as one long row for each slot. */
function rows(text, sizes) {
  const note = h("p", { class: "abh-note" });
  const picture = h("div", { class: "abh-long", role: "img" });
  return {
    node: h("section", { class: "abh-panel" }, h("h4", {}, text.rows), note, picture),
    set(found) {
      const owner = (slot) => found.lengths.findIndex((length, r) => length && found.slot[r] === slot);
      picture.replaceChildren(...range(sizes.slots).map((slot) => {
        const r = owner(slot);
        return h("div", { class: "abh-line" }, h("span", { class: "abh-row" }, r < 0 ? "–" : nameOf(r)), ...range(sizes.longest).map((k) =>
          h("span", { class: `abh-place ${r >= 0 && k < found.lengths[r] ? colourOf(r) : ""}` })));
      }));
      const words = { places: sizes.slots * sizes.longest, empty: found.empty_rows };
      note.textContent = fill(text.rows_note, words);
      picture.setAttribute("aria-label", fill(text.rows_note, words));
    },
  };
}

/** The cache as a pool of pages, and the page tables. */
function pool(text, sizes) {
  const note = h("p", { class: "abh-note" });
  const picture = h("div", { class: "abh-pool", role: "img" });
  const list = h("p", { class: "abh-tables" });
  return {
    node: h("section", { class: "abh-panel" }, h("h4", {}, text.pages), note, picture, list),
    set(found) {
      picture.replaceChildren(...range(sizes.pages).map((p) => {
        const who = found.owners[p], isFreed = found.freed.includes(p);
        const kind = who.length > 1 ? "abh-shared" : who.length ? "abh-owned" : isFreed ? "abh-freed" : "abh-free";
        const filled = who.length ? Math.min(sizes.page, found.lengths[who[0]] - sizes.page * found.tables[who[0]].indexOf(p)) : 0;
        const label = who.length ? who.map(nameOf).join("") : isFreed ? text.freed : "";
        return h("div", { class: `abh-page ${kind}` },
          h("span", { class: "abh-page-name" }, h("b", {}, String(p)), h("span", {}, label)),
          h("span", { class: "abh-places" }, ...range(sizes.page).map((k) =>
            h("span", { class: `abh-place ${k >= filled ? "" : who.length > 1 ? "abh-common" : colourOf(who[0])}` }))));
      }));
      const words = { taken: found.taken, pages: sizes.pages, empty: found.empty_pages };
      note.textContent = fill(text.pages_note, words);
      const running = found.tables.map((table, r) => [table, nameOf(r)]).filter(([table]) => table.length);
      list.textContent = running.map(([table, name]) => fill(text.table, { name, table: table.join(" ") })).join(text.comma);
      picture.setAttribute("aria-label", `${note.textContent} ${list.textContent}`);
    },
  };
}

/** A few numbers, each with its name. */
function readouts(names) {
  const values = names.map(() => h("b", {}));
  return {
    node: h("div", { class: "abh-readouts" }, ...names.map((name, k) => h("span", {}, `${name} `, values[k]))),
    set: (numbers) => numbers.forEach((number, k) => { values[k].textContent = number; }),
  };
}

function render({ model, el }) {
  const text = model.get("text"), sizes = model.get("sizes"), walk = model.get("steps"), examples = model.get("examples");
  const id = newId("abh-serving");
  const count = examples[0].arrivals.length;
  let state = { ...examples[0], ...walk[0], chosen: count - 1 };

  const change = (what) => {
    state = { ...state, ...what };
    draw();
  };
  const alter = (name, value, r = state.chosen) =>
    change({ chosen: r, [name]: state[name].map((old, one) => (one === r ? value : old)) });
  const block = presets(text.try, walk, text.steps, change);
  const others = tries(text.requests, examples.map((one, k) => [text.examples[k], () => change(one)]));
  const lines = timeline(text, sizes, count, {
    onStep: (now) => change({ now }),
    onDrag: (r, by) => alter("arrivals", Math.min(sizes.last, Math.max(0, state.arrivals[r] + by)), r),
  });
  const chosen = choice(`${id}-request`, text.request, [...NAMES].slice(0, count), state.chosen, (r) => change({ chosen: r }));
  const arrives = slider(text.arrives, { min: 0, max: sizes.last, step: 1 }, (t) => alter("arrivals", t), String);
  const needs = slider(text.needs, { min: 1, max: sizes.most, step: 1 }, (c) => alter("steps", c), String);
  const now = slider(text.now, { min: 0, max: 1, step: 1 }, (t) => change({ now: t }), String);
  const numbers = readouts(text.readouts);
  const long = rows(text, sizes), pages = pool(text, sizes);
  const summary = announcer();
  const root = figure("abh-serving", text.title,
    block.node, numbers.node, lines.node,
    h("div", { class: "abh-handles" }, chosen.node, arrives.node, needs.node, now.node),
    h("div", { class: "abh-panels" }, long.node, pages.node),
    summary.node, others.node);

  function draw() {
    const found = computed(state, sizes);
    block.mark(({ schedule, prefix, about }) => schedule === state.schedule && prefix === state.prefix && about === state.about);
    others.buttons.forEach((button, k) => button.setAttribute("aria-pressed",
      String(["arrivals", "steps"].every((key) => String(examples[k][key]) === String(state[key])))));
    chosen.set(state.chosen);
    arrives.set(state.arrivals[state.chosen]);
    needs.set(state.steps[state.chosen]);
    now.input.max = found.total - 1;
    now.set(found.now);
    numbers.set([fill(text.of, { idle: found.idle, all: sizes.slots * found.total }), show(found.wait, 1), show(found.end, 1)]);
    lines.set(state, found);
    long.set(found);
    pages.set(found);
    root.dataset.now = JSON.stringify({ state, ...found });
    summary.say(fill(text.say[`${state.about}_${state.about === "time" ? state.schedule : state.prefix}`], {
      idle: found.idle, all: sizes.slots * found.total, wait: show(found.wait, 1), end: show(found.end, 1), total: found.total,
      now: found.now, rows: found.empty_rows, pages: found.empty_pages, taken: found.taken, most: found.most, places: sizes.page,
      shared: found.owners.filter((who) => who.length > 1).length,
    }));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
