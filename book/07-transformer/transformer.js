// A tiny GPT writes: each head's weights, what each part adds to the stream of the last word, and the next word.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// test_figure_transformer.py. The second part draws. Nothing here asks a kernel: the same code runs in the
// book's static page and in JupyterLab.

import { slider, stepper, tries } from "../figures/common/controls.js";
import { announcer, figure, h, newId, s, strip } from "../figures/common/elements.js";
import { affine, dot, gelu, largest, layerNorm, leading, matmul, plus, softmax } from "../figures/common/mathematics.js";
import { fill, inARow, percent, show } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** Tokens (n), at most max_len, through the model; returns what concerns the last of them: the weights of each head of
 *  each layer, what each part adds to the stream, the chances of the next word if read off after each part, the logits. */
export function forward(tokens, model) {
  const { numbers, num_heads: heads, num_layers: layers } = model;
  const get = (name) => numbers[name];
  const norm = (x, name) => layerNorm(x, get(`${name}.weight`), get(`${name}.bias`));
  const through = (x, name) => affine(x, get(`${name}.weight`), get(`${name}.bias`));
  const read = (x) => through(norm(x, "norm"), "read");

  let stream = tokens.map((token, place) => plus(get("words.weight")[token], get("places.weight")[place]));
  const end = tokens.length - 1;
  const width = stream[0].length;
  const wide = width / heads;
  const parts = [stream[end]];
  const logits = [read(stream[end])];
  const weights = [];

  const add = (change) => {
    stream = stream.map((x, i) => plus(x, change[i]));
    parts.push(change[end]);
    logits.push(read(stream[end]));
  };
  for (let layer = 0; layer < layers; layer++) {
    const block = `blocks.${layer}`;
    const qkv = stream.map((x) => through(norm(x, `${block}.norm1`), `${block}.qkv`));
    const cut = (which, t) => qkv.map((row) => row.slice(which * width + t * wide, which * width + (t + 1) * wide));
    weights.push([]);
    const messages = Array.from({ length: heads }, (_, t) => {
      const [Q, K, V] = [0, 1, 2].map((which) => cut(which, t));
      const A = Q.map((q, i) => softmax(K.slice(0, i + 1).map((k) => dot(q, k) / Math.sqrt(wide))));
      weights[layer].push(A[end]);
      return A.map((a, i) => matmul([a], V.slice(0, i + 1))[0]);
    });
    add(stream.map((_, i) => through(messages.flatMap((Z) => Z[i]), `${block}.out`)));
    add(stream.map((x) => through(through(norm(x, `${block}.norm2`), `${block}.up`).map(gelu), `${block}.down`)));
  }
  return { weights, parts, reads: logits.map((row) => softmax(row)), logits: logits.at(-1) };
}

/** The chances of the next word at a temperature; at 0 the likeliest has all, shared where several are level. */
export function temper(logits, temperature) {
  if (temperature > 0) return softmax(logits.map((y) => y / temperature));
  const most = largest(logits);
  return logits.map((_, w) => (most.includes(w) ? 1 / most.length : 0));
}

/** The word on which u, from 0 to 1, falls when the chances are laid side by side. */
export function draw(chances, u) {
  let sum = 0;
  const found = chances.findIndex((p) => { sum += p; return u < sum; });
  return found < 0 ? chances.findLastIndex((p) => p > 0) : found;
}

/** What the grammar allows after some sentences and the beginning of one, as {word: probability}; {} after what it
 *  doesn't allow itself. */
export function after(words, nouns, verbs) {
  const number = new Map(nouns.flatMap((pair) => pair.map((word, n) => [word, n])));
  const among = (list, share = 1) => Object.fromEntries(list.map((word) => [word, share / list.length]));
  const forms = (n) => verbs.map((pair) => pair[n]);
  let [subject, place, own, inner] = [true, "the", 0, 0];
  const onward = (share = 1) => (subject ? among(forms(own), share) : { ".": share });
  const next = {
    the: () => ({ the: 1 }), noun: () => among([...number.keys()]), named: () => ({ ...onward(0.5), that: 0.5 }),
    that: () => ({ the: 0.5, ...among(forms(own), 0.5) }), other: () => among([...number.keys()]),
    their: () => among(forms(inner)), whom: () => ({ the: 1 }), last: () => among([...number.keys()]), whole: () => onward(),
  };
  const then = { the: "noun", noun: "named", named: "that", other: "their", their: "whole", whom: "last", last: "whole" };
  for (const word of words) {
    if (!(word in next[place]())) return {};
    if ((place === "named" || place === "whole") && word !== "that") {
      subject = !subject;
      place = "the";
      continue;
    }
    if (place === "noun") own = number.get(word);
    if (place === "other") inner = number.get(word);
    place = place === "that" ? (word === "the" ? "other" : "whom") : then[place];
  }
  return next[place]();
}

