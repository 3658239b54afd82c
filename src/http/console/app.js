// Times that run, questions before what cannot be undone. All pages work without this.
"use strict";
(() => {
  const start = Date.now();
  const began = Number(document.body.dataset.now);
  const now = () => began + Date.now() - start;

  const words = (ms) => {
    const left = Math.abs(ms);
    if (left < 10000) return (left / 1000).toFixed(1) + " s";
    const units = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
    const at = units.findIndex(([unit]) => left >= unit);
    const [unit, word] = units[at];
    const parts = [Math.floor(left / unit) + " " + word];
    const next = units[at + 1];
    const rest = next ? Math.floor((left % unit) / next[0]) : 0;
    if (rest > 0) parts.push(rest + " " + next[1]);
    return parts.join(" ");
  };

  const run = () => {
    if (!began) return;
    for (const time of document.querySelectorAll("time[data-ms]")) {
      const left = Number(time.dataset.ms) - now();
      const text = left > 0 ? "in " + words(left) : words(left) + " ago";
      if (time.textContent !== text) time.textContent = text;
    }
    const clock = document.getElementById("clock");
    if (clock) clock.textContent = new Date(now()).toISOString().slice(11, 19) + " UTC";
  };
  run();
  setInterval(run, 500);

  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (button && button.dataset.confirm && !confirm(button.dataset.confirm)) event.preventDefault();
  });
  // One sheet is open at a time, and Escape closes it.
  const close = (but) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (menu !== but) menu.open = false;
    }
  };
  document.addEventListener("keydown", (event) => {
    const open = document.querySelector("details.menu[open]");
    if (event.key === "Escape" && open) {
      close();
      open.querySelector("summary").focus();
    }
  });
  document.addEventListener("click", (event) => close(event.target.closest("details.menu")));
})();
