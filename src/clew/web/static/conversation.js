// A conversation: windows of messages as they are scrolled to, prompts, matches, selection, traces of subagents.
import { $, $$, buttons, copyFrom, copyText, el, hit, keys, read, say, suggest } from "./@clew.js@";

const conv = $("[data-conversation]"), list = $("#messages");
const base = `/c/${conv.dataset.conversation}`, head = conv.dataset.head ?? "";
const size = Number(conv.dataset.window);
const withHead = head ? `&head=${head}` : "";
const MOST = 2000; // articles in the page; a window further away becomes empty space of the same height

// -- where the reader is
const messages = () => $$(".msg", list);
export function current() {
  const focused = document.activeElement?.closest?.(".msg");
  if (focused) return focused;
  const line = innerHeight / 3;
  return messages().findLast((m) => m.getBoundingClientRect().top < line) ?? messages()[0];
}
const numberOf = (m) => Number(m.id.slice(1));
function focusOn(target) {
  if (!target) return;
  target.scrollIntoView({ block: "start" });
  target.focus({ preventScroll: true });
}

// -- windows
export const total = () => Number(conv.dataset.total);
const windows = () => $$(".window", list);
const bounds = (w) => [Number(w.dataset.from), Number(w.dataset.to)];
export const loadedTo = () => bounds(windows().at(-1))[1];

async function fetchWindow(from, to) {
  const answer = await fetch(`${base}/messages?from=${from}&to=${to}${withHead}`).catch(() => null);
  if (!answer?.ok) throw new Error("The server does not answer.");
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return [...page.body.children];
}
async function addWindow(from, to, place) {
  const made = el("div", { className: "window" });
  Object.assign(made.dataset, { from, to });
  made.append(...await fetchWindow(from, to));
  place(made);
  thin(made);
  marks();
  copyable(made);
}
// Keeps the page small: windows far from `near` lose their articles, but keep their height.
function thin(near) {
  const all = windows();
  let count = messages().length;
  const far = all.filter((w) => w !== near && !w.classList.contains("empty"))
    .sort((a, b) => Math.abs(all.indexOf(b) - all.indexOf(near)) - Math.abs(all.indexOf(a) - all.indexOf(near)));
  while (count > MOST && far.length) {
    const gone = far.shift();
    count -= $$(".msg", gone).length;
    gone.style.height = `${gone.getBoundingClientRect().height}px`;
    gone.classList.add("empty");
    gone.replaceChildren();
    sentinel.observe(gone);
  }
}
// Each block of code gets a button that copies it.
export function copyable(place) {
  for (const code of $$(".code:not(:has(> .copy))", place)) {
    const button = el("button", { className: "btn bare sm icon copy", type: "button", title: "Copy this code", ariaLabel: "Copy this code" });
    button.append(el("span", { className: "i i-copy", ariaHidden: "true" }));
    button.addEventListener("click", () => copyText($("pre", code).innerText, "Code copied"));
    code.append(button);
  }
}
let busy = false;
async function more(step) {
  if (busy) return;
  const all = windows(), [first] = bounds(all[0]), to = bounds(all.at(-1))[1];
  if (step > 0 ? to >= total() : first <= 1) return;
  busy = true;
  try {
    if (step > 0) await addWindow(to + 1, Math.min(total(), to + size), (w) => list.append(w));
    else await addWindow(Math.max(1, first - size), first - 1, (w) => list.prepend(w));
    pagers();
  } catch (error) { say(error.message); }
  busy = false;
}
function pagers() {
  const all = windows(), [first] = bounds(all[0]), to = bounds(all.at(-1))[1];
  const words = `Messages ${first.toLocaleString("en")} – ${to.toLocaleString("en")} of ${total().toLocaleString("en")}`;
  for (const nav of $$(".talk > .pager")) {
    const link = $("[rel]", nav), later = link.rel === "next";
    nav.hidden = later ? to >= total() : first <= 1;
    link.href = `${base}?from=${later ? to + 1 : Math.max(1, first - size)}${withHead}`;
    for (const span of $$("span", nav)) if (!span.children.length && span.textContent.startsWith("Messages")) span.textContent = words;
  }
  if (to >= total()) document.dispatchEvent(new Event("clew:end"));
}
const sentinel = new IntersectionObserver((seen) => {
  for (const one of seen) {
    if (!one.isIntersecting) continue;
    const { target } = one;
    if (target.classList.contains("empty")) {
      sentinel.unobserve(target);
      fetchWindow(...bounds(target)).then((articles) => {
        target.classList.remove("empty");
        target.style.height = "";
        target.append(...articles);
        thin(target);
        marks();
        copyable(target);
      }, () => sentinel.observe(target));
    } else if (target.querySelector("[rel=next]")) more(1);
    else if (scrolledUp) more(-1);
  }
}, { rootMargin: "900px" });
// Earlier messages are loaded only once the reader scrolls up: a page that opens at a message must not move.
let scrolledUp = false, lastY = scrollY;
addEventListener("scroll", () => {
  if (scrollY < lastY - 4 && !scrolledUp) { scrolledUp = true; const nav = $(".talk > .pager:has([rel=prev])"); if (nav) { sentinel.unobserve(nav); sentinel.observe(nav); } }
  lastY = scrollY;
}, { passive: true });
for (const nav of $$(".talk > .pager")) sentinel.observe(nav);

