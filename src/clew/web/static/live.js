// New messages: they raise a counter, and come in when the reader asks. Nothing that is read moves.
const conv = document.querySelector("[data-live]");
if (conv) {
  const bar = document.querySelector(".new"), count = bar.querySelector("[data-count]");
  const list = document.getElementById("messages");
  let fresh = 0, last = Number(conv.dataset.last), after = conv.dataset.live, source = null;

  const show = () => {
    bar.hidden = fresh === 0;
    count.textContent = fresh === 1 ? "1 new message" : `${fresh} new messages`;
  };
  const connect = () => {
    source = new EventSource(`/c/${conv.dataset.conversation}/events${after ? `?after=${after}` : ""}`);
    source.addEventListener("message", (event) => {
      after = event.lastEventId;
      fresh += 1;
      show();
    });
    source.addEventListener("gone", () => source.close());
  };
  bar.querySelector("a").addEventListener("click", async (event) => {
    event.preventDefault();
    const answer = await fetch(`/c/${conv.dataset.conversation}/messages?from=${last + 1}`).catch(() => null);
    if (!answer?.ok) { location.reload(); return; }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const added = [...page.body.children].filter((el) => !el.id || !document.getElementById(el.id));
    list.append(...added);
    last += fresh;
    fresh = 0;
    show();
    added[0]?.scrollIntoView({ block: "start" });
    added[0]?.focus({ preventScroll: true });
  });
  // A hidden page needs no stream: browsers allow six of them, and each costs the server a little.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; } else if (!source) connect();
  });
  if (!document.hidden) connect();
}
