// The heads of a trained layer, side by side: whom one card asks, what each head passes on, and what W_o makes of it.
//
// The first part is the mathematics: pure functions, exported, compared with the model's Python in
// test_figure_multihead.py. The second part draws. Nothing here asks a kernel: the same code runs in the
// book's static page and in JupyterLab.

import { choice, stepper, tries } from "../figures/common/controls.js";
import { announcer, figure, h, newId, s, strip } from "../figures/common/elements.js";
import { dot, largest, leading, matmul, softmax } from "../figures/common/mathematics.js";
import { fill, inARow, percent, show } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** Letters (n) and digits (n), counted from 0, and a model's embeddings -> X (n, d_model). */
export function embed(letters, digits, model) {
  return letters.map((letter, i) =>
    model.letters[letter].map((x, c) => x + model.digits[digits[i]][c] + model.places[i][c]));
}

/** X (n, d) -> h heads of (n, d / h): head t has columns t d/h to (t + 1) d/h. */
export function split(X, count) {
  const wide = X[0].length / count;
  return Array.from({ length: count }, (_, t) => X.map((row) => row.slice(t * wide, (t + 1) * wide)));
}

/** h heads of (n, d / h) -> (n, h d / h): what the heads have for one row, side by side. */
export function merge(heads) {
  return heads[0].map((_, i) => heads.flatMap((Z) => Z[i]));
}

/** X (n, d_model) through the layer: weights and messages of each head, both joined and mixed, and the two answers.
 *  Heads in `silent` pass on zeros. */
export function layer(X, model, silent = []) {
  const count = model.num_heads;
  const [Q, K, V] = ["W_q", "W_k", "W_v"].map((name) => split(matmul(X, model[name]), count));
  const scale = Math.sqrt(Q[0][0].length);
  const weights = Q.map((queries, t) => queries.map((q) => softmax(K[t].map((k) => dot(q, k) / scale))));
  const messages = weights.map((A, t) => matmul(A, V[t]).map((z) => (silent.includes(t) ? z.map(() => 0) : z)));
  const joined = merge(messages);
  const mixed = matmul(joined, model.W_o);
  const scores = matmul(mixed, model.readout); // (n, 10): five for the left neighbour, five for the twin
  // The readout is linear, so each head's part of a score is its own: only its block of joined is not 0.
  const parts = messages.map((_, t) =>
    matmul(matmul(merge(messages.map((Z, other) => (other === t ? Z : Z.map((z) => z.map(() => 0))))), model.W_o), model.readout));
  const half = model.readout[0].length / 2;
  const answers = scores.map((row) => [softmax(row.slice(0, half)), softmax(row.slice(half))]);
  return { weights, messages, joined, mixed, scores, parts, answers };
}

/** The twin of letter 2k is 2k + 1: the place of each card's twin. */
export function twins(letters) {
  return letters.map((letter) => letters.indexOf(letter ^ 1));
}

// ---- drawing ---------------------------------------------------------------------------------------------

const STAGES = ["ask", "pass", "join", "mix"];
const STRIP = [640, 54]; // width and height of a strip of numbers

/** The scores of one question, the left neighbour's or the twin's: each head's part, and the share of each digit. */
function question(name, at, text, headName) {
  const body = h("tbody");
  const heads = [1, 2, 3, 4, 5].map((digit) => h("th", { scope: "col" }, String(digit)));
  const node = h("table", { class: `abh-question abh-question-${name}` },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, text[`question_${name}`]), ...heads)), body);
  return {
    node,
    set(now, chosen, truth) {
      const part = (t) => h("tr", {}, h("th", { scope: "row" }, fill(text.share, { head: headName(t) })),
        ...heads.map((_, c) => h("td", {}, show(now.parts[t][chosen][5 * at + c], 1))));
      const total = h("tr", { class: "abh-total" }, h("th", { scope: "row" }, text.chance),
        ...now.answers[chosen][at].map((share, c) => {
          const bar = h("div", { class: "abh-bar" });
          bar.style.width = `${100 * share}%`;
          return h("td", { class: c === truth ? "abh-truth" : "" }, percent(share), h("div", { class: "abh-track" }, bar));
        }));
      body.replaceChildren(...now.parts.map((_, t) => part(t)), total);
      heads.forEach((cell, c) => cell.classList.toggle("abh-truth", c === truth));
    },
  };
}

