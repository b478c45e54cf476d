// What one layer of attention costs on a machine: time that no program can go below, and memory.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// tests/test_figure_complexity.py. The second part draws. Nothing here asks a kernel: the same code runs in the
// book's static page and in JupyterLab.

import { agrees, choice, presets, slider } from "./common/controls.js";
import { announcer, figure, h, newId } from "./common/elements.js";
import { fill, plain } from "./common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** (n, k) times (k, m): operations (a multiply-add is two), and numbers read and written at least. */
export function product(n, k, m) {
  return { operations: 2 * n * k * m, numbers: n * k + k * m + n * m };
}

const times = (count, one) => ({ operations: count * one.operations, numbers: count * one.numbers });

/** The five steps of a layer, one after another: operations and numbers moved. Softmax's operations are not counted. */
export function steps({ n, d_model: d, num_heads: heads, batch: b }) {
  return [
    product(b * n, d, 3 * d),
    times(b * heads, product(n, d / heads, n)),
    { operations: 0, numbers: 2 * b * heads * n * n },
    times(b * heads, product(n, n, d / heads)),
    product(b * n, d, d),
  ];
}

/** The least seconds of a step: by arithmetic, and by memory traffic. */
export function floor(step, bytes, speed, bandwidth) {
  return { arithmetic: step.operations / speed, traffic: (bytes * step.numbers) / bandwidth };
}

/** Bytes that are there at once: parameters with biases, the tokens' rows, and scores with weights while softmax runs. */
export function memory({ n, d_model: d, num_heads: heads, batch: b }, bytes) {
  return { parameters: bytes * (4 * d * d + 4 * d), tokens: bytes * 5 * b * n * d, weights: bytes * 2 * b * heads * n * n };
}

/** Everything that the figure shows of a state on a machine. */
export function cost(state, bytes, machine) {
  const all = steps(state);
  const floors = all.map((step) => floor(step, bytes, machine.speed[state.dtype], machine.bandwidth));
  const least = floors.map((f) => Math.max(f.arithmetic, f.traffic));
  const total = least.reduce((sum, t) => sum + t, 0);
  const busy = floors.reduce((sum, f) => sum + (f.arithmetic >= f.traffic ? f.arithmetic : 0), 0);
  const parts = memory(state, bytes);
  const needed = parts.parameters + parts.tokens + parts.weights;
  const ratio = (all[1].operations + all[3].operations) / (all[0].operations + all[4].operations);
  const fits = !machine.memory || needed <= machine.memory;
  return { steps: all, floors, least, total, memory: parts, needed, ratio,
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

const SIZES = ["n", "d_model", "num_heads", "batch"]; // in the order of the sliders

/** "d_model" and "W_o" with what stands behind the underscore set low, and single letters in italics. */
function set(text) {
  return text.split(/([A-Za-z]+_[a-z]+|\b[A-Za-z]\b)/).map((part, i) => {
    if (i % 2 === 0) return part;
    const [letter, low] = part.split("_");
    return low ? h("span", {}, h("i", {}, letter), h("sub", {}, low)) : h("i", {}, letter);
  });
}

/** The table of the five steps: the least time by arithmetic and by traffic, as bars, and the longer one as a number. */
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
        row.number.textContent = inSeconds(now.least[i]);
        row.track.setAttribute("aria-label",
          fill(text.both, { step: row.name, arithmetic: inSeconds(arithmetic), traffic: inSeconds(traffic) }));
      });
      total.textContent = inSeconds(now.total);
    },
  };
}

/** What memory holds, as pieces of one bar, with the machine's limit where it is known. */
function storing(text) {
  const kinds = ["parameters", "tokens", "weights"];
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

/** What sentences say of a cost on a machine. */
function told(now, on, text) {
  const words = {
    total: inBytes(now.needed), capacity: inBytes(on.memory), time: inSeconds(now.total), machine: on.name, what: on.what,
    ratio: now.ratio >= 9.95 ? Math.round(now.ratio).toLocaleString("en") : now.ratio >= 0.0995 ? plain(now.ratio) : plain(now.ratio, 4),
  };
  words.limit = fill(text[`by_${now.limit}`], words);
  words.compared = fill(now.ratio === 1 ? text.level : text.times, words);
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

  const machine = choice(`${id}-machine`, text.machine, machines.map((one) => (one ? one.name : text.unmeasured)),
    state.machine, (i) => change({ machine: i }));
  machine.node.querySelectorAll("input").forEach((input, i) => {
    input.disabled = !machines[i];
    input.closest("label").classList.toggle("abh-missing", !machines[i]);
  });
  const dtype = choice(`${id}-dtype`, text.dtype, names, names.indexOf(state.dtype), (i) => change({ dtype: names[i] }));
  const sliders = SIZES.map((name) => {
    const made = slider(text[name], { min: 0, max: stops[name].length - 1, step: 1 },
      (i) => change({ [name]: stops[name][i] }), (i) => stops[name][i].toLocaleString("en"));
    made.node.firstChild.replaceChildren(...set(text[name]));
    return { name, ...made };
  });
  const states = model.get("tries");
  const block = presets(text.try, states, text.tries, change);
  block.buttons.forEach((node, i) => { node.disabled = !machines[states[i].machine]; });

  const time = timing(text);
  const memoryPanel = storing(text);
  const summary = announcer();
  const root = figure("abh-complexity", text.title,
    block.node,
    h("div", { class: "abh-choices" }, machine.node, dtype.node),
    h("div", { class: "abh-sliders" }, ...sliders.map((one) => one.node)),
    h("div", { class: "abh-panels" }, time.node, memoryPanel.node),
    summary.node);

  function draw() {
    const on = machines[state.machine];
    const now = cost(state, dtypes[state.dtype], on);
    const words = told(now, on, text);
    machine.set(state.machine);
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
