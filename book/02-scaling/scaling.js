// What dividing the scores does, by the length of queries and keys.
//
// The first part is the mathematics: pure functions, exported, compared with the course's Python in
// test_figure_scaling.py. The second part draws. Nothing here asks a kernel: the same code runs in the book's
// static page and in JupyterLab.

import { button, choice, presets, slider } from "../figures/common/controls.js";
import { announcer, figure, h, newId, s } from "../figures/common/elements.js";
import { largest, softmax } from "../figures/common/mathematics.js";
import { fill, percent, scientific, show } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** Bytes in base64, signed, as rows of d numbers divided by `step`. */
export function unpack(text, d, step) {
  const bytes = Int8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return Array.from({ length: bytes.length / d }, (_, i) => Array.from(bytes.subarray(i * d, (i + 1) * d), (x) => x / step));
}

/** Dot products of q with each row of K, over the first entries only, for each length in `stops`: (stops, n). */
export function scoresAtStops(q, K, stops) {
  const sums = K.map(() => 0);
  let c = 0;
  return stops.map((stop) => {
    for (; c < stop; c++) K.forEach((k, j) => { sums[j] += q[c] * k[c]; });
    return [...sums];
  });
}

/** What divides the scores: 1, the root of d_k, or d_k. */
export const divisorOf = (kind, d_k) => [1, Math.sqrt(d_k), d_k][kind];

/** Shannon entropy of n weights in nats. */
export function entropy(weights) {
  return weights.reduce((sum, a) => (a > 0 ? sum - a * Math.log(a) : sum), 0);
}

/** Root of the sum of squares of all d a_i / d s_j = a_i ([i = j] - a_j). */
export function gradientSize(weights) {
  let sum = 0;
  for (let i = 0; i < weights.length; i++) {
    for (let j = 0; j < weights.length; j++) sum += (weights[i] * ((i === j ? 1 : 0) - weights[j])) ** 2;
  }
  return Math.sqrt(sum);
}

/** One query's raw scores, times a factor: scores, weights, entropy and the size of softmax's gradient. */
export function row(raw, factor) {
  const scores = raw.map((x) => x * factor);
  const weights = softmax(scores);
  return { scores, weights, entropy: entropy(weights), gradient: gradientSize(weights) };
}

const mean = (list) => list.reduce((sum, x) => sum + x, 0) / list.length;

/** Standard deviation of a list of numbers around their mean. */
export function spread(list) {
  const middle = mean(list);
  return Math.sqrt(mean(list.map((x) => (x - middle) ** 2)));
}

/** The middle of a list, or the mean of its two middles. */
export function median(list) {
  const sorted = [...list].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Raw scores (m, n) of all queries, times a factor: the gradient of the median query. */
export function medianGradient(raws, factor) {
  return median(raws.map((raw) => row(raw, factor).gradient));
}

/** The width of a bin for scores that spread so far: 1, or a tenth, a hundredth, ... where they lie close together. */
export function binWidth(deviation) {
  return Math.min(1, 10 ** Math.floor(Math.log10(deviation / 0.9)));
}

/** The share of a normal distribution (mean 0) below x; Abramowitz and Stegun 7.1.26, good to about 1e-7. */
export function normalBelow(x, deviation) {
  const z = Math.abs(x) / deviation / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * z);
  const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const half = 0.5 * tail * Math.exp(-z * z);
  return x < 0 ? half : 1 - half;
}

/** Counts in bins one wide around -reach, ..., reach; what lies beyond goes into the first and last. */
export function histogram(list, reach) {
  const counts = Array.from({ length: 2 * reach + 1 }, () => 0);
  for (const x of list) counts[Math.min(reach, Math.max(-reach, Math.round(x))) + reach] += 1;
  return counts;
}

/** The same bins as shares of a normal distribution. */
export function normalShares(deviation, reach) {
  return Array.from({ length: 2 * reach + 1 }, (_, i) => {
    const from = i === 0 ? 0 : normalBelow(i - reach - 0.5, deviation);
    const to = i === 2 * reach ? 1 : normalBelow(i - reach + 0.5, deviation);
    return to - from;
  });
}

// ---- drawing ---------------------------------------------------------------------------------------------

const REACH = 30; // the histogram has so many bins on each side of its middle one
const WIDE = 240; // the pictures' own units
const HIGH = 150;
const FLOOR = -5; // the gradient's axis ends at 10^-5
const EDGE = { left: 34, right: 8, top: 10, bottom: 32 };
const BOTTOM = HIGH - EDGE.bottom;

