"""Purging: what goes, what stays, what the receipt says, and what becomes of it if it cannot be done at once."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.sqlite import cleaning
from clew.backends.sqlite.cleaning import Cleaner, Found
from clew.engine.engine import cleanup_mark
from clew.engine.node import node_row
from clew.engine.receipts import RECEIPTS, Failure, Kept, Receipt
from clew.errors import Conflict, Corrupted, Invalid, NotFound, ReadOnly, StorageFull, Unavailable
from clew.store.parts import Parts
from clew.store.session import Session, delete_session, row_of
from clew.store.store import Store
from clew.testing import FakeClock
from clew.upkeep import purge
from tests.reliability.tools import python

KEY, OTHER = b"k" * 32, b"o" * 32
SECRET = "xylophone-quagga-ziggurat"


@pytest.fixture(params=[None, KEY], ids=["plain", "sealed"])
def key(request: pytest.FixtureRequest) -> Any:
    """A store is plain, or sealed."""
    return request.param


@pytest.fixture
def store(path: Path, key: bytes | None) -> Iterator[Store]:
    """A store in a file, plain and sealed in turn."""
    with clew.open(path, key=key) as store:
        yield store


def talk(store: Store, title: str = "talk", *, words: str = SECRET, count: int = 5) -> Session:
    """A session in which something was said."""
    session = store.sessions.create(title=f"{title} {words}", cwd=f"/{words}", labels=[words])
    session.append([clew.user(f"{words} {number}") for number in range(count)])
    return session


def rows(path: Path) -> dict[str, int]:
    """How many rows each table has, but for what a purge itself writes."""
    with closing(sqlite3.connect(path)) as conn:
        found = {}
        for table in ("trees", "runs", "nodes", "labels", "blobs", "chunks", "uses"):
            (found[table],) = conn.execute(f"SELECT count(*) FROM {table}").fetchone()
        for table in ("refs", "log"):
            receipts = "SELECT ref FROM refs WHERE kind IN ('receipts', 'audit', 'purged')"
            column = "ref" if table == "refs" else "pos >> 24"
            (found[table],) = conn.execute(
                f"SELECT count(*) FROM {table} WHERE {column} NOT IN ({receipts})"
            ).fetchone()
    return found


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Somebody reads meanwhile, and so keeps the write-ahead log from being emptied."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("BEGIN")
        conn.execute("SELECT count(*) FROM nodes").fetchone()
        yield


def traces(path: Path, words: str = SECRET) -> list[str]:
    """The files in which a word is found, in any of its letters' cases. The search index has each by itself."""
    found = [word.encode().lower() for word in words.split("-")]
    return [file.name for file in path.parent.iterdir() if any(word in file.read_bytes().lower() for word in found)]


# -- what goes


def test_everything_of_a_session_goes(store: Store, path: Path) -> None:
    """Messages, branches, log, labels, attachments, subagents and their trees go; the receipt counts them."""
    other = talk(store, "other", words="harmless")
    before = rows(path)
    session = talk(store)
    session.append(clew.user("see", session.attach(SECRET.encode() * 50, mime_type="image/png")))
    session.log.append([SECRET.encode()] * 3)
    session.rewind(to=session.path()[2].id)
    session.append(clew.user(SECRET))
    session.compact(clew.system(SECRET))
    trace = store.sessions.create(agent="a", owner=session)
    trace.append([clew.user(SECRET), clew.user("two")])
    trace.append(clew.user("see", trace.attach(b"other", mime_type="image/png")))
    assert store.search(SECRET)
    with closing(sqlite3.connect(path)) as conn:
        sizes = conn.execute("SELECT sum(length(body)), count(*) FROM nodes").fetchone()
    receipt = store.sessions.purge(session.id)
    with closing(sqlite3.connect(path)) as conn:
        left = conn.execute("SELECT sum(length(body)), count(*) FROM nodes").fetchone()
    assert rows(path) == before
    assert (receipt.bytes, receipt.messages) == (sizes[0] - left[0], sizes[1] - left[1])
    assert (receipt.messages, receipt.blobs, receipt.sessions) == (11, 2, (session.id,))
    assert (receipt.failures, receipt.kept, receipt.pending) == ((), (), ())
    assert receipt.finished_at is not None
    assert receipt.started_at <= receipt.finished_at
    assert traces(path) == []
    assert store.search(SECRET) == []
    assert other.path()[0].text == "harmless 0"
    assert store.verify().damage == []
    assert cleaning.clean(str(path), write=False).stale == 0


