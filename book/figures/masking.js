// A mask to edit, and the weights that a machine makes of it in fp32, bf16 or fp16.
//
// The first part is the mathematics: pure functions, exported, compared with the course's Python and with torch in
// tests/test_figure_masking.py. The second part draws. figures/common.js stands before this file. Nothing here asks a
// kernel: the same code runs in the book's static page and in JupyterLab.

// ---- mathematics -----------------------------------------------------------------------------------------

/** Significant bits, exponent of the smallest and of the largest normal number (IEEE 754; bfloat16). */
export const FORMATS = { fp32: [24, -126, 127], bf16: [8, -126, 127], fp16: [11, -14, 15] };

const view = new DataView(new ArrayBuffer(8));

/** The exponent of a double's leading bit: 5 -> 2. Zero, infinity and NaN give what their bits say. */
function exponentOf(x) {
  view.setFloat64(0, x);
  return ((view.getUint16(0) >> 4) & 0x7ff) - 1023;
}

const HALVES = 1.5 * 2 ** 52; // adding it leaves no room for a fraction, so the sum is rounded, ties to even

/** The number of the format nearest to x, ties to even; subnormals are kept, what is too large becomes infinite. */
export function roundTo(x, kind) {
  if (kind === "fp32") return Math.fround(x);
  if (x === 0 || !Number.isFinite(x)) return x;
  const [bits, low, high] = FORMATS[kind];
  const gap = 2 ** (Math.max(exponentOf(x), low) - bits + 1); // between neighbours near x
  const size = (Math.abs(x) / gap + HALVES - HALVES) * gap;
  return (x < 0 ? -1 : 1) * (size >= 2 ** (high + 1) ? Infinity : size);
}

/**
 * One row of weights as a machine computes it: scores, filled scores, differences, exponentials, their sum and the
 * quotients are each rounded to the format. `fill` is added to forbidden scores; null leaves those keys out.
 */
export function filledRow(scores, allowed, fill, kind) {
  const round = (x) => roundTo(x, kind);
  const ours = fill === null;
  const filled = scores.map(round).map((s, j) => (allowed[j] || ours ? s : round(s + round(fill))));
  const used = filled.filter((_, j) => allowed[j] || !ours);
  const largest = Math.max(...used); // NaN when one of them is NaN
  const powers = filled.map((t, j) => (allowed[j] || !ours ? round(Math.exp(round(t - largest))) : 0));
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

// ---- drawing ---------------------------------------------------------------------------------------------

const [LEAST, MOST] = [-1, 6]; // the slider goes from 10 ** LEAST to 10 ** MOST

const minus = (text) => text.replaceAll("-", "\u2212");
const raised = (k) => `10${superscript(k)}`;

/** A number in few characters, exact enough to see rounding: 1.29688, −9998.7, −9.98e8, −∞, NaN. */
export function short(x, digits = 6) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "\u2212∞";
  const size = Math.abs(x);
  if (size === 0) return "0";
  const text = size >= 1e6 || size < 1e-3 ? x.toExponential(2).replace("e+", "e") : String(Number(x.toPrecision(digits)));
  return minus(text);
}

/** A weight in at most four characters. */
function brief(a) {
  if (Number.isNaN(a)) return "NaN";
  if (a === 0) return "0";
  if (a < 0.005) return "<.01";
  return a < 0.995 ? show(a).slice(1) : "1";
}

function fillName(fill) {
  return Number.isFinite(fill) ? `\u2212${raised(Math.round(Math.log10(-fill)))}` : "\u2212∞";
}

function scaleName(exponent) {
  if (Number.isInteger(exponent)) return exponent < 2 ? String(10 ** exponent) : raised(exponent);
  const x = 10 ** exponent;
  return x < 1e5 ? String(Number(x.toPrecision(2))) : x.toExponential(1).replace("e+", "e");
}

