// Marks the answers of a self-test once they are opened, keeps one open at a time, and says how it went.
// Without this script the answers still open and close: they are <details>.
document.addEventListener("DOMContentLoaded", () => {
  for (const question of document.querySelectorAll(".abh-selftest")) {
    const answers = [...question.querySelectorAll("details.abh-answer")];
    for (const answer of answers) {
      answer.addEventListener("toggle", () => {
        if (!answer.open || question.dataset.printing) return;
        answer.classList.add("abh-tried");
        for (const other of answers) if (other !== answer) other.open = false;
      });
    }
  }
  // On paper every explanation is open.
  const all = (open) => document.querySelectorAll(".abh-selftest").forEach((question) => {
    if (open) question.dataset.printing = "yes"; else delete question.dataset.printing;
    question.querySelectorAll("details.abh-answer").forEach((answer) => { answer.open = open; });
  });
  addEventListener("beforeprint", () => all(true));
  addEventListener("afterprint", () => all(false));
});