def test_several_go_together(store: Store, path: Path) -> None:
    """One receipt for all of them: named by id or handle, each once, in the trash or not."""
    sessions = [talk(store, str(number)) for number in range(4)]
    sessions[1].trash()
    names = [sessions[0].id, sessions[0].handle, sessions[1].id, sessions[2].handle, sessions[0].id]
    receipt = store.sessions.purge(names, reason="workspace-reset")
    assert receipt.sessions == tuple(one.id for one in sessions[:3])
    assert (receipt.messages, receipt.failures, receipt.reason) == (15, (), "workspace-reset")
    assert store.sessions.list().items == [sessions[3]]
    assert store.sessions.trashed().items == []
    assert len(store.sessions.receipts()) == 1


def test_what_is_in_the_trash_goes(path: Path, key: bytes | None) -> None:
    """All of it, or what went there before a moment; the rest stays."""
    clock = FakeClock()
    with clew.open(path, key=key, clock=clock) as store:
        kept, old, new = (talk(store, name) for name in ("kept", "old", "new"))
        trace = store.sessions.create(agent="a", owner=old)
        old.trash()
        clock.advance(timedelta(days=2))
        new.trash()
        moment = new.trashed_at
        assert store.sessions.purge(trashed=True, before=moment).sessions == (old.id,)
        assert store.sessions.purge(trashed=True).sessions == (new.id,)
        assert store.sessions.purge(trashed=True).sessions == ()
        assert store.sessions.list().items == [kept]
        with pytest.raises(NotFound):
            store.sessions.get(trace.id)


def test_everything_goes(path: Path, key: bytes | None) -> None:
    """All sessions of a workspace, or those last active before a moment; those of other workspaces stay."""
    clock = FakeClock()
    with clew.open(path, key=key, clock=clock) as store, clew.open(path, key=key, workspace="other") as other:
        theirs = talk(other, "theirs")
        old, new, gone = (talk(store, name) for name in ("old", "new", "gone"))
        gone.trash()
        clock.advance(timedelta(days=2))
        new.append(clew.user("more"))
        assert set(store.sessions.purge(everything=True, before=new.updated_at).sessions) == {old.id, gone.id}
        assert store.sessions.purge(everything=True).sessions == (new.id,)
        assert store.sessions.list().items == []
        assert other.sessions.list().items == [theirs]
        assert len(store.sessions.receipts()) == 2
        assert other.sessions.receipts() == []


def test_what_others_share_stays(store: Store, path: Path) -> None:
    """Messages that a fork needs stay and the receipt says who needs them; the end that was the session's own goes."""
    session = talk(store)
    session.append(clew.user("see", session.attach(b"picture", mime_type="image/png")))
    fork = session.fork(at=session.path()[2].id, title="fork")
    fork.append(clew.user("mine"))
    receipt = store.sessions.purge(session.id)
    assert (receipt.messages, receipt.blobs) == (3, 1)
    assert receipt.kept == (Kept(session.id, 3, (fork.id,)),)
    assert [node.text for node in fork.path()] == [f"{SECRET} 0", f"{SECRET} 1", f"{SECRET} 2", "mine"]
    fork.append(clew.user("more"))
    assert store.verify().damage == []
    last = store.sessions.purge(fork.id)
    assert (last.messages, last.kept) == (5, ())
    assert traces(path) == []


def test_what_goes_together_keeps_nothing_for_each_other(store: Store) -> None:
    """The receipt names those alone that need something when all is done, also when it is read again."""
    session = talk(store)
    fork, other = session.fork(), session.fork()
    receipt = store.sessions.purge([session.id, fork.id])
    assert [one.needed_by for one in receipt.kept] == [(other.id,)] * 2
    third = other.fork()
    assert store.sessions.purge(everything=True, dry_run=True).kept == ()
    last = store.sessions.purge(everything=True)
    assert ({*last.sessions}, last.messages, last.kept) == ({other.id, third.id}, 5, ())
    assert store.sessions.receipts() == [receipt, last]


def test_a_fork_at_the_end_keeps_all(store: Store) -> None:
    """Nothing goes but the session itself; and none of it counts as gone."""
    session = talk(store)
    fork = session.fork()
    receipt = store.sessions.purge(session.id)
    assert (receipt.messages, receipt.bytes, receipt.kept) == (0, 0, (Kept(session.id, 5, (fork.id,)),))
    assert len(fork.path()) == 5


