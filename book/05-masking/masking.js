// A mask to edit, and the resulting weights: exact, or as a machine computes them in fp32, bf16 or fp16.
//
// The first part is the mathematics: pure functions, exported, compared with the course's Python and with torch in
// test_figure_masking.py. The second part draws. Nothing here asks a kernel: the same code runs in the book's
// static page and in JupyterLab.

import { button, choice, presets, slider, stepper } from "../figures/common/controls.js";
import { announcer, figure, h, newId } from "../figures/common/elements.js";
import { matmul } from "../figures/common/mathematics.js";
import { fill, inARow, show, superscript } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** Significant bits, exponent of the smallest and of the largest normal number (IEEE 754; bfloat16). */
export const FORMATS = { fp64: [53, -1022, 1023], fp32: [24, -126, 127], bf16: [8, -126, 127], fp16: [11, -14, 15] };

const view = new DataView(new ArrayBuffer(8));

/** The exponent of a double's leading bit: 5 -> 2. Zero, infinity and NaN give what their bits say. */
function exponentOf(x) {
  view.setFloat64(0, x);
  return ((view.getUint16(0) >> 4) & 0x7ff) - 1023;
}

const HALVES = 1.5 * 2 ** 52; // adding it leaves no room for a fraction, so the sum is rounded, ties to even

/** The number of the format nearest to x, ties to even; subnormals are kept, what is too large becomes infinite. */
export function roundTo(x, kind) {
  if (kind === "fp64") return x;
  if (kind === "fp32") return Math.fround(x);
  if (x === 0 || !Number.isFinite(x)) return x;
  const [bits, low, high] = FORMATS[kind];
  const gap = 2 ** (Math.max(exponentOf(x), low) - bits + 1); // between neighbours near x
  const size = (Math.abs(x) / gap + HALVES - HALVES) * gap;
  return (x < 0 ? -1 : 1) * (size >= 2 ** (high + 1) ? Infinity : size);
}

/**
 * One row of weights as a machine computes it: scores, filled scores, differences, exponentials, their sum and the
 * quotients are each rounded to the format. `filling` is added to forbidden scores; null puts −∞ in their place and
 * guards an empty row. With `shift` false the exponentials are those of the filled scores themselves.
 */
export function filledRow(scores, allowed, filling, kind, shift = true) {
  const round = (x) => roundTo(x, kind);
  const ours = filling === null;
  const filled = scores.map(round).map((x, j) => (allowed[j] ? x : ours ? -Infinity : round(x + round(filling))));
  const used = filled.filter((_, j) => allowed[j] || !ours);
  const most = shift ? Math.max(...used) : 0; // NaN when one of them is NaN
  const powers = filled.map((t, j) => (allowed[j] || !ours ? round(Math.exp(round(t - most))) : 0));
  const total = round(powers.reduce((sum, e) => sum + e, 0));
  const weights = powers.map((e, j) => (allowed[j] || !ours ? round(e / total) : 0));
  return { filled, powers, total, weights };
}

/** What became of a row: its kind ("nan", "leaks", "empty" or "fine") and its weight on forbidden keys. */
export function verdict(weights, allowed) {
  const leak = weights.reduce((sum, a, j) => sum + (allowed[j] ? 0 : a), 0);
  if (weights.some(Number.isNaN)) return { kind: "nan", leak: NaN };
  if (leak > 0) return { kind: "leaks", leak };
  return { kind: allowed.some(Boolean) ? "fine" : "empty", leak };
}

/** Weights (n) and values (n, d) -> the output (d). */
export function mix(weights, values) {
  return matmul([weights], values)[0];
}

// ---- numbers ---------------------------------------------------------------------------------------------

const minus = (text) => text.replaceAll("-", "\u2212");

/** A number in at most seven characters: 0.693, −9998.6, −9.98e8, <.001, −∞, NaN. */
export function short(x) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "\u2212∞";
  const size = Math.abs(x);
  if (size === 0) return "0";
  if (size < 0.0005) return x > 0 ? "<.001" : "\u2212.000";
  if (size >= 1e5) return minus(x.toExponential(2).replace("e+", "e").replace(".00e", "e"));
  return minus(String(Number(size < 100 ? x.toFixed(3) : x.toPrecision(5))));
}

