// Keyboard, palette, theme, copy and results while typing. Every page works without it.
const $ = (s, root = document) => root.querySelector(s);
const $$ = (s, root = document) => [...root.querySelectorAll(s)];
const root = document.documentElement;
for (const el of $$(".needs-script")) el.hidden = false;

export function say(text, action) {
  const toast = $(".toast");
  toast.textContent = text;
  if (action) {
    const button = document.createElement("button");
    button.className = "btn sm";
    button.textContent = action.label;
    button.addEventListener("click", action.run);
    toast.append(" ", button);
  }
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { toast.textContent = ""; }, action ? 12000 : 2500);
}

export async function send(path, values = {}) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-clew-token": $("meta[name=clew-token]").content },
    body: JSON.stringify(values),
  });
  const body = await answer.json().catch(() => ({ error: "The server does not answer." }));
  if (!answer.ok) throw new Error(body.error ?? "It did not work.");
  return body;
}

// -- theme: kept in this browser; nothing else is
const stored = () => { try { return localStorage.getItem("clew-theme") ?? "system"; } catch { return "system"; } };
function setTheme(name) {
  if (name === "system") delete root.dataset.theme; else root.dataset.theme = name;
  $("[data-do=theme]")?.setAttribute("aria-label", `Theme: ${name}`);
}
function theme() {
  const order = ["system", "light", "dark"];
  const next = order[(order.indexOf(stored()) + 1) % 3];
  try { localStorage.setItem("clew-theme", next); } catch { /* private window */ }
  setTheme(next);
  say(`Theme: ${next}`);
}
setTheme(stored());

async function copyText(text, what = "Copied") {
  try { await navigator.clipboard.writeText(text); say(what); } catch { say("The browser blocks copying"); }
}

// -- messages
const messages = () => $$(".msg");
export function current() {
  const focused = document.activeElement?.closest?.(".msg");
  if (focused) return focused;
  const line = innerHeight / 3;
  return messages().findLast((m) => m.getBoundingClientRect().top < line) ?? messages()[0];
}
function focusOn(el) {
  if (!el) return;
  el.scrollIntoView({ block: "start" });
  el.focus({ preventScroll: true });
}
function prompt(step) {
  const all = $$(".msg.you"), line = 140;
  const next = step > 0
    ? all.find((m) => m.getBoundingClientRect().top > line + 8)
    : all.findLast((m) => m.getBoundingClientRect().top < line - 60);
  if (next) focusOn(next); else $(step > 0 ? "a[rel=next]" : "a[rel=prev]")?.click();
}
function move(step) {
  const items = $$(".row-t a").length ? $$(".row-t a") : messages();
  if (!items.length) return false;
  const at = items.indexOf(document.activeElement.closest?.(".msg") ?? document.activeElement);
  const next = items[Math.max(0, Math.min(items.length - 1, at < 0 ? 0 : at + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

// -- search while typing
function typing() {
  const input = $(".top #q"), box = $("#hits"), list = $("#hits-list");
  if (!input || !box) return;
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-controls", "hits-list");
  input.setAttribute("aria-autocomplete", "list");
  let at = -1, asked = 0, timer = 0, waiting = null;
  const open = (yes) => { box.hidden = !yes; input.setAttribute("aria-expanded", String(yes)); };
  open(false);
  const options = () => $$(".hit", list);
  const select = (n) => {
    const all = options();
    at = Math.max(all.length ? 0 : -1, Math.min(n, all.length - 1));
    all.forEach((el, i) => el.setAttribute("aria-selected", String(i === at)));
    if (all[at]) { all[at].scrollIntoView({ block: "nearest" }); input.setAttribute("aria-activedescendant", all[at].id); }
    else input.removeAttribute("aria-activedescendant");
  };
  const show = (found) => {
    const template = document.createDocumentFragment();
    let n = 0;
    for (const group of found.conversations) for (const one of group.matches) {
      const a = document.createElement("a");
      Object.assign(a, { className: "hit", id: `hit${n++}`, href: `/c/${group.id}/m/${one.id}`, tabIndex: -1 });
      a.setAttribute("role", "option");
      a.setAttribute("aria-selected", "false");
      const title = document.createElement("span"), where = document.createElement("span"), name = document.createElement("b");
      title.className = "cut"; where.className = "where";
      name.textContent = group.title;
      where.textContent = ` ${one.role} · #${one.number} ${group.project ? `· ${group.project}` : ""}`;
      title.append(name, where);
      const p = document.createElement("p");
      p.innerHTML = one.html; // escaped by the server: text and <mark>
      a.append(title, p);
      template.append(a);
    }
    list.replaceChildren(template);
    $("#hits-n").textContent = n ? `${n}${found.complete ? "" : "+"} matches` : "No match";
    open(true);
    select(0);
  };
  const ask = async () => {
    const q = input.value.trim(), mine = ++asked;
    waiting?.abort();
    if (!q) { open(false); return; }
    waiting = new AbortController();
    try {
      const answer = await fetch(`/search.json?typing=1&q=${encodeURIComponent(q)}`, { signal: waiting.signal });
      if (mine === asked && answer.ok) show(await answer.json());
    } catch { /* a newer query, or the server has ended */ }
  };
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, 60); });
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); select(at + (e.key === "ArrowDown" ? 1 : -1)); }
    else if (e.key === "Enter" && !e.shiftKey && !box.hidden && options()[at]) { e.preventDefault(); location.href = options()[at].href; }
    else if (e.key === "Escape") { open(false); input.blur(); }
  });
  document.addEventListener("click", (e) => { if (!e.target.closest(".top .search")) open(false); });
}