function write(text, x, y, anchor = "middle", className = "abh-tick") {
  const node = s("text", { x, y, "text-anchor": anchor, class: className });
  node.append(...subscripted(text));
  return node;
}

/** "√d_k" with its k set low: text and a smaller, lowered part. */
function subscripted(text) {
  const [before, after, ...rest] = text.split("d_k");
  if (after === undefined) return [text];
  const italic = s("tspan", { "font-style": "italic" });
  italic.textContent = "d";
  const low = s("tspan", { dy: 3, style: "font-size: max(75%, 12px)", "font-style": "italic" });
  low.textContent = "k";
  const back = s("tspan", { dy: -3 });
  back.textContent = [after, ...rest].join("d_k") || "\u200b";
  return [before, italic, low, back];
}

/** The same in HTML: every "d_k" of a text becomes an italic d with a low k. */
function lowered(text) {
  return text.split("d_k").flatMap((words, i) => (i === 0 ? [words] : [h("i", {}, "d", h("sub", {}, "k")), words]));
}

const hline = (y, className = "", from = EDGE.left, to = WIDE - EDGE.right) => s("line", { x1: from, x2: to, y1: y, y2: y, class: className });
const path = (points, className) => s("polyline", { points: points.map((p) => p.map((x) => x.toFixed(2)).join(",")).join(" "), class: className });

function picture() {
  const layer = s("g");
  return { svg: s("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img" }, layer), layer };
}

/** A small number as people write it: 0.31, 0.0042, 3·10⁻⁷. */
function small(x) {
  if (x >= 0.0995) return show(x);
  if (x >= 0.00995) return show(x, 3);
  if (x >= 0.000995) return show(x, 4);
  return x > 1e-99 ? scientific(x) : "0";
}

/** A name and a number that changes. */
function reading(name) {
  const number = h("dd", {});
  return { node: h("div", {}, h("dt", {}, ...lowered(name)), number), number };
}

/** A part of the figure: a title, a picture, what is read off it. */
function part(title, svg, ...below) {
  return h("section", { class: "abh-panel", "aria-label": title }, h("h4", {}, ...lowered(title)), svg, ...below);
}

/** A histogram of all scores (a list), the curve that is predicted, and one query's own below it. */
function drawScores(layer, scores, own, deviation, text) {
  const unit = binWidth(deviation);
  const counts = histogram(scores.map((x) => x / unit), REACH);
  const shares = normalShares(deviation / unit, REACH).map((share) => share * scores.length);
  const top = Math.max(...counts, ...shares);
  const left = 4;
  const bottom = BOTTOM - 12;
  const wide = (WIDE - 2 * left) / (2 * REACH + 1);
  const x = (bin) => left + wide * (Math.min(REACH, Math.max(-REACH, bin)) + REACH + 0.5);
  const y = (count) => bottom - ((bottom - EDGE.top) * count) / top;
  const digits = Math.max(0, Math.round(-Math.log10(unit)) - 1);
  const best = largest(softmax(own));
  layer.replaceChildren(
    ...counts.map((count, i) => s("rect", {
      x: x(i - REACH) - wide / 2 + 0.3, width: wide - 0.6, y: y(count), height: bottom - y(count), class: "abh-count",
    })),
    path(shares.map((share, i) => [x(i - REACH), y(share)]), "abh-theory"),
    hline(bottom, "abh-base", left, WIDE - left),
    ...own.map((score, j) => s("line", {
      x1: x(score / unit), x2: x(score / unit), y1: bottom + 2, y2: bottom + (best.includes(j) ? 12 : 8),
      class: best.includes(j) ? "abh-own abh-best" : "abh-own",
    })),
    ...[-20, -10, 0, 10, 20].map((t) => write(show(t * unit, digits), x(t), BOTTOM + 14)),
    write(unit < 1 ? fill(text.score_near, { times: Math.round(1 / unit) }) : text.score, WIDE / 2, HIGH - 3),
  );
}

