// Keyboard, palette, theme, copy and results while typing. Every page can be read without it.
export const $ = (s, root = document) => root.querySelector(s);
export const $$ = (s, root = document) => [...root.querySelectorAll(s)];
const root = document.documentElement;

export function el(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export function say(text, action) {
  const toast = $(".toast");
  toast.textContent = text;
  if (action) {
    const button = el("button", { className: "btn sm", textContent: action.label });
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
  if (!answer.ok) throw new Error([body.error ?? "It did not work.", body.hint].filter(Boolean).join(" "));
  return body;
}

// Reads a path with words. Those of a sealed store are sent in a body, and the server leads to a URL without them.
export function read(path, values, signal) {
  if (!("sealed" in document.body.dataset)) return fetch(`${path}?${new URLSearchParams(values)}`, { signal });
  const body = new URLSearchParams({ ...values, to: path, token: $("meta[name=clew-token]").content });
  return fetch("/words", { method: "POST", body, signal });
}

// A question in a dialog. Returns the values of its fields, or null if it was cancelled.
export function ask(title, content, button) {
  const dialog = $("#ask"), form = $("form", dialog);
  $("#ask-h").textContent = title;
  $("#ask-in").replaceChildren(...content);
  $("#ask-ok").textContent = button;
  dialog.returnValue = "";
  dialog.showModal();
  ($("#ask-in :is(input, textarea)") ?? $("#ask-ok")).focus();
  $("#ask-in input")?.select?.();
  return new Promise((done) => {
    dialog.addEventListener("close", () => {
      done(dialog.returnValue === "ok" ? Object.fromEntries(new FormData(form)) : null);
    }, { once: true });
  });
}
$("#ask form")?.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey || e.target.matches("input[type=text]"))) { e.preventDefault(); $("#ask-ok").click(); }
});

// The key of commands has another name on a Mac.
if (/Mac|iP(hone|ad|od)/.test(navigator.platform)) for (const key of $$("kbd")) key.textContent = key.textContent.replace("Ctrl", "⌘");

// -- theme
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

export async function copyText(text, what = "Copied") {
  try { await navigator.clipboard.writeText(text); say(what); } catch { say("The browser blocks copying"); }
}
export async function copyFrom(path, what) {
  const answer = await fetch(path).catch(() => null);
  if (answer?.ok) await copyText(await answer.text(), what); else say("The server does not answer.");
}

// -- results in a list below a field, while the user types. `find` returns links, and a line for the count.
export function suggest(input, box, list, count, find) {
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-controls", list.id);
  input.setAttribute("aria-autocomplete", "list");
  let at = -1, asked = 0, told = 0, timer = 0, waiting = null;
  const open = (yes) => { box.hidden = !yes; input.setAttribute("aria-expanded", String(yes)); };
  open(false);
  const options = () => $$(".hit", list);
  const select = (n) => {
    const all = options();
    at = Math.max(all.length ? 0 : -1, Math.min(n, all.length - 1));
    all.forEach((one, i) => one.setAttribute("aria-selected", String(i === at)));
    if (all[at]) { all[at].scrollIntoView({ block: "nearest" }); input.setAttribute("aria-activedescendant", all[at].id); }
    else input.removeAttribute("aria-activedescendant");
  };
  // While the index is behind, the answer waits for it: say so, instead of nothing.
  const tellProgress = async (mine) => {
    while (mine === asked && told !== mine) {
      const state = await fetch("/state.json").then((answer) => answer.json()).catch(() => ({}));
      if (mine !== asked || told === mine) return;
      list.replaceChildren();
      count.textContent = state.indexed == null ? "Searching …" : `Searching … ${state.indexed} %`;
      open(true);
      await new Promise((done) => { setTimeout(done, 300); });
    }
  };
  const run = async () => {
    const q = input.value.trim(), mine = ++asked;
    waiting?.abort();
    if (!q) { open(false); return; }
    waiting = new AbortController();
    const slow = setTimeout(() => tellProgress(mine), 400);
    try {
      const found = await find(q, waiting.signal).finally(() => clearTimeout(slow));
      if (mine !== asked || !found) return;
      told = mine;
      found.links.forEach((a, n) => { a.id = `${list.id}-${n}`; a.tabIndex = -1; a.className = "hit"; a.setAttribute("role", "option"); a.setAttribute("aria-selected", "false"); });
      list.replaceChildren(...found.links);
      count.textContent = found.count;
      open(true);
      select(0);
    } catch { /* a newer query, or the server has ended */ }
  };
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(run, 60); });
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); select(at + (e.key === "ArrowDown" ? 1 : -1)); }
    else if (e.key === "Enter" && !e.shiftKey && !box.hidden && options()[at]) { e.preventDefault(); open(false); options()[at].click(); }
    else if (e.key === "Escape") { open(false); input.blur(); }
  });
  document.addEventListener("click", (e) => { if (!e.target.closest(".search") || !input.closest(".search").contains(e.target)) open(false); });
}
export function hit(href, title, where, when, html, badge) {
  const p = el("p");
  p.innerHTML = html; // escaped by the server: text and <mark>
  const line = el("span", { className: "cut" }, el("b", { textContent: title }), el("span", { className: "where", textContent: ` ${where}` }));
  const parts = [line, el("span", { className: "where", textContent: when }), p];
  if (badge) parts.unshift(badge);
  return el("a", { href }, ...parts);
}
const filters = /(?<!\S)(tool|project|model|label|role|date|before|after|is):("[^"]*"|\S+)/g;
function typing() {
  const input = $(".top #q");
  if (!input) return;
  suggest(input, $("#hits"), $("#hits-list"), $("#hits-n"), async (q, signal) => {
    const words = q.replace(filters, "").trim();
    if (!words) return { links: [], count: "Type words to search for" };
    const answer = await read("/search.json", { typing: 1, q }, signal);
    if (!answer.ok) return null;
    const found = await answer.json();
    const links = found.conversations.flatMap((group) => group.matches.map((one) => {
      const badge = el("span", { className: `tool-b ${group.hue}`, textContent: group.badge });
      badge.setAttribute("aria-hidden", "true");
      const where = [one.role, `#${one.number}`, group.project].filter(Boolean).join(" · ");
      return hit(`/c/${group.id}/m/${one.id}?find=${encodeURIComponent(found.find)}`, group.title, where, group.when, one.html, badge);
    }));
    const many = (n, what, end) => `${n}${found.complete ? "" : "+"} ${n === 1 ? what : what + end}`;
    const count = links.length ? `${many(links.length, "match", "es")} in ${many(found.conversations.length, "conversation", "s")}` : "No match";
    return { links, count };
  });
}

