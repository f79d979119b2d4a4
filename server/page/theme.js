// The colour scheme that was chosen on an earlier visit, before anything is drawn.
"use strict";

const theme = (() => {
  const names = ["auto", "light", "dark"];
  let chosen = "auto";

  function set(name) {
    chosen = names.includes(name) ? name : "auto";
    document.documentElement.dataset.theme = chosen;
  }

  /** Goes to the next one, and remembers it if the browser lets it. */
  function next() {
    set(names[(names.indexOf(chosen) + 1) % names.length]);
    try {
      localStorage.setItem("snowflake-theme", chosen);
    } catch {
      // It holds for this visit.
    }
    return chosen;
  }

  try {
    set(localStorage.getItem("snowflake-theme"));
  } catch {
    set("auto");
  }
  return { next, current: () => chosen };
})();
