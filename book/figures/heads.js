// Eight heads that can be cut: where each looks, and what the model still does without some of them.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// tests/test_figure_heads.py. The second part draws. figures/common.js stands before this file. Nothing here asks a
// kernel: every set of heads was tried when the page was built, so the same code runs in the book's static page and in
// JupyterLab.

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
const percent = (p) => `${(100 * p).toFixed(0)}%`;
const signed = (x) => `${x >= 0.0005 ? "+" : ""}${show(x, 3)}`;

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

  const spoken = (words) => words.filter((word) => word !== ".").join(" ");
  const texts = choice(`${id}-text`, text.beginning, beginnings.map((words) => `${spoken(words)} …`), reading,
    (i) => { reading = i; draw(); });
  const summary = announcer();

  const isCut = ([layer, head]) => cut.some(([l, t]) => l === layer && t === head);
  const rows = all.map(([layer, head]) => {
    const name = fill(text.head, { layer: layer + 1, head: head + 1 });
    const box = h("input", { type: "checkbox", "aria-label": fill(text.cut_head, { layer: layer + 1, head: head + 1 }) });
    box.addEventListener("change", () => {
      cut = box.checked ? [...cut, [layer, head]] : cut.filter(([l, t]) => l !== layer || t !== head);
      draw();
    });
    const words = h("span", { class: "abh-weight-words", role: "img" });
    const node = h("div", { class: "abh-head-row" },
      h("label", { class: "abh-knife" }, box, h("span", { "aria-hidden": "true" }, text.cut)),
      h("span", { class: "abh-head-name" }, name), words);
    return { pair: [layer, head], name, box, words, node };
  });

  const meters = [
    ["loss", (x) => show(x, 3), (x) => (x - 0.9 * whole.loss) / (worst.loss - 0.9 * whole.loss)],
    ["far", percent, (x) => x],
    ["past", percent, (x) => x],
  ].map(([name, write, share]) => {
    const bar = h("span", { class: "abh-bar" });
    const number = h("strong", {});
    const node = h("li", { class: `abh-meter-${name}` }, h("span", { class: "abh-meter-name" }, text[name]), number,
      h("span", { class: "abh-track" }, bar));
    return { name, write, share, bar, number, node };
  });
  const verbItems = verbs.map((verb) => {
    const bar = h("span", { class: "abh-bar" });
    const number = h("span", { class: "abh-share" });
    const mark = h("span", { class: "abh-mark", "aria-hidden": "true" });
    const said = h("span", { class: "abh-unseen" });
    const node = h("li", {}, h("span", { class: "abh-verb" }, fill(text.verbs_like, { verb }), mark, said), number,
      h("span", { class: "abh-track" }, bar));
    return { bar, number, mark, said, node };
  });

  /** Cut these heads and no others, perhaps while another text is read. */
  function present(pairs, at = reading) {
    cut = pairs.map(([layer, head]) => [layer, head]);
    reading = at;
    draw();
  }
  const tries = [
    [text.try_past, () => present(picks.past, 1)],
    [text.try_also, () => present(picks.also, 1)],
    [text.try_subject, () => present(picks.subject, 0)],
    [text.try_pair, () => present(picks.pair)],
    [text.try_idle, () => present(picks.idle)],
    [text.try_none, () => present(all)],
    [text.try_whole, () => present([])],
  ].map(([name, press]) => button(name, press));

  const root = figure("abh-heads", text.title,
    texts.node, summary.node,
    h("div", { class: "abh-rows" }, ...rows.map((row) => row.node)),
    h("ul", { class: "abh-meters" }, ...meters.map((meter) => meter.node)),
    h("p", { class: "abh-caption" }, text.forms),
    h("ul", { class: "abh-verbs" }, ...verbItems.map((item) => item.node)),
    h("div", { class: "abh-tries", role: "group", "aria-label": text.try },
      h("span", { "aria-hidden": "true" }, text.try), ...tries));

  /** The text with a head's weights. */
  function look(row, weights) {
    const words = beginnings[reading];
    const gone = isCut(row.pair);
    row.words.replaceChildren(...weights.map((a, j) => {
      const cell = h("span", { class: `abh-weight-word ${a >= DARK && !gone ? "abh-dark" : ""}` }, words[j]);
      if (a >= SHOWN) cell.append(h("small", {}, show(a)));
      cell.style.setProperty("--a", `${Math.round(100 * a)}%`);
      return cell;
    }));
    const list = weights.map((a, j) => `${words[j]} ${show(a)}`).join(text.comma);
    row.words.setAttribute("aria-label", `${row.name}. ${fill(text.weights_picture, { word: words.at(-1), weights: list })}`);
    row.node.classList.toggle("abh-gone", gone);
    row.box.checked = gone;
  }

  function draw() {
    const now = left(found, shape, cut);
    texts.set(reading);
    rows.forEach((row) => look(row, now.weights[reading][row.pair[0]][row.pair[1]]));
    meters.forEach((meter) => {
      meter.number.textContent = meter.write(now[meter.name]);
      meter.bar.style.width = `${100 * Math.min(1, Math.max(0, meter.share(now[meter.name])))}%`;
    });
    verbItems.forEach((item, form) => {
      const p = now.forms[reading][form];
      item.number.textContent = percent(p);
      item.bar.style.width = `${100 * p}%`;
      const fits = form === right[reading];
      item.mark.textContent = fits ? "✓" : "";
      item.said.textContent = fits ? text.fits : "";
      item.node.classList.toggle("abh-fits", fits);
    });
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
