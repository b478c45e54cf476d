// Draws the rows of the report's tables from the data in the page, a screenful at a time; sorts, searches and turns pages.
// All texts are set as plain text, because names and messages come from other people.
const data = JSON.parse(document.getElementById("data").textContent);
const HOW = {
  who: (row) => row[0],
  score: (row) => row[1],
  difference: (row) => row[8][2],
};
const form = document.querySelector(".find");
const [field, select, said] = ["input", "select", "[role=status]"].map((what) => form.querySelector(what));
// A text in the reader's language, with its values.
const _ = (text, values = {}) => (data.words[text] ?? text).replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
const names = data.students.map(plain);
const number = (value) => String(Number(value.toPrecision(4)));
const points = (row) => number(row[1]) + (row[2] ? ` ${_("+ {points} pending", { points: number(row[2]) })}` : "");

function made(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Text between backticks is code, as in feedback.
function words(text) {
  const pieces = text.split("`");
  return pieces.length % 2 ? pieces.map((piece, at) => (at % 2 ? made("code", {}, piece) : piece)) : [text];
}

const list = (numbers) =>
  made("ul", { class: "plain" }, ...(numbers.length ? numbers : [-1]).map((at) => made("li", {}, ...words(data.texts[at] ?? "–"))));

const page = (row, part) => `${data.base}${encodeURIComponent(data.students[row[0]])}/${part.name}/${part.name}.html`;

function student(row, part) {
  const name = data.students[row[0]];
  return data.base ? made("a", { href: page(row, part) }, name) : name;
}

// A row: student, points, pending points, kind, a letter for each column, tags, reasons, evidence, change.
const DRAWN = {
  picture(row, part) {
    const cells = [made("th", { class: "who", scope: "row" }, student(row, part)), made("td", { class: "n" }, points(row))];
    if (!row[4]) return [...cells, made("td", { class: "none", colspan: part.columns.length }, row[3])];
    return cells.concat(
      part.columns.map(([cell, check, title], at) => {
        const letter = row[4][at];
        if (letter === ".") return made("td", {});
        const [sign, mark] = data.signs[letter];
        if (!data.base) return made("td", { class: letter }, sign);
        const link = made("a", { href: `${page(row, part)}#at-${cell}${check && `.${check}`}`, "aria-label": _("{label}: {title}", { label: mark, title }) }, sign);
        if (letter === "p") link.tabIndex = -1;
        return made("td", { class: letter }, link);
      }),
    );
  },
  students(row, part) {
    const tags = [row[3], ...row[5].map((at) => data.texts[at]), ...(row[8].length ? [_("was {points}", { points: number(row[8][0]) })] : [])];
    const lost = made("td", {}, list(row[6]));
    if (row[7].length) {
      const shown = row[7].map((at) => made("pre", {}, data.texts[at]));
      lost.append(made("details", {}, made("summary", {}, _("Evidence")), ...shown));
    }
    const outcome = made("td", {}, ...tags.flatMap((tag) => [made("span", { class: "tag" }, tag), " "]));
    return [made("td", {}, student(row, part)), made("td", { class: "n" }, points(row)), outcome, lost];
  },
  changes(row, part) {
    const [before, , difference, through, when] = row[8];
    const way = (difference > 0 ? "+" : difference < 0 ? "−" : "") + number(Math.abs(difference));
    return [
      made("td", {}, student(row, part)),
      made("td", { class: "n" }, number(before)),
      made("td", { class: "n" }, points(row)),
      made("td", { class: difference < 0 ? "n lost" : "n" }, way),
      made("td", {}, list(through)),
      made("td", {}, data.texts[when]),
    ];
  },
};

class Rows {
  constructor(table) {
    this.body = table.tBodies[0];
    this.part = data.parts[table.dataset.part];
    this.draws = DRAWN[table.dataset.rows];
    this.all = table.dataset.rows === "changes" ? this.part.rows.filter((row) => row[8].length) : this.part.rows;
    this.found = this.all;
    this.heads = [...table.querySelectorAll("th[data-by]")];
    this.details = table.closest("details");
    this.first = 0;
    for (const head of this.heads) {
      const button = made("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => this.sort(head));
    }
    this.turned = [_("Previous"), _("Next")].map((name) => made("button", { type: "button" }, name));
    this.turned.forEach((button, at) => button.addEventListener("click", () => this.turn(at ? 1 : -1)));
    this.place = made("span", { role: "status" });
    const scroll = table.parentElement;
    const label = _("Pages: {table}", { table: scroll.getAttribute("aria-label") });
    this.pager = made("div", { class: "pager", role: "group", "aria-label": label });
    this.pager.append(this.turned[0], this.place, this.turned[1]);
    scroll.after(this.pager);
    this.details?.addEventListener("toggle", () => this.draw());
  }

  sort(head) {
    const down = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of this.heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down > 0 ? "ascending" : "descending");
    const by = HOW[head.dataset.by];
    this.all = [...this.all].sort((a, b) => down * (by(a) - by(b)) || a[0] - b[0]);
    this.filter(this.matching);
  }

  turn(way) {
    const first = this.first + way * data.screen;
    if (first < 0 || first >= this.found.length) return;
    this.first = first;
    this.draw();
    this.body.closest(".scroll").scrollTop = 0;
  }

  filter(matching) {
    this.matching = matching;
    this.found = matching ? this.all.filter((row) => matching.has(row[0])) : this.all;
    this.first = 0;
    if (matching && this.details) this.details.open = true;
    this.draw();
  }

  // Skip what is folded, and what is already drawn.
  draw() {
    if (this.details && !this.details.open) return;
    const rows = this.found.slice(this.first, this.first + data.screen);
    if (!this.drawn || rows.length !== this.drawn.length || rows.some((row, at) => row !== this.drawn[at])) {
      this.body.replaceChildren(...rows.map((row) => made("tr", {}, ...this.draws(row, this.part))));
      this.drawn = rows;
    }
    const [count, last] = [this.found.length, this.first + rows.length];
    this.pager.hidden = this.all.length <= data.screen;
    const text = count ? _("{first}–{last} of {count}", { first: this.first + 1, last, count }) : _("none");
    if (this.place.textContent !== text) this.place.textContent = text;
    this.turned[0].setAttribute("aria-disabled", this.first === 0);
    this.turned[1].setAttribute("aria-disabled", last >= count);
  }
}

const tables = [...document.querySelectorAll("table[data-rows]")].map((table) => new Rows(table));

function search() {
  const wanted = plain(field.value.trim());
  const matching = wanted ? new Set([...names.keys()].filter((at) => names[at].includes(wanted))) : null;
  for (const rows of tables) rows.filter(matching);
  said.textContent = _("{found} of {count} students", { found: matching ? matching.size : names.length, count: names.length });
}

field.addEventListener("input", search);
form.addEventListener("submit", (event) => event.preventDefault());
select.addEventListener("change", () => {
  document.querySelectorAll("section").forEach((section, at) => {
    section.hidden = select.value !== "" && Number(select.value) !== at;
  });
});
form.hidden = false;
search();