const raised = (k) => `10${superscript(k)}`;
const fillName = (x) => (Number.isFinite(x) ? `\u2212${raised(Math.round(Math.log10(-x)))}` : "\u2212∞");

function scaleName(exponent) {
  if (Number.isInteger(exponent)) return exponent < 2 ? String(10 ** exponent) : raised(exponent);
  const x = 10 ** exponent;
  return x < 1e5 ? String(Number(x.toPrecision(2))) : x.toExponential(1).replace("e+", "e");
}

// ---- drawing ---------------------------------------------------------------------------------------------

const [LEAST, MOST] = [-1, 6]; // the slider goes from 10 ** LEAST to 10 ** MOST
const STEPS = ["scores", "mask", "powers", "weights", "output"];
const [MASK, POWERS, WEIGHTS, OUTPUT] = [1, 2, 3, 4];

const same = (one, two) => String(one) === String(two) && one.length === two.length;

/** The mask as a table to edit: a square for each query and key, and what is said of a row at its end.
 *
 *  press(r, c): a square was pressed. `build` makes it anew for a mask, since masks have different numbers of rows.
 */
function table(words, text, press) {
  const node = h("table", { class: "abh-mask" });
  const heads = words.map(() => h("th", { scope: "col" }));
  const lastHead = h("th", { scope: "col", class: "abh-last" });
  let rows = []; // their squares and their last cell
  let at = [0, 0]; // the square that the Tab key reaches

  function tabStop() {
    rows.forEach(({ squares }, r) => squares.forEach(({ square }, c) => { square.tabIndex = r === at[0] && c === at[1] ? 0 : -1; }));
  }

  node.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!way) return;
    event.preventDefault();
    event.stopPropagation(); // the page uses left and right to turn pages
    at = [0, 1].map((k) => Math.min((k ? words : rows).length - 1, Math.max(0, at[k] + way[k])));
    tabStop();
    rows[at[0]].squares[at[1]].square.focus();
  });

  function build(mask) {
    at = [0, 0];
    rows = mask.map((_, r) => {
      const squares = words.map((_, c) => {
        const number = h("span", { class: "abh-x" });
        const square = h("button", { type: "button", class: "abh-square", "data-lm-suppress-shortcuts": "true" }, number);
        square.addEventListener("click", () => {
          at = [r, c];
          press(r, c);
        });
        return { square, number };
      });
      const name = h("th", { scope: "row" });
      const last = h("td", { class: "abh-last" });
      return { squares, name, last, line: h("tr", {}, name, ...squares.map((one) => h("td", {}, one.square)), last) };
    });
    node.replaceChildren(
      h("thead", {}, h("tr", {},
        h("td", { class: "abh-corner" }, h("span", { class: "abh-of-keys" }, `${text.key} →`), h("span", { class: "abh-of-queries" }, `${text.query} ↓`)),
        ...heads, lastHead)),
      h("tbody", {}, ...rows.map((row) => row.line)));
  }

  /** A square: its number, whether it is closed, and what has become of its weight. */
  function setSquare({ square, number }, x, a, allowed, step, names) {
    const leak = step >= WEIGHTS && !allowed && a > 0;
    number.textContent = short(x);
    square.classList.toggle("abh-closed", !allowed && step >= MASK);
    square.classList.toggle("abh-leak", leak);
    square.classList.toggle("abh-nan", step >= POWERS && Number.isNaN(x));
    square.classList.toggle("abh-middling", step >= WEIGHTS && a > 0.555);
    square.classList.toggle("abh-strong", step >= WEIGHTS && a > 0.87);
    square.style.setProperty("--a", `${step >= WEIGHTS && a > 0 ? Math.round(100 * a) : 0}%`);
    square.setAttribute("aria-pressed", allowed);
    const state = (allowed ? text.allowed : text.forbidden) + (leak ? `, ${text.leak_word}` : "");
    square.setAttribute("aria-label", fill(text.cell, { ...names, state, number: short(x) }));
  }

  /** Show the rows of `now` at a step, in a format; with `marked`, which of their outputs have changed. */
  function set(now, step, format, shownWords, queries, marked) {
    tabStop();
    heads.forEach((head, j) => { head.textContent = shownWords[j]; });
    lastHead.textContent = step === POWERS || step === WEIGHTS ? text.sum : step === OUTPUT ? text.output : "";
    rows.forEach(({ squares, name, last, line }, r) => {
      const one = now[r];
      const numbers = [one.scores.map((x) => roundTo(x, format)), one.filled, one.powers, one.weights, one.weights][step];
      name.textContent = queries[r];
      line.dataset.state = one.kind;
      squares.forEach((square, c) =>
        setSquare(square, numbers[c], one.weights[c], one.allowed[c], step, { query: queries[r], key: shownWords[c] }));
      const weightSum = one.weights.reduce((sum, x) => sum + x, 0);
      const said = ["", "", short(one.total), short(weightSum), `(${one.output.map(short).join(", ")})`][step];
      last.replaceChildren(said, ...(marked
        ? [h("small", { class: one.changed ? "abh-moved" : "" }, one.changed ? text.changed : text.same)] : []));
    });
  }

  return { node, build, set };
}

