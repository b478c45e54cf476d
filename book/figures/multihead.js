// The heads of a trained layer, side by side: whom one card asks, what each head passes on, and what W_o makes of it.
//
// The first part is the mathematics: pure functions, exported, compared with the model's Python in
// tests/test_figure_multihead.py. The second part draws. figures/common.js stands before this file. Nothing here asks a
// kernel: the same code runs in the book's static page and in JupyterLab.

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
const [STRIP, TALL] = [640, 54]; // of a strip of numbers
const MOST = 0.5; // a weight that says on its own where a head looks
const SOME = 0.15; // and one that is worth a mention

const percent = (x) => `${Math.round(100 * x)}%`;

/** A row of numbers as bars up and down from a line; `blocks` of them stand apart when `gap` is not 0. */
function strip(numbers, blocks, gap, kind, full) {
  const wide = (STRIP - gap * (blocks - 1)) / numbers.length;
  const per = numbers.length / blocks;
  const left = (c) => c * wide + gap * Math.floor(c / per);
  const drawn = [];
  for (let t = 0; t < blocks; t++) {
    drawn.push(s("rect", {
      x: left(t * per) + 0.5, y: 0.5, width: wide * per - 1, height: TALL - 1,
      class: `abh-block ${t % 2 ? "abh-odd" : ""}`, rx: 4,
    }));
  }
  numbers.forEach((x, c) => {
    const high = Math.min(1, Math.abs(x) / full) * (TALL / 2 - 3);
    drawn.push(s("rect", {
      x: left(c) + wide * 0.2, width: wide * 0.6, y: TALL / 2 - (x > 0 ? high : 0), height: Math.max(high, 0.5),
      class: `abh-number-bar ${kind}`,
    }));
  });
  for (let t = 0; t < blocks; t++) {
    drawn.push(s("line", { x1: left(t * per), x2: left(t * per) + wide * per, y1: TALL / 2, y2: TALL / 2, class: "abh-ground" }));
  }
  return drawn;
}

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

  const steps = choice(`${id}-step`, text.steps, text.step_names.map((name, i) => `${i + 1} ${name}`), step, go);
  steps.node.classList.add("abh-steps");
  const back = button(text.back, () => go(step - 1));
  const next = button(text.next, () => go(step + 1), "abh-next");

  const table = choice(`${id}-card`, text.choose, letters.map((_, i) => label(i)), chosen, (i) => { chosen = i; draw(); });
  table.node.classList.add("abh-cards");
  const chips = [...table.node.querySelectorAll("span")];
  const marks = letters.map(() => h("span", {}));
  const rows = h("div", { class: "abh-rows" });
  const grid = h("div", { class: "abh-heads" },
    h("div", { class: "abh-marks", "aria-hidden": "true" }, h("span", {}), ...marks), rows);

  const strips = ["messages", "mixed"].map((name) => {
    const layerNode = s("g");
    const caption = h("p", { class: "abh-caption" });
    const svg = s("svg", { viewBox: `0 0 ${STRIP} ${TALL}`, preserveAspectRatio: "none", "aria-hidden": "true" }, layerNode);
    return { layer: layerNode, caption, node: h("div", { class: `abh-strip abh-strip-${name}` }, caption, svg) };
  });
  const questions = ["left", "twin"].map((name) => {
    const body = h("tbody");
    const head = [1, 2, 3, 4, 5].map((digit) => h("th", { scope: "col" }, String(digit)));
    const node = h("table", { class: `abh-question abh-question-${name}` },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, text[`question_${name}`]), ...head)), body);
    return { node, body, head };
  });

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
  const next2 = () => Math.max(1, twins(deals[1][0]).findIndex((at, i) => at === i - 1));
  const tries = [
    [text.try_two, () => present(2), has(2)],
    [text.try_silence, () => present(2, [0]), has(2)],
    [text.try_one, () => present(1), has(1)],
    [text.try_four, () => present(4), has(4)],
    [text.try_neighbours, () => present(2, [], deals[1], next2()), true],
    [text.try_deal, () => present(null, silent, shuffled()), true],
  ].filter(([, , there]) => there).map(([name, press]) => button(name, press));

  const summary = announcer();
  const record = h("p", { class: "abh-record" });
  const root = figure("abh-multihead", text.title,
    h("div", { class: "abh-walk" }, steps.node, back, next),
    summary.node, table.node, grid, ...strips.map((one) => one.node),
    h("div", { class: "abh-questions" }, ...questions.map((q) => q.node)),
    record,
    h("div", { class: "abh-tries", role: "group", "aria-label": text.try },
      h("span", { "aria-hidden": "true" }, text.try), ...tries));

  function go(to) {
    step = Math.min(STAGES.length - 1, Math.max(0, to));
    draw();
  }

  /** Where a head looks, in a sentence that knows of ties and of weight that is divided. */
  function look(weights, t) {
    if (silent.includes(t)) return fill(text.look_nothing, { number: t + 1 });
    const most = largest(weights);
    const alone = most.length === 1 && weights[most[0]] >= MOST;
    const order = weights.map((_, j) => j).sort((a, b) => weights[b] - weights[a]);
    const told = alone ? most : order.filter((j) => weights[j] >= SOME || most.includes(j));
    const named = told.map((j) => fill(text.most, { card: label(j), weight: show(weights[j]) }));
    return fill(alone ? text.look_most : text.look_some, { number: t + 1, most: named.join(text.and) });
  }

  /** A row of the grid: a head's name and the chosen card's weights. */
  function headRow(weights, t) {
    const cells = weights.map((a) => {
      const cell = h("span", { class: `abh-weight-cell ${a > 0.5 ? "abh-dark" : ""}` }, show(a));
      cell.style.setProperty("--a", `${Math.round(100 * a)}%`);
      return cell;
    });
    const name = h("span", { class: "abh-head-name" }, headName(t));
    if (silent.includes(t)) name.append(h("small", {}, text.silent));
    const list = weights.map((a, j) => `${label(j)} ${show(a)}`).join(", ");
    return h("div", { class: `abh-head-row ${silent.includes(t) ? "abh-silent" : ""}`, role: "img",
      "aria-label": `${headName(t)}. ${fill(text.weights_picture, { card: label(chosen), weights: list })}` }, name, ...cells);
  }

  /** The scores of one question: each head's part, and the share of each digit. */
  function fillQuestion(question, at, now, truth) {
    const range = [0, 1, 2, 3, 4].map((c) => 5 * at + c);
    const part = (t) => h("tr", {}, h("th", { scope: "row" }, fill(text.share, { head: headName(t) })),
      ...range.map((c) => h("td", {}, show(now.parts[t][chosen][c], 1))));
    const shares = now.answers[chosen][at];
    const total = h("tr", { class: "abh-total" }, h("th", { scope: "row" }, text.chance),
      ...shares.map((share, c) => {
        const bar = h("div", { class: "abh-bar" });
        bar.style.width = `${100 * share}%`;
        return h("td", { class: c === truth ? "abh-truth" : "" }, percent(share), h("div", { class: "abh-track" }, bar));
      }));
    question.body.replaceChildren(...now.parts.map((_, t) => part(t)), total);
    question.head.forEach((cell, c) => cell.classList.toggle("abh-truth", c === truth));
  }

  /** What was answered, and what would have been right. */
  function verdict(shares, truth) {
    if (truth === null) return text.unasked;
    const most = largest(shares);
    const facts = { digit: most.map((c) => c + 1).join(text.and), share: percent(shares[most[0]]), truth: truth + 1 };
    return fill(most.length === 1 && most[0] === truth ? text.right : text.wrong, facts);
  }

  function draw() {
    const current = models[which];
    const now = layer(embed(letters, digits, current), current, silent);
    const twin = twins(letters)[chosen];
    const before = chosen - 1;
    const truths = [before < 0 ? null : digits[before], digits[twin]];
    const per = now.messages[0][0].length;

    steps.set(step);
    table.set(chosen);
    root.dataset.step = step;
    root.dataset.heads = current.num_heads;
    back.disabled = step === 0;
    next.disabled = step === STAGES.length - 1;
    chips.forEach((chip, i) => { chip.textContent = label(i); });
    marks.forEach((mark, i) => {
      const is = [[i === chosen, text.asks], [i === before, text.left], [i === twin, text.twin]];
      mark.replaceChildren(...is.filter(([yes]) => yes).map(([, name]) => h("span", {}, name)));
    });
    rows.replaceChildren(...now.weights.map((A, t) => headRow(A[chosen], t)));

    const full = Math.max(1e-9, ...now.joined.flat().map(Math.abs));
    const apart = step === 1 ? 28 : 0;
    strips[0].caption.textContent = fill(step === 1 ? text.passed : text.joined, { size: step === 1 ? per : now.joined[0].length });
    strips[0].layer.replaceChildren(...strip(now.joined[chosen], current.num_heads, apart, "abh-passed", full));
    strips[1].caption.textContent = fill(text.mixed, { size: now.mixed[0].length, card: label(chosen) });
    strips[1].layer.replaceChildren(...strip(now.mixed[chosen], 1, 0, "abh-mixed", Math.max(1e-9, ...now.mixed.flat().map(Math.abs))));
    questions.forEach((question, at) => fillQuestion(question, at, now, truths[at]));
    const [left, right] = (silent.length ? current.without[silent[0]] : current.correct).map(percent);
    record.textContent = fill(silent.length ? text.record_silent : text.record, { number: silent[0] + 1, left, twin: right });

    const looks = now.weights.map((A, t) => look(A[chosen], t)).join(" ");
    root.dataset.now = JSON.stringify({ letters, digits, chosen, silent, ...now });
    summary.say(fill(text[`say_${STAGES[step]}`], {
      card: label(chosen), looks, size: per,
      left: verdict(now.answers[chosen][0], truths[0]), twin: verdict(now.answers[chosen][1], truths[1]),
    }));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
