"""P9, the second half: while a store is sealed, unsealed or given another key, everybody goes on; damage stops it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest

import clew
from clew.backends import Tx
from clew.base import ids
from clew.engine import paths
from clew.engine.node import node_row
from clew.errors import Conflict, Corrupted, Sealed, WrongKey
from clew.store.parts import Parts
from clew.store.store import Store
from clew.upkeep import rekey
from tests.reliability.canaries import content
from tests.reliability.tools import python

OLD, NEW = bytes(range(32)), bytes(range(32, 64))


class Exchange(NamedTuple):
    """A way to change how a store is kept: the key before it, the key after it, and the call."""

    before: bytes | None
    after: bytes | None
    kind: rekey.Kind
    run: Callable[[Store, Callable[[int, int], None] | None], object]


EXCHANGES = {
    "seal": Exchange(None, NEW, "seal", lambda store, progress: store.seal(NEW, progress=progress)),
    "unseal": Exchange(OLD, None, "unseal", lambda store, progress: store.unseal(progress=progress)),
    "rotate": Exchange(OLD, NEW, "rotate", lambda store, progress: store.rotate(NEW, progress=progress)),
    "deep": Exchange(OLD, NEW, "deep", lambda store, progress: store.rotate(NEW, deep=True, progress=progress)),
}


@pytest.fixture(params=EXCHANGES)
def exchange(request: pytest.FixtureRequest) -> Exchange:
    return EXCHANGES[request.param]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many steps, also on a small store."""
    monkeypatch.setattr(rekey, "BATCH", 2)


def texts(path: Path, key: bytes | None, session: str) -> list[str]:
    """What somebody who opens the store with this key alone finds; all of it is sound."""
    with clew.open(path, key=key, create=False) as store:
        assert store.verify().damage == []
        return [node.text for node in store.sessions.get(session).path()]


# -- reading meanwhile


def test_a_session_that_was_read_before(path: Path, exchange: Exchange) -> None:
    """What a session says of itself is read when it is asked for, and that may be after its data key has gone."""
    with clew.open(path, key=exchange.before) as store:
        store.sessions.create(title="Early").append(clew.user("hello"))
        for ask in (lambda s: s.title, lambda s: s.head_id, lambda s: s.version, lambda s: s.updated_at):
            assert ask(store.sessions.latest()) is not None
        early = [store.sessions.latest() for _ in range(3)]
        exchange.run(store, None)
        assert early[0].title == "Early"
        assert early[1].head_id == early[2].path()[-1].id
        assert early[2].append(clew.user("more")).text == "more"


def read_nodes(session: clew.Session) -> Iterator[object]:
    return (node.text for node in session.iter())


def read_blob(session: clew.Session) -> Iterator[object]:
    shown = session.path()[-1].message.blocks[-1]
    assert isinstance(shown, clew.Media)
    assert shown.blob
    return session.blobs.open(shown.blob)


def read_log(session: clew.Session) -> Iterator[object]:
    return (entry.data for entry in session.log.read())


