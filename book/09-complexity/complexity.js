// What attention, or the block around it, costs on a machine: time that no program can go below, and memory.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// test_figure_complexity.py. The second part draws. Nothing here asks a kernel: the same code runs in the
// book's static page and in JupyterLab.

import { agrees, choice, presets, slider } from "../figures/common/controls.js";
import { announcer, figure, h, newId } from "../figures/common/elements.js";
import { fill, plain } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** (n, k) times (k, m): operations (a multiply-add is two), and numbers read and written at least. */
export function product(n, k, m) {
  return { operations: 2 * n * k * m, numbers: n * k + k * m + n * m };
}

const times = (count, one) => ({ operations: count * one.operations, numbers: count * one.numbers });

/** The steps of a block, one after another: operations and numbers moved. Softmax's operations are not counted.
 *
 *  n tokens are new, and the keys and values of `context` others are in the cache. The last step is the MLP, four times
 *  as wide inside; it has no operations where the cost is that of attention alone. */
export function steps({ n, context, d_model: d, num_heads: heads, batch: b, block }) {
  const keys = context + n, up = product(b * n, d, 4 * d), down = product(b * n, 4 * d, d);
  return [
    product(b * n, d, 3 * d),
    times(b * heads, product(n, d / heads, keys)),
    { operations: 0, numbers: 2 * b * heads * n * keys },
    times(b * heads, product(n, keys, d / heads)),
    product(b * n, d, d),
    { operations: block * (up.operations + down.operations), numbers: block * (up.numbers + down.numbers) },
  ];
}

/** The least seconds of a step: by arithmetic, and by memory traffic. */
export function floor(step, bytes, speed, bandwidth) {
  return { arithmetic: step.operations / speed, traffic: (bytes * step.numbers) / bandwidth };
}

/** Bytes that are there while softmax runs: parameters with biases, the new tokens' rows, scores with weights, cache. */
export function memory({ n, context, d_model: d, num_heads: heads, batch: b, block }, bytes) {
  return {
    parameters: bytes * (4 * d * d + 4 * d + block * (8 * d * d + 5 * d)), tokens: bytes * 5 * b * n * d,
    weights: bytes * 2 * b * heads * n * (context + n), cache: bytes * 2 * b * context * d,
  };
}

/** Everything that the figure shows of a state on a machine. */
export function cost(state, bytes, machine) {
  const { d_model: d, context, batch: b, block } = state;
  const all = steps(state);
  const floors = all.map((step) => floor(step, bytes, machine.speed[state.dtype], machine.bandwidth));
  const least = floors.map((f) => Math.max(f.arithmetic, f.traffic));
  const sum = (list) => list.reduce((x, y) => x + y, 0);
  const total = sum(least);
  const busy = sum(floors.map((f) => (f.arithmetic >= f.traffic ? f.arithmetic : 0)));
  const parts = memory(state, bytes);
  const needed = sum(Object.values(parts));
  const ratio = (all[1].operations + all[3].operations) / (all[0].operations + all[4].operations + all[5].operations);
  const moved = sum(all.map((step) => step.numbers));
  const shares = { parameters: (4 + 8 * block) * d * d / moved, cache: 2 * b * context * d / moved };
  const fits = !machine.memory || needed <= machine.memory;
  return { steps: all, floors, least, total, memory: parts, needed, ratio, shares,
    limit: !fits ? "size" : busy >= total / 2 ? "arithmetic" : "traffic" };
}

/** A number with three digits and its unit. */
export function withUnit(x, units) {
  const at = Math.max(0, units.findLastIndex(([, size]) => x >= size));
  const value = x / units[at][1];
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  const text = value.toFixed(digits).replace(/\B(?=(\d{3})+$)/g, digits ? "" : ",");
  return `${text} ${units[at][0]}`;
}

export const inSeconds = (t) => withUnit(t, [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3], ["s", 1]]);
export const inBytes = (x) => withUnit(x, [["B", 1], ["KB", 1e3], ["MB", 1e6], ["GB", 1e9], ["TB", 1e12]]);

// ---- drawing ---------------------------------------------------------------------------------------------

const SIZES = ["n", "context", "d_model", "num_heads", "batch"]; // in the order of the sliders

/** "d_model" and "W_o" with what stands behind the underscore set low, and single letters in italics. */
function set(text) {
  return text.split(/([A-Za-z]+_[a-z]+|\b[A-Za-z]\b)/).map((part, i) => {
    if (i % 2 === 0) return part;
    const [letter, low] = part.split("_");
    return low ? h("span", {}, h("i", {}, letter), h("sub", {}, low)) : h("i", {}, letter);
  });
}