// -- prompts: the outline knows them in order, also outside of what is loaded
const outline = $("#outline ol");
const lines = () => $$("a[data-number]", outline);
async function moreOutline() {
  const link = $("#outline [data-more]");
  if (!link || link.parentElement.hidden) return false;
  const answer = await fetch(link.href).catch(() => null);
  if (!answer?.ok) return false;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html"), found = $("#prompts", page);
  outline.append(...found.children);
  setMore(found.dataset.more);
  return true;
}
function setMore(from) {
  const link = $("#outline [data-more]");
  if (from) { link.href = `${base}/outline?from=${from}${withHead}`; link.dataset.more = from; }
  link.parentElement.hidden = !from;
}
// The list of prompts holds a part of a long conversation. It follows what is read, also after a jump.
let following = false;
async function followOutline(number) {
  const link = $("#outline [data-more]"), first = $("#outline [data-first]");
  if (!link || !first || following) return;
  const from = first.parentElement.hidden ? 1 : Number(lines()[0]?.dataset.number ?? 1);
  const upto = link.parentElement.hidden ? Infinity : Number(link.dataset.more);
  if (number >= from && number < upto) return;
  following = true;
  if (number >= upto && number < upto + 400) await moreOutline();
  else {
    const start = Math.max(1, number - 150), answer = await fetch(`${base}/outline?from=${start}${withHead}`).catch(() => null);
    if (answer?.ok) {
      const found = $("#prompts", new DOMParser().parseFromString(await answer.text(), "text/html"));
      outline.replaceChildren(...found.children);
      first.parentElement.hidden = start === 1;
      setMore(found.dataset.more);
    }
  }
  following = false;
  markLine();
}
$("#outline")?.addEventListener("click", (e) => {
  if (e.target.closest("[data-more]")) { e.preventDefault(); moreOutline(); }
  else if (e.target.closest("a[data-number]") && $("#outline").matches(":popover-open")) $("#outline").hidePopover();
});
async function prompt(step) {
  const line = 140, all = $$(".msg.you", list), top = (m) => m.getBoundingClientRect().top;
  const focused = document.activeElement?.closest?.(".msg"), at = focused && focused.getBoundingClientRect();
  const seen = at && at.bottom > 0 && at.top < innerHeight ? numberOf(focused) : 0;
  const after = seen ? (m) => numberOf(m) > seen : (m) => top(m) > line + 8;
  const before = seen ? (m) => numberOf(m) < seen : (m) => top(m) < line - 60;
  const next = step > 0 ? all.find(after) : all.findLast(before);
  if (next) { focusOn(next); return; }
  const here = all.length ? numberOf(step > 0 ? all.at(-1) : all[0]) : numberOf(current() ?? { id: "m0" });
  const known = () => { const found = lines().filter((a) => !a.parentElement.classList.contains("gap")); return step > 0 ? found.find((a) => Number(a.dataset.number) > here) : found.findLast((a) => Number(a.dataset.number) < here); };
  let there = known();
  if (!there && step > 0 && await moreOutline()) there = known();
  if (there) location.href = there.href;
  else if (step < 0 && bounds(windows()[0])[0] > 1) $("a[rel=prev]")?.click();
}
function move(step) {
  const all = messages(), at = all.indexOf(document.activeElement?.closest?.(".msg"));
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? all.indexOf(current()) : at + step))];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}
const markLine = () => {
  const focused = document.activeElement?.closest?.(".msg"), at = focused?.getBoundingClientRect();
  const seen = at && at.bottom > 0 && at.top < innerHeight;
  const here = seen ? focused : messages().findLast((m) => m.getBoundingClientRect().top < 160) ?? messages()[0];
  if (!here) return;
  followOutline(numberOf(here));
  const prompts = lines().filter((a) => !a.parentElement.classList.contains("gap"));
  const number = Number(prompts.findLast((a) => Number(a.dataset.number) <= numberOf(here))?.dataset.number ?? 0), pane = $("#outline");
  for (const a of lines()) {
    if (Number(a.dataset.number) !== number) { a.removeAttribute("aria-current"); continue; }
    if (a.hasAttribute("aria-current")) continue;
    a.setAttribute("aria-current", "true");
    const at = a.offsetTop - pane.scrollTop; // scrolls the list of prompts only, never the page
    if (at < 60 || at > pane.clientHeight - 80) pane.scrollTop = a.offsetTop - pane.clientHeight / 3;
  }
};
let queued = false;
for (const event of ["scroll", "focusin"]) addEventListener(event, () => { if (!queued) { queued = true; requestAnimationFrame(() => { queued = false; markLine(); }); } }, { passive: true });

