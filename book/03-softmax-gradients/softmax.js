// One row through softmax and back, step by step: scores, weights, slopes, grades, and the gradient that arrives.
//
// The first part is the mathematics: pure functions, exported, compared with the course's Python in
// test_figure_softmax.py. The second part draws. Nothing here asks a kernel: the same code runs in the book's
// static page and in JupyterLab.

import { button, choice, slider, stepper, tries } from "../figures/common/controls.js";
import { announcer, figure, group, h, newId, s } from "../figures/common/elements.js";
import { dot, largest, softmax } from "../figures/common/mathematics.js";
import { fill, plain, scientific, show, SUPERSCRIPT } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** Weights (n) -> Jacobian of softmax (n, n): row j, column l is the slope of weight j by score l. */
export function jacobian(weights) {
  return weights.map((a, j) => weights.map((b, l) => (j === l ? a * (1 - a) : -a * b)));
}

/** Weights (n) and grades (n) -> the average grade, how far each is above it, and the gradient of the scores (n). */
export function pullBack(weights, da) {
  // Not da[j] - average: grades that are alike are exactly 0 above it, and a sure row keeps its digits.
  const above = da.map((grade) => weights.reduce((sum, a, m) => sum + a * (grade - da[m]), 0));
  return { average: dot(weights, da), above, ds: weights.map((a, j) => a * above[j]) };
}

/** Everything the figure shows, from n scores and the grades of their words (n). */
export function row(scores, da) {
  const weights = softmax(scores);
  return { weights, jacobian: jacobian(weights), ...pullBack(weights, da) };
}

/** Scores (n) after so many steps of gradient descent with a learning rate of 1. */
export function learn(scores, da, steps) {
  for (let step = 0; step < steps; step++) {
    const { ds } = row(scores, da);
    scores = scores.map((score, j) => score - ds[j]);
  }
  return scores;
}

// ---- numbers ---------------------------------------------------------------------------------------------

/** A number with so many decimals, or as 2·10⁻⁵ where they would hide it. */
export function small(x, digits = 3) {
  return x === 0 || Math.abs(x) >= 0.5 * 10 ** -digits ? show(x, digits) : scientific(x);
}

/** As it would be written by hand, with four decimals at most, and with a power of ten where it is tiny. */
export const written = (x, digits = 4) => plain(x, digits, small);

/** Write a number into an element, its power as a real superscript: fonts have raised digits of several heights. */
function write(node, text) {
  const [, base, power] = text.match(/^(.*?)([⁻⁰¹²³⁴-⁹]*)$/);
  const raised = [...power].map((c) => (c === "⁻" ? "\u2212" : SUPERSCRIPT.indexOf(c))).join("");
  node.replaceChildren(base, ...(raised ? [h("sup", {}, raised)] : []));
}

// ---- drawing ---------------------------------------------------------------------------------------------

const LIMIT = 10; // how far a score's slider reaches
const NUDGE = 0.1;
const STILL = 0.01; // smaller gradients move nothing that can be seen
const STEPS = ["weights", "slopes", "grades", "average", "gradient"];
const [WIDTH, HEIGHT] = [330, 150]; // of the picture

function label(text, x, y, attributes = {}) {
  return s("text", { x, y, class: "abh-label", ...attributes }, text);
}

/** The weights as parts of one bar; and, nudged, as parts of another below it. */
function shares(tokens, weights, nudged, names) {
  const cut = (parts) => parts.map((_, j) => WIDTH * parts.slice(0, j).reduce((sum, a) => sum + a, 0));
  const bar = (parts, top) => cut(parts).flatMap((x, j) => [
    s("rect", { x, y: top, width: WIDTH * parts[j], height: 28, class: `abh-share abh-share${j % 3}` }),
    ...(WIDTH * parts[j] > 9 * tokens[j].length ? [label(tokens[j], x + 6, top + 19)] : [])]);
  const [from, to] = [cut(weights), nudged ? cut(nudged) : []];
  return [label(names[0], 0, 14, { class: "abh-tick" }), ...bar(weights, 22),
    ...(nudged ? [
      ...to.slice(1).map((x, j) => s("line", { x1: from[j + 1], x2: x, y1: 50, y2: 74, class: "abh-shift" })),
      ...bar(nudged, 74), label(names[1], 0, 118, { class: "abh-tick" })] : [])];
}

