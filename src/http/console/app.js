// Times that run, questions before what cannot be undone, and pages that stay current. All pages work
// without this.
"use strict";
(() => {
  let start = Date.now();
  let began = Number(document.body.dataset.now);
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

  // Parts that came while somebody was at them wait until he has left.
  const late = new Map();
  const busy = (part) =>
    part.contains(document.activeElement) || part.querySelector(":checked") || part.matches(":hover");
  const place = () => {
    for (const [id, part] of late) {
      const old = document.getElementById(id);
      if (old && busy(old)) continue;
      if (old) old.replaceWith(part);
      late.delete(id);
    }
  };
  const news = document.createElement("p");
  news.id = "stale";
  news.className = "banner warn";
  news.setAttribute("role", "alert");
  const say = (text) => {
    if (news.textContent !== text) news.textContent = text;
    if (!news.isConnected) document.getElementById("main").prepend(news);
  };
  let heard = Date.now();
  let patience = 5000;
  let events = null;
  const hear = (name, then) =>
    events.addEventListener(name, (event) => {
      heard = Date.now();
      then(event.data);
    });
  const listen = () => {
    const from = document.body.dataset.live;
    if (!from || document.hidden || events) return;
    heard = Date.now();
    patience = 5000;
    events = new EventSource(from);
    hear("part", (html) => {
      const part = new DOMParser().parseFromString(html, "text/html").body.firstElementChild;
      if (part) late.set(part.id, part);
    });
    // Seconds until there is news again, where that takes longer.
    hear("next", (seconds) => (patience = 5000 + 2000 * Number(seconds)));
    hear("tick", (ms) => {
      [began, start] = [Number(ms), Date.now()];
      news.remove();
      place();
      run();
    });
    hear("wrong", (why) => say("What is shown may be old: " + why));
    hear("over", () => location.reload());
  };
  const rest = () => {
    if (events) events.close();
    events = null;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
  addEventListener("pagehide", rest);
  addEventListener("pageshow", listen);
  listen();
  setInterval(() => {
    if (!events || Date.now() - heard < patience) return;
    say("What is shown is old: there is no news from the broker.");
    // The browser gives up where the answer is no stream.
    if (events.readyState === EventSource.CLOSED) {
      const since = heard;
      rest();
      listen();
      heard = since;
    }
  }, 1000);

  document.addEventListener("submit", (event) => {
    const [form, button] = [event.target, event.submitter];
    const asks = button && button.dataset.confirm;
    if (form.dataset.sent || (asks && !confirm(asks))) return event.preventDefault();
    // A second click sends nothing; one long after does, as the first may have been given up.
    if (form.method !== "post") return;
    form.dataset.sent = "1";
    setTimeout(() => delete form.dataset.sent, 30000);
  });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
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