/** The table of the steps: the least time by arithmetic and by traffic, as bars, and the longer one as a number. */
function timing(text) {
  const rows = text.steps.map((name) => {
    const bars = ["arithmetic", "traffic"].map((kind) => h("div", { class: `abh-bar abh-${kind}` }));
    const track = h("div", { class: "abh-track", role: "img" }, ...bars);
    const number = h("td", {});
    return { name, bars, track, number, node: h("tr", {}, h("th", { scope: "row" }, ...set(name)), h("td", {}, track), number) };
  });
  const total = h("td", {});
  const legend = ["arithmetic", "traffic"].map((kind) => h("span", { class: "abh-key" }, h("i", { class: `abh-${kind}` }), text[kind]));
  const node = h("section", { class: "abh-panel abh-time", "aria-label": text.time },
    h("h4", {}, text.time, h("span", { class: "abh-keys" }, ...legend)),
    h("table", {}, h("tbody", {}, ...rows.map((row) => row.node),
      h("tr", { class: "abh-total" }, h("th", { scope: "row", colspan: "2" }, text.sum), total))));
  return {
    node,
    set(now) {
      const longest = Math.max(...now.least);
      rows.forEach((row, i) => {
        const { arithmetic, traffic } = now.floors[i];
        [arithmetic, traffic].forEach((t, k) => {
          row.bars[k].style.width = `${(100 * t) / longest}%`;
          row.bars[k].classList.toggle("abh-longer", t === now.least[i]);
        });
        const counted = now.least[i] > 0;
        row.node.classList.toggle("abh-off", !counted);
        row.number.textContent = counted ? inSeconds(now.least[i]) : "–";
        row.track.setAttribute("aria-label", counted
          ? fill(text.both, { step: row.name, arithmetic: inSeconds(arithmetic), traffic: inSeconds(traffic) })
          : `${row.name}: ${text.none}`);
      });
      total.textContent = inSeconds(now.total);
    },
  };
}

/** What memory holds, as pieces of one bar, with the machine's limit where it is known. */
function storing(text) {
  const kinds = ["parameters", "tokens", "weights", "cache"];
  const pieces = Object.fromEntries(kinds.map((kind) => [kind, h("div", { class: `abh-piece abh-${kind}` })]));
  const limit = h("div", { class: "abh-limit" });
  const facts = Object.fromEntries(kinds.map((kind) => [kind, h("dd", {})]));
  const share = h("p", { class: "abh-share" });
  const node = h("section", { class: "abh-panel abh-memory", "aria-label": text.memory },
    h("h4", {}, text.memory),
    h("div", { class: "abh-stack", "aria-hidden": "true" }, ...kinds.map((kind) => pieces[kind]), limit), share,
    h("dl", {}, ...kinds.map((kind) => h("div", {},
      h("dt", {}, h("i", { class: `abh-${kind}` }), h("span", {}, ...set(text[kind]))), facts[kind]))));
  return {
    node,
    set(now, capacity, words) {
      const whole = Math.max(now.needed, capacity);
      for (const kind of kinds) {
        pieces[kind].style.width = `${(100 * now.memory[kind]) / whole}%`;
        facts[kind].textContent = inBytes(now.memory[kind]);
      }
      limit.style.left = `${(100 * capacity) / whole}%`;
      limit.hidden = !capacity;
      share.textContent = fill(capacity ? text.share : text.alone, words);
    },
  };
}

/** What sentences say of a state's cost on a machine. */
function told(state, now, on, text) {
  const percent = (share) => fill(text.percent, { number: Math.round(100 * share) });
  const words = {
    total: inBytes(now.needed), capacity: inBytes(on.memory), time: inSeconds(now.total), machine: on.name, what: on.what,
    part: text.one[state.block], parameters: percent(now.shares.parameters), cache: percent(now.shares.cache),
    ratio: now.ratio >= 9.95 ? Math.round(now.ratio).toLocaleString("en") : now.ratio >= 0.0995 ? plain(now.ratio) : plain(now.ratio, 4),
  };
  words.limit = fill(text[`by_${now.limit}`], words);
  words.compared = fill(state.context ? text.moved : (now.ratio === 1 ? text.level : text.times)[state.block], words);
  return words;
}

function render({ model, el }) {
  const text = model.get("text");
  const machines = model.get("machines");
  const stops = model.get("stops");
  const dtypes = model.get("dtypes");
  const names = Object.keys(dtypes).sort((a, b) => dtypes[b] - dtypes[a]);
  const id = newId("abh-complexity");
  let state = { ...model.get("state") };
  const change = (what) => { state = { ...state, ...what }; draw(); };

  const machine = choice(`${id}-machine`, text.machine, machines.map((one) => one.name), state.machine,
    (i) => change({ machine: i }));
  const dtype = choice(`${id}-dtype`, text.dtype, names, names.indexOf(state.dtype), (i) => change({ dtype: names[i] }));
  const part = choice(`${id}-part`, text.part, text.parts, state.block, (i) => change({ block: i }));
  const sliders = SIZES.map((name) => {
    const made = slider(text[name], { min: 0, max: stops[name].length - 1, step: 1 },
      (i) => change({ [name]: stops[name][i] }), (i) => stops[name][i].toLocaleString("en"));
    made.node.firstChild.replaceChildren(...set(text[name]));
    return { name, ...made };
  });
  const states = model.get("tries");
  const block = presets(text.try, states, text.tries, change);

  const time = timing(text);
  const memoryPanel = storing(text);
  const summary = announcer();
  const root = figure("abh-complexity", text.title,
    block.node,
    h("div", { class: "abh-choices" }, machine.node, dtype.node),
    h("div", { class: "abh-sliders" }, ...sliders.map((one) => one.node), part.node),
    h("div", { class: "abh-panels" }, time.node, memoryPanel.node),
    summary.node);

  function draw() {
    const on = machines[state.machine];
    const now = cost(state, dtypes[state.dtype], on);
    const words = told(state, now, on, text);
    machine.set(state.machine);
    part.set(state.block);
    dtype.set(names.indexOf(state.dtype));
    for (const one of sliders) {
      one.set(stops[one.name].indexOf(state[one.name]));
      one.input.setAttribute("aria-valuetext", String(state[one.name]));
    }
    block.mark((wanted) => agrees(state, wanted));
    time.set(now);
    memoryPanel.set(now, on.memory, words);
    root.dataset.limit = now.limit;
    root.dataset.now = JSON.stringify({ state, ...now });
    summary.say(fill(text.summary, words));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