@pytest.mark.parametrize("read", [read_nodes, read_blob, read_log])
def test_a_reading_that_is_under_way(
    path: Path, exchange: Exchange, read: Callable[[clew.Session], Iterator[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has read the first page of something reads the rest after the exchange."""
    monkeypatch.setattr(rekey, "BATCH", 500)
    with clew.open(path, key=exchange.before) as store:
        session = store.sessions.create()
        session.append([clew.user(str(number)) for number in range(40)])
        session.append(clew.user("look", session.attach(os.urandom(600_000), mime_type="x/y")))
        session.log.append([b"%d" % number for number in range(600)])
        whole = list(read(session))
        pages = read(session)
        first = next(pages)
        exchange.run(store, None)
        assert [first, *pages] == whole


def test_readers_that_were_open_before(path: Path, exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that was open before a key change, and has asked for nothing since, reads everything after any step."""
    monkeypatch.setattr(rekey, "BATCH", 500)
    with clew.open(path, key=exchange.before) as store, ExitStack() as opened:
        session = store.sessions.create(title="ours")
        session.append([clew.user(str(number)) for number in range(5)])
        session.append(clew.user("look", session.attach(b"a picture", mime_type="x/y")))
        session.log.append([b"noted"])
        whole = everything(session)
        readers = [opened.enter_context(clew.open(path, key=exchange.before)) for _ in range(20)]

        def look(done: int, total: int) -> None:
            try:
                assert everything(readers.pop().sessions.get(session.id)) == whole
            except Sealed:
                assert exchange.before is None

        exchange.run(store, look)
        assert readers


def everything(session: clew.Session) -> list[object]:
    texts, messages = [node.text for node in session.path()], [message.text for message in session.messages()]
    return [session.title, texts, messages, *read_nodes(session), *read_blob(session), *read_log(session)]


def test_a_read_that_began_before(path: Path, exchange: Exchange) -> None:
    """A read that sees the rows from before a key change, and the keys from after it, finds no damage."""
    with clew.open(path, key=exchange.before) as store, clew.open(path, key=exchange.before) as other:
        session = store.sessions.create()
        session.append(clew.user("hello"))
        parts, changes = Parts.of(other), [exchange]

        def work(tx: Tx) -> list[str]:
            row = parts.refs.get(tx, "session", ids.parse(session.id))
            for change in changes:
                changes.clear()
                change.run(store, lambda done, total: parts.engine.reload())
                parts.engine.reload()
            assert row.head is not None
            return [node.text for node in paths.whole(parts.engine, tx, row.head)]

        try:
            assert parts.engine.read(work) == ["hello"]
        except Sealed:
            assert exchange.before is None
        assert not changes


@pytest.mark.parametrize("kind", ["unseal", "rotate", "deep"])
def test_a_thread_that_read_the_keys_before(path: Path, kind: str) -> None:
    """A thread that loads keys it has read before a key change does not bring them back for the others."""
    exchange = EXCHANGES[kind]
    with clew.open(path, key=exchange.before) as store, clew.open(path, key=exchange.before) as other:
        session = store.sessions.create()
        session.append(clew.user("hello"))
        engine = Parts.of(other).engine

        def work(tx: Tx) -> None:
            tx.state()
            exchange.run(store, lambda done, total: engine.backend.refresh_epoch())
            engine.backend.refresh_epoch()
            engine.backend.on_epoch(tx)
            engine.renew(tx)

        engine.read(work)
        later = other.sessions.get(session.id)
        later.rename("later")
        later.append(clew.user("more"))
    assert texts(path, exchange.after, session.id) == ["hello", "more"]


def test_those_without_the_key_are_told(path: Path) -> None:
    """Who has a plain store open while it is sealed is told that it is sealed, never that it is damaged."""
    with clew.open(path) as store, clew.open(path) as other:
        session = store.sessions.create(title="ours")
        session.append(clew.user("hello"))
        early = other.sessions.get(session.id)
        store.seal(NEW)
        for ask in (
            lambda: other.sessions.get(session.id).head_id,
            lambda: other.sessions.latest().title,
            lambda: other.search("hello"),
            lambda: early.path(),
            lambda: early.append(clew.user("more")),
            lambda: early.rename("theirs"),
            lambda: early.log.append(b"more"),
        ):
            with pytest.raises(Sealed):
                ask()
    assert texts(path, NEW, session.id) == ["hello"]


def test_those_with_the_key_of_an_unsealed_store_go_on(path: Path) -> None:
    """Who has a sealed store open while another process unseals it reads and writes on."""
    with clew.open(path, key=OLD) as store, clew.open(path, key=OLD) as other:
        session = store.sessions.create(title="ours")
        session.append(clew.user("hello"))
        store.unseal()
        assert other.sessions.get(session.id).head_id
        assert other.sessions.latest().title == "ours"
        assert other.verify().damage == []
        other.sessions.latest().append(clew.user("more"))
    assert texts(path, None, session.id) == ["hello", "more"]


def test_a_key_that_was_rotated_before_the_store_was_unsealed(path: Path) -> None:
    """A process that missed a rotation cannot check the unsealing after it: it is refused, and opening again works."""
    with clew.open(path, key=OLD) as store, clew.open(path, key=OLD) as other:
        session = store.sessions.create(title="ours")
        session.append(clew.user("hello"))
        early = other.sessions.get(session.id)
        store.rotate(NEW)
        store.unseal()
        for ask in (
            lambda: early.path(),
            lambda: early.append(clew.user("more")),
            lambda: other.sessions.latest().title,
            lambda: other.search("hello"),
        ):
            with pytest.raises(Conflict, match="was unsealed with a key that this process does not have"):
                ask()
    assert texts(path, None, session.id) == ["hello"]


# -- writing meanwhile


@pytest.mark.parametrize("more", [False, True])
def test_a_writer_between_the_steps(path: Path, exchange: Exchange, more: bool) -> None:
    """Someone appends after each step of the walk, or also renames, logs and attaches; nothing of it is lost."""
    with clew.open(path, key=exchange.before) as store:
        main = store.sessions.create(title="0")
        main.append([clew.user("first"), clew.assistant("second")])
        expected = ["first", "second"]
        with ExitStack() as opened:
            if exchange.after is None:  # who opens a store in the middle of an unsealing does not write
                other = opened.enter_context(clew.open(path, key=exchange.before))
            rekey.begin(Parts.of(store).engine, exchange.kind, exchange.after)
            if exchange.after is not None:
                other = opened.enter_context(clew.open(path, key=exchange.before or exchange.after))
            session = other.sessions.get(main.id)

            def talk(done: int, total: int) -> None:
                assert len(expected) < 500, "the walk does not come to its end"
                number = str(len(expected))
                session.append(clew.user(number))
                expected.append(number)
                if more:
                    session.log.append(number.encode())
                if more and len(expected) % 4 == 0:
                    session.rename(number)
                    shown = session.attach(number.encode(), mime_type="x/y")
                    session.append(clew.user(f"look {number}", shown))
                    expected.append(f"look {number}")
                    other.sessions.create(title=number).append(clew.user(number))

            talk(0, 0)  # the place where this one goes on is remembered from before the first step
            exchange.run(store, talk)
            assert store.key_status().state == ("plain" if exchange.after is None else "sealed")
            assert [node.text for node in session.path()] == expected
    assert texts(path, exchange.after, main.id) == expected
    with clew.open(path, key=exchange.after) as store:
        again = store.sessions.get(main.id)
        assert (int(again.title or "") > 4) == more
        logged = [entry.data.decode() for entry in again.log.read()]
        assert logged == ([text for text in expected if text.isdigit()] if more else [])


TALK = """
import sys, clew
key = bytes(range(32))
store = clew.open(sys.argv[1], key=key)
session = store.sessions.get(sys.argv[2])
print("ready", flush=True)
number, stop = 0, False
import threading
def wait():
    global stop
    sys.stdin.readline()
    stop = True
threading.Thread(target=wait, daemon=True).start()
while not stop:
    session.append(clew.user(f"{sys.argv[3]} {number}"))
    assert session.path(last=1)[0].text
    number += 1
    if number % 7 == 0:
        assert store.sessions.latest().title == "shared"
        assert sum(1 for node in session.iter() if node.text) >= number
store.close()
print(number)
"""


@pytest.mark.parametrize("deep", [False, True])
def test_processes_with_the_old_key_alone_go_on(path: Path, deep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that know only the old key append and read during an exchange; all is there for the new one."""
    monkeypatch.setattr(rekey, "BATCH", 20)
    with clew.open(path, key=OLD) as store:
        session = store.sessions.create(title="shared")
        session.append([clew.user(f"0 {number}") for number in range(100)])
        others = [python(TALK, path, session.id, name) for name in ("a", "b")]
        for one in others:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        pauses = iter([0.5] * 3)  # on a busy machine they would else sleep through it
        store.rotate(NEW, deep=deep, progress=lambda *_: time.sleep(next(pauses, 0)))
        counts = []
        for one in others:
            out, err = one.communicate("stop\n", timeout=60)
            assert one.returncode == 0, err
            counts.append(int(out))
    with pytest.raises(WrongKey):
        clew.open(path, key=OLD)
    found = texts(path, NEW, session.id)
    for name, count in zip(("a", "b"), counts, strict=True):
        assert count > 0
        assert [text for text in found if text.startswith(name)] == [f"{name} {number}" for number in range(count)]


# -- damage


@pytest.mark.parametrize("deep", [False, True])
def test_damage_keeps_both_keys(path: Path, deep: bool) -> None:
    """With a damaged message the old key is not given up; once its session is purged the exchange comes to its end."""
    with clew.open(path, key=OLD) as store:
        good, bad = store.sessions.create(title="good"), store.sessions.create(title="bad")
        good.append([clew.user(str(number)) for number in range(5)])
        spoiled = bad.append([clew.user(str(number)) for number in range(5)])[2]
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("UPDATE nodes SET body = substr(body, 1, length(body) - 1) WHERE pos = ?", (node_row(spoiled)[0],))
    with clew.open(path, key=OLD) as store:
        for _ in range(2):
            with pytest.raises(Corrupted):
                store.rotate(NEW, deep=deep)
        assert store.key_status().state == "rotating"
    for key in (OLD, NEW):
        with clew.open(path, key=key) as store:
            assert [node.text for node in store.sessions.get(good.id).path()] == list("01234")
            assert [found.position for found in store.verify().damage] == [2]
            with pytest.raises(Corrupted):
                store.rotate(NEW, deep=deep)
    with clew.open(path, key=OLD) as store:
        assert store.sessions.purge(bad.id).pending == ()
        store.rotate(NEW, deep=deep)
        assert store.key_status().state == "sealed"
    with pytest.raises(WrongKey):
        clew.open(path, key=OLD)
    assert texts(path, NEW, good.id) == list("01234")


def test_the_retired_key_opens_nothing_that_is_left(path: Path) -> None:
    """After a deep exchange no data key of before is in any file, and each is under the new key alone."""
    with clew.open(path, key=OLD) as store:
        session = store.sessions.create(title="talk")
        session.append(clew.user("look", session.attach(b"x" * 5000, mime_type="x/y")))
        with closing(sqlite3.connect(path)) as conn:
            tables = ("runs", "refs", "blobs")
            before = [row[0] for table in tables for row in conn.execute(f"SELECT wrapped_key FROM {table}")]
        assert len(before) == 3
        store.rotate(NEW, deep=True)
        files = content(path)
        assert not [one for one in before if one[-48:] in files]
    assert texts(path, NEW, session.id) == ["look"]


@pytest.mark.parametrize("table", ["runs", "refs", "blobs"])
def test_a_row_that_is_put_back_behind_the_walk(path: Path, table: str) -> None:
    """A row under the old key that appears again while keys are exchanged is readable now; so the old key stays."""
    with clew.open(path, key=OLD) as store:
        session = store.sessions.create(title="talk")
        session.append(clew.user("look", session.attach(b"x" * 5000, mime_type="x/y")))

        def keys(sql: str, *values: object) -> list[tuple[bytes, ...]]:
            with closing(sqlite3.connect(path)) as conn, conn:
                return conn.execute(sql, values).fetchall()

        ((old, mac),) = keys(f"SELECT wrapped_key, mac FROM {table} LIMIT 1")
        rekey.begin(Parts.of(store).engine, "rotate", NEW)
        rekey.run(Parts.of(store).engine)
        keys(f"UPDATE {table} SET wrapped_key = ?, mac = ?", old, mac)
        with pytest.raises(Corrupted):
            store.rotate(NEW)
        assert store.key_status().state == "rotating"
        assert store.sessions.latest().path()[0].text == "look"