// -- palette
function palette() {
  const dialog = $("#palette"), input = $("#palette-q"), list = $("#palette-list");
  if (!dialog) return;
  const own = $$("li", list);
  let asked = 0;
  const items = () => $$("li:not([hidden]) :is(a, button)", list);
  const mark = (n) => items().forEach((el, i) => el.classList.toggle("is-on", i === n));
  let at = 0;
  input.addEventListener("input", async () => {
    const words = input.value.toLowerCase(), mine = ++asked;
    own.forEach((li) => { li.hidden = !li.textContent.toLowerCase().includes(words); });
    $$("li.found-row", list).forEach((li) => li.remove());
    mark(at = 0);
    if (words.length < 2) return;
    const answer = await fetch(`/conversations.json?title=${encodeURIComponent(input.value)}`).catch(() => null);
    if (!answer?.ok || mine !== asked) return;
    for (const one of (await answer.json()).conversations.slice(0, 8)) {
      const li = document.createElement("li"), a = document.createElement("a");
      li.className = "found-row";
      a.href = `/c/${one.id}`;
      a.textContent = one.title;
      li.append(a);
      list.append(li);
    }
    mark(at = 0);
  });
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); at = Math.max(0, Math.min(items().length - 1, at + (e.key === "ArrowDown" ? 1 : -1))); mark(at); }
    else if (e.key === "Enter") { e.preventDefault(); dialog.close(); items()[at]?.click(); }
  });
}
function openPalette() { $("#palette").showModal(); $("#palette-q").value = ""; $("#palette-q").dispatchEvent(new Event("input")); }

const keys = {
  "/": () => $("#q")?.focus(),
  f: () => $("#find")?.focus(),
  j: () => prompt(1),
  k: () => prompt(-1),
  t: theme,
  "?": () => $("#help").togglePopover(),
  "=": () => $("[data-compare]")?.click(),
  "]": () => $("[data-branch=']']")?.click(),
  "[": () => $("[data-branch='[']")?.click(),
  G: () => { const far = $("[data-newest]"); if (far) far.click(); else focusOn(messages().at(-1)); },
  o: () => { const m = current(), all = m ? $$("details", m) : [], fold = all.some((d) => d.open); all.forEach((d) => { d.open = !fold; }); },
  O: () => { const all = $$(".call"), fold = all.some((d) => d.open); all.forEach((d) => { d.open = !fold; }); },
  r: () => $("[data-act=raw]", current())?.click(),
  c: () => { const m = current(); if (m) copyText($$(".body", m).map((b) => b.innerText).join("\n\n") || m.innerText); },
  y: () => { const m = current(); if (m) copyText(new URL($(".no", m).href, location).href, "Link copied"); },
  b: () => $("[data-write=fork]", current())?.click(),
};
document.addEventListener("keydown", (e) => {
  if ((e.metaKey || e.ctrlKey) && e.key === "k") { e.preventDefault(); openPalette(); return; }
  if (e.metaKey || e.ctrlKey || e.altKey || e.target.matches("input, textarea, select")) return;
  if ((e.key === "ArrowDown" || e.key === "ArrowUp") && !e.target.closest("pre, .pane, dialog, [popover]")) { if (move(e.key === "ArrowDown" ? 1 : -1)) e.preventDefault(); return; }
  const act = keys[e.key];
  if (act) { e.preventDefault(); act(); }
});
document.addEventListener("click", (e) => {
  const button = e.target.closest("button");
  if (!button) { if (e.target.matches("dialog")) e.target.close(); return; }
  if (button.dataset.do === "theme") theme();
  else if (button.dataset.do === "palette") openPalette();
  else if (button.dataset.do === "lock") send("/lock").then(() => location.reload(), (error) => say(error.message));
  else if (button.dataset.copy) copyText(button.closest(".cmd").querySelector("code").innerText.trim());
});
typing();
palette();

// The outline marks the last prompt above the middle of the screen. It never scrolls the page.
const links = new Map($$(".outline a[data-number]").map((a) => [`m${a.dataset.number}`, a]));
if (links.size) {
  const mark = () => {
    const here = $$(".msg.you").findLast((m) => m.getBoundingClientRect().top < innerHeight / 2);
    for (const [id, a] of links) if (id === here?.id) a.setAttribute("aria-current", "true"); else a.removeAttribute("aria-current");
  };
  let queued = false;
  addEventListener("scroll", () => { if (!queued) { queued = true; requestAnimationFrame(() => { queued = false; mark(); }); } }, { passive: true });
  mark();
}
// A link to a message inside a folded call opens it.
function reveal() {
  const target = location.hash ? document.getElementById(location.hash.slice(1)) : null;
  if (target?.matches("details")) target.open = true;
}
addEventListener("hashchange", reveal);
reveal();
