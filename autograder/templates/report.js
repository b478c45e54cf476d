for (const table of document.querySelectorAll("table.sorted")) {
  const body = table.tBodies[0];
  for (const head of table.querySelectorAll("th[data-by]")) {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      const by = row => row.dataset[head.dataset.by];
      const numbers = head.dataset.by === "score";
      const order = (a, b) => down * (numbers ? by(a) - by(b) : by(a).localeCompare(by(b), undefined, {numeric: true}));
      body.append(...[...body.rows].sort(order));
      for (const other of table.querySelectorAll("th[data-by]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down > 0 ? "ascending" : "descending");
    });
  }
}