def test_attachments_that_nothing_shows_go(store: Store, path: Path) -> None:
    """An attachment that no message shows goes with a purge, even if a fork keeps the tree; what is shown stays."""
    session = talk(store, words="harmless")
    shown = session.attach(b"shown", mime_type="image/png")
    session.append(clew.user("see", shown))
    fork = session.fork()
    session.blobs.put(SECRET.encode() * 40)
    upload = iter([b"a" * 300_000, b"b"])
    later = fork.blobs.put(piece for piece in upload)

    def interrupted() -> Iterator[bytes]:
        yield b"c" * 5_000_000
        receipt = store.sessions.purge(session.id)
        assert (receipt.blobs, receipt.messages) == (2, 0)
        yield b"d"

    whole = fork.blobs.put(interrupted())
    assert fork.blobs.get(whole.digest)[-1:] == b"d"
    assert fork.blobs.get(shown.blob or "") == b"shown"
    with pytest.raises(NotFound):
        fork.blobs.get(later.digest)
    assert traces(path) == []
    assert store.verify().ok


def test_what_stays_of_a_run_gets_another_key(path: Path) -> None:
    """An older copy of the file has the purged end; the data key that opens it is nowhere in the store any more."""
    with clew.open(path, key=KEY) as store:
        session = talk(store, count=600)
        fork = session.fork(at=session.path()[299].id)
        run = node_row(session.path()[0])[0] >> 24
        with closing(sqlite3.connect(path)) as conn:
            keys = "SELECT wrapped_key FROM runs WHERE run = ?"
            (old,) = conn.execute(keys, (run,)).fetchone()
            bodies = conn.execute("SELECT body FROM nodes WHERE pos >> 24 = ?", (run,)).fetchall()
            store.sessions.purge(session.id)
            (new,) = conn.execute(keys, (run,)).fetchone()
            left = conn.execute("SELECT body FROM nodes WHERE pos >> 24 = ?", (run,)).fetchall()
        assert (len(bodies), len(left)) == (600, 300)
        assert old[9:17] != new[9:17]
        assert {row[0][1:9] for row in left} == {new[9:17]}
        assert not {row[0] for row in bodies} & {row[0] for row in left}
        assert [node.text for node in fork.path()][299] == f"{SECRET} 299"
        assert old[29:61] not in path.read_bytes()
        assert store.verify().damage == []


def spoil(path: Path, statement: str, *values: object) -> None:
    """Changes rows behind the store's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("PRAGMA foreign_keys = OFF")
        assert conn.execute(statement, values).rowcount > 0


def one_row(path: Path, query: str) -> tuple[bytes]:
    """The first row of an answer."""
    with closing(sqlite3.connect(path)) as conn:
        return conn.execute(query).fetchone()  # type: ignore[no-any-return]


def went_on(session: Session, nodes: list[clew.Node]) -> None:
    session.append(clew.user("more"))


def compacted(session: Session, nodes: list[clew.Node]) -> None:
    session.compact(clew.user("in short"))


def went_back(session: Session, nodes: list[clew.Node]) -> None:
    session.rewind(to=nodes[0].id)


def emptied(session: Session, nodes: list[clew.Node]) -> None:
    session.rewind(to=None)


def emptied_again(session: Session, nodes: list[clew.Node]) -> None:
    session.compact(clew.user("in short"))
    session.compact(clew.user("in shorter"))
    session.rewind(to=None)


@pytest.mark.parametrize("then", [went_on, compacted, went_back, emptied, emptied_again])
def test_what_stays_is_told_wherever_the_session_has_gone(store: Store, then: Callable[..., None]) -> None:
    """A fork has what the session has compacted, or gone back from: that is no longer on its path, and stays all the
    same.
    """
    session = talk(store)
    nodes = session.path()
    fork = session.fork()
    then(session, nodes)
    receipt = store.sessions.purge(session.id)
    assert receipt.kept == (Kept(session.id, 5, (fork.id,)),)
    assert len(fork.path()) == 5
    assert store.sessions.receipts()[0].kept == receipt.kept


def test_what_stays_of_a_trace_is_told(store: Store) -> None:
    """A fork of a subagent's trace keeps what went with the owner otherwise."""
    session = talk(store)
    trace = store.sessions.create(agent="searcher", owner=session)
    trace.append([clew.user("look"), clew.assistant("found")])
    fork = trace.fork()
    assert store.sessions.purge(session.id).kept == (Kept(session.id, 2, (fork.id,)),)


SHARED = {
    "a body": "UPDATE nodes SET body = x'00' WHERE pos & 16777215 = 1",
    "a row": "UPDATE nodes SET facts = CAST(iif(substr(facts, 1, 1) = x'00', x'01', x'00') || substr(facts, 2) AS BLOB)"
    " WHERE pos & 16777215 = 1",
    "a run": "UPDATE runs SET carried = carried + 1",
    "a missing message": "DELETE FROM nodes WHERE pos & 16777215 = 1",
    "the quarantine": "UPDATE quarantine SET why = 'other'",
}
"""What may be wrong with messages that a session shares with a fork."""


