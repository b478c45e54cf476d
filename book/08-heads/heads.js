// Eight heads that can be cut: where each looks, and what the model still does without some of them.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// test_figure_heads.py. The second part draws. Nothing here asks a kernel: every set of heads was tried when
// the page was built, so the same code runs in the book's static page and in JupyterLab.

import { choice, tries } from "../figures/common/controls.js";
import { announcer, figure, h, newId } from "../figures/common/elements.js";
import { fill, percent, show } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** The place of a set of heads among all sets: one bit for each head that is kept, the first head's the highest. */
export function placeOf(kept) {
  return kept.flat().reduce((number, keep) => 2 * number + (keep ? 1 : 0), 0);
}

/** What is left without some heads; `cut` is a list of pairs (layer, head). */
export function left(found, [layers, heads], cut) {
  const is = (layer, head) => cut.some(([l, t]) => l === layer && t === head);
  const kept = Array.from({ length: layers }, (_, layer) => Array.from({ length: heads }, (_, head) => !is(layer, head)));
  const place = placeOf(kept);
  return {
    place, kept, loss: found.loss[place], far: found.far[place], past: found.past[place],
    forms: found.forms.map((all) => all[place]),
    weights: found.weights.map(([first, last]) => [first, last[placeOf([kept[0]])]]),
  };
}

/** What a set of heads costs: the loss without it minus the whole model's. */
export function cost(found, shape, cut) {
  return left(found, shape, cut).loss - left(found, shape, []).loss;
}

// ---- drawing ---------------------------------------------------------------------------------------------

const SHOWN = 0.2; // a weight from here on is written beside its word
const DARK = 0.5; // from here on the word is bold
const signed = (x) => `${x >= 0.0005 ? "+" : ""}${show(x, 3)}`;

/** A head's row: its knife, its name, and the words with its weights. */
function headRow([layer, head], text, onCut) {
  const name = fill(text.head, { layer: layer + 1, head: head + 1 });
  const box = h("input", { type: "checkbox", "aria-label": fill(text.cut_head, { layer: layer + 1, head: head + 1 }) });
  box.addEventListener("change", () => onCut(box.checked));
  const line = h("span", { class: "abh-weight-words", role: "img" });
  const node = h("div", { class: "abh-head-row" },
    h("label", { class: "abh-knife" }, box, h("span", { "aria-hidden": "true" }, text.cut)),
    h("span", { class: "abh-head-name" }, name), line);
  return {
    node,
    set(weights, words, gone) {
      line.replaceChildren(...weights.map((a, j) => {
        const cell = h("span", { class: `abh-weight-word ${a >= DARK && !gone ? "abh-dark" : ""}` }, words[j]);
        if (a >= SHOWN) cell.append(h("small", {}, show(a)));
        cell.style.setProperty("--a", `${Math.round(100 * a)}%`);
        return cell;
      }));
      const list = weights.map((a, j) => `${words[j]} ${show(a)}`).join(text.comma);
      line.setAttribute("aria-label", `${name}. ${fill(text.weights_picture, { word: words.at(-1), weights: list })}`);
      node.classList.toggle("abh-gone", gone);
      box.checked = gone;
    },
  };
}

/** A name, a number as `write` writes it, and the `share` of the number's bar that is full. */
function meter(name, text, write, share) {
  const bar = h("span", { class: "abh-bar" });
  const number = h("strong", {});
  const node = h("li", { class: `abh-meter-${name}` }, h("span", { class: "abh-meter-name" }, text[name]), number,
    h("span", { class: "abh-track" }, bar));
  return {
    name, node,
    set(x) {
      number.textContent = write(x);
      bar.style.width = `${100 * Math.min(1, Math.max(0, share(x)))}%`;
    },
  };
}