// ---- drawing ---------------------------------------------------------------------------------------------

const STRIP = [640, 40]; // width and height of a strip of numbers
const BOLD = 0.5; // a weight from here on makes its word bold
const SHOWN = 0.1; // and from here on is written beside it
const SOME = 0.15; // a chance from here on is worth a mention
const LISTED = 8; // next words on show
const LONGEST = 18; // words after which no further sentence is added
const LATEST = 20; // words of the text on show

/** A head's name, and the words with the weight of each. */
function headRow(weights, layer, t, words, text) {
  const name = fill(text.head, { layer: layer + 1, head: t + 1 });
  const cells = weights.map((a, j) => {
    const cell = h("span", { class: `abh-weight-word ${a >= BOLD ? "abh-dark" : ""}` }, words[j]);
    if (a >= SHOWN) cell.append(h("small", {}, show(a)));
    cell.style.setProperty("--a", `${Math.round(100 * a)}%`);
    return cell;
  });
  const list = weights.map((a, j) => `${words[j]} ${show(a)}`).join(text.comma);
  return h("div", { class: `abh-head-row abh-of-layer-${layer + 1}`, role: "img",
    "aria-label": `${name}. ${fill(text.weights_picture, { word: words.at(-1), weights: list })}` },
  h("span", { class: "abh-head-name" }, name), h("span", { class: "abh-weight-words" }, ...cells));
}

/** Where a head looks, in a sentence that knows of ties and of weight that is divided. */
function look(weights, t, words, text) {
  const { alone, places } = leading(weights);
  const named = places.slice(0, 4).map((j) => fill(text.most, { word: words[j], weight: show(weights[j]) }));
  return fill(alone ? text.look_most : text.look_some, { number: t + 1, most: named.join(text.and) });
}

