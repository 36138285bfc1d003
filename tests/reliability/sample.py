"""A store with something of everything in it, and everything that can be read from one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import clew
from clew.base.ids import IdSource
from clew.store.session import Session, delete_session, row_of
from clew.store.store import Store

START = 1_750_000_000_000_000
"""Microseconds: June 2025."""


def clock() -> Callable[[], int]:
    """A clock that goes on by a millisecond whenever it is read."""
    ticks = itertools.count(START, 1000)
    return lambda: next(ticks)


def id_source(seed: int = 7) -> IdSource:
    """Version 7 ids that are the same in every run."""
    random_bits, count = random.Random(seed), itertools.count(START // 1000)

    def new() -> bytes:
        head = next(count) << 16 | 0x7000
        return (head << 64 | 1 << 63 | random_bits.getrandbits(62)).to_bytes(16, "little")

    return new


def fill(store: Store, *, words: int = 40, blob: int = 40_000, seed: int = 7) -> None:
    """Sessions, forks, branches, a compaction, a subagent, blobs, a log, saved nodes, and things deleted."""
    chance = random.Random(seed)

    def text() -> str:
        return " ".join(f"{chance.getrandbits(32):08x}" for _ in range(chance.randint(words // 4, words * 2)))

    def talk(session: Session, turns: int) -> None:
        for _ in range(turns):
            usage = clew.Usage(
                input=chance.randint(1, 999), output=chance.randint(1, 999), cost=chance.randint(1, 9999)
            )
            session.append([clew.user(text()), clew.assistant(text(), model="m-1", usage=usage)])

    main = store.sessions.create(title="Build fails", cwd="/src/app", model="m-1", labels=["bug", "ci"], extra={"n": 1})
    main.append(clew.system(text()))
    talk(main, 8)
    path = main.path()
    call = clew.ToolCall(id="c1", name="grep", arguments={"pattern": "lint", "big": 12345678901234567890})
    main.append([clew.assistant(clew.Thinking(text="hm", signature="s"), call), clew.tool("found", call_id="c1")])
    picture = main.attach(chance.randbytes(blob), mime_type="image/png", modality="image", name="shot.png")
    main.append(clew.user("look", picture))
    main.append(clew.native("anthropic", b'{"role":"assistant", "content":[{"type":"text","text":"native"}],"x":1.50}'))
    main.log.append([b"started", b"stopped", chance.randbytes(200)])
    fork = main.fork(at=path[6].id, title="Other idea")
    talk(fork, 4)
    again = fork.fork(title="Third idea")
    talk(again, 2)
    main.rewind(to=path[12].id)
    talk(main, 3)
    main.compact(clew.system("In short: the lint step fails."))
    talk(main, 2)
    traced = store.sessions.create(agent="searcher", owner=main, title="trace")
    talk(traced, 2)
    for number in range(4):
        one = store.sessions.create(
            title=f"Chat {number}", cwd="/src/app" if number % 2 else "/src/lib", labels=["bulk"]
        )
        talk(one, 5)
    store.sessions.create(title="Nothing said yet")
    cut = store.sessions.create(title="Shortened")
    talk(cut, 3)
    store.nodes.delete(cut.path()[4].id, recursive=True)
    gone = store.sessions.create(title="Gone")
    talk(gone, 3)
    delete_session(gone)
    saved = store.nodes.save([clew.user(text()), clew.assistant(text()), clew.user(text())])
    store.nodes.save([clew.assistant(text()), clew.user(text())], parent=saved[0].id)


def make(path: str, *, words: int = 40, blob: int = 40_000, key: bytes | None = None) -> None:
    """A filled store in one file: nothing is left in a write-ahead log."""
    with clew.open(path, key=key, clock=clock(), ids=id_source()) as store:
        fill(store, words=words, blob=blob)


KEYS = {"plain": None, "sealed": bytes(range(32))}
"""How a store may be kept, and the key it then has."""


def opened(path: Path) -> Store:
    """The store in a file whose name says how it is kept: ``plain….db`` or ``sealed….db``."""
    return clew.open(path, key=KEYS["sealed" if path.name.startswith("sealed") else "plain"])


@cache
def session_keys() -> dict[str, bytes]:
    """The key of each session that `make` makes, by title; plain and sealed, they are the same."""
    with clew.open(":memory:", clock=clock(), ids=id_source()) as store:
        fill(store, words=4, blob=100)
        return {one.title or "": row_of(one).key for one in store.sessions.list(limit=50).items}


def readings(store: Store) -> dict[str, Any]:
    """All that the public names tell of a store, as plain data by name. What cannot be read is an error by name."""
    found: dict[str, Any] = {}

    def note(name: str, read: Callable[[], Any]) -> Any:
        try:
            found[name] = value = read()
        except Exception as error:
            found[name] = f"error: {type(error).__name__}"
            return None
        return value

    def every(subagents: bool) -> list[str]:
        names, cursor = [], None
        while True:
            page = store.sessions.list(limit=5, cursor=cursor, subagents=subagents, total=True)
            names += [one.id for one in page.items] + [f"of {page.total}"]
            cursor = page.next_cursor
            if cursor is None:
                return names

    for kind in (False, True):
        for id in note(f"sessions {kind}", lambda: every(kind)) or ():
            if not id.startswith("of "):
                _session(note, f"session {id}", store, id)
    for cwd in ("/src/app", "/src/lib"):
        note(f"latest {cwd}", lambda: store.sessions.latest(cwd).id)
        note(f"list {cwd}", lambda: [one.id for one in store.sessions.list(cwd=cwd).items])
    for label in ("bug", "ci", "bulk"):
        note(f"label {label}", lambda: [one.id for one in store.sessions.list(label=label).items])
    listed = note("nodes", lambda: [node.id for node in store.nodes.list(limit=10_000).items]) or ()
    for id in listed:
        note(f"node {id}", lambda: _node(store.nodes.get(id)[0]))
        note(f"children {id}", lambda: [node.id for node in store.nodes.children(id)])
        note(f"handle {id}", lambda: store.nodes.resolve(store.nodes.get(id)[0].handle))
    return found


def errors(read: dict[str, Any]) -> set[str]:
    """The kinds of error among readings."""
    return {
        value.removeprefix("error: ")
        for value in read.values()
        if isinstance(value, str) and value.startswith("error: ")
    }


def _session(note: Callable[[str, Callable[[], Any]], Any], name: str, store: Store, id: str) -> None:
    session = note(f"{name} found", lambda: store.sessions.get(id).id)
    if session is None:
        return
    one = store.sessions.get(id)
    note(f"{name} data", lambda: [one.title, one.cwd, one.model, list(one.labels), one.agent, one.extra])
    note(f"{name} forked", lambda: [one.forked_from, one.forked_at])
    note(f"{name} row", lambda: [one.head_id, one.version, str(one.created_at), str(one.updated_at), one.is_subagent])
    note(f"{name} counters", lambda: list(one.counters))
    note(f"{name} path", lambda: [_node(node) for node in one.path()])
    note(f"{name} last", lambda: [_node(node) for node in one.path(last=3)])
    note(f"{name} iter", lambda: [node.id for node in one.iter()])
    note(f"{name} history", lambda: [node.id for node in one.history()])
    note(f"{name} branches", lambda: [[b.id, b.head_id, str(b.created_at)] for b in one.branches()])
    note(f"{name} subagents", lambda: [sub.id for sub in one.subagents()])
    note(f"{name} log", lambda: [[e.number, e.id, str(e.created_at), e.data.hex()] for e in one.log.read()])
    note(f"{name} blobs", lambda: [_blob(one, node) for node in one.history()])


def _node(node: clew.Node) -> list[Any]:
    native = node.native
    return [
        node.id, node.parent_id, str(node.created_at), node.role, node.depth, list(node.counters),
        msgspec.to_builtins(node.message), None if native is None else [native.provider, native.raw.decode()],
    ]  # fmt: skip


def _blob(session: Session, node: clew.Node) -> list[Any]:
    from hashlib import sha256

    shown = [block.blob for block in node.message.blocks if isinstance(block, clew.Media) and block.blob]
    return [
        [digest, sha256(session.blobs.get(digest)).hexdigest(), session.blobs.stat(digest).size] for digest in shown
    ]
