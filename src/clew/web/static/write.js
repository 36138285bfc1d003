// Changes: only loaded if the server allows them. Each asks first or can be undone.
import { say, send } from "./@clew.js@";

const conv = document.querySelector("[data-conversation]");
const base = conv ? `/c/${conv.dataset.conversation}` : "";
for (const el of document.querySelectorAll("[data-write][hidden]")) el.hidden = false;

const later = (url) => { setTimeout(() => { location.href = url; }, 400); };
const acts = {
  async rename() {
    const title = prompt("Title", document.querySelector("h1").innerText);
    if (title !== null) { await send(`${base}/rename`, { title }); location.reload(); }
  },
  async label() {
    const label = prompt("Label");
    if (label) { await send(`${base}/label`, { label }); location.reload(); }
  },
  async pin() { await send(`${base}/pin`); location.reload(); },
  async note(message) {
    const text = prompt("Note on this message");
    if (text) { await send(`${base}/note`, { message, text }); location.reload(); }
  },
  async fork(message) {
    const made = await send(`${base}/fork`, { message });
    say("Forked");
    later(made.url);
  },
  async rewind(message) {
    const plan = await send(`${base}/preview-rewind`, { message });
    const words = `Rewind to message ${plan.number}? ${plan.left} messages after it are kept as a branch.`;
    if (confirm(words)) { await send(`${base}/rewind`, { message }); location.href = `${base}/m/${message}`; }
  },
  async trash() {
    await send(`${base}/trash`);
    say("Moved to the trash", { label: "Undo", run: async () => { await send(`${base}/restore`); say("Restored"); } });
  },
  async restore(_, button) {
    await send(`/c/${button.dataset.id}/restore`);
    location.href = `/c/${button.dataset.id}`;
  },
};
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-write]");
  if (!button) return;
  document.getElementById("palette")?.close();
  acts[button.dataset.write](button.closest(".msg")?.dataset.id, button).catch((error) => say(error.message));
});
