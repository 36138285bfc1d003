"""Sealing, unsealing and exchanging keys: cut short anywhere, and while others have the store open."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, cast

import anyio
import pytest

import clew
import clew.aio
from clew import keys
from clew.backends.sqlite.tx import SQLiteTx
from clew.engine.node import run_info
from clew.engine.sealing.envelope import blob_owner, ref_owner, run_owner
from clew.engine.sealing.header import new_store_key
from clew.engine.sealing.sealed import SealedSeal
from clew.errors import Conflict, Corrupted, Invalid, NotFound, Sealed, WrongKey
from clew.store.parts import Parts
from clew.store.store import Store
from clew.upkeep import rekey
from clew.upkeep.rekey import Kind
from tests.reliability import sample

K1, K2, K3 = (letter * 32 for letter in (b"1", b"2", b"3"))
KINDS: tuple[Kind, ...] = ("seal", "unseal", "rotate", "deep")
BEFORE: dict[str, bytes | None] = {"seal": None, "unseal": K1, "rotate": K1, "deep": K1}
AFTER: dict[str, bytes | None] = {"seal": K2, "unseal": None, "rotate": K2, "deep": K2}
each_kind = pytest.mark.parametrize("kind", KINDS)


def do(store: Store, kind: Kind, **options: Any) -> None:
    """What a person asks for."""
    match kind:
        case "seal":
            store.seal(K2, **options)
        case "unseal":
            store.unseal(**options)
        case _:
            store.rotate(K2, deep=kind == "deep", **options)


def begin(store: Store, kind: Kind) -> None:
    """The first step of it."""
    rekey.begin(Parts.of(store).engine, kind, None if kind == "unseal" else K2)


def opened(path: Path, key: keys.Key | None) -> Store:
    """The store, where waiting for the disk is not the matter."""
    return clew.open(path, key=key, durability="relaxed")


class Template(NamedTuple):
    """The file of a store, made once, and what is read from it."""

    file: bytes
    read: dict[str, Any]


@cache
def large_store(key: bytes | None) -> Template:
    """A store with much of everything."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "chats.db"
        with clew.open(path, key=key, durability="relaxed", clock=sample.clock(), ids=sample.id_source()) as store:
            sample.fill(store, words=4, blob=600_000)
            read = sample.readings(store)
        return Template(path.read_bytes(), read)