/** One query's weights (n), a bar for each key, and an even share. */
function drawWeights(layer, weights, text) {
  const y = (a) => BOTTOM - (BOTTOM - EDGE.top) * a;
  const unit = (WIDE - EDGE.left - EDGE.right) / weights.length;
  const best = largest(weights);
  layer.replaceChildren(
    ...[0, 0.5, 1].flatMap((t) => [hline(y(t), t ? "abh-guide" : "abh-base"), write(show(t, 1), EDGE.left - 5, y(t) + 4, "end")]),
    ...weights.map((a, j) => s("rect", {
      x: EDGE.left + unit * (j + 0.15), width: unit * 0.7, y: y(a), height: Math.max(0.6, BOTTOM - y(a)),
      class: best.includes(j) ? "abh-w abh-best" : "abh-w",
    })),
    hline(y(1 / weights.length), "abh-even"),
    ...weights.map((_, j) => (j % 5 === 4 || j === 0 ? write(String(j + 1), EDGE.left + unit * (j + 0.5), BOTTOM + 14) : "")),
    write(text.key, (EDGE.left + WIDE - EDGE.right) / 2, HIGH - 3),
  );
}

/** The median query's gradient against the length, a line for each divisor; the one that is shown is on top. */
function drawLines(layer, curves, stops, at, kind, text) {
  const right = WIDE - 30;
  const x = (i) => EDGE.left + ((right - EDGE.left) * Math.log(stops[i])) / Math.log(stops.at(-1));
  const y = (value) => BOTTOM - ((BOTTOM - EDGE.top) * Math.max(0, Math.log10(Math.max(value, 1e-300)) - FLOOR)) / -FLOOR;
  const marks = curves.map((line, k) => ({ k, y: y(line.at(-1)) })).sort((a, b) => a.y - b.y || b.k - a.k);
  marks.forEach((mark, i) => { if (i) mark.y = Math.max(mark.y, marks[i - 1].y + 14); });
  for (let i = marks.length - 1, low = BOTTOM - 6; i >= 0; i--, low -= 14) marks[i].y = Math.min(marks[i].y, low);
  const chosenLast = [0, 1, 2].sort((a, b) => (a === kind) - (b === kind));
  layer.replaceChildren(
    ...[[1e-5, "10⁻⁵"], [1e-3, "10⁻³"], [0.1, "0.1"], [1, "1"]].flatMap(([value, label], i) =>
      [hline(y(value), i ? "abh-guide" : "abh-base", EDGE.left, right), write(label, EDGE.left - 5, y(value) + 4, "end")]),
    ...stops.map((stop, i) => ([1, 8, 64, 512].includes(stop) ? write(String(stop), x(i), BOTTOM + 14) : "")),
    write("d_k", (EDGE.left + right) / 2, HIGH - 4),
    s("line", { x1: x(at), x2: x(at), y1: EDGE.top, y2: BOTTOM, class: "abh-here" }),
    ...chosenLast.map((k) => path(curves[k].map((value, i) => [x(i), y(value)]),
      `abh-line abh-kind${k} ${k === kind ? "abh-chosen" : ""}`)),
    s("circle", { cx: x(at), cy: y(curves[kind][at]), r: 5, class: "abh-ring" }),
    ...marks.map((mark) => write(text.marks[mark.k], right + 5, mark.y + 4, "start",
      mark.k === kind ? "abh-mark abh-chosen" : "abh-mark")),
  );
}