/** One part of the stream: its name, its numbers, and what would be read off after it. */
function partRow(part, at, full, read, text) {
  const layer = Math.ceil(at / 2);
  const kind = at === 0 ? "first" : at % 2 ? "heads" : "network";
  const svg = s("svg", { viewBox: `0 0 ${STRIP.join(" ")}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    ...strip(part, STRIP, full, `abh-part-${kind}`));
  return h("div", { class: `abh-part abh-of-layer-${layer}` },
    h("span", { class: "abh-part-name" }, fill(text[`part_${kind}`], { layer })), svg,
    h("span", { class: "abh-read" }, fill(text.read, read)));
}

/** A next word and its chance, with a mark where the grammar has it. */
function chanceItem(word, p, fits, text) {
  const bar = h("span", { class: "abh-bar" });
  bar.style.width = `${100 * p}%`;
  const mark = h("span", { class: "abh-mark", "aria-hidden": "true" }, fits ? "✓" : "×");
  return h("li", { class: fits ? "abh-fits" : "abh-misfits" },
    h("span", { class: "abh-chance-word" }, word, mark, h("span", { class: "visually-hidden" }, fits ? text.fits : text.misfits)),
    h("span", { class: "abh-share" }, percent(p)), h("span", { class: "abh-track" }, bar));
}

/** The end of the text: what the model no longer sees is grey, and the last word stands out. */
function sentenceSpans(words, gone) {
  const kind = (i) => (i < gone ? "abh-gone" : i === words.length - 1 ? "abh-last" : "");
  return words.map((word, i) => h("span", { class: kind(i) }, word)).slice(-LATEST);
}

function render({ model, el }) {
  const text = model.get("text");
  const vocabulary = model.get("vocabulary");
  const nouns = model.get("nouns");
  const verbs = model.get("verbs");
  const gpt = model.get("model");
  const [start, far, other] = model.get("starts");
  const id = newId("abh-transformer");
  const last = gpt.num_layers + 1; // the step that predicts
  const stop = vocabulary.indexOf(".");
  const word = (token) => vocabulary[token];

  // State: the text so far, the step, and the temperature.
  let tokens = [...start];
  let step = Math.min(last, Math.max(0, model.get("step")));
  let temperature = 1;

  const layers = Array.from({ length: gpt.num_layers }, (_, l) => fill(text.step_layer, { number: l + 1 }));
  const walk = stepper(id, text, [text.step_first, ...layers, text.step_last], step, go, Infinity);
  const sentence = h("p", { class: "abh-sentence" });
  const rows = h("div", { class: "abh-heads" });
  const stream = h("div", { class: "abh-stream" });
  const streamOf = h("p", { class: "abh-caption" });
  const chances = h("ol", { class: "abh-chances" });
  const heat = slider(text.temperature, { min: 0, max: 3, step: 0.1 }, (warmth) => present(tokens, warmth), (x) => show(x, 1));

  /** Set the text, and show what the model makes of it. */
  function present(words, warmth) {
    tokens = [...words];
    temperature = warmth;
    step = last;
    update();
  }

  /** One word more, drawn. */
  function add() {
    const seen = tokens.slice(-gpt.max_len);
    tokens.push(draw(temper(forward(seen, gpt).logits, temperature), Math.random()));
  }

  /** Let the model go on to the next full stop, at some temperature. */
  function write(begin, warmth) {
    tokens = [...begin];
    temperature = warmth;
    do add(); while (tokens.at(-1) !== stop && tokens.length < begin.length + 20);
    present(tokens, warmth);
  }

  /** To a step; behind the last one stands the first, with one word more. */
  function go(to) {
    if (to > last) add();
    step = to > last ? 0 : to;
    update();
  }

  /** Where the next sentence begins: after a full stop, else anew. */
  const onward = () => (tokens.at(-1) === stop && tokens.length > 1 && tokens.length < LONGEST ? tokens : [stop]);
  const block = tries(text.try, [
    [text.try_far, () => present(far, 1)],
    [text.try_other, () => present(other, 1)],
    [text.try_write, () => write(onward(), 1)],
    [text.try_hot, () => write(onward(), 3)],
    [text.try_cold, () => write([stop], 0)],
  ]);

  const summary = announcer();
  const root = figure("abh-transformer", text.title,
    walk.node,
    summary.node, sentence, rows,
    h("div", { class: "abh-stream-panel" }, streamOf, stream),
    h("div", { class: "abh-outcome" }, h("p", { class: "abh-caption" }, text.chances), chances),
    heat.node, block.node);

  /** What sentences say of the model's answer `now` to the words it sees; `order` has the next ones, likeliest first. */
  function told(now, words, p, order, allowed) {
    const layer = Math.min(gpt.num_layers, Math.max(1, step));
    const fitting = p.reduce((sum, x, w) => sum + (word(w) in allowed ? x : 0), 0);
    const likely = order.filter((w, at) => at === 0 || p[w] >= SOME).slice(0, 4);
    return {
      word: words.at(-1), size: now.parts[0].length, place: words.length - 1, layer,
      looks: inARow(now.weights[layer - 1].map((A, t) => look(A, t, words, text))),
      most: likely.map((w) => fill(text.expected, { word: word(w), share: percent(p[w]) })).join(text.and),
      share: percent(fitting),
    };
  }

  function update() {
    const seen = tokens.slice(-gpt.max_len);
    const words = seen.map(word);
    const now = forward(seen, gpt);
    const p = temper(now.logits, temperature);
    const order = p.map((_, w) => w).sort((a, b) => p[b] - p[a] || now.logits[b] - now.logits[a]);
    const allowed = after(tokens.slice(1).map(word), nouns, verbs);

    walk.set(step);
    walk.next.textContent = step === last ? text.next_word : text.next;
    heat.set(temperature);
    root.dataset.step = step === last ? "last" : step;
    sentence.replaceChildren(h("span", { class: "abh-quiet" }, text.so_far),
      ...sentenceSpans(tokens.map(word), tokens.length - seen.length));
    rows.replaceChildren(...now.weights.flatMap((heads, layer) => heads.map((A, t) => headRow(A, layer, t, words, text))));
    streamOf.replaceChildren(h("span", {}, fill(text.stream, { word: words.at(-1) })), h("span", {}, text.reads));
    const full = Math.max(...now.parts.flat().map(Math.abs));
    stream.replaceChildren(...now.parts.map((part, at) => {
      const [most] = largest(now.reads[at]);
      return partRow(part, at, full, { word: word(most), share: percent(now.reads[at][most]) }, text);
    }));
    chances.replaceChildren(...order.slice(0, LISTED).map((w) => chanceItem(word(w), p[w], word(w) in allowed, text)));

    root.dataset.now = JSON.stringify({ tokens, temperature, chances: p, allowed, ...now });
    const name = step === 0 ? "say_first" : step === last ? "say_last" : "say_layer";
    summary.say(fill(text[name], told(now, words, p, order, allowed)));
  }

  update();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
