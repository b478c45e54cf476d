// The filter of the ledger of claims: a verdict, and a chapter. Without this script all rows are shown.
for (const form of document.querySelectorAll(".abh-ledger-filter")) {
  const tables = [...document.querySelectorAll("table.abh-ledger")];
  const all = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const output = form.querySelector("output");
  const show = () => {
    const verdict = form.elements.verdict.value;
    const chapter = form.querySelector("select").value;
    for (const table of tables) {
      const rows = [...table.tBodies[0].rows];
      for (const row of rows) {
        const wanted = !verdict || table.classList.contains(`abh-ledger-${verdict}`);
        row.hidden = !wanted || Boolean(chapter && !row.classList.contains(`abh-of-${chapter}`));
      }
      const frame = table.closest(".pst-scrollable-table-container, .abh-scroll") ?? table;
      frame.hidden = rows.every((row) => row.hidden);
      frame.previousElementSibling.hidden = frame.hidden; // the heading
    }
    const shown = all.filter((row) => !row.hidden).length;
    output.textContent = output.dataset.of.replace("{shown}", shown).replace("{all}", all.length);
  };
  form.addEventListener("change", show);
  form.hidden = false;
  show(); // a browser that goes back keeps what was chosen
}