@pytest.mark.parametrize("what", SHARED)
def test_a_damaged_past_keeps_no_session_from_going(path: Path, key: bytes | None, what: str) -> None:
    """What a session shares with a fork may be damaged: its own messages go all the same, and the damage stays told."""
    with clew.open(path, key=key) as store:
        session = talk(store)
        nodes = session.path()
        fork = session.fork(at=nodes[2].id)
        if what == "the quarantine":
            spoil(path, "UPDATE nodes SET body = x'00' WHERE pos & 16777215 = 0")
            store.quarantine.sweep(force=True)
        (facts,) = one_row(path, "SELECT facts FROM nodes WHERE pos & 16777215 = 1")
        spoil(path, SHARED[what])
        receipt = store.sessions.purge(session.id)
        assert (receipt.sessions, receipt.messages, receipt.pending) == ((session.id,), 2, ())
        kept_key = key is not None and what != "a run"
        assert [one.session for one in receipt.failures] == [session.id] * kept_key
        assert not store.verify().ok
        if what == "a row":  # put right, it can be read again: nothing that the fork needs was given up
            spoil(path, "UPDATE nodes SET facts = ? WHERE pos & 16777215 = 1", facts)
            assert [node.text for node in fork.path()] == [f"{SECRET} {number}" for number in range(3)]
            assert store.verify().ok
        assert fork.path()[0].id == nodes[0].id if what not in ("a run", "a missing message") else True


# -- what does not


def test_one_that_is_held_fails_alone(store: Store) -> None:
    """It is named in the receipt with the reason, and the others go; when all fail nothing was purged."""
    held, free = talk(store, "held"), talk(store, "free")
    held.hold("Audit")
    receipt = store.sessions.purge([held.id, free.id])
    assert receipt.sessions == (free.id,)
    assert receipt.failures == (Failure(held.id, f"session {held.id} is held"),)
    assert SECRET not in str(receipt)
    assert store.sessions.receipts() == [receipt]
    nothing = store.sessions.purge(held.id)
    assert (nothing.sessions, len(nothing.failures)) == ((), 1)
    assert len(held.path()) == 5
    assert store.sessions.receipts() == [receipt], "what purged nothing leaves no receipt"


def test_one_that_is_damaged_fails_alone(store: Store, path: Path) -> None:
    """A session whose row was changed is not deleted on its word; the others go."""
    bad, good = talk(store, "bad"), talk(store, "good")
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("UPDATE refs SET version = version + 1 WHERE ref = ?", (row_of(bad).ref,))
        conn.commit()
    receipt = store.sessions.purge([bad.id, good.id])
    assert receipt.sessions == (good.id,)
    assert "damaged" in receipt.failures[0].error


DEEDS: dict[str, Callable[[Store, Session], object]] = {
    "delete": lambda store, held: delete_session(held),
    "trash": lambda store, held: held.trash(),
    "purge": lambda store, held: _raised(store.sessions.purge(held.id)),
    "purge of what is damaged": lambda store, held: _raised(
        store.sessions.purge(held.id, reason="corruption-detected")
    ),
    "delete of a subagent": lambda store, held: delete_session(held.subagents()[0]),
    "delete of messages": lambda store, held: store.nodes.delete(held.path()[1].id, recursive=True),
}


def _raised(receipt: Receipt) -> None:
    """A failure in a receipt, as an error."""
    assert receipt.sessions == ()
    raise Corrupted("a session", receipt.failures[0].error)


def test_a_session_purges_itself(store: Store, path: Path) -> None:
    """A dry run changes nothing, a hold is a failure in the receipt, and a purged session is not found again."""
    session = talk(store)
    assert session.purge(dry_run=True).messages == 5
    session.hold("Audit")
    assert session.purge().failures[0].session == session.id
    session.release().trash()
    receipt = session.purge(reason="workspace-reset")
    assert (receipt.reason, receipt.sessions, receipt.messages) == ("workspace-reset", (session.id,), 5)
    assert traces(path) == []
    with pytest.raises(NotFound):
        session.purge()


@pytest.mark.parametrize("deed", DEEDS)
def test_a_hold_that_someone_took_away(store: Store, path: Path, deed: str) -> None:
    """The column says that it is not held, and its data says otherwise: that is damage, and nothing is deleted."""
    held = talk(store)
    store.sessions.create(agent="a", owner=held).append(clew.user("trace"))
    held.hold("Audit")
    spoil(path, "UPDATE refs SET hold = 0 WHERE ref = ?", row_of(held).ref)
    with pytest.raises(Corrupted, match="held"):
        DEEDS[deed](store, store.sessions.get(held.id))
    spoil(path, "UPDATE refs SET hold = 1 WHERE ref = ?", row_of(held).ref)
    assert len(held.path()) == 5
    assert store.verify().ok
    with pytest.raises(Conflict):
        delete_session(held)


