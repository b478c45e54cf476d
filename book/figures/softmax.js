// One row through softmax and back: logits, weights, Jacobian, and the gradient that arrives.
//
// The first part is the mathematics: pure functions, exported, compared with the course's Python in
// tests/test_figure_softmax.py. The second part draws. figures/common.js stands before this file. Nothing here asks a
// kernel: the same code runs in the book's static page and in JupyterLab.

// ---- mathematics -----------------------------------------------------------------------------------------

/** Weights (n) -> Jacobian of softmax (n, n): row j, column l is the slope of weight j by score l. */
export function jacobian(weights) {
  return weights.map((a, j) => weights.map((b, l) => (j === l ? a * (1 - a) : -a * b)));
}

/** Root of the sum of all squares of a matrix. */
export function size(matrix) {
  return Math.hypot(...matrix.flat());
}

/** Weights (n) and the gradient by them (n) -> the average of that gradient, and the gradient by the scores (n). */
export function pullBack(weights, da) {
  const average = dot(weights, da);
  return { average, ds: weights.map((a, j) => a * (da[j] - average)) };
}

/** Everything the figure shows, from n logits, the multiplier and the gradient by the weights (n). */
export function row(logits, scale, da) {
  const weights = softmax(logits.map((x) => scale * x));
  const slopes = jacobian(weights);
  return { weights, jacobian: slopes, size: size(slopes), ...pullBack(weights, da) };
}

// ---- numbers ---------------------------------------------------------------------------------------------

/** A number with so many decimals, or as 2·10⁻⁵ where they would hide it. */
export function small(x, digits = 3) {
  if (x === 0 || Math.abs(x) >= 0.5 * 10 ** -digits) return show(x, digits);
  let power = Math.floor(Math.log10(Math.abs(x)));
  let lead = Math.round(Math.abs(x) / 10 ** power);
  if (power < -300) lead = Math.round(Math.abs(x) * 1e300 / 10 ** (power + 300));
  if (lead === 10) [lead, power] = [1, power + 1];
  return `${x < 0 ? "\u2212" : ""}${lead}·10${superscript(power)}`;
}

/** Write a number into an element, its power as a real superscript: fonts have raised digits of several heights. */
function write(node, text, raise) {
  const [, base, power] = text.match(/^(.*?)([⁻⁰¹²³⁴-⁹]*)$/);
  const plain = [...power].map((c) => (c === "⁻" ? "\u2212" : SUPERSCRIPT.indexOf(c))).join("");
  node.replaceChildren(base, ...(plain ? [raise(plain)] : []));
  return node;
}
const sup = (text) => h("sup", {}, text);
const raised = (text) => s("tspan", { dy: -4, class: "abh-power" }, text);

// ---- drawing ---------------------------------------------------------------------------------------------

const LARGEST = 40; // of the multiplier
const LOWEST = -8; // the curve is shown down to ten to this power

/** The grid of slopes: an SVG with a square and a number for each. */
function slopesGrid(tokens) {
  const [left, top, cell] = [58, 20, 50];
  const [width, height] = [left + cell * tokens.length, top + cell * tokens.length];
  const layer = s("g");
  const names = tokens.flatMap((token, i) => {
    const across = s("text", { x: left + cell * (i + 0.5), y: top - 6, "text-anchor": "middle", class: "abh-name" });
    const down = s("text", { x: left - 6, y: top + cell * (i + 0.5) + 4, "text-anchor": "end", class: "abh-name" });
    across.textContent = down.textContent = token;
    return [across, down];
  });
  const lines = [...Array(tokens.length + 1).keys()].flatMap((i) => [
    s("line", { x1: left, x2: width, y1: top + cell * i, y2: top + cell * i }),
    s("line", { y1: top, y2: height, x1: left + cell * i, x2: left + cell * i })]);
  const svg = s("svg", { viewBox: `0 0 ${width + 1} ${height + 1}`, role: "img" }, s("g", { class: "abh-grid" }, ...lines), ...names, layer);
  const draw = (slopes) => layer.replaceChildren(...slopes.flatMap((line, j) => line.flatMap((x, l) => {
    const side = 27 * Math.sqrt(Math.abs(x) / 0.25); // no slope exceeds a quarter
    const [cx, cy] = [left + cell * (l + 0.5), top + cell * j + 18];
    const number = s("text", { x: cx, y: top + cell * (j + 1) - 4, "text-anchor": "middle", class: "abh-slope" });
    number.textContent = x > 0 && show(x) !== "0.00" ? `+${show(x)}` : show(x);
    return [s("rect", { x: cx - side / 2, y: cy - side / 2, width: side, height: side, rx: 1.5,
      class: x > 0 ? "abh-gain" : "abh-loss" }), number];
  })));
  return { svg, draw };
}