/** What has become of the rows of some queries, in sentences. */
function findings(now, queries, closed, text) {
  const listed = (keep) => {
    const found = queries.filter((_, r) => keep(now[r]));
    return [found.slice(0, -1).join(text.comma), ...found.slice(-1)].filter(Boolean).join(text.and);
  };
  const parts = [];
  const nanEmpty = listed((row) => row.kind === "nan" && !row.allowed.some(Boolean));
  const nan = listed((row) => row.kind === "nan" && row.allowed.some(Boolean));
  const leaking = now.filter((row) => row.kind === "leaks");
  const guarded = listed((row) => row.kind === "empty");
  if (nanEmpty) parts.push(fill(text.nan_empty, { rows: nanEmpty }));
  if (nan) parts.push(fill(text.nan, { rows: nan }));
  if (leaking.length) {
    const share = show(100 * Math.max(...leaking.map((row) => row.leak)), 0);
    parts.push(fill(leaking.length > 1 ? text.leaks : text.leak, { rows: listed((row) => row.kind === "leaks"), share }));
  }
  if (!parts.length) parts.push(closed ? text.all_fine : text.none_closed);
  if (guarded) parts.push(fill(text.guard, { rows: guarded }));
  const count = now.filter((row) => row.changed).length;
  const changed = count === now.length ? text.all_changed
    : count ? fill(text.some_changed, { rows: listed((row) => row.changed) }) : text.none_changed;
  return { verdict: inARow(parts), changed };
}