@cache
def small_store(key: bytes | None) -> bytes:
    """The file of a store with a little of everything."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "chats.db"
        with opened(path, key) as store:
            session = store.sessions.create(title="talk", cwd="/src", labels=["bug"])
            session.append([clew.user("one"), clew.assistant("two")])
            session.append(clew.user("look", session.attach(b"picture", mime_type="image/png")))
            session.log.append(b"started")
        return path.read_bytes()


def made(path: Path, kind: Kind) -> dict[str, Any]:
    """Makes a large store for a walk of this kind, and returns what is read from it."""
    template = large_store(BEFORE[kind])
    path.write_bytes(template.file)
    return template.read


def small(path: Path, kind: Kind) -> None:
    """Makes a small store for a walk of this kind."""
    path.write_bytes(small_store(BEFORE[kind]))


def check_small(store: Store) -> None:
    """All of it is there."""
    session = store.sessions.latest("/src")
    assert (session.title, session.labels) == ("talk", ("bug",))
    assert [node.text for node in session.path()[:3]] == ["one", "two", "look"]
    (block,) = [block for block in session.path()[2].message.blocks if isinstance(block, clew.Media)]
    assert session.blobs.get(block.blob or "") == b"picture"
    assert [entry.data for entry in session.log.read()][:1] == [b"started"]
    assert store.sessions.list(label="bug").items == [session]
    assert store.verify().damage == []


# -- from one end to the other


@each_kind
def test_everything_is_there_after_it(path: Path, kind: Kind) -> None:
    """Everything reads as before, for this process and the next; only the new key opens it; progress ends."""
    before = made(path, kind)
    steps: list[tuple[int, int]] = []
    with opened(path, BEFORE[kind]) as store:
        rekey.begin(Parts.of(store).engine, kind, None if kind == "unseal" else K2)
        rekey.run(Parts.of(store).engine, lambda done, total: steps.append((done, total)))
        do(store, kind)
        assert sample.readings(store) == before
        assert store.verify().damage == []
    assert steps[-1][0] == steps[-1][1] > 20
    assert steps == sorted(steps)
    with opened(path, AFTER[kind]) as store:
        assert sample.readings(store) == before
        status = store.key_status()
    assert status.state == ("plain" if kind == "unseal" else "sealed")
    assert status.key_ids == (() if kind == "unseal" else (keys.key_id(K2).hex(),))
    assert (status.done, status.total) == (0, 0)
    if kind != "unseal":
        for key, error in ((K1, WrongKey), (None, Sealed)):
            with pytest.raises(error):
                opened(path, key)
    refused_headers = {"rekey", "unclean", "secrets" if kind == "unseal" else "lookup_key"}
    with closing(sqlite3.connect(path)) as conn:
        assert not refused_headers & {row[0] for row in conn.execute("SELECT name FROM header")}


@each_kind
def test_rows_are_kept_the_new_way(path: Path, kind: Kind) -> None:
    """Afterwards every data key is a new wrapping of an old one, a new one, or gone, as was asked for."""
    made(path, kind)
    before = data_keys(path, BEFORE[kind])
    with opened(path, BEFORE[kind]) as store:
        do(store, kind)
    after = data_keys(path, AFTER[kind])
    assert before.keys() == after.keys()
    assert all(value is None for value in after.values()) == (kind == "unseal")
    if kind == "rotate":
        assert before == after
    elif kind != "unseal":
        assert len({*after.values()}) == len(after)
        assert not {*before.values()} & {*after.values()}
    with closing(sqlite3.connect(path)) as conn:
        for table, column in (("nodes", "body"), ("refs", "data"), ("log", "body"), ("chunks", "body")):
            tags = {row[0][:1] for row in conn.execute(f"SELECT {column} FROM {table}")}
            assert tags == {b"\x01" if kind == "unseal" else b"\x02"}, table


def data_keys(path: Path, key: bytes | None) -> dict[tuple[str, int], bytes | None]:
    """The data key of each run, ref and blob."""
    found: dict[tuple[str, int], bytes | None] = {}
    with opened(path, key) as store, closing(sqlite3.connect(path)) as conn:
        seal = Parts.of(store).engine.seal
        for table, columns in (("runs", "run, tree"), ("refs", "ref, key"), ("blobs", "blob, tree")):
            but = " WHERE kind <> 'audit'" if table == "refs" else ""  # which has the note of the exchange itself
            for wrapped, number, owner in conn.execute(f"SELECT wrapped_key, {columns} FROM {table}{but}").fetchall():
                of = {
                    "runs": lambda: run_owner(owner, number),
                    "refs": lambda: ref_owner(owner),
                    "blobs": lambda: blob_owner(owner, number),
                }[table]()
                held = [] if wrapped is None else cast("SealedSeal", seal)._unwrap(wrapped, of)
                assert len(held) == (wrapped is not None), "one key, and it opens"
                found[table, number] = held[0][1] if held else None
    return found


def test_unseal_then_seal_again(path: Path) -> None:
    """A store that was unsealed takes another key, in the same process; and once more, the first one."""
    small(path, "rotate")
    with opened(path, K1) as store:
        for key in (K2, K1):
            store.unseal()
            assert store.key_status().state == "plain"
            check_small(store)
            store.seal(key)
            assert store.key_status().key_ids == (keys.key_id(key).hex(),)
            check_small(store)
    with opened(path, K1) as store:
        check_small(store)


def test_looking_up_survives(path: Path) -> None:
    """Directories, labels and attachments are found by the same hashes whatever the key; cursors stay good."""
    with opened(path, None) as store:
        for number in range(3):
            store.sessions.create(title=str(number), cwd="/src")
        look = Parts.of(store).engine.lookup_hash("cwd", b"/src")
        cursor = store.sessions.list(limit=1).next_cursor
        for change in (
            partial(store.seal, K1),
            partial(store.rotate, K2),
            partial(store.rotate, K3, deep=True),
            store.unseal,
        ):
            change()
            assert Parts.of(store).engine.lookup_hash("cwd", b"/src") == look
            assert [one.title for one in store.sessions.list(cursor=cursor, cwd="/src").items] == ["1", "0"]


# -- cut short


class Cut(BaseException):
    """Stands for a crash, an interrupt, a kill."""


def steps_of(kind: Kind) -> int:
    """Batches that a walk over the small store takes: one for each stage."""
    return len(rekey._STAGES[kind])


@pytest.mark.checklist("C17")
@pytest.mark.parametrize(("kind", "after"), [(kind, after) for kind in KINDS for after in range(steps_of(kind) + 3)])
def test_cut_short_anywhere(path: Path, kind: Kind, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it had done when it was cut short: the store is whole, is written, and is finished by whoever asks."""
    small(path, kind)
    with opened(path, BEFORE[kind]) as store:
        write, count = Parts.of(store).engine.write, -1  # the first write begins it

        def cut(work: Any, settle: Any = None) -> Any:
            nonlocal count
            if count == after:
                raise Cut
            count += 1
            return write(work, settle)

        monkeypatch.setattr(Parts.of(store).engine, "write", cut)
        try:
            do(store, kind)
        except Cut:
            pass
        else:
            assert after > steps_of(kind), "it should have been cut short"
        monkeypatch.undo()
    with closing(sqlite3.connect(path)) as conn:
        (state,) = conn.execute("SELECT state FROM epoch").fetchone()
    either = {"seal": [K2], "unseal": [K1], "rotate": [K1, K2], "deep": [K1, K2]}[kind]
    if state in ("sealed", "plain"):
        either = [AFTER[kind]]  # type: ignore[list-item]
    for key in either:
        with opened(path, key) as store:
            check_small(store)
            session = store.sessions.latest()
            if state == "unsealing":  # nothing is written in clear by one who has not asked for that
                for deed in (partial(session.append, clew.user("more")), partial(session.log.append, b"more")):
                    with pytest.raises(Conflict, match="being unsealed"):
                        deed()
                with pytest.raises(Conflict, match="being unsealed"):
                    store.sessions.create(title="aside")
                continue
            session.append(clew.user("more"))
            session.label("more")
            session.log.append(b"more")
            session.attach(os.urandom(9), mime_type="image/png")
            store.sessions.create(title="aside").append(clew.user("x"))
            session.append(clew.user("and more"))
            session.label(remove=["more"])
            check_small(store)
    with opened(path, either[-1]) as store:
        if state not in ("sealed", "plain"):
            do(store, kind)
        check_small(store)
        assert store.key_status().state == ("plain" if kind == "unseal" else "sealed")
    with opened(path, AFTER[kind]) as store:
        check_small(store)
        assert [node.text for node in store.sessions.latest().path()].count("more") == (
            0 if state == "unsealing" else len(either)
        )


