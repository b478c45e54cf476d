// What a figure is built of: elements of HTML and SVG, the frame around them, and the sentence that says what they show.

let figures = 0; // distinguishes the ids and radio groups of several figures on one page
export const newId = (name) => `${name}-${++figures}`;

function fitted(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** An HTML element: h("p", {class: "x"}, "text", child). */
export const h = (tag, attributes = {}, ...children) => fitted(document.createElement(tag), attributes, children);

/** An SVG element, the same way. */
export const s = (tag, attributes = {}, ...children) =>
  fitted(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** What belongs together under a name: controls of a kind. */
export const group = (className, name, ...children) =>
  h("div", { class: className, role: "group", "aria-label": name }, h("span", { "aria-hidden": "true" }, name), ...children);

/** A row of numbers as bars up and down from a line; `full` has the whole height. With `blocks`, so many parts of the
 *  row stand apart by `gap`, each in a frame. */
export function strip(numbers, [width, height], full, kind, blocks = 0, gap = 0) {
  const parts = Math.max(1, blocks);
  const wide = (width - gap * (parts - 1)) / numbers.length;
  const per = numbers.length / parts;
  const left = (c) => c * wide + gap * Math.floor(c / per);
  const starts = Array.from({ length: parts }, (_, t) => left(t * per));
  const room = height / 2 - (blocks ? 3 : 1);
  return [
    ...starts.slice(0, blocks).map((x, t) => s("rect", {
      x: x + 0.5, y: 0.5, width: wide * per - 1, height: height - 1, class: `abh-block ${t % 2 ? "abh-odd" : ""}`, rx: 4,
    })),
    ...numbers.map((x, c) => {
      const high = Math.min(1, Math.abs(x) / full) * room;
      return s("rect", {
        x: left(c) + wide * 0.2, width: wide * 0.6, y: height / 2 - (x > 0 ? high : 0), height: Math.max(high, 0.5),
        class: `abh-number-bar ${kind}`,
      });
    }),
    ...starts.map((x) => s("line", { x1: x, x2: x + wide * per, y1: height / 2, y2: height / 2, class: "abh-ground" })),
  ];
}

/** A line of text. Screen readers hear its changes once it stays for a while: dragging is no flood of numbers. */
export function announcer() {
  const node = h("p", { class: "abh-summary", "aria-live": "polite" });
  let timer = 0;
  return {
    node,
    say(text) {
      clearTimeout(timer);
      if (node.textContent) timer = setTimeout(() => { node.textContent = text; }, 200);
      else node.textContent = text;
    },
    stop: () => clearTimeout(timer),
  };
}

/** The whole of a figure: a named group whose controls keep their keys (JupyterLab would take the arrows). */
export function figure(name, title, ...children) {
  const root = h("div", { class: `abh-figure ${name}`, role: "group", "aria-label": title }, ...children);
  for (const control of root.querySelectorAll("input, select, button, [tabindex]")) {
    control.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  return root;
}