// -- matches: marked where they are, and the folds around them opened
const words = $("#find").defaultValue.toLowerCase().replace(/["*]/g, " ").split(/\s+/).filter(Boolean);
function marks() {
  if (!words.length || !("highlights" in CSS)) return;
  const ranges = [], walker = document.createTreeWalker(list, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && ranges.length < 2000; node = walker.nextNode()) {
    const text = node.data.toLowerCase();
    if (node.parentElement.closest(".acts, .vh, .secret")) continue;
    for (const word of words) for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + word.length);
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}
function openMatches(target) {
  if (!words.length) return;
  for (const one of $$("details", target)) if (words.some((word) => one.textContent.toLowerCase().includes(word))) one.open = true;
}
function match(step) {
  const all = $$(".found-here .f-hit"), here = numberOf(location.hash.startsWith("#m") ? { id: location.hash.slice(1) } : { id: "m0" });
  const next = step > 0 ? all.find((a) => Number(a.dataset.number) > here) : all.findLast((a) => Number(a.dataset.number) < here);
  if (next) next.click(); else if (all.length) say(step > 0 ? "Last match" : "First match");
}
const field = $("#find");
if (field) suggest(field, $("#find-hits"), $("#find-list"), $("#find-n"), async (q, signal) => {
  const answer = await read(`${base}/find.json`, { q }, signal);
  if (!answer.ok) return null;
  const found = await answer.json();
  const links = found.matches.slice(0, 50).map((one) => hit(`${base}/m/${one.id}?find=${encodeURIComponent(found.find)}`, one.role, `#${one.number}`, "", one.html));
  const n = found.matches.length;
  return { links, count: n ? `${n}${found.complete ? "" : "+"} ${n === 1 ? "match" : "matches"}` : "No match" };
});

// -- a link to a message opens what is folded around it, and gives it the focus
function reveal() {
  const target = location.hash ? document.getElementById(location.hash.slice(1)) : null;
  if (!target || !list.contains(target)) return;
  if (target.matches("details")) target.open = true;
  openMatches(target.closest(".msg") ?? target);
  const message = target.closest(".msg");
  target.scrollIntoView({ block: "start" });
  message?.focus({ preventScroll: true });
}
addEventListener("hashchange", reveal);

// -- branches: those that match what is typed
$("#branch-q")?.addEventListener("input", (e) => {
  const typed = e.target.value.trim().toLowerCase(), tree = $(".branches .tree");
  tree.classList.toggle("filtering", typed !== "");
  for (const li of $$(".stubs > li", tree)) li.hidden = !li.textContent.toLowerCase().includes(typed);
  for (const li of $$(":scope > li", tree)) if ($(".stubs", li)) li.hidden = !$(".stubs > li:not([hidden])", li);
});

// -- selection: from here to here
let from = 0, to = 0, single = 0;
const bar = $(".selbar");
function select(m) {
  if (!m) return;
  const number = numberOf(m);
  const upto = Number(m.dataset.to ?? number); // the last message that is shown with it
  if (!from || to) { from = number; to = 0; single = upto; } else if (number < from) { to = single; from = number; } else to = upto;
  showSelection();
}
function showSelection() {
  const last = to || single;
  for (const m of messages()) m.classList.toggle("chosen", from > 0 && numberOf(m) >= from && numberOf(m) <= last);
  bar.hidden = !from;
  if (!from) return;
  $("[data-span]", bar).textContent = to ? `Messages ${from} – ${to}` : `From message ${from}. Press x at the last one.`;
  for (const a of $$("[data-form]", bar)) a.href = `${base}/export/${a.dataset.form}?from=${from}&to=${last}${withHead}`;
}
const markdown = (first, last) => `${base}/export/markdown?from=${first}&to=${last}${withHead}`;
Object.assign(buttons, {
  "copy-all": () => copyFrom(`${base}/export/markdown`, "Conversation copied"),
  "copy-resume": () => copyText($(".resume .cmd code").innerText.trim(), "Command copied"),
  "copy-part": (button) => { const form = button.closest("form"); copyFrom(markdown(form.elements.from.value, form.elements.to.value), "Messages copied"); },
  "copy-selection": () => copyFrom(markdown(from, to || single), "Messages copied"),
  "clear-selection": () => { from = to = 0; showSelection(); },
});
document.addEventListener("click", (e) => {
  const act = e.target.closest("[data-act]"), m = act?.closest(".msg");
  if (act?.dataset.act === "copy") copyFrom(markdown(numberOf(m), m.dataset.to ?? numberOf(m)), "Message copied");
  else if (act?.dataset.act === "select") select(m);
});

// -- traces of subagents, shown where they were started
list.addEventListener("toggle", async (e) => {
  const place = e.target.open && $(":scope > .out > .trace", e.target);
  if (!place || place.dataset.loaded) return;
  place.dataset.loaded = "1";
  const answer = await fetch(`${place.dataset.trace}/messages?to=50`).catch(() => null);
  if (!answer?.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html"), prefix = `t${e.target.id || Math.random().toString(36).slice(2)}-`;
  for (const one of $$("[id]", page)) one.id = prefix + one.id;
  for (const one of $$("[aria-labelledby]", page)) one.setAttribute("aria-labelledby", prefix + one.getAttribute("aria-labelledby"));
  for (const one of $$(".acts, .date-line", page)) one.remove();
  for (const one of $$(".msg", page)) { one.classList.replace("msg", "sub-msg"); one.removeAttribute("tabindex"); }
  for (const one of place.parentElement.children) if (one !== place && one.matches(".lab, .body")) one.hidden = true; // the trace has both
  place.prepend(el("div", { className: "trace-in" }, ...page.body.children));
}, true);

Object.assign(keys, {
  f: () => field?.focus(),
  j: () => { prompt(1); },
  k: () => { prompt(-1); },
  ArrowDown: () => move(1),
  ArrowUp: () => move(-1),
  n: () => match(1),
  p: () => match(-1),
  "=": () => $("[data-compare]")?.click(),
  "]": () => $("[data-branch=']']")?.click(),
  "[": () => $("[data-branch='[']")?.click(),
  G: () => { const far = $(".pager:not([hidden]) [data-newest]"); if (far) far.click(); else focusOn(messages().at(-1)); },
  g: () => { if (bounds(windows()[0])[0] > 1) location.href = `${base}${head ? `?head=${head}` : ""}#m1`; else focusOn(messages()[0]); },
  o: () => { const m = current(), all = m ? $$("details", m) : [], fold = all.every((d) => d.open); all.forEach((d) => { d.open = !fold; }); },
  O: () => { const all = $$(".call", list), fold = all.every((d) => d.open); all.forEach((d) => { d.open = !fold; }); },
  r: () => $("[data-act=raw]", current())?.click(),
  c: () => $("[data-act=copy]", current())?.click(),
  x: () => select(current()),
  y: () => { const m = current(); if (m) copyText(new URL($(".no", m).href, location).href, "Link copied"); },
  Escape: () => { if (from) { from = to = 0; showSelection(); } return false; },
});

marks();
copyable(list);
reveal();
markLine();