/** A caption and a strip of numbers below it. */
function numberStrip(name) {
  const drawn = s("g");
  const caption = h("p", { class: "abh-caption" });
  const svg = s("svg", { viewBox: `0 0 ${STRIP.join(" ")}`, preserveAspectRatio: "none", "aria-hidden": "true" }, drawn);
  return {
    node: h("div", { class: `abh-strip abh-strip-${name}` }, caption, svg),
    set(text, bars) {
      caption.textContent = text;
      drawn.replaceChildren(...bars);
    },
  };
}

/** Where a head looks, in a sentence that knows of ties and of weight that is divided; `label(j)` names a card. */
function look(weights, t, label, text) {
  const { alone, places } = leading(weights);
  const named = places.map((j) => fill(text.most, { card: label(j), weight: show(weights[j]) }));
  return fill(alone ? text.look_most : text.look_some, { number: t + 1, most: named.join(text.and) });
}

/** A row of the grid: a head's name, and the weights of the card that asks. */
function headRow(weights, head, asking, isSilent, label, text) {
  const cells = weights.map((a) => {
    const cell = h("span", { class: `abh-weight-cell ${a > 0.5 ? "abh-dark" : ""}` }, show(a));
    cell.style.setProperty("--a", `${Math.round(100 * a)}%`);
    return cell;
  });
  const name = h("span", { class: "abh-head-name" }, head, ...(isSilent ? [h("small", {}, text.silent)] : []));
  const list = weights.map((a, j) => `${label(j)} ${show(a)}`).join(text.comma);
  return h("div", { class: `abh-head-row ${isSilent ? "abh-silent" : ""}`, role: "img",
    "aria-label": `${head}. ${fill(text.weights_picture, { card: asking, weights: list })}` }, name, ...cells);
}

/** What was answered, and what would have been right. */
function verdict(shares, truth, text) {
  if (truth === null) return text.unasked;
  const most = largest(shares);
  const facts = { digit: most.map((c) => c + 1).join(text.and), share: percent(shares[most[0]]), truth: truth + 1 };
  return fill(most.length === 1 && most[0] === truth ? text.right : text.wrong, facts);
}

/** The most that a bar of these numbers has to show. */
const highest = (rows) => Math.max(1e-9, ...rows.flat().map(Math.abs));