/** Weights on a beam, each where its grade is; then a support below their average, and the way that learning moves them. */
function balance(tokens, { weights, average, ds }, da, low, high, names, step) {
  const ground = HEIGHT - 22;
  const beam = ground - 26;
  const x = (grade) => 60 + ((WIDTH - 86) * (grade - low)) / (high - low);
  const drawn = [s("line", { x1: 6, x2: WIDTH - 6, y1: ground, y2: ground, class: "abh-ground" })];
  for (let grade = low; grade <= high; grade++) {
    drawn.push(s("line", { x1: x(grade), x2: x(grade), y1: ground, y2: ground + 4, class: "abh-ground" }),
      label(String(grade), x(grade), ground + 17, { class: "abh-tick", "text-anchor": "middle" }));
  }
  drawn.push(label(names.grade, 6, ground + 17, { class: "abh-tick" }));
  if (step >= 3) {
    const at = x(average);
    const right = at < WIDTH / 2;
    drawn.push(
      s("polygon", { points: `${at},${beam + 2} ${at - 11},${ground} ${at + 11},${ground}`, class: "abh-support" }),
      label(names.average, at + (right ? 16 : -16), beam + 19, { "text-anchor": right ? "start" : "end" }));
  }
  drawn.push(s("line", { x1: 26, x2: WIDTH - 6, y1: beam, y2: beam, class: "abh-beam" }));
  const piles = new Map(); // words of one grade lie on each other
  tokens.forEach((token, j) => {
    const r = Math.max(2, 24 * Math.sqrt(weights[j]));
    const top = piles.get(da[j]) ?? beam - 2;
    piles.set(da[j], top - 2 * r);
    const alone = da.filter((grade) => grade === da[j]).length === 1;
    const way = step < 4 || Math.abs(ds[j]) < STILL ? "" : ds[j] > 0 ? " \u2193" : " \u2191"; // against the gradient
    drawn.push(s("circle", { cx: x(da[j]), cy: top - r, r, class: "abh-disc" }),
      alone
        ? label(token + way, Math.min(x(da[j]), WIDTH - 30), top - 2 * r - 7, { "text-anchor": "middle" })
        : label(token + way, x(da[j]) + r + 6, top - r + 5));
  });
  return drawn;
}

/** Sliders for the scores, each with a bar for its weight. */
function forward(tokens, text, move) {
  const lines = tokens.map((token, j) => {
    const score = slider(token, { min: -LIMIT, max: LIMIT, step: 0.1 }, (x) => move(j, x), (x) => written(x, 2));
    score.input.setAttribute("aria-label", fill(text.score_of, { word: token }));
    const bar = h("div", { class: "abh-bar" });
    const track = h("div", { class: "abh-track", "aria-hidden": "true" }, bar);
    return { score, bar, node: h("div", { class: "abh-forward" }, score.node, track) };
  });
  return {
    nodes: lines.map((line) => line.node),
    set: (scores, weights) => lines.forEach((line, j) => {
      line.score.set(scores[j]);
      line.bar.style.width = `${100 * weights[j]}%`;
    }),
  };
}

/** The table, to which each step adds columns. Gradients have bars: `full` is as wide as one gets. */
function table(tokens, text, full) {
  const rows = tokens.map((token) => {
    const cell = (name) => h("td", { class: `abh-c-${name}` });
    const [weight, grade, above, gradient] = ["weight", "grade", "above", "gradient"].map(cell);
    const slopes = tokens.map(() => cell("slope"));
    const bar = h("div", { class: "abh-bar" });
    const line = h("tr", {}, h("th", { scope: "row" }, token), weight, ...slopes, grade, above, gradient,
      h("td", { class: "abh-c-gradient abh-both", "aria-hidden": "true" }, bar));
    return { line, weight, slopes, grade, above, gradient, bar };
  });
  const [total, sum] = ["weight", "gradient"].map((name) => h("td", { class: `abh-c-${name}` }));
  const noSlopes = tokens.map(() => h("td", { class: "abh-c-slope" }, "0"));
  const head = (name, content, more = {}) => h("th", { scope: "col", class: `abh-c-${name}`, ...more }, content);
  const node = h("table", {},
    h("thead", {},
      h("tr", {}, h("th", { scope: "col" }, text.word), head("weight", text.weight),
        ...tokens.map((token, l) => head("slope", fill(text.slope, { word: token }), { "data-column": l })),
        head("grade", text.grade), head("above", text.above), head("gradient", text.gradient, { colspan: 2 }))),
    h("tbody", {}, ...rows.map((r) => r.line)),
    h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, text.total), total, ...noSlopes,
      h("td", { class: "abh-c-grade" }), h("td", { class: "abh-c-above" }), sum, h("td", { class: "abh-c-gradient" }))));

  return {
    node,
    set(step, now, da, nudged) {
      rows.forEach((r, j) => {
        write(r.weight, written(now.weights[j]));
        r.slopes.forEach((cell, l) => {
          write(cell, step >= 1 ? written(now.jacobian[j][l]) : "");
          cell.classList.toggle("abh-nudged", step === 1 && l === nudged);
        });
        r.grade.textContent = step >= 2 ? written(da[j]) : "";
        write(r.above, step >= 3 ? written(now.above[j]) : "");
        write(r.gradient, step >= 4 ? written(now.ds[j]) : "");
        r.bar.className = `abh-bar ${now.ds[j] > 0 ? "abh-rise" : "abh-fall"}`;
        r.bar.style.width = step >= 4 ? `${(50 * Math.abs(now.ds[j])) / full}%` : "0";
      });
      total.textContent = "1";
      sum.textContent = step >= 4 ? "0" : "";
      for (const cell of noSlopes) cell.textContent = step >= 1 ? "0" : "";
    },
  };
}