function render({ model, el }) {
  const text = model.get("text");
  const machine = model.get("machine");
  const words = model.get("tokens");
  const other = model.get("other");
  const masks = model.get("presets");
  const presetWords = model.get("preset_words"); // of presets with words of their own: these, then another last word
  const formats = model.get("formats");
  const fills = model.get("fills").map((f) => (f === null ? null : f === "-inf" ? -Infinity : Number(f)));
  const id = newId("abh-masking");

  // State: the mask, the words and the other last one, what forbidden scores get, how numbers are kept, which step is
  // shown, and whether the last word is the other one.
  const wordsOf = (preset) => presetWords[preset] ?? [...words, other.word];
  const first = { preset: model.get("preset"), fill: model.get("fill"), kind: model.get("kind"), exponent: 0 };
  let { fill: chosenFill, kind, exponent } = first;
  let mask = [];
  let named = wordsOf(first.preset);
  let step = model.get("step");
  let swapped = false;

  const walk = stepper(id, text, text.step_names, step, (to) => { step = to; draw(); });
  const fillNames = fills.map((f) => (f === null ? text.guarded : fillName(f)));
  const fillChoice = choice(`${id}-fill`, text.fill, fillNames, chosenFill, (i) => { chosenFill = i; draw(); });
  const kindChoice = choice(`${id}-kind`, text.format, formats, kind, (i) => { kind = i; draw(); });
  const scale = slider(text.scale, { min: LEAST, max: MOST, step: 0.25 }, (x) => { exponent = x; draw(); }, scaleName);

  const states = model.get("tries");
  const swap = button(`${states.length + 1} ${text.swap}`, () => { swapped = !swapped; step = OUTPUT; draw(); });
  const reset = button(text.reset, () => { swapped = false; present(first, 0); });
  const block = presets(text.try, states, machine ? text.machine_tries : text.tries,
    (wanted) => present(wanted, Math.max(step, WEIGHTS)), ...(machine ? [] : [swap]), reset);

  const squares = table(words, text, (r, c) => {
    mask[r][c] = !mask[r][c];
    step = Math.max(step, MASK);
    draw();
  });
  const summary = announcer();
  const root = figure(`abh-masking${machine ? " abh-machine" : ""}`, text.title,
    walk.node,
    summary.node,
    ...(machine ? [h("div", { class: "abh-controls" }, fillChoice.node, kindChoice.node,
      h("div", { class: "abh-sliders" }, scale.node))] : []),
    h("div", { class: "abh-stages" }, h("div", { class: "abh-grid" }, squares.node), block.node));

  /** Show a mask and what goes with it, at a step. */
  function present(wanted, newStep) {
    ({ fill: chosenFill, kind = first.kind, exponent = 0 } = wanted);
    mask = masks[wanted.preset].map((row) => [...row]);
    named = wordsOf(wanted.preset);
    step = newStep;
    squares.build(mask);
    draw();
  }

  /** Everything about each row of the mask, with the last word as it was or with the other one. */
  function computed(withOther) {
    const { scores, values } = withOther ? other : { scores: model.get("scores"), values: model.get("values") };
    const above = words.length - mask.length; // the queries are the last ones
    return mask.map((allowed, r) => {
      const scaled = scores[above + r].map((x) => x * 10 ** exponent);
      const one = filledRow(scaled, allowed, fills[chosenFill], formats[kind], machine);
      return { scores: scaled, allowed, ...one, output: mix(one.weights, values), ...verdict(one.weights, allowed) };
    });
  }

  function draw() {
    const before = computed(false);
    const now = swapped ? computed(true) : before;
    now.forEach((row, r) => { row.changed = row.output.some((x, k) => !Object.is(x, before[r].output[k])); });
    const shownWords = words.map((_, j) => named[swapped && j === words.length - 1 ? j + 1 : j]);
    const queries = shownWords.slice(words.length - mask.length);
    const format = formats[kind];

    walk.set(step);
    fillChoice.set(chosenFill);
    kindChoice.set(kind);
    scale.set(exponent);
    scale.input.setAttribute("aria-valuetext", scaleName(exponent));
    root.dataset.step = step;
    swap.setAttribute("aria-pressed", swapped);
    const isAt = (wanted) => wanted.fill === chosenFill && (wanted.kind ?? first.kind) === kind
      && (wanted.exponent ?? 0) === exponent && same(masks[wanted.preset], mask) && same(wordsOf(wanted.preset), named);
    block.mark((wanted) => step >= WEIGHTS && isAt(wanted));
    reset.disabled = step === 0 && !swapped && isAt(first);
    squares.set(now, step, format, shownWords, queries, swapped && step === OUTPUT);

    root.dataset.rows = JSON.stringify(now.map((row) => ({
      kind: row.kind, allowed: row.allowed, changed: row.changed,
      ...Object.fromEntries(["scores", "filled", "powers", "weights", "output"].map((key) => [key, row[key].map(String)])),
    })));
    summary.say(sentence(now, queries, format));
  }

  function sentence(now, queries, format) {
    const closed = mask.flat().filter((open) => !open).length;
    const found = findings(now, queries, closed, text);
    const said = swapped && step === OUTPUT
      ? fill(text.swapped, { new: named.at(-1), old: named.at(-2), verdict: found.changed }) : found.verdict;
    const f = fills[chosenFill];
    const filled = !closed ? "" : f === null || !Number.isFinite(f) ? text.becomes : fill(text.added, { fill: fillName(f), format });
    const name = machine && step === POWERS ? "shifted" : STEPS[step];
    return fill(text[`say_${name}`], { closed, total: mask.flat().length, filled, format, verdict: said }).trim();
  }

  present(first, step);
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