@pytest.mark.parametrize("change", ["data = x'00'", "version = version + 1", "created_at = created_at + 1"])
def test_a_damaged_session_goes_when_that_is_known(store: Store, path: Path, change: str) -> None:
    """It is not deleted on its own word; but it is, once someone says that it is damaged."""
    session = talk(store)
    spoil(path, f"UPDATE refs SET {change} WHERE ref = ?", row_of(session).ref)
    with pytest.raises(Corrupted):
        delete_session(store.sessions.get(session.id))
    assert store.sessions.purge(session.id).sessions == ()
    receipt = store.sessions.purge(session.id, reason="corruption-detected")
    assert (receipt.sessions, receipt.messages, receipt.failures, receipt.pending) == ((session.id,), 5, (), ())
    assert traces(path) == []
    assert store.verify().ok


def test_damage_is_not_signed_anew(path: Path, key: bytes | None) -> None:
    """A run that someone has changed stays damaged when its end is purged: it must show, not get a new signature."""
    with clew.open(path, key=key) as store:
        session = talk(store)
        fork = session.fork(at=session.path()[2].id)
        with closing(sqlite3.connect(path)) as conn:
            conn.execute("UPDATE runs SET carried = carried + 1")
            conn.commit()
        store.sessions.purge(session.id)
        with pytest.raises(Corrupted):
            fork.path()
        assert any(one.what == "run" for one in store.verify().damage)


def test_a_dry_run_changes_nothing(store: Store, path: Path) -> None:
    """It says what would go, what would stay and what would fail; not a row is changed, and no receipt is kept."""
    session, held = talk(store), talk(store, "held")
    held.hold()
    fork = session.fork(at=session.path()[2].id)
    with closing(sqlite3.connect(path)) as conn:
        before = list(conn.iterdump())
        version = conn.execute("PRAGMA data_version").fetchone()
        dry = store.sessions.purge([session.id, held.id], dry_run=True)
        assert conn.execute("PRAGMA data_version").fetchone() == version
        assert list(conn.iterdump()) == before
    assert store.sessions.receipts() == []
    assert not Parts.of(store).engine.cleanup.pending
    real = store.sessions.purge([session.id, held.id])
    assert (dry.pending, dry.finished_at) == ((), None)
    assert dry._replace(id="", started_at=real.started_at, finished_at=None) == real._replace(id="", finished_at=None)
    assert real.kept[0].needed_by == (fork.id,)


def test_what_cannot_be_asked_for(store: Store) -> None:
    """A purge names sessions, or the trash, or everything; a reason that is known; and is no part of a transaction."""
    session = talk(store)
    now = session.updated_at
    wrong: list[dict[str, Any]] = [
        {}, {"trashed": True, "everything": True}, {"keys": session.id, "trashed": True},
        {"keys": session.id, "before": now}, {"keys": session.id, "reason": "because"},
        {"trashed": True, "before": "yesterday"},
    ]  # fmt: skip
    for settings in wrong:
        with pytest.raises(Invalid):
            store.sessions.purge(**settings)
    with pytest.raises(Invalid, match="transaction"), store.transaction():
        store.sessions.purge(session.id)
    with pytest.raises(NotFound):
        store.sessions.purge([session.id, "01890a5d-ac96-774b-bcce-b302099a8057"])
    assert len(session.path()) == 5
    assert store.sessions.receipts() == []


# -- receipts


def test_receipts_survive(path: Path, key: bytes | None) -> None:
    """They are there when the store is opened again, oldest first, also after keys were exchanged."""
    with clew.open(path, key=key) as store:
        made = [store.sessions.purge(talk(store, str(number)).id) for number in range(3)]
        assert store.sessions.receipts() == made
        if key is not None:
            store.rotate(OTHER, deep=True)
            assert store.sessions.receipts() == made
    with clew.open(path, key=None if key is None else OTHER) as store:
        assert store.sessions.receipts() == made
        assert store.sessions.list().items == []
        assert store.verify().damage == []


def test_a_receipt_has_no_content(store: Store, path: Path) -> None:
    """Neither it nor what is stored of it has a word of what was said."""
    receipt = store.sessions.purge(talk(store).id)
    assert SECRET not in str(receipt)
    (row,) = [row for row in Parts.of(store).engine.read(lambda tx: tx.refs_after(0, 9)) if row.kind == RECEIPTS]
    stored = [entry.data for entry in clew.engine.log.Log(Parts.of(store).engine, lambda: row).read()]
    assert stored
    assert all(SECRET.encode() not in one for one in stored)