@pytest.mark.parametrize("kind", ["seal", "unseal", "deep"])
def test_large_bodies_make_small_batches(path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch ends with 500 rows or with 4 MB, whichever comes first, and the walk still comes to its end."""
    with opened(path, BEFORE[kind]) as store:
        session = store.sessions.create(title="large")
        session.append([*[clew.user("y" * 1_500_000)] * 7, *[clew.user("z")] * 20])
        session.log.append([b"l" * 2_500_000] * 4)
        session.blobs.put(b"b" * 5_000_000)
        batches = list[int]()
        set_bodies = SQLiteTx.set_bodies

        def measured(tx: SQLiteTx, table: str, bodies: Any) -> None:
            batches.append(sum(len(body) for body, _ in bodies))
            set_bodies(tx, table, bodies)

        monkeypatch.setattr(SQLiteTx, "set_bodies", measured)
        do(store, kind)
    assert len([size for size in batches if size]) == 3 + 2 + 2
    assert max(batches) < (4 << 20) + 2_600_000
    with opened(path, AFTER[kind]) as store:
        assert len(store.sessions.latest().path()) == 27
        assert store.verify().ok


@each_kind
def test_cut_short_inside_a_batch(path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is one transaction: one that is cut short in the middle has not begun."""
    before = made(path, kind)
    monkeypatch.setattr(rekey, "BATCH", 7)
    wrap, count = SealedSeal._wrap, 0

    def cut(self: SealedSeal, id: bytes, key: bytes, owner: bytes) -> bytes:
        nonlocal count
        count += 1
        if count % 11 == 0:
            raise Cut
        return wrap(self, id, key, owner)

    monkeypatch.setattr(SealedSeal, "_wrap", cut)
    with opened(path, BEFORE[kind]) as store:
        for _ in range(100):
            try:
                do(store, kind)
                break
            except Cut:
                continue
        assert count > 11 or kind == "unseal"
        assert sample.readings(store) == before
    with opened(path, AFTER[kind]) as store:
        assert store.verify().damage == []
        assert sample.readings(store) == before


def test_status_tells_how_far_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it goes on, the status names the state, both keys, and the rows behind it; and so after a crash."""
    made(path, "deep")
    monkeypatch.setattr(rekey, "BATCH", 30)
    seen: list[rekey.Status] = []

    def stop(done: int, total: int) -> None:
        seen.append(store.key_status())
        if len(seen) == 6:
            raise Cut

    with opened(path, K1) as store:
        assert store.key_status() == rekey.Status("sealed", (keys.key_id(K1).hex(),), False, 0, 0, False)
        with pytest.raises(Cut):
            store.rotate(K2, deep=True, progress=stop)
    assert {one.state for one in seen} == {"rotating"}
    assert {one.key_ids for one in seen} == {(keys.key_id(K2).hex(), keys.key_id(K1).hex())}
    assert seen == sorted(seen, key=lambda one: one.done)
    assert 0 < seen[0].done < seen[-1].done < seen[-1].total
    with opened(path, K2) as store:
        sizes = Parts.of(store).engine.read(lambda tx: tx.maintenance.sizes())
        assert store.key_status() == seen[-1]
        assert seen[-1].total == sum(sizes.values()) + 2 * sum(sizes[name] for name in ("runs", "refs", "blobs")) - sum(
            sizes[name] for name in ("runs", "refs", "blobs")
        )
        steps: list[tuple[int, int]] = []
        rekey.run(Parts.of(store).engine, lambda done, total: steps.append((done, total)))
        assert steps[0][0] >= seen[-1].done, "it goes on where it was"
        assert steps[-1][0] == steps[-1][1] == seen[-1].total


# -- what is refused


@each_kind
@pytest.mark.parametrize("other", KINDS)
def test_only_one_at_a_time(path: Path, kind: Kind, other: Kind) -> None:
    """In the middle of one, another is a Conflict that names it; the same one is taken up again."""
    small(path, kind)
    with opened(path, BEFORE[kind]) as store:
        begin(store, kind)
        if other == kind:
            begin(store, other)
        else:
            with pytest.raises(Conflict, match=rekey._UNDER_WAY[kind]):
                do(store, other)
        check_small(store)


@pytest.mark.usefixtures("quick_passphrases")
@pytest.mark.parametrize("kind", ["seal", "rotate", "deep"])
@pytest.mark.parametrize("key", [K3, keys.from_passphrase("words")], ids=["key", "passphrase"])
def test_going_on_with_another_key(path: Path, kind: Kind, key: keys.Key) -> None:
    """What was begun for one key is not finished for another: that is a Conflict, and the first stays good."""
    small(path, kind)
    with opened(path, BEFORE[kind]) as store:
        begin(store, kind)
        with pytest.raises(Conflict, match="another key"):
            rekey.begin(Parts.of(store).engine, kind, key)
        do(store, kind)
    with opened(path, K2) as store:
        check_small(store)


def test_what_there_is_no_need_for(path: Path) -> None:
    """Sealing what is sealed, unsealing or rotating what is not, or to the same key, is Invalid and changes nothing."""
    small(path, "seal")
    with opened(path, None) as store:
        epoch = Parts.of(store).engine.read(lambda tx: tx.state())
        for refused in (store.unseal, partial(store.rotate, K2), partial(store.rotate, K2, deep=True)):
            with pytest.raises(Invalid, match="not sealed"):
                refused()
        for wrong in ("words", b"short", 5, None):
            with pytest.raises(Invalid):
                store.seal(cast("bytes", wrong))
        assert Parts.of(store).engine.key is None
        assert Parts.of(store).engine.read(lambda tx: tx.state()) == epoch
        store.seal(K1)
        epoch = Parts.of(store).engine.read(lambda tx: tx.state())
        with pytest.raises(Invalid, match="sealed already"):
            store.seal(K2)
        with pytest.raises(Invalid, match="already"):
            store.rotate(K1)
        for wrong in ("words", b"short", 5, None):
            with pytest.raises(Invalid):
                store.rotate(cast("bytes", wrong))
        assert Parts.of(store).engine.read(lambda tx: tx.state()) == epoch
        check_small(store)


def test_finishing_comes_last(path: Path) -> None:
    """The old key is not retired while rows are under it; finishing what is finished does nothing."""
    small(path, "rotate")
    with opened(path, K1) as store:
        rekey.finish(Parts.of(store).engine)
        begin(store, "rotate")
        with pytest.raises(Conflict, match="not complete"):
            rekey.finish(Parts.of(store).engine)
        assert len(store.key_status().key_ids) == 2
        rekey.run(Parts.of(store).engine)
        rekey.run(Parts.of(store).engine)
        rekey.finish(Parts.of(store).engine)
        rekey.finish(Parts.of(store).engine)
        assert store.key_status().key_ids == (keys.key_id(K2).hex(),)


def test_a_damaged_mark(path: Path) -> None:
    """A mark that cannot be read is damage, not an order to begin again."""
    small(path, "rotate")
    with opened(path, K1) as store:
        begin(store, "rotate")
        for mark in (b"{", b'{"kind": "dance"}', b"\xff"):
            Parts.of(store).engine.write(lambda tx, mark=mark: tx.set_header("rekey", mark))  # type: ignore[misc]
            for deed in (partial(do, store, "rotate"), store.key_status, partial(rekey.finish, Parts.of(store).engine)):
                with pytest.raises(Corrupted, match="the mark of a key change"):
                    deed()


DAMAGE = {
    "a body": "UPDATE nodes SET body = CAST(body || x'00' AS BLOB) WHERE pos = (SELECT min(pos) FROM nodes)",
    "a session's data": "UPDATE refs SET data = CAST(data || x'00' AS BLOB)",
    "a session's data that became text": "UPDATE refs SET data = data || x'00'",
    "a session's signature": "UPDATE refs SET version = version + 1",
    "a run's signature": "UPDATE runs SET carried = carried + 1",
    "a blob's signature": "UPDATE blobs SET size = size + 1",
    "a log entry": "UPDATE log SET body = body || x'00'",
    "the time of a log entry": "UPDATE log SET created_at = 'noon'",
    "a log entry of nobody": "UPDATE log SET pos = 1 << 40",
    "a piece": "UPDATE chunks SET body = body || x'00'",
    "a piece of nothing": "UPDATE chunks SET pos = 1 << 40",
    "a run's key": "UPDATE runs SET wrapped_key = substr(wrapped_key, 1, 30)",
    "a session's key": "UPDATE refs SET wrapped_key = substr(wrapped_key, 1, 30)",
    "a blob's key": "UPDATE blobs SET wrapped_key = substr(wrapped_key, 1, 30)",
}


@each_kind
@pytest.mark.parametrize("what", DAMAGE)
def test_damage_keeps_the_old_key(path: Path, kind: Kind, what: str) -> None:
    """If something cannot be read, no key that opens the store is given up: with the damage repaired it is done."""
    small(path, kind)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sound = path.read_bytes()
    with closing(sqlite3.connect(path)) as conn:
        conn.execute(DAMAGE[what])
        conn.commit()
    if kind == "seal" and "key" in what:
        return  # a plain store has none
    with opened(path, BEFORE[kind]) as store, pytest.raises(Corrupted):
        do(store, kind)
    both = {"seal": [K2], "unseal": [K1], "rotate": [K1, K2], "deep": [K1, K2]}[kind]
    for key in both:
        with opened(path, key) as store:
            assert store.key_status().state in ("sealing", "unsealing", "rotating")
            with pytest.raises(Corrupted):
                do(store, kind)
    path.write_bytes(sound)
    with opened(path, BEFORE[kind]) as store:
        do(store, kind)
        check_small(store)


@pytest.mark.parametrize("table", ["runs", "refs", "blobs"])
@pytest.mark.parametrize("kind", ["unseal", "rotate", "deep"])
def test_a_data_key_put_back_keeps_the_old_key(path: Path, kind: Kind, table: str) -> None:
    """If a row has its old data key again when everything was walked over, the store key that opens it stays."""
    small(path, kind)
    with opened(path, K1) as store, closing(sqlite3.connect(path)) as conn:
        before = conn.execute(f"SELECT wrapped_key, mac, rowid FROM {table}").fetchall()
        begin(store, kind)
        rekey.run(Parts.of(store).engine)
        conn.executemany(f"UPDATE {table} SET wrapped_key = ?, mac = ? WHERE rowid = ?", before)
        conn.commit()
        with pytest.raises(Corrupted, match="not under the new store key"):
            rekey.finish(Parts.of(store).engine)
        assert store.key_status().state != "sealed"
        assert keys.key_id(K1).hex() in store.key_status().key_ids


def test_the_quarantine_goes_with_it(path: Path) -> None:
    """What is in quarantine is closed anew with the rest; if its run is missing, that is damage like any other."""
    small(path, "deep")
    with opened(path, K1) as store, closing(sqlite3.connect(path)) as conn:
        conn.execute(DAMAGE["a body"])
        conn.commit()
        assert store.quarantine.sweep(force=True)
        kept = conn.execute("SELECT body FROM quarantine").fetchone()
        store.rotate(K2, deep=True)
        assert conn.execute("SELECT body FROM quarantine").fetchone() != kept
        assert len(store.quarantine.list()) == 1
        assert store.verify().damage == []
        conn.execute("UPDATE quarantine SET pos = 1 << 40")
        conn.commit()
        with pytest.raises(Corrupted, match="missing"):
            store.rotate(K3, deep=True)
        assert len(store.key_status().key_ids) == 2


@pytest.mark.usefixtures("quick_passphrases")
def test_the_key_to_be_printed(path: Path) -> None:
    """It is the one that opens the store now, also if another process has exchanged it; a plain store has none."""
    small(path, "seal")
    with opened(path, None) as here:
        with pytest.raises(Invalid, match="not sealed"):
            here.recovery_key()
        here.seal(keys.from_passphrase("words"))
        opened(path, keys.from_recovery(here.recovery_key())).close()
        with opened(path, keys.from_passphrase("words")) as there:
            begin(here, "rotate")
            assert keys.from_recovery(there.recovery_key()) == K2
            do(here, "rotate")
            assert keys.from_recovery(there.recovery_key()) == K2
            here.unseal()
            with pytest.raises(Invalid):
                there.recovery_key()


# -- passphrases


def test_passphrases_are_exchanged(path: Path) -> None:
    """From a key to a passphrase, to another one, and back: each time the last alone opens it, and is kept."""
    small(path, "rotate")
    first, second = keys.from_passphrase("first words"), keys.from_passphrase("second words")
    held: keys.Key = K1
    for new, words in ((first, True), (second, True), (keys.from_passphrase("second words"), True), (K3, False)):
        with opened(path, held) as store:
            store.rotate(new, deep=new is second)
            assert store.key_status().passphrase == words
            assert len(Parts.of(store).engine.read(lambda tx: tx.maintenance.headers("kdf "))) == words
            check_small(store)
        if held is not second:  # the same words are the same passphrase, with another key
            with pytest.raises(WrongKey):
                opened(path, held)
        with opened(path, new) as store:
            check_small(store)
        held = new


def test_a_passphrase_goes_on_where_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut short, an exchange of passphrases is finished with the same words, opened with either."""
    words, new = keys.from_passphrase("first words"), keys.from_passphrase("second words")
    small(path, "seal")
    with opened(path, None) as store:
        store.seal(words)
        rekey.begin(Parts.of(store).engine, "rotate", new)
        assert len(Parts.of(store).engine.read(lambda tx: tx.maintenance.headers("kdf "))) == 2
    for key in (words, new):
        with opened(path, key) as store:
            check_small(store)
    with opened(path, words) as store:
        with pytest.raises(Conflict):
            store.rotate(keys.from_passphrase("third words"))
        store.rotate(keys.from_passphrase("second words"))
    with opened(path, new) as store:
        check_small(store)
        assert len(Parts.of(store).engine.read(lambda tx: tx.maintenance.headers("kdf "))) == 1
    with pytest.raises(WrongKey):
        opened(path, words)


# -- while others have the store open


@each_kind
def test_one_who_has_it_open_goes_on(path: Path, kind: Kind) -> None:
    """Another process reads and writes in every stage of it, whatever it had looked at before, and loses nothing."""
    small(path, kind)
    with opened(path, BEFORE[kind]) as here, opened(path, BEFORE[kind]) as there:
        mine, yours = here.sessions.latest(), there.sessions.latest()
        if kind == "seal":
            begin(here, kind)
            there.close()
            there = opened(path, K2)  # who has no key is told: see below
            yours = there.sessions.latest()
        else:
            begin(here, kind)
        said = 0
        while True:
            for session in (mine, yours):
                session.append(clew.user(f"more {said}"))
                session.log.append(b"%d" % said)
                session.rename("talk")
                session.attach(b"%d" % said, mime_type="image/png")
                said += 1
            new = there.sessions.create(title="new")
            new.append(clew.user("x"))
            assert new.refresh().path()[0].text == "x"
            mine.append(clew.user("last"))
            for store in (here, there):
                assert store.sessions.get(mine.id).title == "talk"
                assert store.sessions.get(mine.id).path()[-1].text == "last"
            if Parts.of(here).engine.write(lambda tx: rekey._step(Parts.of(here).engine, tx)) is None:
                break
        rekey.run(Parts.of(here).engine)
        yours.append(clew.user("after the walk"))
        assert here.verify().damage == []
        rekey.finish(Parts.of(here).engine)
        yours.append(clew.user("after it all"))
        for store in (here, there):
            texts = [node.text for node in store.sessions.get(mine.id).path()]
            assert [text for text in texts if text.startswith("more")] == [f"more {n}" for n in range(said)]
            assert texts[-1] == "after it all"
            assert [entry.data for entry in store.sessions.get(mine.id).log.read(1)] == [b"%d" % n for n in range(said)]
            assert store.verify().damage == []
        there.close()
    with opened(path, AFTER[kind]) as store:
        assert store.verify().damage == []


@each_kind
def test_appending_all_the_while(path: Path, kind: Kind) -> None:
    """Appends that go on from what they remember, one before each step, are all there and sealed as the others are."""
    small(path, kind)
    with opened(path, BEFORE[kind]) as store:
        session = store.sessions.latest()
        session.append(clew.user("more"))
        begin(store, kind)
        said = 4
        while True:
            session.append(clew.user("more"))
            said += 1
            if Parts.of(store).engine.write(lambda tx: rekey._step(Parts.of(store).engine, tx)) is None:
                break
        session.append(clew.user("more"))
        rekey.finish(Parts.of(store).engine)
        session.append(clew.user("more"))
        assert [node.text for node in session.path()[3:]] == ["more"] * (said - 1)
        assert store.verify().damage == []
    with opened(path, AFTER[kind]) as store:
        check_small(store)


@pytest.mark.parametrize("kind", ["unseal", "rotate", "deep"])
def test_what_was_read_before_can_be_read_after(path: Path, kind: Kind) -> None:
    """A session, a message, or half of a stream that was read before the keys were exchanged is still good."""
    small(path, kind)
    with opened(path, BEFORE[kind]) as store:
        read_across(store, lambda: do(store, kind))


def test_what_was_read_before_it_was_sealed(path: Path) -> None:
    """So it is for what was read when the store was plain."""
    small(path, "seal")
    with opened(path, None) as store:
        read_across(store, lambda: store.seal(K2))


def read_across(store: Store, change: Callable[[], object]) -> None:
    """Looks at half of everything, has the store changed, and looks at the rest."""
    long = store.sessions.create(title="long")
    long.append([clew.user(str(number)) for number in range(40)])
    long.log.append([b"%d" % number for number in range(300)])
    content = os.urandom(600_000)
    digest = long.blobs.put(content).digest
    long.rewind(to=long.path()[30].id)
    known = store.sessions.get(long.id)
    other = store.sessions.get(long.id)
    node = known.path()[7]
    walk, log, blob = known.iter(), known.log.read(), known.blobs.open(digest)
    texts, entries, pieces = [next(walk).text], [next(log).data], [next(blob)]
    change()
    assert known.title == "long"
    assert known.created_at
    assert (other.version, other.head_id) == (known.version, known.path()[-1].id)
    assert node.text == "7"
    assert len(known.branches()) == 1
    assert texts + [node.text for node in walk] == [str(number) for number in range(31)]
    assert entries + [entry.data for entry in log] == [b"%d" % number for number in range(300)]
    assert b"".join(pieces + list(blob)) == content
    other.append(clew.user("more"))
    assert known.refresh().path()[-1].text == "more"


def test_one_without_the_key_is_told(path: Path) -> None:
    """Who has a plain store open that is sealed by another gets Sealed, whatever they ask, and nothing is lost."""
    small(path, "seal")
    with opened(path, None) as here, opened(path, None) as there:
        session, node = there.sessions.latest(), there.sessions.latest().path()[0]
        here.seal(K2)
        deeds: list[Callable[[], Any]] = [
            lambda: session.append(clew.user("lost")),
            lambda: session.path(),
            lambda: session.rename("x"),
            lambda: session.refresh().head_id,
            lambda: session.counters,
            lambda: list(session.log.read()),
            lambda: session.log.append(b"x"),
            lambda: session.blobs.put(b"x"),
            lambda: there.sessions.create(title="x"),
            lambda: there.sessions.latest().title,
            lambda: there.nodes.save(clew.user("x")),
            lambda: there.nodes.get(node.id)[0].text,
            there.key_status,
            there.unseal,
            lambda: there.rotate(K3),
        ]
        for deed in deeds:
            with pytest.raises(Sealed):
                deed()
        with pytest.raises(Sealed), there.transaction():
            session.append(clew.user("x"))
        assert node.text == "one", "what was read stays"
        check_small(here)
        assert len(here.sessions.latest().path()) == 3


def test_one_who_slept_through_it_is_told(path: Path) -> None:
    """Who did not look while the key was exchanged has the old one alone: WrongKey, which says what to do."""
    small(path, "rotate")
    with opened(path, K1) as here, opened(path, K1) as there:
        session = there.sessions.latest()
        here.rotate(K2)
        for deed in (session.path, lambda: session.append(clew.user("x")), lambda: there.sessions.latest().title):
            with pytest.raises(WrongKey) as caught:
                deed()
            assert caught.value.expected == (keys.key_id(K2),)
            assert "rotated" in caught.value.hint
            assert "Open it again" in str(caught.value)
        check_small(here)
    with pytest.raises(WrongKey) as caught:
        opened(path, K1)
    assert "rotated" not in str(caught.value)


@pytest.mark.parametrize("how", ["append", "read", "rename", "log", "blob", "create"])
def test_unsealed_and_sealed_again_elsewhere(path: Path, how: str) -> None:
    """Who slept while a store was unsealed and sealed again with the same key goes on: only the secrets are others."""
    small(path, "rotate")
    with opened(path, K1) as here, opened(path, K1) as there:
        session = there.sessions.latest()
        (media,) = [block for block in session.path()[2].message.blocks if isinstance(block, clew.Media)]
        here.unseal()
        here.seal(K1)
        match how:
            case "append":
                session.append(clew.user("x"))
            case "read":
                assert session.path()[0].text == "one"
                assert session.counters.messages == 3
            case "rename":
                session.rename("talk")
            case "log":
                assert [entry.data for entry in session.log.read()] == [b"started"]
            case "blob":
                assert session.blobs.get(media.blob or "") == b"picture"
            case "create":
                assert there.sessions.create(title="x").title == "x"
        assert there.verify().damage == []


@pytest.mark.parametrize("how", ["append", "read", "rename", "log", "blob", "create", "purge"])
def test_unsealed_elsewhere(path: Path, how: str) -> None:
    """Who has a sealed store open that another unseals goes on, without a key."""
    small(path, "rotate")
    with opened(path, K1) as here, opened(path, K1) as there:
        session = there.sessions.latest()
        (media,) = [block for block in session.path()[2].message.blocks if isinstance(block, clew.Media)]
        here.unseal()
        match how:
            case "append":
                session.append(clew.user("x"))
            case "read":
                assert session.path()[0].text == "one"
                assert (session.head_id, session.title) == (session.path()[-1].id, "talk")
            case "rename":
                session.rename("talk")
            case "log":
                session.log.append(b"x")
            case "blob":
                assert session.blobs.get(media.blob or "") == b"picture"
                session.blobs.put(b"x")
            case "create":
                there.sessions.create(title="x").append(clew.user("x"))
            case "purge":
                assert there.sessions.purge(session.id).messages == 3
        assert there.key_status().state == "plain"
        assert not Parts.of(there).engine.keyed
        assert there.verify().damage == []
    with opened(path, None) as store:
        assert store.verify().damage == []


@each_kind
def test_a_transaction_that_began_before(path: Path, kind: Kind) -> None:
    """A transaction on a store that is kept in another way since looks at it before it begins."""
    if kind == "seal":
        pytest.skip("who has no key is told at once: see above")
    small(path, kind)
    with opened(path, BEFORE[kind]) as here, opened(path, BEFORE[kind]) as there:
        session = there.sessions.latest()
        session.append(clew.user("before"))
        begin(here, kind)
        with there.transaction():
            session.append(clew.user("kept"))
            there.sessions.create(title="kept")
        assert [node.text for node in here.sessions.get(session.id).path()][-2:] == ["before", "kept"]
        assert here.sessions.list().items[0].title == "kept"
        do(here, kind)
        assert here.verify().damage == []


def test_a_transaction_after_it_was_unsealed_and_sealed_again(path: Path) -> None:
    """A transaction takes sound things for sound, whatever was done to the store since it was last looked at."""
    small(path, "rotate")
    with opened(path, K1) as here, opened(path, K1) as there:
        session = there.sessions.latest()
        here.unseal()
        here.seal(K1)
        with there.transaction():
            session.append(clew.user("kept"))
        with pytest.raises(NotFound), there.transaction():
            there.sessions.get("01890a5d-ac96-774b-bcce-b302099a8057")
        assert [node.text for node in here.sessions.latest().path()][-1] == "kept"
        assert here.verify().damage == []


def test_keys_are_not_exchanged_inside_a_transaction(path: Path) -> None:
    """Were it undone, and another began an epoch of that number, this process would write with keys that are gone."""
    small(path, "rotate")
    with opened(path, K1) as here, opened(path, K1) as there:
        with pytest.raises(Invalid, match="inside a transaction"), here.transaction():
            here.rotate(K2)
        there.rotate(K3)
        with suppress(WrongKey):
            here.sessions.create(title="later").append(clew.user("later"))
    with opened(path, K3) as store:
        assert store.verify().damage == []


def test_real_damage_is_still_told(path: Path) -> None:
    """A damaged session is Corrupted in the same moment in which a new epoch is found."""
    small(path, "rotate")
    with opened(path, K1) as here, opened(path, K1) as there:
        session = there.sessions.latest()
        begin(here, "rotate")
        with closing(sqlite3.connect(path)) as conn:
            conn.execute("UPDATE refs SET version = version + 1")
            conn.commit()
        for deed in (lambda: session.append(clew.user("x")), lambda: session.refresh().head_id):
            with pytest.raises(Corrupted):
                deed()


@pytest.mark.parametrize("kind", ["unseal", "rotate", "deep"])
def test_threads_that_share_a_commit(path: Path, kind: Kind) -> None:
    """Many threads append while the keys are exchanged, in their own process and in another: nothing is lost."""
    small(path, kind)
    errors: list[BaseException] = []
    stop = threading.Event()

    def talk(store: Store, count: list[int]) -> None:
        try:
            session = store.sessions.create(title="thread")
            while not stop.is_set() or not count[0]:
                session.append(clew.user(str(count[0])))
                count[0] += 1
            assert [node.text for node in session.path()] == [str(number) for number in range(count[0])]
        except BaseException as error:  # told below
            errors.append(error)

    with opened(path, K1) as here, opened(path, K1) as there:
        counts = [[0] for _ in range(6)]
        threads = [
            threading.Thread(target=talk, args=(store, count))
            for store, count in zip([here, there] * 3, counts, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            do(here, kind)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert errors == []
        assert all(count[0] for count in counts)
        assert here.verify().damage == []
    with opened(path, AFTER[kind]) as store:
        assert store.verify().damage == []
        check_small_is_there = [one for one in store.sessions.list(limit=50).items if one.title == "talk"]
        assert len(check_small_is_there) == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("how", ["rotating", "unsealed", "again", "sealed"])
def test_tasks_that_share_a_commit(path: Path, backend: Literal["asyncio", "trio"], how: str) -> None:
    """Tasks whose calls share a transaction all go on when the store is kept in another way; or all are told."""
    small(path, "seal" if how == "sealed" else "rotate")

    async def main() -> None:
        key = None if how == "sealed" else K1
        async with clew.aio.open(path, key=key) as there:
            session = await there.sessions.latest()
            with opened(path, key) as here:
                match how:
                    case "rotating":
                        begin(here, "rotate")
                    case "unsealed":
                        here.unseal()
                    case "again":
                        here.unseal()
                        here.seal(K1)
                    case "sealed":
                        here.seal(K1)
            said: list[str] = []
            told: list[BaseException] = []

            async def say(number: int) -> None:
                try:
                    said.append((await session.append(clew.user(str(number)))).text)
                except Sealed as error:
                    told.append(error)

            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(say, number)
            if how == "sealed":
                assert len(told) == 20
                return
            assert not told
            texts = [node.text for node in await session.path()]
            assert sorted(texts[3:]) == sorted(said) == sorted(str(number) for number in range(20))

    anyio.run(main, backend=backend)
    with opened(path, None if how == "unsealed" else K1) as store:
        assert store.verify().damage == []


def test_a_store_in_memory(path: Path) -> None:
    """It is sealed, rotated and unsealed like one in a file."""
    with clew.open(":memory:") as store:
        sample.fill(store, words=3, blob=1000)
        before = sample.readings(store)
        for change in (partial(store.seal, K1), partial(store.rotate, K2, deep=True), store.unseal):
            change()
            assert sample.readings(store) == before
            assert store.verify().damage == []


@each_kind
def test_a_reader_in_the_way(path: Path, kind: Kind) -> None:
    """Who reads keeps traces of before in the files: that is told, by all who ask, until someone could clear them."""
    small(path, kind)
    with opened(path, BEFORE[kind]) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM nodes").fetchone()
            asked: dict[str, Callable[[], rekey.Status]] = {
                "seal": lambda: store.seal(K2),
                "unseal": store.unseal,
                "rotate": lambda: store.rotate(K2),
                "deep": lambda: store.rotate(K2, deep=True),
            }
            now = asked[kind]()
            assert now.unclean
            assert now == store.key_status()
            assert now.state == ("plain" if kind == "unseal" else "sealed")
            with clew.open(path, key=AFTER[kind], tidy=False) as other:
                assert other.key_status().unclean
            traced = any(b"/src" in file.read_bytes() for file in path.parent.glob("chats.db*"))
            assert traced == (kind in ("seal", "unseal"))
    with opened(path, AFTER[kind]) as store:
        assert not store.key_status().unclean
        check_small(store)
    assert any(b"/src" in file.read_bytes() for file in path.parent.glob("chats.db*")) == (kind == "unseal")


@each_kind
def test_an_append_that_shares_the_first_step(path: Path, kind: Kind) -> None:
    """What is committed together with the first step is written the old way; the next append goes on, the new way."""
    small(path, kind)
    with opened(path, BEFORE[kind]) as store:
        engine, session = Parts.of(store).engine, store.sessions.latest("/src")
        session.append(clew.user("before"))
        new = None if kind == "unseal" else new_store_key(K2)
        engine.key = K2 if kind == "seal" else engine.key
        with store.transaction():
            engine.write(lambda tx: rekey._begin(engine, tx, kind, AFTER[kind], new))
            session.append(clew.user("with it"))
        engine.backend.refresh_epoch()
        after = session.append(clew.user("after"))
        assert (run_info(after).wrapped_key is not None) == engine.keyed
        assert [node.text for node in session.path()[3:]] == ["before", "with it", "after"]
        do(store, kind)
        assert store.verify().ok
        assert [node.text for node in session.path()[3:]] == ["before", "with it", "after"]


def test_an_empty_store(path: Path) -> None:
    """There is nothing to walk over, and it is done all the same."""
    with opened(path, None) as store:
        for change in (partial(store.seal, K1), partial(store.rotate, K2), partial(store.rotate, K3, deep=True)):
            change()
        assert store.key_status().key_ids == (keys.key_id(K3).hex(),)
        store.unseal()
    with opened(path, None) as store:
        assert store.key_status().state == "plain"
        assert [deed.kind for deed in store.audit.read()] == ["seal", "rotate", "rotate", "unseal"]


def test_an_upload_goes_on_while_it_is_sealed(path: Path) -> None:
    """A blob in the making when the store is sealed, or its keys are exchanged, is whole and sealed at the end."""
    content = [os.urandom(256 * 1024) for _ in range(40)]
    with opened(path, None) as store:
        session = store.sessions.create(title="upload")

        def pieces() -> Any:
            for number, piece in enumerate(content):
                if number == 17:
                    store.seal(K1)
                if number == 33:
                    store.rotate(K2, deep=True)
                yield piece

        digest = session.blobs.put(pieces()).digest
        assert session.blobs.get(digest) == b"".join(content)
        assert store.verify().damage == []
    with opened(path, K2) as store:
        assert store.sessions.latest().blobs.get(digest) == b"".join(content)
    with closing(sqlite3.connect(path)) as conn:
        assert {row[0] for row in conn.execute("SELECT substr(body, 1, 1) FROM chunks")} == {b"\x02"}


def test_searching_goes_on(path: Path) -> None:
    """The index is on disk only while the store is plain; it finds the same before and after."""
    small(path, "seal")
    index = path.with_name(f"{path.name}-search")
    with opened(path, None) as store:
        for change, on_disk in (
            (None, True),
            (partial(store.seal, K1), False),
            (partial(store.rotate, K2), False),
            (store.unseal, True),
        ):
            if change is not None:
                change()
            assert [hit.node.text for hit in store.search("two")] == ["two"]
            assert index.exists() == on_disk
