// What a reader takes hold of: buttons, sliders, choices of one, steps to walk through, things to try.
//
// A control that shows a state has `node` and `set`: a figure keeps its state itself, and sets every control as it draws.

import { group, h } from "./elements.js";
import { show } from "./numbers.js";

/** A button with its name, and what a press does. */
export function button(name, press, kind = "") {
  const node = h("button", { type: "button", class: `abh-reset ${kind}` }, name);
  node.addEventListener("click", press);
  return node;
}

/** A choice of one: native radio buttons as chips, so arrow keys work and screen readers know them. */
export function choice(id, legend, options, chosen, onChoose) {
  const items = options.map((option, i) => {
    const input = h("input", { type: "radio", name: id, value: i });
    input.checked = i === chosen;
    input.addEventListener("change", () => onChoose(i));
    return { input, chip: h("label", { class: "abh-word" }, input, h("span", {}, option)) };
  });
  const node = h("fieldset", { class: "abh-words" }, h("legend", {}, legend), ...items.map((item) => item.chip));
  return { node, set: (i) => items.forEach((item, j) => { item.input.checked = i === j; }) };
}

/** A slider with its name before it and its number after it. */
export function slider(name, { min, max, step }, onMove, format = (x) => show(x)) {
  const input = h("input", { type: "range", min, max, step, "aria-label": name });
  const number = h("output", {});
  input.addEventListener("input", () => onMove(Number(input.value)));
  return {
    input, number,
    node: h("label", { class: "abh-slider" }, h("span", { "aria-hidden": "true" }, name), input, number),
    set(value) {
      input.value = value;
      number.textContent = format(value);
    },
  };
}

/** Buttons that `go` one step back or on from the one that was `set`, closed at the first and at the last. */
export function paces(text, go) {
  let at = 0;
  const back = button(text.back, () => go(at - 1), "abh-back");
  const next = button(text.next, () => go(at + 1), "abh-next");
  return {
    back, next,
    set(step, last) {
      at = step;
      back.disabled = step === 0;
      next.disabled = step === last;
    },
  };
}

/** A walk: a chip for each step by its name, and buttons to the one before and the one behind. Behind `last` there is
 *  none. */
export function stepper(id, text, names, step, go, last = names.length - 1) {
  const chips = choice(`${id}-step`, text.steps, names.map((name, i) => `${i + 1} ${name}`), step, go);
  chips.node.classList.add("abh-steps");
  const { back, next, set } = paces(text, go);
  return {
    next,
    node: h("div", { class: "abh-walk" }, chips.node, back, next),
    set(to) {
      chips.set(to);
      set(to, last);
    },
  };
}

/** The block of things to try: a button for each pair of a name and what a press does, then `more`. */
export function tries(name, list, ...more) {
  const buttons = list.map(([label, press]) => button(label, press));
  return { buttons, node: group("abh-tries", name, ...buttons, ...more) };
}

/** The same for states that a press sets: numbered, and marked where the figure is in them, as `isAt` says. */
export function presets(name, states, names, set, ...more) {
  const { buttons, node } = tries(name, states.map((state, i) => [`${i + 1} ${names[i]}`, () => set(state)]), ...more);
  return {
    buttons, node,
    mark: (isAt) => buttons.forEach((one, i) => one.setAttribute("aria-pressed", String(isAt(states[i])))),
  };
}

/** Whether a state has all that is wanted of it. */
export const agrees = (state, wanted) => Object.keys(wanted).every((key) => wanted[key] === state[key]);