def test_damaged_receipts_are_told(path: Path) -> None:
    """A receipt that someone has changed is damage."""
    with clew.open(path, key=KEY) as store:
        store.sessions.purge(talk(store).id)
        with closing(sqlite3.connect(path)) as conn:
            conn.execute("UPDATE log SET created_at = created_at + 1")
            conn.commit()
        with pytest.raises(Corrupted):
            store.sessions.receipts()


# -- not at once


def test_a_reader_in_the_way(store: Store, path: Path) -> None:
    """The rows are gone, the receipt says what is pending; once nobody reads, the next call finishes it."""
    session = talk(store)
    with reading(path):
        receipt = store.sessions.purge(session.id)
        assert (receipt.pending, receipt.finished_at) == (("wal",), None)
        assert receipt.sessions == (session.id,)
        assert store.sessions.receipts() == [receipt]
        assert Parts.of(store).engine.cleanup.pending
        assert not Parts.of(store).purger.finish()
        assert not Parts.of(store).purger.finish()
        assert store.sessions.receipts() == [receipt]
        sizes = Parts.of(store).engine.read(lambda tx: tx.maintenance.sizes())
        assert not Parts.of(store).purger.finish()
        assert Parts.of(store).engine.read(lambda tx: tx.maintenance.sizes()) == sizes, (
            "asking again leaves nothing behind"
        )
        with pytest.raises(NotFound):
            store.sessions.get(session.id)
    assert Parts.of(store).purger.finish()
    (done,) = store.sessions.receipts()
    assert (done.pending, done.id, done.messages) == ((), receipt.id, 5)
    assert done.finished_at is not None
    assert traces(path) == []