function render({ model, el }) {
  const text = model.get("text");
  const stops = model.get("stops");
  const [m, n, d] = model.get("shape");
  const all = unpack(model.get("rows"), d, model.get("step"));
  const keys = all.slice(m);
  const raw = all.slice(0, m).map((q) => scoresAtStops(q, keys, stops)); // (m, stops, n)
  const id = newId("abh-scaling");

  // State: which length, how large the entries, what divides, whose weights.
  let at = stops.indexOf(model.get("d_k"));
  let size = model.get("size");
  let kind = model.get("divisor");
  let chosen = model.get("chosen");

  const block = presets(text.try, model.get("tries"), text.tries, (wanted) => {
    at = stops.indexOf(wanted.d_k);
    ({ size, divisor: kind } = wanted);
    draw();
  });
  const words = choice(id, text.divide, text.divisors, kind, (i) => { kind = i; draw(); });
  for (const named of [...block.buttons, ...words.node.querySelectorAll("label span")]) {
    named.replaceChildren(...lowered(named.textContent));
  }
  const length = slider(text.length_name, { min: 0, max: stops.length - 1, step: 1 }, (i) => { at = i; draw(); }, (i) => String(stops[i]));
  const scale = slider(text.size_name, { min: 0.5, max: 3, step: 0.1 }, (x) => { size = x; draw(); }, (x) => show(x, 1));
  length.node.firstChild.replaceChildren(...lowered(text.length));
  scale.node.firstChild.replaceChildren(h("i", {}, text.size));

  const [bars, weighing, lines] = [picture(), picture(), picture()];
  const [measured, predicted, most, evenness, slope] =
    [text.measured, text.predicted, text.largest, text.entropy, text.slope].map(reading);
  const another = button(text.another, () => { chosen = (chosen + 1) % m; draw(); }, "abh-another");
  const whose = part("", weighing.svg, h("dl", {}, most.node, evenness.node), another);

  const summary = announcer();
  const root = figure("abh-scaling", text.title,
    block.node,
    h("div", { class: "abh-controls" }, words.node, h("div", { class: "abh-sliders" }, length.node, scale.node)),
    h("div", { class: "abh-panels" },
      part(fill(text.scores, { pairs: m * n }), bars.svg, h("dl", {}, measured.node, predicted.node)),
      whose,
      part(text.gradients, lines.svg, h("dl", {}, slope.node))),
    summary.node);

  const factor = (k, i) => size ** 2 / divisorOf(k, stops[i]);

  /** The gradient for each divisor and length; it changes with the size alone. */
  let curves = [];
  let curvesOf = NaN;
  function refreshCurves() {
    if (curvesOf === size) return;
    curvesOf = size;
    curves = [0, 1, 2].map((k) => stops.map((_, i) => medianGradient(raw.map((list) => list[i]), factor(k, i))));
  }

  /** What sentences say of the state. */
  function told(now, expected, found) {
    const [d_k, gradient] = [stops[at], curves[kind][at]];
    const highest = Math.max(...now.weights);
    const digits = expected < 0.095 ? 3 : 2;
    const facts = {
      d_k, size: show(size, 1), measured: show(found, digits), predicted: show(expected, digits),
      weights: now.weights.map((a) => show(a)).join(text.comma),
      percent: highest > 0.99 ? text.nearly_all : percent(highest), gradient: small(gradient),
      divisor: show(divisorOf(kind, d_k), 1).replace(/\.0$/, ""), query: chosen + 1,
      gradients: text.marks.map((mark, k) => fill(text.value, { mark, value: small(curves[k][at]) })).join(text.comma),
    };
    facts.best = fill(largest(now.weights).length === n ? text.all_alike : text.one_best, facts);
    facts.verdict = fill(expected > 3 ? text.closed : expected > 0.4 ? text.open : text.even, facts);
    return facts;
  }

  function draw() {
    refreshCurves();
    const d_k = stops[at];
    const now = row(raw[chosen][at], factor(kind, at));
    const scores = raw.flatMap((list) => list[at].map((x) => x * factor(kind, at)));
    const expected = factor(kind, at) * Math.sqrt(d_k);
    const found = spread(scores);
    const facts = told(now, expected, found);

    words.set(kind);
    length.set(at);
    length.input.setAttribute("aria-valuetext", String(d_k));
    scale.set(size);
    block.mark((wanted) => wanted.d_k === d_k && wanted.size === size && wanted.divisor === kind);
    drawScores(bars.layer, scores, now.scores, expected, text);
    drawWeights(weighing.layer, now.weights, text);
    drawLines(lines.layer, curves, stops, at, kind, text);

    measured.number.textContent = facts.measured;
    predicted.number.textContent = facts.predicted;
    most.number.textContent = show(Math.max(...now.weights), 3);
    evenness.number.textContent = show(now.entropy, 3);
    slope.number.textContent = facts.gradient;
    const title = fill(text.weights, { query: chosen + 1, queries: m });
    whose.setAttribute("aria-label", title);
    whose.firstChild.textContent = title;
    bars.svg.setAttribute("aria-label", fill(text.scores_picture, facts));
    weighing.svg.setAttribute("aria-label", fill(text.weights_picture, facts));
    lines.svg.setAttribute("aria-label", fill(text.gradients_picture, facts));
    root.dataset.state = JSON.stringify({
      d_k, size, kind, chosen, scores: now.scores, weights: now.weights, entropy: now.entropy, gradient: now.gradient,
      spread: found, predicted: expected, gradients: curves.map((line) => line[at]),
    });
    summary.say(fill(text.summary, facts));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