// The results page follows its field as well: filters stay.
function resultsPage() {
  const form = $("form.q"), input = form && $("#q", form);
  if (!input) return;
  let timer = 0, waiting = null;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      waiting?.abort();
      waiting = new AbortController();
      try {
        const answer = await read("/search", Object.fromEntries([...new FormData(form)].filter(([, value]) => value)), waiting.signal);
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of ["#results", "#side"]) $(part)?.replaceChildren(...$(part, page).childNodes);
        history.replaceState(null, "", answer.url);
      } catch { /* a newer query */ }
    }, 150);
  });
}

// -- palette
function palette() {
  const dialog = $("#palette"), input = $("#palette-q"), list = $("#palette-list");
  if (!dialog) return;
  const own = $$("li", list), conv = $("[data-conversation]");
  let asked = 0, at = 0;
  const items = () => $$("li:not([hidden]) :is(a, button)", list);
  const mark = (n) => items().forEach((one, i) => { one.classList.toggle("is-on", i === n); if (i === n) one.scrollIntoView({ block: "nearest" }); });
  const row = (href, text) => el("li", { className: "found-row" }, el("a", { href, textContent: text }));
  input.addEventListener("input", async () => {
    const words = input.value.trim().toLowerCase(), mine = ++asked;
    own.forEach((li) => { li.hidden = !li.textContent.toLowerCase().includes(words); });
    $$("li.found-row", list).forEach((li) => li.remove());
    if (conv && /^#?\d+$/.test(words)) {
      const number = Math.min(Math.max(1, Number(words.replace("#", ""))), Number(conv.dataset.total));
      const size = Number(conv.dataset.window), from = Math.floor((number - 1) / size) * size + 1;
      const head = conv.dataset.head ? `head=${conv.dataset.head}&` : "";
      list.prepend(row(`/c/${conv.dataset.conversation}?${head}from=${from}#m${number}`, `Go to message ${number}`));
    }
    mark(at = 0);
    if (words.length < 2) return;
    const answer = await read("/conversations.json", { typing: 1, title: input.value }).catch(() => null);
    const found = answer?.ok ? await answer.json() : null;
    if (!found || mine !== asked) return;
    const rows = found.conversations.slice(0, 8).map((one) => row(`/c/${one.id}`, one.title));
    list.append(...rows, row(`/search?q=${encodeURIComponent(found.find)}`, `Search messages for “${input.value}”`));
    mark(at = 0);
  });
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); at = Math.max(0, Math.min(items().length - 1, at + (e.key === "ArrowDown" ? 1 : -1))); mark(at); }
    else if (e.key === "Enter") { e.preventDefault(); const chosen = items()[at]; dialog.close(); chosen?.click(); }
  });
  list.addEventListener("click", (e) => { if (e.target.closest("a, button")) dialog.close(); });
}
function openPalette() { $("#palette").showModal(); $("#palette-q").value = ""; $("#palette-q").dispatchEvent(new Event("input")); }