/** The size of the Jacobian against the multiplier, logarithmic, with a mark where the figure stands. */
function sizeCurve(axis) {
  const [left, right, top, bottom, width, height] = [40, 8, 8, 26, 320, 128];
  const x = (scale) => left + ((width - left - right) * scale) / LARGEST;
  const y = (value) => top + (height - top - bottom) * (Math.log10(Math.max(value, 10 ** LOWEST)) / LOWEST);
  const grid = s("g", { class: "abh-grid" });
  for (let power = 0; power >= LOWEST; power -= 2) {
    const label = s("text", { x: left - 5, y: y(10 ** power) + 4, "text-anchor": "end", class: "abh-tick" });
    write(label, power === 0 ? "1" : `10${superscript(power)}`, raised);
    grid.append(s("line", { x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power) }), label);
  }
  for (let scale = 0; scale <= LARGEST; scale += 10) {
    const label = s("text", { x: x(scale), y: height - bottom + 13, "text-anchor": "middle", class: "abh-tick" });
    label.textContent = String(scale);
    grid.append(label);
  }
  const name = s("text", { x: (left + width - right) / 2, y: height - 2, "text-anchor": "middle", class: "abh-tick" });
  name.textContent = axis;
  const path = s("polyline", { class: "abh-curve" });
  const mark = s("circle", { r: 6, class: "abh-here" });
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" }, grid, name, path, mark);
  const draw = (sizes, scale, now) => {
    path.setAttribute("points", sizes.map((value, i) => [i, value]).filter(([, value]) => value >= 10 ** LOWEST)
      .map(([i, value]) => `${x((LARGEST * i) / (sizes.length - 1))},${y(value)}`).join(" "));
    mark.setAttribute("cx", x(scale));
    mark.setAttribute("cy", y(now));
  };
  return { svg, draw };
}