/** Who has most weight, in a sentence that knows of ties. */
function best(weights, tokens, text) {
  const most = largest(weights);
  if (most.length === weights.length) return text.all_level;
  return fill(most.length > 1 ? text.some_level : text.one_best, { best: most.map((j) => tokens[j]).join(text.and) });
}

/** What learning does with such gradients. */
function moves({ ds }, da, tokens, text) {
  if (da.every((grade) => grade === da[0])) return text.same_grade;
  if (Math.max(...ds.map(Math.abs)) < STILL) return fill(text.still, { largest: written(Math.max(...ds.map(Math.abs))) });
  const names = (sign) => tokens.filter((_, j) => sign * ds[j] > 0).join(text.and);
  return fill(text.moves, { down: names(1), up: names(-1) });
}

const listed = (tokens, numbers, text) => tokens.map((token, j) => `${token} ${written(numbers[j])}`).join(text.comma);

/** What sentences say of a row and its grades. */
function told(now, da, tokens, text) {
  const signed = (x) => (x < 0 ? `(${written(x)})` : written(x));
  return {
    best: best(now.weights, tokens, text), weights: listed(tokens, now.weights, text), grades: listed(tokens, da, text),
    average: written(now.average),
    moves: moves(now, da, tokens, text),
    mean: tokens.map((_, j) => `${written(now.weights[j])}·${signed(da[j])}`).join(" + "),
    products: tokens.map((token, j) => `${token} ${written(now.weights[j])}·${signed(now.above[j])} = ${written(now.ds[j])}`).join(text.comma),
  };
}

function render({ model, el }) {
  const tokens = model.get("tokens");
  const text = model.get("text");
  const id = newId("abh-softmax");
  const [own, grades] = [model.get("scores"), model.get("grades")];
  const [low, high] = [Math.floor(Math.min(...grades)), Math.ceil(Math.max(...grades))];

  // State: the scores, the grades, the step, and whose score is nudged.
  let scores = [...own];
  let da = [...grades];
  let step = model.get("step");
  let nudgedOne = 0;

  const walk = stepper(id, text, text.step_names, step, (to) => { step = to; draw(); });
  const sliders = forward(tokens, text, (j, x) => { scores[j] = x; draw(); });
  const layer = s("g");
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" }, layer);
  const nudge = choice(`${id}-nudge`, text.nudge, tokens, nudgedOne, (i) => { nudgedOne = i; draw(); });
  nudge.node.classList.add("abh-nudge");
  // No gradient exceeds a quarter of the range of the grades: that is the full width of a bar.
  const steps = table(tokens, text, (high - low) / 4);

  /** Show scores and grades at the last step. */
  function present(newScores, newGrades = grades) {
    scores = newScores;
    da = [...newGrades];
    step = STEPS.length - 1;
    draw();
  }
  const lead = grades.indexOf(Math.max(...grades));
  const reset = button(text.reset, () => { scores = [...own]; da = [...grades]; draw(); });
  const block = tries(text.try, [
    [text.try_long, () => present(own.map((x) => 10 * x))],
    [text.try_two, () => present(own.map((x, j) => 10 * (j === own.length - 1 ? own[lead] : x)))],
    [text.try_shift, () => present(own.map((x) => x + 3))],
    [text.try_alike, () => present([...own], own.map(() => 1))],
  ], reset);
  const learning = [[text.learn_one, 1], [text.learn_ten, 10]].map(([name, times]) =>
    button(name, () => present(learn(scores, da, times), da)));

  const summary = announcer();
  const root = figure("abh-softmax", text.title,
    walk.node,
    summary.node,
    h("div", { class: "abh-stages" },
      h("section", { "aria-label": text.scores },
        h("div", { class: "abh-heads", "aria-hidden": "true" }, h("span", {}, text.scores), h("span", {}, text.weights)),
        ...sliders.nodes,
        group("abh-learn", text.learn, ...learning)),
      h("section", { class: "abh-picture" }, picture, nudge.node)),
    steps.node, block.node);

  function draw() {
    const now = row(scores, da);
    const nudged = softmax(scores.map((x, j) => x + (j === nudgedOne ? NUDGE : 0)));
    const facts = { ...told(now, da, tokens, text), word: tokens[nudgedOne], nudged: listed(tokens, nudged, text) };

    walk.set(step);
    nudge.set(nudgedOne);
    root.dataset.step = step;
    reset.disabled = scores.every((x, j) => x === own[j]) && da.every((x, j) => x === grades[j]);
    sliders.set(scores, now.weights);
    layer.replaceChildren(...(step < 2
      ? shares(tokens, now.weights, step === 1 ? nudged : null, [text.share, fill(text.share_nudged, facts)])
      : balance(tokens, now, da, low, high, { grade: text.grade_axis, average: fill(text.support, facts) }, step)));
    picture.setAttribute("aria-label", fill(step < 2 ? text.share_picture : text.balance_picture, facts));
    steps.set(step, now, da, nudgedOne);
    root.dataset.row = JSON.stringify({ scores, da, ...now });
    summary.say(fill(text[`say_${STEPS[step]}`], facts));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
