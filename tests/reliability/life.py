"""A store's whole life as a program: ``life.py PATH begin|go_on plain|sealed``, its words as JSON on standard input.

``begin`` does everything that can be done with a store, and is killed in the middle of a talk; ``go_on`` opens what it
left. Every word is said in one place, so that whoever finds one on the disk knows where it came from.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import clew
from clew.store.search import index
from clew.store.session import delete_session
from clew.store.store import Store
from clew.upkeep import rekey

WORDS = (
    "text", "title", "new title", "label", "cwd", "extra", "tool name", "arguments", "result", "thinking", "native",
    "attachment", "file name", "log", "hold reason", "agent", "subagent", "fork", "branch", "summary", "query",
    "deleted", "trashed", "purged", "purged title", "purged file", "saved", "last",
)  # fmt: skip
FIRST, SECOND, THIRD = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))


def begin(path: str, words: dict[str, str], *, sealed: bool) -> None:
    """Everything, and then SIGKILL."""
    store = clew.open(path, key=FIRST if sealed else None)
    session = store.sessions.create(
        title=words["title"], cwd=f"/{words['cwd']}", labels=[words["label"]], extra={"note": words["extra"]}
    )
    shown = session.attach(words["attachment"].encode() * 400, mime_type="text/plain", name=f"{words['file name']}.txt")
    call = clew.ToolCall(id="c1", name=words["tool name"], arguments={"pattern": words["arguments"]})
    first = session.append(clew.user(words["text"], shown))
    session.append([clew.assistant(clew.Thinking(text=words["thinking"], signature="s"), call)])
    session.append(clew.tool(words["result"], call_id="c1"))
    native = {"role": "assistant", "content": [{"type": "text", "text": words["native"]}]}
    session.append(clew.native("anthropic", json.dumps(native).encode()))
    session.log.append([words["log"].encode()])
    session.hold(words["hold reason"])
    session.release()
    traced = store.sessions.create(agent=words["agent"], owner=session)
    traced.append(clew.user(words["subagent"]))
    session.fork(at=first.id).append(clew.user(words["fork"]))
    session.append(clew.user(words["branch"]))
    session.rewind(to=first.id)
    session.append(clew.user("go on"))
    session.compact(clew.system(words["summary"]))
    session.rename(words["new title"])
    store.nodes.save([clew.user(words["saved"])])
    store.sessions.create().append(clew.user(words["deleted"]))
    delete_session(store.sessions.latest())
    searches(store, words)
    _ways_to_go(store, words)
    store.backup(f"{path}.backup")
    assert store.verify().ok
    if sealed:
        exchanges(store)
    searches(store, words)
    assert store.sessions.latest(cwd=f"/{words['cwd']}").labels == (words["label"],)
    session.append([clew.user(f"{words['last']} {number}") for number in range(40)])
    os.kill(os.getpid(), signal.SIGKILL)


def _ways_to_go(store: Store, words: dict[str, str]) -> None:
    """The trash, back from it, and a purge."""
    trashed = store.sessions.create(title=words["trashed"])
    trashed.append(clew.user(words["trashed"]))
    trashed.trash()
    store.sessions.restore(trashed.id).trash()
    gone = store.sessions.create(title=words["purged title"])
    shown = gone.attach(words["purged file"].encode() * 500, mime_type="text/plain")
    gone.append([clew.user(words["purged"], shown), clew.assistant("yes")])
    assert store.sessions.purge(gone.id).pending == ()


def exchanges(store: Store) -> None:
    """New keys, twice; in many steps."""
    rekey.BATCH = 5
    store.rotate(SECOND)
    store.rotate(THIRD, deep=True)


def searches(store: Store, words: dict[str, str]) -> None:
    """Both indexes are filled, and asked for what is there and what is not."""
    assert len(store.search(words["text"])) == 1
    assert len(store.search(words["text"][3:20], mode="substring")) == 1
    assert store.search(words["query"]) == []


def go_on(path: str, words: dict[str, str], *, sealed: bool) -> None:
    """What is left after the crash is whole, and goes on."""
    with clew.open(path, key=THIRD if sealed else None) as store:
        assert store.verify().ok
        session = store.sessions.latest()
        assert session.title == words["new title"]
        session.append([clew.user(words["last"]), clew.assistant("yes")])
        searches(store, words)
        store.sessions.purge(trashed=True)


if __name__ == "__main__":
    index.NEW_MESSAGES = 1  # so that the few messages of this life are in images of the index
    verb = {"begin": begin, "go_on": go_on}[sys.argv[2]]
    verb(sys.argv[1], json.load(sys.stdin), sealed=sys.argv[3] == "sealed")
