// Runs between require.js and the widgets' html-manager, on pages that hold a widget.
(() => {
  const vendor = new URL("vendor/", document.currentScript.src).href;
  requirejs.config({
    paths: {
      // Without a manager that knows these, they would be fetched from a CDN.
      anywidget: vendor + "anywidget",
      "@jupyter-widgets/html-manager/dist": vendor + "html-manager",
    },
  });
  // ipywidgets asks MathJax 2 to typeset; the book has MathJax 3, which replaces window.MathJax as it loads.
  addEventListener("load", () => {
    window.MathJax.Hub = {
      Queue: ([command, , element]) => {
        if (command === "Typeset") window.MathJax.typesetPromise?.([element]);
      },
    };
  });
})();
