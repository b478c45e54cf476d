// What the book's figures share: a little mathematics, elements, controls.
//
// It stands before a figure's own file: figures/widget.py puts the two together as one module. Nothing here asks a
// kernel. All words come from Python, so they can be translated.

// ---- mathematics -----------------------------------------------------------------------------------------

/** Dot product of two vectors of the same length. */
export function dot(a, b) {
  return a.reduce((sum, x, i) => sum + x * b[i], 0);
}

/** Softmax of n scores: n positive numbers that sum to 1. */
export function softmax(scores) {
  const largest = Math.max(...scores);
  const powers = scores.map((s) => Math.exp(s - largest));
  const total = powers.reduce((sum, e) => sum + e, 0);
  return powers.map((e) => e / total);
}

/** The places of the largest numbers: one, or several that are level. */
export function largest(numbers) {
  const most = Math.max(...numbers);
  return numbers.flatMap((x, j) => (most - x < 1e-9 ? [j] : []));
}

/** (n, k) times (k, m) -> (n, m), as lists of rows. */
export function matmul(A, B) {
  return A.map((row) => B[0].map((_, c) => row.reduce((sum, a, k) => sum + a * B[k][c], 0)));
}

/** The error function, to the last digits: a series of positive terms. */
export function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

/** x times the share of a normal distribution below x. */
export const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));

/** One row: mean 0 and variance 1, then gain and bias. */
export function layerNorm(x, gain, bias, epsilon = 1e-5) {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  return x.map((value, c) => ((value - mean) / Math.sqrt(variance + epsilon)) * gain[c] + bias[c]);
}

/** One row through an nn.Linear, whose weight is (out, in). */
export function affine(x, weight, bias) {
  return weight.map((row, c) => dot(row, x) + bias[c]);
}

/** The sum of two rows. */
export const plus = (a, b) => a.map((x, c) => x + b[c]);

// ---- words and numbers -----------------------------------------------------------------------------------

/** A number with so many decimals and a real minus sign. */
export const show = (x, digits = 2) =>
  (Math.abs(x) < 0.5 * 10 ** -digits ? 0 : x).toFixed(digits).replace("-", "\u2212");
/** As it would be written by hand: so many decimals at most, none where it is whole. `write` writes it with all of them. */
export function plain(x, digits = 2, write = show) {
  const text = write(x, digits);
  return /·|^[^.]*$/.test(text) ? text : text.replace(/\.?0+$/, "");
}
const showVector = (v) => `(${v.map((x) => show(x)).join(", ")})`;
const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";
/** A whole number written as a power: -12 -> ⁻¹². */
const superscript = (k) => String(k).replace("-", "⁻").replace(/\d/g, (d) => SUPERSCRIPT[d]);
/** "{a} and {b}" with the words {a: ..., b: ...}. */
const fill = (template, words) => template.replace(/\{(\w+)\}/g, (_, name) => words[name] ?? `{${name}}`);

// ---- elements --------------------------------------------------------------------------------------------

let figures = 0; // distinguishes the ids and radio groups of several figures on one page
const newId = (name) => `${name}-${++figures}`;

/** An HTML element: h("p", {class: "x"}, "text", child). */
function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** An SVG element, the same way. */
function s(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A numbered panel with a title and a line that says what to do or see. */
function panel(id, number, title, note, ...children) {
  return h("section", { class: "abh-panel", "aria-labelledby": `${id}-${number}` },
    h("h4", { id: `${id}-${number}` }, h("span", { class: "abh-number", "aria-hidden": "true" }, String(number)), title),
    h("p", { class: "abh-note" }, note), ...children);
}

/** A choice of one: native radio buttons as chips, so arrow keys work and screen readers know them. */
function choice(id, legend, options, chosen, onChoose) {
  const items = options.map((option, i) => {
    const input = h("input", { type: "radio", name: id, value: i });
    input.checked = i === chosen;
    input.addEventListener("change", () => onChoose(i));
    return { input, chip: h("label", { class: "abh-word" }, input, h("span", {}, option)) };
  });
  const node = h("fieldset", { class: "abh-words" }, h("legend", {}, legend), ...items.map((item) => item.chip));
  return { node, set: (i) => items.forEach((item, j) => { item.input.checked = i === j; }) };
}

/** A slider with its name before it and its number after it; `set` shows another value. */
function slider(name, { min, max, step }, onMove, format = (x) => show(x)) {
  const input = h("input", { type: "range", min, max, step, "aria-label": name });
  const number = h("output", {});
  input.addEventListener("input", () => onMove(Number(input.value)));
  return {
    input, number,
    row: h("label", { class: "abh-slider" }, h("span", { "aria-hidden": "true" }, name), input, number),
    set(value) {
      input.value = value;
      number.textContent = format(value);
    },
  };
}

/** A button with its name, and what a press does. */
function button(name, press, kind = "") {
  const node = h("button", { type: "button", class: `abh-reset ${kind}` }, name);
  node.addEventListener("click", press);
  return node;
}

/** A line of text that screen readers hear once it has stopped changing: dragging is no flood of numbers. */
function announcer() {
  const node = h("p", { class: "abh-summary", "aria-live": "polite" });
  let timer = 0;
  return {
    node,
    say(text) {
      clearTimeout(timer);
      timer = setTimeout(() => { node.textContent = text; }, 200);
    },
    stop: () => clearTimeout(timer),
  };
}

/** The whole of a figure: a named group whose controls keep their keys (JupyterLab would take the arrows). */
function figure(name, title, ...children) {
  const root = h("div", { class: `abh-figure ${name}`, role: "group", "aria-label": title }, ...children);
  for (const control of root.querySelectorAll("input, select, button, [tabindex]")) {
    control.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  return root;
}

// ---- the figure's own file -------------------------------------------------------------------------------

