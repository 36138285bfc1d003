// New messages: they raise a counter, and come in when the reader asks. Nothing that is read moves.
import { copyable, loadedTo, total } from "./@conversation.js@";

const conv = document.querySelector("[data-live]");
if (conv) {
  const bar = document.querySelector(".new"), link = bar.querySelector("a"), count = bar.querySelector("[data-count]");
  const base = `/c/${conv.dataset.conversation}`;
  let newest = total(), seen = 0, after = conv.dataset.live, source = null, moved = false, gone = false;

  const show = () => {
    const fresh = newest - total();
    bar.hidden = fresh === 0 && !moved && !gone;
    count.textContent = gone ? "This conversation was deleted. All conversations" : moved ? "The conversation changed. Go to its end" : fresh === 1 ? "1 new message" : `${fresh} new messages`;
  };
  // Adds the messages after number `last`, each once, and updates those before; returns the first new one.
  const bringIn = (parts, last) => {
    const place = document.querySelector("#messages > .window:last-child");
    let before = [], first = null;
    for (const one of parts) {
      const there = one.id && document.getElementById(one.id);
      if (!one.matches(".msg")) {
        const day = one.matches(".date-line") && [...place.querySelectorAll(".date-line")].at(-1)?.textContent === one.textContent;
        if (!there && !day) before.push(one);
      } else if (Number(one.id.slice(1)) > last) {
        if (!there) place.append(...before, one);
        first ??= one;
        before = [];
      } else {
        const folds = [...(there?.querySelectorAll("details") ?? [])];
        one.querySelectorAll("details").forEach((fold, n) => { fold.open = folds[n]?.open ?? fold.open; });
        there?.replaceWith(one);
        before = [];
      }
    }
    return first;
  };
  const lost = () => {
    if ("locks" in document.body.dataset) { location.reload(); return; }
    gone = true;
    show();
  };
  const connect = () => {
    source = new EventSource(`${base}/events${after ? `?after=${after}` : ""}`);
    source.addEventListener("message", (event) => {
      after = event.lastEventId;
      const { number } = JSON.parse(event.data);
      if (number <= seen) moved = true; // rewound: what is shown is another branch
      seen = number;
      newest = Math.max(newest, number); // the page may have been made after the event
      show();
    });
    source.addEventListener("gone", () => { source.close(); lost(); });
    source.addEventListener("error", async () => { // refused: it may have been deleted before the stream began
      if (source?.readyState !== EventSource.CLOSED) return;
      const answer = await fetch(`${base}.json?to=1`).catch(() => null);
      if (answer?.status === 404) lost();
    });
  };
  link.addEventListener("click", async (event) => {
    const last = total(), size = Number(conv.dataset.window), batch = Number(conv.dataset.batch);
    if (gone) { link.href = "/"; return; }
    if (moved) { link.href = `${base}/m/${after}`; return; }
    if (loadedTo() < last) { link.href = `${base}?from=${Math.floor(last / size) * size + 1}#m${last + 1}`; return; }
    event.preventDefault();
    // A call without a result may have one now: its message is read again.
    const shown = [...document.querySelectorAll("#messages .msg")].slice(-20), end = shown.at(-1);
    const grown = end?.matches(".ai") && newest - Number(end.id.slice(1)) < batch ? end : null; // the last answer may have grown
    const waiting = shown.find((m) => m.querySelector(".call > summary > .i-stop")) ?? grown;
    const from = waiting ? Number(waiting.id.slice(1)) : last + 1, to = Math.min(newest, from + batch - 1);
    const answer = await fetch(`${base}/messages?from=${from}&to=${to}`).catch(() => null);
    if (!answer?.ok) { location.reload(); return; }
    const first = bringIn([...new DOMParser().parseFromString(await answer.text(), "text/html").body.children], last);
    document.querySelector("#messages > .window:last-child").dataset.to = conv.dataset.total = String(to);
    show();
    copyable(document.querySelector("#messages > .window:last-child"));
    first?.scrollIntoView({ block: "start" });
    first?.focus({ preventScroll: true });
  });
  // A hidden page needs no stream: browsers allow six of them, and each costs the server a little.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; } else if (!source && !gone) connect();
  });
  if (!document.hidden) connect();
}