function render({ model, el }) {
  const tokens = model.get("tokens");
  const [names, upstreams] = [model.get("names"), model.get("upstreams")];
  const text = model.get("text");
  const id = newId("abh-softmax");

  // State: the logits, the multiplier, which gradient comes back.
  let logits = [...model.get("logits")];
  let scale = model.get("scale");
  let chosen = 0;

  const times = slider(text.scale, { min: 0, max: LARGEST, step: 0.5 }, (x) => { scale = x; draw(); }, (x) => show(x, 1));
  times.row.classList.add("abh-times");
  const reset = h("button", { type: "button", class: "abh-reset" }, text.reset);
  reset.addEventListener("click", () => {
    logits = [...model.get("logits")];
    scale = model.get("scale");
    draw();
    times.input.focus(); // the button is now disabled, which would leave the keyboard nowhere
  });

  // 1. logits and weights
  const weights = tokens.map((token, j) => {
    const logit = slider(token, { min: -3, max: 3, step: 0.1 }, (x) => { logits[j] = x; draw(); }, (x) => show(x, 1));
    logit.input.setAttribute("aria-label", fill(text.logit_of, { word: token }));
    const bar = h("div", { class: "abh-bar" });
    const number = h("span", { class: "abh-weight" });
    const line = h("div", { class: "abh-logit" }, logit.row,
      h("div", { class: "abh-answer-bar" }, h("div", { class: "abh-track", "aria-hidden": "true" }, bar), number));
    return { line, logit, bar, number };
  });
  const heads = h("div", { class: "abh-logit abh-heads", "aria-hidden": "true" }, h("span", {}, text.logit), h("span", {}, text.weight));

  // 2. the Jacobian
  const grid = slopesGrid(tokens);
  const curve = sizeCurve(text.curve_axis);
  const sizeNow = h("strong", {});
  const sizeLine = h("p", { class: "abh-size" }, `${text.size}: `, sizeNow);

  // 3. a gradient on its way back
  const upstream = choice(id, text.choose, names, chosen, (i) => { chosen = i; draw(); });
  const rows = tokens.map((token) => {
    const [grade, above, weight, gradient] = Array.from({ length: 4 }, () => h("td", { class: "abh-figures" }));
    for (const cell of [above, weight]) cell.classList.add("abh-spare"); // left out on a phone
    const bar = h("div", { class: "abh-bar" });
    const line = h("tr", {}, h("th", { scope: "row" }, token), grade, above, weight, gradient,
      h("td", { class: "abh-both", "aria-hidden": "true" }, bar));
    return { line, grade, above, weight, gradient, bar };
  });
  const [average, total] = [h("td", { class: "abh-figures" }), h("td", { class: "abh-figures" })];
  const table = h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, text.word), h("th", { scope: "col" }, text.grade),
      h("th", { scope: "col", class: "abh-spare" }, text.above), h("th", { scope: "col", class: "abh-spare" }, text.weight),
      h("th", { scope: "col", colspan: 2, class: "abh-ds" }, text.gradient))),
    h("tbody", {}, ...rows.map((r) => r.line)),
    h("tfoot", {}, ...[[text.average, average], [text.total, total]].map(([name, number]) =>
      h("tr", {}, h("td", { colspan: 2 }, name), h("td", { class: "abh-spare" }), h("td", { class: "abh-spare" }), number, h("td", {})))));
  const summary = announcer();

  const root = figure("abh-softmax", text.title,
    h("div", { class: "abh-top" }, times.row, reset),
    h("div", { class: "abh-panels" },
      panel(id, 1, text.weigh, text.weigh_note, heads, ...weights.map((w) => w.line), sizeLine, curve.svg),
      panel(id, 2, text.slopes, text.slopes_note, grid.svg),
      panel(id, 3, text.back, text.back_note, upstream.node, table, summary.node)));

  function draw() {
    const da = upstreams[chosen];
    const now = row(logits, scale, da);
    const before = size(jacobian(softmax(logits)));
    const best = now.weights.indexOf(Math.max(...now.weights));
    const pushes = now.ds.map(Math.abs);
    const most = pushes.indexOf(Math.max(...pushes));

    times.set(scale);
    reset.disabled = scale === model.get("scale") && logits.every((x, j) => x === model.get("logits")[j]);
    weights.forEach((w, j) => {
      w.logit.set(logits[j]);
      w.line.dataset.weight = now.weights[j];
      w.bar.style.width = `${100 * now.weights[j]}%`;
      w.number.textContent = show(now.weights[j]);
      w.line.classList.toggle("abh-best", j === best);
    });

    grid.draw(now.jacobian);
    grid.svg.setAttribute("aria-label", fill(text.slopes_picture, { n: tokens.length, rows: tokens.map((word, j) =>
      fill(text.slopes_row, { word, numbers: now.jacobian[j].map((x) => show(x)).join(", ") })).join("; ") }));
    write(sizeNow, small(now.size), sup);
    curve.draw([...Array(161).keys()].map((i) => row(logits, (LARGEST * i) / 160, da).size), scale, now.size);
    curve.svg.setAttribute("aria-label", fill(text.curve, { scale: show(scale, 1), size: small(now.size) }));

    // No number of ds exceeds a quarter of the range of da: that is the full width of a bar.
    const full = (Math.max(...da) - Math.min(...da)) / 4 || 1;
    rows.forEach((r, j) => {
      r.line.dataset.gradient = now.ds[j];
      r.grade.textContent = show(da[j], 1);
      r.above.textContent = show(da[j] - now.average);
      r.weight.textContent = show(now.weights[j]);
      write(r.gradient, small(now.ds[j]), sup);
      r.bar.className = `abh-bar ${now.ds[j] > 0 ? "abh-rise" : "abh-fall"}`;
      r.bar.style.width = `${(50 * Math.abs(now.ds[j])) / full}%`;
    });
    average.textContent = show(now.average);
    total.textContent = show(now.ds.reduce((sum, x) => sum + x, 0), 3);
    upstream.set(chosen);
    for (const name of ["size", "average"]) root.dataset[name] = now[name];
    root.dataset.jacobian = JSON.stringify(now.jacobian);

    const fallen = before / now.size;
    const facts = {
      scale: show(scale, 1), best: tokens[best], percent: `${show(100 * now.weights[best], now.weights[best] > 0.99 ? 2 : 0)}\u00a0%`, size: small(now.size),
      fallen: fallen >= 2 && Number.isFinite(fallen) ? fill(text.fallen, { times: fallen < 1e6 ? Number(fallen.toPrecision(2)).toLocaleString("en") : small(1 / fallen).replace("⁻", "") }) : "",
    };
    const moved = pushes[most] < 1e-12 ? text.still : fill(text.moves, { word: tokens[most], largest: small(now.ds[most]) });
    summary.say(fill(text.summary, facts) + moved);
  }

  draw();
  el.replaceChildren(root);
  return summary.stop;
}

export default { render };
