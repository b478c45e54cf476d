// Narrows the lists of submissions down to those of a kind, to what nbgrader alone made of them, or to a text.
// Without this script all of them are there, and nothing else is missing.
document.addEventListener("DOMContentLoaded", () => {
  const lists = [...document.querySelectorAll("details.abh-cases:has(table.abh-corpus:not(.abh-catches))")];
  const before = document.querySelector("[data-corpus-filter]");
  if (!lists.length || !before) return;
  const words = JSON.parse(before.dataset.corpusFilter);
  const say = (name, ...values) => words[name].replace(/\{(\d)\}/g, (_place, index) => values[index]);
  const rows = lists.flatMap((list) => [...list.querySelectorAll("tbody tr")]);
  const said = (row, found) => [...row.querySelectorAll(found)].map((one) => one.textContent.trim());
  const kinds = (row) => said(row, ".abh-kind").flatMap((text) => text.split(words.or));
  const harms = (row) => said(row, ".abh-harm").map((text) => text.replace(/ ?[(（].*[)）]$/, ""));
  const choices = (of) => [...new Set(rows.flatMap(of))].sort();

  const bar = document.createElement("form");
  bar.className = "abh-filter";
  bar.setAttribute("role", "search");
  bar.setAttribute("aria-label", words.submissions);
  const field = (label, control) => {
    const box = document.createElement("label");
    box.append(label, control);
    bar.append(box);
    return control;
  };
  const select = (label, all, texts) => {
    const control = document.createElement("select");
    control.append(new Option(all, ""), ...texts.map((text) => new Option(text, text)));
    return field(label, control);
  };
  const text = field(words.text, Object.assign(document.createElement("input"), { type: "search" }));
  const kind = select(words.kind, words.kinds, choices(kinds));
  const harm = select(words.alone, words.outcomes, [words.same, ...choices(harms)]);
  const count = document.createElement("output");
  bar.append(count);
  before.append(bar);

  const show = () => {
    const wanted = text.value.trim().toLowerCase(), some = wanted || kind.value || harm.value;
    const fits = (row) => row.textContent.toLowerCase().includes(wanted)
      && (!kind.value || kinds(row).includes(kind.value))
      && (!harm.value || (harm.value === words.same ? row.querySelector(".abh-same") : harms(row).includes(harm.value)));
    for (const list of lists) {
      let left = 0;
      for (const row of list.querySelectorAll("tbody tr")) left += !(row.hidden = !fits(row));
      list.open = Boolean(some && left);
      const summary = list.querySelector("summary");
      summary.dataset.whole ??= summary.textContent;
      summary.textContent = some ? say("of", left, summary.dataset.whole) : summary.dataset.whole;
    }
    const left = rows.filter((row) => !row.hidden).length;
    count.textContent = some ? say("left", left, rows.length) : say("all", rows.length);
  };
  bar.addEventListener("input", show);
  bar.addEventListener("submit", (event) => event.preventDefault());
  show();
});
