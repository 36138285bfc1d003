"""Takes the screenshots of docs/how-to/web-page.md: a made-up store, the real page, Debian's Chromium.

python tools/screenshots.py [FOLDER]     by default docs/images
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import clew
from clew.base.messages import Text, Thinking, ToolCall
from clew.web.server import Server, listen

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs/images"
KEPT = ("conversation-light", "list-dark", "conversation-phone", "search-dark", "compare-light")
"""The pictures that the documents show."""
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--hide-scrollbars",
]  # fmt: skip
OUTPUT = """\x1b[31mF\x1b[32m..\x1b[0m                                       \x1b[36m[100%]\x1b[0m
\x1b[1;31m================ FAILURES ================\x1b[0m
    def test_retry_is_stored_once(client, orders):
\x1b[1;31m>       assert orders.count() == 1\x1b[0m
\x1b[31mE       assert 2 == 1\x1b[0m
customer name was \u202eecila
\x1b[1;31m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m in 1.93s"""


def demo(store: clew.Store) -> clew.Session:
    """Fills a store with a few conversations; returns the one to look at."""
    for tool, title, project, model, last in (
        ("gemini-cli", "Read the scanned lease", None, "gemini-2.5-pro", "Clause 7 allows a rise once a year."),
        ("llm", "Names of the moons in one line", None, "gpt-5-mini", "Io, Europa, Ganymede, Callisto."),
        ("claude-code", "Why is the wheel 11 MB", "ledger", "claude-sonnet-4-5", "Two fixtures were in the package."),
        ("opencode", "Move the parser to a state machine", "ledger", "claude-opus-4-5", "Three states are enough."),
        ("chatgpt", "Words for 'snapshot' that are not taken", None, "gpt-5", "“Waypoint” is free."),
        ("claude-code", "Departure board flickers at midnight", "departures", "claude-opus-4-5", "It ends at 03:00."),
        ("codex", "Backoff for the mail queue", "tidepool", "gpt-5-codex", "Capped at five minutes with full jitter."),
        ("clew", "Summarise the RFC on problem details", None, "llama3.3:70b", "RFC 9457 replaces 7807."),
    ):  # fmt: skip
        extra = {"source": {"tool": tool, "id": "x", "branch": "main"}} if tool != "clew" else None
        labels = {"ledger": ["shipped"], "departures": ["bug"], None: ["idea"]}.get(project, [])
        one = store.sessions.create(
            title=title, cwd=project and f"/src/{project}", model=model, extra=extra, labels=labels
        )
        one.append([clew.user(title), clew.assistant(last)])
    source = {"tool": "claude-code", "id": "5b0e2f7c-91d4-4c55-a1f6-2f0be3c7d018", "branch": "fix/webhook-retries"}
    session = store.sessions.create(
        title="Webhook retries create duplicate orders", cwd="/src/tidepool", model="claude-sonnet-4-5",
        labels=["bug", "pinned"], extra={"source": source},
    )  # fmt: skip
    model = "claude-sonnet-4-5"
    session.append(clew.user("The payments provider retries a webhook when we answer late. Find out why and fix it."))
    session.append(
        clew.assistant(
            Thinking(text="Two deliveries of one event. Reproduce it before touching anything."),
            Text(text="I will read the handler first, then reproduce a retry in a test."),
            ToolCall(id="r1", name="Read", arguments={"file_path": "src/tidepool/webhooks.py"}),
            ToolCall(id="b1", name="Bash", arguments={"command": "pytest -q tests/test_webhooks.py -k retry"}),
            model=model,
            usage=clew.Usage(input=38_412, output=604, cost=130_000),
        )
    )
    session.append(clew.tool("def receive(request):\n    ensure_order(event)\n    return 202", call_id="r1"))
    session.append(clew.tool(OUTPUT, call_id="b1", is_error=True))
    answer = session.append(
        clew.assistant(
            "**The handler answers before it commits.** A retry sees no order, and creates a second one.\n\n"
            "- `ensure_order` looks first and inserts after ([delivery rules](https://example.com/docs/webhooks)).\n"
            "- The 202 leaves at once.\n\n| Writer | Events |\n|---|---:|\n| webhooks | 2,860 |\n| replay | 247 |",
            model=model,
        )
    )
    session.append([clew.user("Look the event up first"), clew.assistant("That still races.", model=model)])
    session.rewind(answer.id)
    session.append(clew.user("Let the database refuse the second one. No lookup table."))
    before = "def ensure_order(event):\n    if Order.exists(event):\n        return\n    Order.create(event)\n"
    after = "def ensure_order(event):\n    with db.transaction() as tx:\n        tx.insert(event)\n"
    edit = {"file_path": "src/tidepool/webhooks.py", "old_string": before, "new_string": after}
    session.append(
        clew.assistant(
            Text(text="A unique constraint on `event_id`:\n\n```python\nwith db.transaction():\n    tx.insert(1)\n```"),
            ToolCall(id="e1", name="Edit", arguments=edit),
            model=model,
            usage=clew.Usage(input=41_208, output=1_127),
        )
    )
    session.append(clew.tool("done", call_id="e1"))
    fork = session.fork(at=answer.id, title="Advisory lock per event")
    fork.label(remove=["pinned"])
    fork.append(clew.user("Take an advisory lock per event."))
    session.rename(session.title)
    return session


@contextmanager
def browser() -> Iterator[Any]:
    """Debian's Chromium. RuntimeError if it is not installed."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        raise RuntimeError("chromium is not installed")
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield opened
        finally:
            opened.close()


def main() -> int:
    """Writes the pictures."""
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = pathlib.Path(tempfile.mkdtemp()) / "demo.db"
    with clew.open(path) as store:
        session = demo(store)
        server = Server(lambda _: clew.open(path), listen(0), allow_write=True)
        with server.in_background() as url, browser() as chromium:
            context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
            page = context.new_page()
            page.goto(url)
            base = f"http://127.0.0.1:{server.port}"
            left = session.branches()[0].head_id
            shots = {"list": "/", "conversation": f"/c/{session.id}", "search": "/search?q=order*",
                     "compare": f"/c/{session.id}/compare?b={left}", "files": f"/c/{session.id}/files"}  # fmt: skip
            for scheme, width in (("light", 1440), ("dark", 1440), ("light", 390)):
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": 900 if width > 400 else 844})
                for name, where in shots.items():
                    picture = f"{name}-{'phone' if width < 400 else scheme}"
                    if folder == FOLDER and picture not in KEPT:
                        continue
                    page.goto(base + where)
                    if name == "conversation":
                        page.locator("details.call").nth(1).evaluate("d => { d.open = true }")
                    page.screenshot(path=folder / f"{picture}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