/** A verb's form and its chance, marked where it is right. */
function verbItem(verb, text) {
  const bar = h("span", { class: "abh-bar" });
  const number = h("span", { class: "abh-share" });
  const mark = h("span", { class: "abh-mark", "aria-hidden": "true" });
  const said = h("span", { class: "abh-unseen" });
  const node = h("li", {}, h("span", { class: "abh-verb" }, fill(text.verbs_like, { verb }), mark, said), number,
    h("span", { class: "abh-track" }, bar));
  return {
    node,
    set(p, fits) {
      number.textContent = percent(p);
      bar.style.width = `${100 * p}%`;
      mark.textContent = fits ? "✓" : "";
      said.textContent = fits ? text.fits : "";
      node.classList.toggle("abh-fits", fits);
    },
  };
}

function render({ model, el }) {
  const text = model.get("text");
  const beginnings = model.get("beginnings");
  const verbs = model.get("verbs");
  const right = model.get("right");
  const found = model.get("found");
  const shape = model.get("shape");
  const picks = model.get("picks");
  const [layers, heads] = shape;
  const id = newId("abh-heads");
  const whole = left(found, shape, []);
  const all = Array.from({ length: layers }, (_, layer) => Array.from({ length: heads }, (_, head) => [layer, head])).flat();
  const worst = left(found, shape, all);

  // State: which heads are cut, and which text is read.
  let cut = model.get("cut").map(([layer, head]) => [layer, head]);
  let reading = 0;
  const isCut = ([layer, head]) => cut.some(([l, t]) => l === layer && t === head);

  const spoken = (words) => words.filter((word) => word !== ".").join(" ");
  const texts = choice(`${id}-text`, text.beginning, beginnings.map((words) => `${spoken(words)} …`), reading,
    (i) => { reading = i; draw(); });
  const rows = all.map(([layer, head]) => headRow([layer, head], text, (gone) => {
    cut = gone ? [...cut, [layer, head]] : cut.filter(([l, t]) => l !== layer || t !== head);
    draw();
  }));
  const meters = [
    meter("loss", text, (x) => show(x, 3), (x) => (x - 0.9 * whole.loss) / (worst.loss - 0.9 * whole.loss)),
    meter("far", text, percent, (x) => x),
    meter("past", text, percent, (x) => x),
  ];
  const verbItems = verbs.map((verb) => verbItem(verb, text));

  /** Cut these heads and no others, perhaps while another text is read. */
  function present(pairs, at = reading) {
    cut = pairs.map(([layer, head]) => [layer, head]);
    reading = at;
    draw();
  }
  const block = tries(text.try, [
    [text.try_past, () => present(picks.past, 1)],
    [text.try_also, () => present(picks.also, 1)],
    [text.try_subject, () => present(picks.subject, 0)],
    [text.try_pair, () => present(picks.pair)],
    [text.try_idle, () => present(picks.idle)],
    [text.try_none, () => present(all)],
    [text.try_whole, () => present([])],
  ]);

  const summary = announcer();
  const root = figure("abh-heads", text.title,
    texts.node, summary.node,
    h("div", { class: "abh-rows" }, ...rows.map((row) => row.node)),
    h("ul", { class: "abh-meters" }, ...meters.map((one) => one.node)),
    h("p", { class: "abh-caption" }, text.forms),
    h("ul", { class: "abh-verbs" }, ...verbItems.map((item) => item.node)),
    block.node);

  function draw() {
    const now = left(found, shape, cut);
    texts.set(reading);
    rows.forEach((row, i) => {
      const [layer, head] = all[i];
      row.set(now.weights[reading][layer][head], beginnings[reading], isCut(all[i]));
    });
    meters.forEach((one) => one.set(now[one.name]));
    verbItems.forEach((item, form) => item.set(now.forms[reading][form], form === right[reading]));
    const alone = cut.reduce((sum, pair) => sum + cost(found, shape, [pair]), 0);
    root.dataset.now = JSON.stringify({ cut, reading, ...now, alone });
    summary.say(fill(text[["say_whole", "say_one"][cut.length] ?? "say_cut"], {
      count: cut.length, all: all.length, loss: show(now.loss, 3), whole: show(whole.loss, 3),
      change: signed(now.loss - whole.loss), alone: signed(alone),
    }));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
