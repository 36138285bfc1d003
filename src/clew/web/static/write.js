// Changes: only loaded if the server allows them. Each asks first or can be undone.
import { ask, el, keys, say, send } from "./@clew.js@";

const conv = document.querySelector("[data-conversation]");
const base = conv ? `/c/${conv.dataset.conversation}` : "";

const later = (url) => { setTimeout(() => { location.href = url; }, 400); };
const field = (label, name, value = "", area = false) => [
  el("label", {}, label, el(area ? "textarea" : "input", { name, value, required: true, ...(area ? { rows: 4 } : { type: "text" }), maxLength: 4000 })),
];
const many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
function plan(values) {
  const parts = [el("p", { textContent: values.left ? `${many(values.left, "message")} after it ${values.left === 1 ? "is" : "are"} kept as a branch.` : "It is the last message already." })];
  const files = values.files;
  if (files?.possible && files.changed.length) {
    const line = (path) => el("li", { className: "mono", textContent: `${files.removed.includes(path) ? "Delete" : "Change"} ${path}` });
    parts.push(el("label", { className: "check" }, el("input", { type: "checkbox", name: "files", value: "1" }),
      ` Restore the files too: ${many(files.changed.length, "file")}, ${many(files.insertions, "insertion")}, ${many(files.deletions, "deletion")}`), el("ul", { className: "planned" }, ...files.changed.map(line)));
    if (files.unchanged.length) parts.push(el("p", { textContent: `Left unchanged: ${files.unchanged.join(", ")}` }));
  } else if (files && !files.possible) parts.push(el("p", { textContent: `The files cannot be restored: ${files.why}.` }));
  parts.push(el("p", { className: "keys", textContent: "Undo with: clew undo" }));
  return parts;
}
const acts = {
  async rename() {
    const given = await ask("Rename the conversation", field("Title", "title", document.querySelector("h1").innerText), "Rename");
    if (given) { await send(`${base}/rename`, { title: given.title }); location.reload(); }
  },
  async label() {
    const given = await ask("Add a label", field("Label", "label"), "Add");
    if (given?.label.trim()) { await send(`${base}/label`, { label: given.label }); location.reload(); }
  },
  async unlabel(_, button) { await send(`${base}/label`, { label: button.dataset.label, remove: true }); location.reload(); },
  async pin() { await send(`${base}/pin`); location.reload(); },
  async note(message) {
    const given = await ask("Add a note to this message", field("Note", "text", "", true), "Add");
    if (given?.text.trim()) { await send(`${base}/note`, { message, text: given.text }); location.reload(); }
  },
  async unnote(message, button) {
    const all = [...button.closest(".msg").querySelectorAll("[data-write=unnote]")];
    await send(`${base}/note`, { message, remove: all.indexOf(button) });
    location.reload();
  },
  async fork(message) {
    const made = await send(`${base}/fork`, { message });
    say("Forked");
    later(made.url);
  },
  async rewind(message) {
    const preview = await send(`${base}/preview-rewind`, { message });
    const given = await ask(`Rewind to message ${preview.number}?`, plan(preview), "Rewind");
    if (given) { await send(`${base}/rewind`, { message, files: given.files === "1" }); location.href = `${base}/m/${message}`; }
  },
  async trash() {
    await send(`${base}/trash`);
    try { sessionStorage.setItem("clew-trashed", conv.dataset.conversation); } catch { /* private window */ }
    location.href = "/";
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
  for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = false;
  acts[button.dataset.write](button.closest(".msg")?.dataset.id, button).catch((error) => say(error.message));
});
if (conv) {
  const { current } = await import("./@conversation.js@");
  for (const [key, name] of [["b", "fork"], ["w", "rewind"], ["a", "note"]]) keys[key] = () => current()?.querySelector(`[data-write=${name}]`)?.click();
}
