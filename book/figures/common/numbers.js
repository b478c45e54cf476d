// How the figures write numbers, and put them into sentences. The sentences come from Python, so they can be translated.

/** A number with so many decimals and a real minus sign. */
export const show = (x, digits = 2) =>
  (Math.abs(x) < 0.5 * 10 ** -digits ? 0 : x).toFixed(digits).replace("-", "\u2212");

/** As it would be written by hand: so many decimals at most, none where it is whole. `write` writes it with all of them. */
export function plain(x, digits = 2, write = show) {
  const text = write(x, digits);
  return /·|^[^.]*$/.test(text) ? text : text.replace(/\.?0+$/, "");
}

/** A share in whole percent, which calls nothing that is left 0, and nothing that lacks a little 100: 0.004 -> <1%. */
export function percent(share) {
  if (share > 0 && share < 0.005) return "<1%";
  return share > 0.995 && share < 1 ? ">99%" : `${Math.round(100 * share)}%`;
}

export const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** A whole number written as a power: -12 -> ⁻¹². */
export const superscript = (k) => String(k).replace("-", "⁻").replace(/\d/g, (d) => SUPERSCRIPT[d]);

/** A number that is not 0, by one digit and a power of ten: 0.000021 -> 2·10⁻⁵. */
export function scientific(x) {
  let power = Math.floor(Math.log10(Math.abs(x)));
  let lead = Math.round(Math.abs(x) / 10 ** power);
  if (power < -300) lead = Math.round(Math.abs(x) * 1e300 / 10 ** (power + 300));
  if (lead === 10) [lead, power] = [1, power + 1];
  return `${x < 0 ? "\u2212" : ""}${lead}·10${superscript(power)}`;
}

/** "{a} and {b}" with the words {a: ..., b: ...}. */
export const fill = (template, words) => template.replace(/\{(\w+)\}/g, (_, name) => words[name] ?? `{${name}}`);

/** Sentences in a row: a space between them, but none after a full-width stop. */
export const inARow = (sentences) => sentences.join(" ").replace(/([。？！]) /g, "$1");
