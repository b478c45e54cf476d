// What CSS alone cannot do: let the keyboard reach whatever scrolls sideways, and mend a few labels of the theme.
(() => {
  const scrollers = "div.math, mjx-container[display='true'], .abh-scroll, .highlight pre, .cell_output pre, .output";

  // Wide tables scroll within a frame of their own, so that they stay tables for a screen reader.
  for (const table of document.querySelectorAll(".bd-article table")) {
    if (table.closest(".abh-scroll, .pst-scrollable-table-container, .widget-subarea")) continue;
    const frame = document.createElement("div");
    frame.className = "abh-scroll";
    table.replaceWith(frame);
    frame.append(table);
  }

  // Plots do the same on a phone, rather than shrink until nobody can read them: the style needs their own width.
  for (const picture of document.querySelectorAll(".bd-article figure > img")) {
    const frame = document.createElement("div");
    frame.className = "abh-scroll abh-picture";
    picture.replaceWith(frame);
    frame.append(picture);
    const measure = () => frame.style.setProperty("--natural", `${picture.naturalWidth}px`);
    if (picture.complete) measure();
    else picture.addEventListener("load", measure);
  }

  // A control's name must contain its visible text: where there is text, let it be the name.
  for (const control of document.querySelectorAll(".search-button-field, summary[aria-label='Toggle hidden content']")) {
    control.removeAttribute("aria-label");
  }
  // What unfolds the pages of a chapter in the sidebar is named after the chapter.
  for (const control of document.querySelectorAll(".bd-sidebar-primary li.has-children > details > summary")) {
    control.setAttribute("aria-label", control.closest("li").querySelector("a").textContent.trim());
  }
  // What this one holds are icons, drawn as text.
  for (const control of document.querySelectorAll(".theme-switch-button")) {
    const name = document.createElement("span");
    name.className = "visually-hidden";
    name.textContent = control.getAttribute("aria-label");
    control.removeAttribute("aria-label");
    for (const icon of control.children) icon.setAttribute("aria-hidden", "true");
    control.append(name);
  }
  for (const entry of document.querySelectorAll(".citation-list > .citation")) entry.setAttribute("role", "listitem");

  // The same page in the other language, at the same place.
  const follow = () => {
    for (const link of document.querySelectorAll(".abh-edition[rel]")) {
      link.hash = location.hash;
      if (location.search) link.search = location.search; // of the search
    }
  };
  addEventListener("hashchange", follow);
  follow();

  // A link to what is folded opens it.
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const reason = target?.querySelector(":scope > .abh-claim-why"); // a verdict that is linked to gives its reason
    const folded = [...document.querySelectorAll("details:not([open])")].filter((one) => one.contains(target));
    if (!target || !(reason || folded.length)) return;
    for (const one of [...folded, reason]) if (one) one.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();

  // Paper is light, and hides no reasons, no experiments, and nothing that code printed.
  let theme, reasons;
  addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    reasons = document.querySelectorAll(":is(.abh-claim-why, .abh-more, .hide:has(> .cell_output)):not([open])");
    for (const reason of reasons) reason.open = true;
  });
  addEventListener("afterprint", () => {
    document.documentElement.dataset.theme = theme;
    for (const reason of reasons) reason.open = false;
  });

  const reach = () => {
    for (const element of document.querySelectorAll(scrollers)) {
      if (element.scrollWidth > element.clientWidth + 1) element.tabIndex = 0;
      else if (element.getAttribute("tabindex") === "0") element.removeAttribute("tabindex");
    }
  };
  addEventListener("load", () => {
    reach();
    // MathJax loads late, and its formulas are what is most often too wide.
    window.MathJax?.startup?.promise?.then(reach);
  });
  addEventListener("resize", reach);
})();