function render({ model, el }) {
  const text = model.get("text");
  const presets = model.get("presets");
  const formats = model.get("formats");
  const scores = model.get("scores");
  const fills = model.get("fills").map((f) => (f === null ? null : f === "-inf" ? -Infinity : Number(f)));
  const id = newId("abh-masking");

  // State: which preset was chosen last, the mask as it stands, and how weights are computed.
  let preset = model.get("preset");
  let mask = [];
  let chosenFill = model.get("fill");
  let kind = model.get("kind");
  let exponent = 0;
  let row = model.get("row");
  let at = [0, 0]; // the cell of the mask that the Tab key reaches

  const presetChoice = choice(`${id}-preset`, text.preset, presets.map((p) => text[p.name] ?? p.name), preset, choose);
  const fillNames = fills.map((f) => (f === null ? text.ours : fill(text.added, { fill: fillName(f) })));
  const fillChoice = choice(`${id}-fill`, text.fill, fillNames, chosenFill, (i) => { chosenFill = i; draw(); });
  const kindChoice = choice(`${id}-kind`, text.format, formats, kind, (i) => { kind = i; draw(); });
  const scale = slider(text.scale, { min: LEAST, max: MOST, step: 0.25 }, (x) => { exponent = x; draw(); }, scaleName);

  const reset = h("button", { type: "button", class: "abh-reset" }, text.reset);
  reset.addEventListener("click", () => choose(preset));
  const maskTable = h("table", { class: "abh-mask" });
  const weightTable = h("table", { class: "abh-weights" });
  const steps = h("tbody");
  const stepsTable = h("table", { class: "abh-steps" },
    h("thead", {}, h("tr", {}, ...["key", "score", "filled", "power", "weight"].map((name) =>
      h("th", { scope: "col" }, text[name])))), steps);
  const stepsPanel = panel(id, 3, text.steps, "", stepsTable);
  const stepsNote = stepsPanel.querySelector(".abh-note");
  const summary = announcer();
  stepsPanel.append(summary.node);

  const root = figure("abh-masking", text.title, presetChoice.node,
    h("div", { class: "abh-controls" }, fillChoice.node, kindChoice.node, h("div", { class: "abh-sliders" }, scale.row)),
    h("div", { class: "abh-panels" },
      panel(id, 1, text.mask, text.mask_note, maskTable, reset),
      panel(id, 2, text.weights, text.weights_note, weightTable),
      stepsPanel));

  /** The row of names over both tables. */
  function heads(keys, ...more) {
    return h("thead", {}, h("tr", {}, h("td"), ...keys.map((k) =>
      h("th", { scope: "col" }, h("span", {}, k))), ...more));
  }

  let cells = []; // buttons of the mask
  let shown = []; // cells of the weights

  /** Build the two tables for the chosen preset: their sizes may differ. */
  function choose(i) {
    preset = i;
    const { queries, keys } = presets[i];
    mask = presets[i].mask.map((r) => [...r]);
    row = Math.min(row, queries.length - 1);
    at = [0, 0];
    cells = queries.map((_, r) => keys.map((_, c) => {
      const cell = h("button", { type: "button", class: "abh-cell", "data-lm-suppress-shortcuts": "true" });
      cell.addEventListener("click", () => { mask[r][c] = !mask[r][c]; at = [r, c]; draw(); });
      return cell;
    }));
    maskTable.replaceChildren(heads(keys), h("tbody", {}, ...queries.map((q, r) =>
      h("tr", {}, h("th", { scope: "row" }, q), ...cells[r].map((cell) => h("td", {}, cell))))));
    shown = queries.map((q, r) => {
      const radio = h("input", { type: "radio", name: `${id}-row`, "data-lm-suppress-shortcuts": "true" });
      radio.addEventListener("change", () => { row = r; draw(); });
      const values = keys.map(() => h("div", { class: "abh-value" }));
      const state = h("td", { class: "abh-state" });
      const line = h("tr", {}, h("th", { scope: "row" }, h("label", {}, radio, q)), ...values.map((v) => h("td", {}, v)), state);
      return { radio, values, state, line };
    });
    weightTable.replaceChildren(heads(keys, h("th", { scope: "col", class: "abh-state" }, text.row)),
      h("tbody", {}, ...shown.map((r) => r.line)));
    draw();
  }

  maskTable.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation(); // the page uses left and right to turn pages
    at = [Math.min(cells.length - 1, Math.max(0, at[0] + step[0])),
      Math.min(cells[0].length - 1, Math.max(0, at[1] + step[1]))];
    tabStop();
    cells[at[0]][at[1]].focus();
  });

  function tabStop() {
    cells.forEach((line, r) => line.forEach((cell, c) => { cell.tabIndex = r === at[0] && c === at[1] ? 0 : -1; }));
  }

  function draw() {
    const { queries, keys } = presets[preset];
    const first = scores.length - queries.length; // the queries are the last ones
    const factor = 10 ** exponent;
    const rows = mask.map((allowed, r) => {
      const scaled = scores[first + r].map((s) => s * factor);
      const one = filledRow(scaled, allowed, fills[chosenFill], formats[kind]);
      return { ...one, scores: scaled, allowed, ...verdict(one.weights, allowed) };
    });

    presetChoice.set(preset);
    fillChoice.set(chosenFill);
    kindChoice.set(kind);
    scale.set(exponent);
    scale.input.setAttribute("aria-valuetext", scaleName(exponent));
    tabStop();
    reset.disabled = presets[preset].mask.every((line, r) => line.every((allowed, c) => allowed === mask[r][c]));

    rows.forEach((one, r) => {
      keys.forEach((key, c) => {
        const cell = cells[r][c];
        const state = one.allowed[c] ? text.allowed : text.forbidden;
        cell.textContent = one.allowed[c] ? "✓" : "✕";
        cell.setAttribute("aria-pressed", one.allowed[c]);
        cell.setAttribute("aria-label", fill(text.cell, { query: queries[r], key, state }));
        const a = one.weights[c];
        const leak = !one.allowed[c] && a > 0;
        const value = shown[r].values[c];
        value.className = "abh-value";
        value.classList.toggle("abh-off", !one.allowed[c]);
        value.classList.toggle("abh-leak", leak);
        value.classList.toggle("abh-middling", a > 0.555);
        value.classList.toggle("abh-strong", a > 0.87);
        value.classList.toggle("abh-nan", Number.isNaN(a));
        value.style.setProperty("--a", `${Number.isNaN(a) ? 0 : Math.round(100 * a)}%`);
        value.replaceChildren(brief(a), ...(leak ? [h("span", { class: "abh-sr" }, ` ${text.leak_word}`)] : []));
      });
      const { radio, state, line } = shown[r];
      radio.checked = r === row;
      line.classList.toggle("abh-chosen", r === row);
      line.dataset.state = one.kind;
      state.textContent = text[one.kind];
    });

    const one = rows[row];
    stepsNote.textContent = fill(text.steps_note, { query: queries[row], format: formats[kind] });
    steps.replaceChildren(...keys.map((key, c) => {
      const out = fills[chosenFill] === null && !one.allowed[c];
      return h("tr", { class: one.allowed[c] ? "" : "abh-off" },
        h("th", { scope: "row" }, `${one.allowed[c] ? "✓" : "✕"} ${key}`), h("td", {}, short(roundTo(one.scores[c], formats[kind]))),
        h("td", {}, out ? text.left_out : short(one.filled[c])), h("td", {}, out ? "" : short(one.powers[c], 4)),
        h("td", {}, short(one.weights[c], 4)));
    }));

    root.dataset.rows = JSON.stringify(rows.map((r) => ({
      kind: r.kind, allowed: r.allowed,
      ...Object.fromEntries(["scores", "filled", "powers", "weights"].map((name) => [name, r[name].map(String)])),
    })));
    summary.say(sentence(rows));
  }

  function sentence(rows) {
    const count = (name) => rows.filter((r) => r.kind === name).length;
    const facts = { total: rows.length };
    const parts = [];
    if (count("nan")) parts.push(fill(text.some_nan, { ...facts, count: count("nan") }));
    if (count("leaks")) {
      const share = show(100 * Math.max(...rows.filter((r) => r.kind === "leaks").map((r) => r.leak)), 0);
      parts.push(fill(text.some_leak, { ...facts, count: count("leaks"), share }));
    }
    if (!parts.length) parts.push(count("empty") ? fill(text.some_empty, { count: count("empty") }) : text.all_fine);
    const how = fills[chosenFill] === null ? text.how_ours : fill(text.how_added, { fill: fillName(fills[chosenFill]) });
    return fill(text.summary, { how, format: formats[kind], scale: scaleName(exponent), verdict: parts.join(" ") });
  }

  choose(preset);
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
