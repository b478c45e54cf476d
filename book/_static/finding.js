// The book's search shows a piece of each page that it finds. Sphinx takes it from the page's source, with the code and the
// TeX in it; here it is the prose, and formulas as plain letters.
/* global splitQuery */
(() => {
  if (typeof Search === "undefined") return;

  const WITHOUT = ".headerlink, script, style, pre, svg, div.math, .cell, .abh-drawing, .abh-hero-figure, .abh-pointer,"
    + " .abh-exercise, .abh-kicker, .onlyprint, .prev-next-area, .bd-header-article, .bd-sidebar-secondary";
  const SIGNS = {
    top: "ᵀ", cdot: "·", times: "×", circ: "∘", le: "≤", leq: "≤", ge: "≥", geq: "≥", ne: "≠", neq: "≠", pm: "±", to: "→",
    infty: "∞", sum: "Σ", partial: "∂", ldots: "…", dots: "…", approx: "≈", in: "∈", sqrt: "√", log: "log ", ln: "ln ", vv: "v",
    alpha: "α", beta: "β", delta: "δ", Delta: "Δ", theta: "θ", pi: "π", rho: "ρ", sigma: "σ", mu: "μ", omega: "ω",
    varepsilon: "ε", lvert: "|", rvert: "|", langle: "⟨", rangle: "⟩", quad: " ", qquad: " ",
  };

  /** A short formula in plain letters: \(\sqrt{d_k}\) -> √d_k. */
  const letters = (tex) => tex
    .replace(/^\s*\\\(|\\\)\s*$/g, "")
    .replace(/\\[dt]?frac\s*(\{[^{}]*\}|.)\s*(\{[^{}]*\}|.)/g, "$1/$2")
    .replace(/\\(?:big|Big|left|right|!|,|;|:|operatorname|text|mathrm|mathbf|mathcal|mathbb|class)(?![A-Za-z])/g, "")
    .replace(/\\([A-Za-z]+)\s*/g, (_, name) => SIGNS[name] ?? name)
    .replace(/\^(ᵀ)|\^\{(ᵀ)\}/g, "ᵀ")
    .replace(/[{}\\]/g, "");

  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const article = page.querySelector("article.bd-article") ?? page.querySelector('[role="main"]');
    if (!article) return "";
    article.querySelectorAll(WITHOUT).forEach((element) => element.remove());
    article.querySelectorAll(".math").forEach((formula) => formula.replaceWith(letters(formula.textContent)));
    let place = (anchor && article.querySelector(anchor)) || article;
    if (place.matches("dt")) place = place.nextElementSibling ?? place; // a term: what is said about it
    place.querySelector("h1, h2, h3, h4")?.remove(); // the result's own title, or the page's
    return place.textContent.replace(/\s+/g, " ").trim();
  };

  /** The text around the last searched word that it has. Sphinx's own begins and ends inside of words. */
  Search.makeSearchSummary = (html, words, anchor) => {
    const text = Search.htmlToText(html, anchor);
    if (!text) return null;
    const places = [...words].map((word) => text.toLowerCase().indexOf(word.toLowerCase())).filter((place) => place > -1);
    const from = Math.max((places.at(-1) ?? 0) - 120, 0);
    const shown = document.createElement("p");
    shown.className = "context";
    shown.textContent = text.slice(from, from + 240);
    if (from) shown.textContent = shown.textContent.replace(/^[\w'’-]*\s*/, "… ");
    if (from + 240 < text.length) shown.textContent = shown.textContent.replace(/\s*[\w'’-]*$/, " …");
    return shown;
  };

  /** Pages whose titles have the searched words come first, then those whose title is in the query. */
  Scorer.score = ([, title, , , score]) => {
    const query = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().trim();
    const words = splitQuery(query);
    const name = title.toLowerCase().replace(/<span.*?<\/span>/g, ""); // its number
    if (words.length && words.every((word) => name.includes(word)) && !name.includes(" > ")) {
      return score + 100 + Math.round((100 * words.join("").length) / name.length);
    }
    return query.includes(name) ? score + 50 : score;
  };
})();