function render({ model, el }) {
  const text = model.get("text");
  const names = model.get("letters");
  const models = model.get("models");
  const deals = model.get("deals");
  const id = newId("abh-multihead");
  const first = models.findIndex((m) => m.num_heads === 2);

  // State: the cards on the table, who asks, the step, the model, and which heads are silent.
  let [letters, digits] = deals[0];
  let chosen = model.get("chosen");
  let step = model.get("step");
  let which = Math.max(0, first);
  let silent = [];

  const label = (i) => names[letters[i]] + String(digits[i] + 1);
  const headName = (t) => fill(text.head, { number: t + 1 });

  const walk = stepper(id, text, text.step_names, step, (to) => { step = to; draw(); });
  const cards = choice(`${id}-card`, text.choose, letters.map((_, i) => label(i)), chosen, (i) => { chosen = i; draw(); });
  cards.node.classList.add("abh-cards");
  const chips = [...cards.node.querySelectorAll("span")];
  const marks = letters.map(() => h("span", {}));
  const rows = h("div", { class: "abh-rows" });
  const grid = h("div", { class: "abh-heads" },
    h("div", { class: "abh-marks", "aria-hidden": "true" }, h("span", {}), ...marks), rows);
  const [passed, mixed] = ["messages", "mixed"].map(numberStrip);
  const questions = ["left", "twin"].map((name, at) => question(name, at, text, headName));

  /** Show a model, perhaps with a silent head, at the last step. */
  function present(count, muted = [], dealt = null, who = null) {
    const found = models.findIndex((m) => m.num_heads === count);
    which = found < 0 ? which : found;
    silent = muted.filter((t) => t < models[which].num_heads);
    if (dealt) [letters, digits] = dealt;
    chosen = who ?? chosen;
    step = STAGES.length - 1;
    draw();
  }

  /** Cards as somebody who shuffles would lay them. */
  function shuffled() {
    const order = letters.map((letter) => [Math.random(), letter]).sort((a, b) => a[0] - b[0]).map(([, letter]) => letter);
    return [order, order.map(() => Math.floor(Math.random() * models[which].digits.length))];
  }

  const has = (count) => models.some((m) => m.num_heads === count);
  const besideTwin = () => Math.max(1, twins(deals[1][0]).findIndex((at, i) => at === i - 1));
  const block = tries(text.try, [
    [text.try_two, () => present(2), has(2)],
    [text.try_silence, () => present(2, [0]), has(2)],
    [text.try_one, () => present(1), has(1)],
    [text.try_four, () => present(4), has(4)],
    [text.try_neighbours, () => present(2, [], deals[1], besideTwin()), true],
    [text.try_deal, () => present(null, silent, shuffled()), true],
  ].filter(([, , there]) => there));

  const summary = announcer();
  const record = h("p", { class: "abh-record" });
  const root = figure("abh-multihead", text.title,
    walk.node, summary.node, cards.node, grid, passed.node, mixed.node,
    h("div", { class: "abh-questions" }, ...questions.map((one) => one.node)),
    record, block.node);

  /** The cards, and what the left neighbour and the twin of the one that asks are. */
  function drawCards(before, twin) {
    cards.set(chosen);
    chips.forEach((chip, i) => { chip.textContent = label(i); });
    marks.forEach((mark, i) => {
      const is = [[i === chosen, text.asks], [i === before, text.left], [i === twin, text.twin]];
      mark.replaceChildren(...is.filter(([yes]) => yes).map(([, name]) => h("span", {}, name)));
    });
  }

  function drawStrips(now, count) {
    const [per, together] = [now.messages[0][0].length, now.joined[0].length];
    const apart = step === 1;
    passed.set(apart ? fill(text.passed, { size: per }) : fill(text.joined, { size: together }),
      strip(now.joined[chosen], STRIP, highest(now.joined), "abh-passed", count, apart ? 28 : 0));
    mixed.set(fill(text.mixed, { size: now.mixed[0].length, card: label(chosen) }),
      strip(now.mixed[chosen], STRIP, highest(now.mixed), "abh-mixed", 1));
  }

  function draw() {
    const current = models[which];
    const now = layer(embed(letters, digits, current), current, silent);
    const twin = twins(letters)[chosen];
    const before = chosen - 1;
    const truths = [before < 0 ? null : digits[before], digits[twin]];

    walk.set(step);
    root.dataset.step = step;
    root.dataset.heads = current.num_heads;
    drawCards(before, twin);
    rows.replaceChildren(...now.weights.map((A, t) =>
      headRow(A[chosen], headName(t), label(chosen), silent.includes(t), label, text)));
    drawStrips(now, current.num_heads);
    questions.forEach((one, at) => one.set(now, chosen, truths[at]));
    const [left, right] = (silent.length ? current.without[silent[0]] : current.correct).map(percent);
    record.textContent = fill(silent.length ? text.record_silent : text.record, { number: silent[0] + 1, left, twin: right });

    root.dataset.now = JSON.stringify({ letters, digits, chosen, silent, ...now });
    summary.say(fill(text[`say_${STAGES[step]}`], {
      card: label(chosen), size: now.messages[0][0].length,
      looks: inARow(now.weights.map((A, t) =>
        (silent.includes(t) ? fill(text.look_nothing, { number: t + 1 }) : look(A[chosen], t, label, text)))),
      left: verdict(now.answers[chosen][0], truths[0], text), twin: verdict(now.answers[chosen][1], truths[1], text),
    }));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