function move(step) {
  const rows = $$(".row-t a"), items = rows.length ? rows : $$(".found a.f-hit").length ? $$(".found a.f-hit") : [];
  if (!items.length) return false;
  const at = items.indexOf(document.activeElement);
  const next = items[Math.max(0, Math.min(items.length - 1, at < 0 ? 0 : at + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

export const keys = {
  "/": () => $("#q")?.focus(),
  t: theme,
  "?": () => $("#help").togglePopover(),
  j: () => move(1),
  k: () => move(-1),
  ArrowDown: () => move(1),
  ArrowUp: () => move(-1),
};
export const buttons = {
  theme,
  palette: openPalette,
  print: () => print(),
  lock: () => send("/lock").then(() => location.reload(), (error) => say(error.message)),
};
document.addEventListener("keydown", (e) => {
  if ((e.metaKey || e.ctrlKey) && e.key === "k") { e.preventDefault(); openPalette(); return; }
  if (e.metaKey || e.ctrlKey || e.altKey || e.target.matches("input:not([type=checkbox]), textarea, select")) return;
  if ($("dialog[open]") || (e.key.startsWith("Arrow") && e.target.closest("pre, .pane, [popover], .diff-w, .tbl"))) return;
  if (keys[e.key]?.(e) !== false && keys[e.key]) e.preventDefault();
});
document.addEventListener("click", (e) => {
  const button = e.target.closest("button");
  if (!button) {
    if (e.target.matches("dialog")) e.target.close();
    for (const menu of $$("details.menu[open]")) if (!menu.contains(e.target)) menu.open = false;
    return;
  }
  if (button.dataset.do) buttons[button.dataset.do]?.(button);
  else if (button.dataset.copy) copyText(button.closest(".cmd").querySelector("code").innerText.trim());
  else if (button.dataset.copyFrom) copyFrom(button.dataset.copyFrom);
});
document.addEventListener("keydown", (e) => {
  const menu = e.key === "Escape" && e.target.closest?.("details.menu[open]");
  if (menu) { menu.open = false; $("summary", menu).focus(); }
});
typing();
resultsPage();
palette();

// The list follows the store. If the reader has scrolled, it asks first: what is read does not move.
function liveList() {
  const main = $("main[data-stamp]");
  if (!main) return;
  let stamp = main.dataset.stamp;
  const bringIn = async () => {
    const answer = await fetch(location.href).catch(() => null);
    if (!answer?.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html"), rows = $("#rows", page);
    if (!rows || !$("#rows")) { location.reload(); return; }
    const focused = document.activeElement?.closest?.("#rows a")?.getAttribute("href");
    $("#rows").replaceChildren(...rows.childNodes);
    $("#side")?.replaceChildren(...$("#side", page).childNodes);
    $(".bar .count")?.replaceWith($(".bar .count", page) ?? "");
    if (focused) $$("#rows a").find((a) => a.getAttribute("href") === focused)?.focus({ preventScroll: true });
  };
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch("/state.json").catch(() => null);
    const now = answer?.ok ? (await answer.json()).list : "";
    if (!now || now === stamp) return;
    stamp = now;
    if (scrollY < 200) bringIn(); else say("The list has changed", { label: "Show", run: () => { bringIn(); scrollTo(0, 0); } });
  }, 5000);
}
liveList();

// After a conversation was moved to the trash, its page leads to the list, which offers to restore it.
const trashed = (() => { try { const id = sessionStorage.getItem("clew-trashed"); sessionStorage.removeItem("clew-trashed"); return id; } catch { return null; } })();
if (trashed) say("Moved to the trash", { label: "Undo", run: async () => { await send(`/c/${trashed}/restore`); location.href = `/c/${trashed}`; } });

// A store that was unlocked here locks after a while. Then the page reloads, which removes its content.
async function watchLock() {
  const answer = await fetch("/state.json").catch(() => null);
  const left = answer?.ok ? (await answer.json()).locks_in : null;
  if (left === 0) location.reload(); else if (left !== null) setTimeout(watchLock, left * 1000 + 500);
}
if ("locks" in document.body.dataset) watchLock();
