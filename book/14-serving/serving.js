// Numbers, the last of which moves, and the same numbers minus their mean.
//
// The first part is the mathematics: pure functions, exported, compared with the chapter's Python in
// test_figure_serving.py. The second part draws. Nothing here needs a kernel: the same code runs in
// the book's static page and in JupyterLab.

import { slider, tries } from "../figures/common/controls.js";
import { announcer, figure, h } from "../figures/common/elements.js";
import { fill, show } from "../figures/common/numbers.js";

// ---- mathematics -----------------------------------------------------------------------------------------

/** The mean of numbers (n,). */
export const mean = (x) => x.reduce((sum, number) => sum + number, 0) / x.length;

/** Each of the numbers (n,), minus the mean of all. */
export const centered = (x) => x.map((number) => number - mean(x));

// ---- the figure ------------------------------------------------------------------------------------------

const LARGEST = 12;

function render({ model, el }) {
  const text = model.get("text");
  let numbers = [...model.get("numbers")]; // the state

  const move = (x) => {
    numbers = [...numbers.slice(0, -1), x];
    draw();
  };
  const last = slider(text.last, { min: 0, max: LARGEST, step: 0.5 }, move);
  const presses = [[text.try_equal, () => move(numbers.at(-2))], [text.try_far, () => move(LARGEST)]];
  const cells = (kind) => numbers.map(() => h("td", { class: kind }));
  const rows = { number: cells("abh-of"), less: cells("abh-less") };
  const summary = announcer();
  const root = figure("abh-serving", text.title,
    h("table", {}, h("tbody", {}, ...Object.entries(rows).map(([name, row]) =>
      h("tr", {}, h("th", { scope: "row" }, text[name]), ...row)))),
    h("div", { class: "abh-sliders" }, last.node),
    summary.node,
    tries(text.try, presses).node);

  function draw() {
    const less = centered(numbers);
    last.set(numbers.at(-1));
    rows.number.forEach((cell, i) => { cell.textContent = show(numbers[i]); });
    rows.less.forEach((cell, i) => { cell.textContent = show(less[i]); });
    summary.say(fill(text.say, { mean: show(mean(numbers)), less: less.map((x) => show(x)).join(", ") }));
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