def test_a_later_write_finishes_it(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes next, after a while, finishes it by the way; then writing is as it was."""
    session, other = talk(store), talk(store, words="harmless")
    with reading(path):
        assert store.sessions.purge(session.id).pending
        monkeypatch.setattr("clew.engine.engine.RETRY_SECONDS", 0.0)
        other.append(clew.user("one"))
        assert Parts.of(store).engine.cleanup.pending
        with store.transaction():
            other.append(clew.user("in a transaction nothing is cleared"))
    assert store.sessions.receipts()[0].pending
    other.append(clew.user("two"))
    assert not Parts.of(store).engine.cleanup.pending
    assert store.sessions.receipts()[0].pending == ()
    assert traces(path) == []
    assert [node.text for node in other.path()][-3::2] == ["one", "two"]


def test_not_before_a_while(store: Store, path: Path) -> None:
    """It is not tried with every write: that would make each of them wait."""
    session, other = talk(store), talk(store, words="harmless")
    with reading(path):
        assert store.sessions.purge(session.id).pending
    other.append(clew.user("one"))
    assert Parts.of(store).engine.cleanup.pending
    assert store.sessions.receipts()[0].pending


def test_closing_finishes_it(path: Path, key: bytes | None) -> None:
    """What is left is done at the close, if nobody is in the way then."""
    with clew.open(path, key=key) as store:
        with reading(path):
            assert store.sessions.purge(talk(store).id).pending
    assert traces(path) == []
    with clew.open(path, key=key) as store:
        assert store.sessions.receipts()[0].pending == ()


def test_opening_again_finishes_it(path: Path, key: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it could not be done before the close, who opens the store next owes it, and the mark says so until then."""
    with clew.open(path, key=key) as store:
        session = talk(store)
        with reading(path):
            assert store.sessions.purge(session.id).pending
            store.close()
    with clew.open(path, key=key) as store:
        assert Parts.of(store).engine.cleanup.pending
        monkeypatch.setattr("clew.engine.engine.RETRY_SECONDS", 0.0)
        store.sessions.create(title="harmless")
        assert not Parts.of(store).engine.cleanup.pending
        assert store.sessions.receipts()[0].pending == ()
        assert Parts.of(store).engine.read(cleanup_mark) is None
    assert traces(path) == []


def test_killed_in_the_middle(path: Path, key: bytes | None) -> None:
    """Killed between the rows and the rest, the next one to open the store clears it, and the receipt is finished."""
    with clew.open(path, key=key) as store:
        session = talk(store)
    code = """
import os, sys, clew
from clew.upkeep.purge import Purger
Purger._wipe = lambda self: os.kill(os.getpid(), 9)
store = clew.open(sys.argv[1], key=bytes.fromhex(sys.argv[2]) or None)
store.sessions.purge(sys.argv[3])
"""
    process = python(code, path, "" if key is None else key.hex(), session.id)
    assert process.wait(60) == -9
    process.communicate()
    with clew.open(path, key=key) as store:
        (receipt,) = store.sessions.receipts()
        assert (receipt.pending, receipt.sessions, receipt.messages) == (("rows",), (session.id,), 5)
        assert Parts.of(store).engine.cleanup.pending
    with clew.open(path, key=key) as store:
        assert not Parts.of(store).engine.cleanup.pending
        (receipt,) = store.sessions.receipts()
        assert receipt.pending == ()
        assert receipt.finished_at is not None
    assert traces(path) == []


def test_a_file_that_cannot_be_cleared(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the file or the index cannot be looked at, the receipt says so, and the purge does not fail for it."""
    session = talk(store)
    assert store.search(SECRET)

    def fails(*_: Any, **__: Any) -> None:
        raise Unavailable("no")

    monkeypatch.setattr("clew.backends.sqlite.cleaning.clean", fails)
    monkeypatch.setattr("clew.store.search.index.Index.shred", lambda self: False)
    receipt = store.sessions.purge(session.id)
    assert receipt.pending == ("search", "file")
    monkeypatch.undo()
    assert Parts.of(store).purger.finish()
    assert store.sessions.receipts()[0].pending == ()
    assert traces(path) == []


def test_an_index_whose_removal_was_cut_short(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If only one of the index's files could be removed, the next purge still finds the others."""
    unlink, removed = os.unlink, list[str]()

    def once(name: str) -> None:
        if removed:
            raise PermissionError(errno.EACCES, "not now")
        removed.append(name)
        unlink(name)

    with clew.open(path) as store:
        session = talk(store)
        assert store.search(SECRET)
        wal = Path(f"{path}-search-wal")
        kept = wal.read_bytes()
        assert SECRET[:9].encode() in kept
        Parts.of(store).search.close()
        wal.write_bytes(kept)  # as a process that is killed leaves it
        monkeypatch.setattr(os, "unlink", once)
        with pytest.raises(ReadOnly):
            Parts.of(store).search.remove()
        monkeypatch.undo()
        assert removed
        store.sessions.purge(session.id)
    assert traces(path) == []


def test_what_is_written_while_a_purge_looks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers do not wait while a purge looks for traces, and what they leave behind meanwhile is cleared as well."""
    chance, look, deleted = random.Random(3), Cleaner.look, list[str]()

    def meanwhile(self: Cleaner) -> Found:
        found = look(self)
        sessions = [other.sessions.create() for _ in range(60)]
        for turn in range(6):
            for number in chance.sample(range(60), 40):
                sessions[number].append(clew.user(f"{turn}zanzibar{number} " * chance.randint(1, 60)))
        for number in range(0, 60, 2):
            deleted.extend(f"{turn}zanzibar{number} " for turn in range(6))
            delete_session(sessions[number])
        return found

    with clew.open(path) as store, clew.open(path) as other:
        gone = talk(store)
        monkeypatch.setattr(Cleaner, "look", meanwhile)
        assert store.sessions.purge(gone.id).pending == ()
        assert store.verify().ok
    left = path.read_bytes()
    assert [text for text in deleted if text.encode() in left] == []


def after_wiping(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Calls `act` once the next purge has cleared the files, before it ends."""
    wipe = purge.Purger._wipe

    def wipe_and_act(self: purge.Purger) -> tuple[str, ...]:
        pending = wipe(self)
        monkeypatch.setattr(purge.Purger, "_wipe", wipe)
        act()
        return pending

    monkeypatch.setattr(purge.Purger, "_wipe", wipe_and_act)


def test_another_purge_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process deletes while this one clears is not taken for cleared: its mark stays until it is."""
    with clew.open(path) as here, clew.open(path) as there:
        mine, yours = talk(here), talk(there, "yours")

        def purge_there() -> None:
            with monkeypatch.context() as patch:
                patch.setattr(
                    purge.Purger, "_clear", lambda self, entries, failures: entries
                )  # as if it were killed there
                assert there.sessions.purge(yours.id).pending == ("rows",)

        after_wiping(monkeypatch, purge_there)
        assert here.sessions.purge(mine.id).pending == ()
        assert Parts.of(here).engine.read(cleanup_mark) is not None
        Parts.of(there).engine.cleanup.cancel()  # as if it were killed
    with clew.open(path) as store:
        assert Parts.of(store).engine.cleanup.pending
        assert Parts.of(store).purger.finish()
        assert [receipt.pending for receipt in store.sessions.receipts()] == [(), ()]
    assert traces(path) == []


def test_other_keys_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge that cannot end because the key was rotated meanwhile tells what it did, and that it has not ended."""
    with clew.open(path, key=KEY) as here, clew.open(path, key=KEY) as there:
        session = talk(here)
        after_wiping(monkeypatch, lambda: there.rotate(OTHER))
        receipt = here.sessions.purge(session.id)
        assert (receipt.sessions, receipt.failures, receipt.pending) == ((session.id,), (), ("rows",))
    with clew.open(path, key=OTHER) as store:
        assert Parts.of(store).purger.finish()
        assert [(one.id, one.pending) for one in store.sessions.receipts()] == [(receipt.id, ())]


def test_a_receipt_of_another_workspace(path: Path) -> None:
    """What was cleared by a process of another workspace is cleared for this one's receipts, too."""
    with clew.open(path, workspace="a") as here, clew.open(path, workspace="b") as there:
        session = talk(here)
        with reading(path):
            assert here.sessions.purge(session.id).pending
        assert Parts.of(there).purger.finish()
        receipt = here.sessions.receipts()[0]
        assert receipt.pending == ()
        assert receipt.finished_at is not None
        assert there.sessions.receipts() == []
        assert Parts.of(here).purger.finish()
        assert here.sessions.receipts() == [receipt]
        spoil(path, "UPDATE log SET body = x'00'")  # and if those are damaged, that concerns nobody else
        assert there.sessions.purge(talk(there).id).pending == ()


def test_a_receipt_whose_purge_was_cut_short_is_finished_by_the_next(path: Path) -> None:
    """Whoever clears the files next takes the mark away, so no later open would finish the one before."""
    with clew.open(path) as here, clew.open(path) as there:
        session, other = talk(here), talk(here, "other")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(purge.Purger, "_clear", interrupted)
            with pytest.raises(KeyboardInterrupt):
                here.sessions.purge(session.id)
        assert [one.pending for one in there.sessions.receipts()] == [("rows",)]
        assert there.sessions.purge(other.id).pending == ()
        first, second = there.sessions.receipts()
        assert (first.sessions, first.messages, first.pending) == ((session.id,), 5, ())
        assert first.finished_at is not None
        assert second.sessions == (other.id,)


def test_names_are_text(store: Store) -> None:
    """Whatever else is given for an id is told as that."""
    for odd in (5, [5], [None], b"x"):
        with pytest.raises(Invalid):
            store.sessions.purge(odd)  # type: ignore[arg-type]


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_full_disk(path: Path, key: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no space to delete in, the search index makes room first; if that is not enough, it fails."""
    with clew.open(path, key=key) as store:
        session, other = talk(store), talk(store, "other")
        assert store.search(SECRET)
        write, full = Parts.of(store).engine.write, 1
        removed: list[str] = []

        def cramped(work: Callable[..., Any], settle: Any = None) -> Any:
            nonlocal full
            if full:
                full -= 1
                raise StorageFull("no space")
            return write(work, settle)

        monkeypatch.setattr(Parts.of(store).engine, "write", cramped)
        index = Parts.of(store).search.index
        remove = index.remove

        def noted() -> None:
            removed.append("index")
            remove()

        monkeypatch.setattr(index, "remove", noted)
        assert store.sessions.purge(session.id).sessions == (session.id,)
        assert removed == ["index"]
        full = 2
        receipt = store.sessions.purge(other.id)
        assert (receipt.sessions, receipt.failures) == ((), (Failure(other.id, "no space"),))
        monkeypatch.undo()
        assert len(other.path()) == 5


def test_the_file_becomes_smaller(store: Store, path: Path) -> None:
    """What a large session took of the disk is given back."""
    session = talk(store)
    session.append([clew.user("x" * 5000) for _ in range(200)])
    Parts.of(store).engine.backend.clean()
    before = path.stat().st_size
    store.sessions.purge(session.id)
    assert path.stat().st_size < before - 900_000


def test_in_memory(key: bytes | None) -> None:
    """A store without a file has nothing to clear but its rows."""
    with clew.open(":memory:", key=key) as store:
        session = talk(store)
        assert store.search(SECRET)
        receipt = store.sessions.purge(session.id)
        assert (receipt.messages, receipt.pending) == (5, ())
        assert store.search(SECRET) == []
        assert store.sessions.receipts() == [receipt]


def test_errors_have_no_content(store: Store) -> None:
    """Whatever fails, the receipt shows ids and reasons, not words."""
    session = talk(store)
    session.hold(SECRET)
    receipt = store.sessions.purge(session.id)
    assert receipt.failures
    assert SECRET not in str(receipt)
