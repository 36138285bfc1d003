"""P19: no earlier state of a row, put back by someone without the key, weakens what is written or read now."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import clew
from clew.backends import RefRow, RunRow
from clew.engine.refs import is_hold_listed
from clew.engine.sealing.envelope import Plain, node_place, pack_facts, ref_context, ref_fields, run_fields
from clew.errors import ClewError, Conflict, Corrupted
from clew.store.parts import Parts
from clew.store.session import delete_session
from clew.upkeep import rekey

K1, K2, K3 = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
NEW, FORGED = "zitronenfalter", "geheimrat"
WORDS = NEW.encode()
KEYS = ("header secrets", "header rekey", "epoch")
"""The rows that say how a store is kept."""


class Moment(NamedTuple):
    """A store as it was at one moment of its life."""

    name: str
    key: bytes | None
    file: Path
    rows: dict[str, tuple[Any, ...]]
    """Header rows, the epoch row and the row of the held session, each under a name."""


def rows_of(file: Path) -> dict[str, tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as conn:
        rows = {f"header {name}": (name, value) for name, value in conn.execute("SELECT name, value FROM header")}
        rows["epoch"] = conn.execute("SELECT * FROM epoch").fetchone()
        rows |= {f"ref {row[0]}": row for row in conn.execute("SELECT * FROM refs WHERE kind = 'session'")}
    return rows


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> list[Moment]:
    """A store from plain through every key change to sealed again with the same key, copied at each stage."""
    folder = tmp_path_factory.mktemp("life")
    path = folder / "s.db"
    moments: list[Moment] = []

    def note(name: str, key: bytes | None) -> None:
        file = folder / f"{len(moments)}.db"
        with closing(sqlite3.connect(path)) as conn:
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(path, file)
        moments.append(Moment(name, key, file, rows_of(file)))

    def change(kind: rekey.Kind, state: str, before: bytes | None, during: bytes, after: bytes | None) -> None:
        with clew.open(path, key=before) as store:
            engine = Parts.of(store).engine
            rekey.begin(engine, kind, None if kind == "unseal" else during)
            note(state, during)
            engine.write(lambda tx: rekey._step(engine, tx))
            note(f"{state}, a step on", during)
            store._rekey(kind, None if kind == "unseal" else during, None)
        note("plain" if after is None else "sealed", after)

    with clew.open(path) as store:
        session = store.sessions.create(title="first")
        session.append([clew.user("said"), clew.assistant("heard")])
    note("plain", None)
    change("seal", "sealing", None, K1, K1)
    with clew.open(path, key=K1) as store:
        store.sessions.get(session.id).hold("audit")
    note("held", K1)
    change("rotate", "rotating", K1, K2, K2)
    change("deep", "rotating deep", K2, K3, K3)
    with clew.open(path, key=K3) as store:
        store.sessions.get(session.id).release()
    change("unseal", "unsealing", K3, K3, None)
    change("seal", "sealing again", None, K3, K3)
    note("sealed again", K3)
    with clew.open(path, key=K3) as store:
        store.sessions.get(session.id).hold("audit")
    note("held, before it went on", K3)
    with clew.open(path, key=K3) as store:
        store.sessions.get(session.id).append(clew.user("later"))
    note("held again", K3)
    return moments


def forge(file: Path) -> None:
    """Adds a session that anybody can make: with checksums in place of keys."""
    with closing(sqlite3.connect(file)) as conn, conn:
        (store_id,) = conn.execute("SELECT value FROM header WHERE name = 'store_id'").fetchone()
        plain, id, key, number = Plain(store_id, lambda: None), b"n" * 16, b"k" * 16, 900
        conn.execute("INSERT INTO trees VALUES (?, '', 1)", (number,))
        run = RunRow(number, number, None, None, 0, 0, -1, 0, None, b"")
        run = run._replace(mac=plain.sign(run_fields(run, None), None))
        conn.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(run))})", run)
        facts = pack_facts(1, 1, 1, 1, 0, 0, 0, 0)
        said = b'\x01{"role":"user","blocks":[{"type":"text","text":"%s"}]}' % FORGED.encode()
        body = plain.close(said, node_place(number, id, bytes(16), 0) + facts)
        conn.execute(
            "INSERT INTO nodes (pos, ord, facts, id, body) VALUES (?, ?, ?, ?, ?)",
            (number << 24, number, facts, id, body),
        )
        place = (None, number, number << 24, id)
        ref = RefRow(number, "", "session", key, *place, 1, 1, 1, 1, None, None, 0, None, None, b"", b"")
        ref = ref._replace(data=plain.close(b"\x01{}", ref_context(ref)), mac=plain.sign(ref_fields(ref), None))
        conn.execute(f"INSERT INTO refs VALUES ({', '.join('?' * len(ref))})", ref)


def put_back(file: Path, now: Moment, before: Moment, names: tuple[str, ...]) -> None:
    """Puts rows back as they were; what was not there goes."""
    with closing(sqlite3.connect(file)) as conn, conn:
        for name in names:
            row, table = before.rows.get(name), name.split()[0]
            if table == "epoch":
                conn.execute("DELETE FROM epoch")
            elif table == "header":
                conn.execute("DELETE FROM header WHERE name = ?", (name.removeprefix("header "),))
            elif row is None:
                continue  # a session that is taken away is destroyed, not weakened
            else:
                conn.execute("DELETE FROM refs WHERE ref = ?", (row[0],))
            if row is not None:
                table = "refs" if table == "ref" else table
                conn.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


def differing(now: Moment, before: Moment, most: int) -> Iterator[tuple[str, ...]]:
    """The names of rows that were otherwise: each alone, and pairs; with `most` 1 only those that tell of keys."""
    known = sorted(now.rows.keys() | before.rows.keys())
    names = [name for name in known if now.rows.get(name) != before.rows.get(name)]
    yield from combinations(names, 1)
    yield from combinations([name for name in names if most > 1 or name in KEYS], 2)


def attempt(deed: Callable[[], object]) -> None:
    with suppress(ClewError):
        deed()


def weakened(file: Path, now: Moment, *, forgery: bool = True) -> str | None:
    """What somebody has reached by putting rows back: read, written and deleted by the user, who has the key."""
    with suppress(ClewError), clew.open(file, key=now.key) as store:
        read: list[str] = []
        for session in store.sessions.list().items:
            attempt(lambda: read.extend(node.text for node in session.path()))
        if forgery and FORGED in read:
            return "a forged message reads as genuine"
        for session in store.sessions.list().items:
            attempt(partial(session.append, clew.user(NEW)))
            attempt(partial(session.rename, NEW))
            attempt(partial(session.log.append, WORDS))
        attempt(lambda: store.sessions.create(title=NEW).append(clew.user(NEW)))
        if any(WORDS in part.read_bytes() for part in file.parent.glob(f"{file.name}*")):
            return "a new word reached the disk in clear"
        if "held" in now.name:
            for session in store.sessions.list().items:
                attempt(lambda: store.nodes.delete([node.id for node in session.path()]))
                for id in messages(file):
                    attempt(partial(store.nodes.delete, [clew.base.ids.text(id)]))
                attempt(session.trash)
                attempt(partial(delete_session, session))
                attempt(partial(store.sessions.purge, session.id))
                attempt(partial(store.sessions.purge, session.id, reason="corruption-detected"))
    if "held" in now.name and not messages(now.file) <= messages(file):
        return "what was held was deleted"
    return None


def messages(file: Path) -> set[bytes]:
    with closing(sqlite3.connect(file)) as conn:
        return {id for (id,) in conn.execute("SELECT id FROM nodes")}


def check(life: list[Moment], at: list[int], tmp_path: Path, most: int = 2, *, forgery: bool = True) -> int:
    tried = 0
    for index in at:
        now = life[index]
        for before in life[:index]:
            for names in differing(now, before, most):
                file = tmp_path / "tried.db"
                for part in tmp_path.glob("tried.db*"):
                    part.unlink()
                shutil.copy(now.file, file)
                if forgery:
                    forge(file)
                put_back(file, now, before, names)
                found = weakened(file, now, forgery=forgery)
                assert found is None, f"{found}: {', '.join(names)} of '{before.name}' put back into '{now.name}'"
                tried += 1
    return tried


def sealed(life: list[Moment]) -> list[int]:
    """The stages at which nothing plain is accepted."""
    return [n for n, one in enumerate(life) if one.key is not None and "sealing" not in one.name]


def test_old_rows_weaken_nothing(life: list[Moment], tmp_path: Path) -> None:
    """Rows of every earlier state, put back: nothing forged is read, nothing is written in clear, no hold is undone.

    Each alone, and those that say how the store is kept in pairs.
    """
    assert check(life, [len(life) - 1], tmp_path, 1) > 30


@pytest.mark.soak
def test_old_pairs_weaken_nothing(life: list[Moment], tmp_path: Path) -> None:
    """Pairs of rows of every earlier state, at every stage that is sealed."""
    assert check(life, sealed(life), tmp_path) > 500


@pytest.fixture
def now(life: list[Moment], tmp_path: Path) -> Moment:
    """The last moment, in a file of its own."""
    file = tmp_path / "now.db"
    shutil.copy(life[-1].file, file)
    return Moment(life[-1].name, life[-1].key, file, life[-1].rows)


def moment(life: list[Moment], name: str) -> Moment:
    (*_, found) = [one for one in life if one.name == name]
    return found


@pytest.mark.parametrize("names", [("header secrets", "epoch"), ("header secrets", "epoch", "header rekey")])
def test_nothing_is_written_in_clear_after_an_unsealing_is_put_back(
    life: list[Moment], now: Moment, names: tuple[str, ...]
) -> None:
    """All that says that a store is being unsealed, put back once it is sealed again: new text is refused."""
    put_back(now.file, now, moment(life, "unsealing"), names)
    assert weakened(now.file, now) is None
    if len(names) == 3:
        with clew.open(now.file, key=now.key) as store, pytest.raises(Conflict, match="being unsealed"):
            store.sessions.create()


@pytest.mark.parametrize("name", ["sealing again", "sealing again, a step on"])
def test_nothing_is_written_in_clear_after_a_sealing_is_put_back(life: list[Moment], now: Moment, name: str) -> None:
    """All that says that a store is being sealed, put back with sessions that have no key: no new text is clear.

    Not a message, a title, a log entry or an attachment.
    """
    forge(now.file)
    put_back(now.file, now, moment(life, name), KEYS)
    put_back(now.file, now, moment(life, "plain"), tuple(one for one in now.rows if one.startswith("ref ")))
    with clew.open(now.file, key=now.key) as store:
        forged = store.sessions.get(clew.base.ids.text(b"k" * 16))
        forged.rename(NEW)
        assert forged.title == NEW
        forged.log.append([WORDS, WORDS])
        assert [entry.data for entry in forged.log.read()] == [WORDS, WORDS]
        forged.append(clew.user(NEW, forged.attach(WORDS * 9, mime_type="text/plain")))
    assert weakened(now.file, now, forgery=False) is None


def test_an_open_store_does_not_believe_that_it_was_unsealed(life: list[Moment], now: Moment) -> None:
    """A process that has a sealed store open writes nothing in clear because the epoch row says that it is plain."""
    plain, names = moment(life, "plain"), ("epoch", "header unsealed", "header lookup_key", "header secrets")
    for number in (None, 999):
        with clew.open(now.file, key=now.key) as store:
            session = store.sessions.list().items[0]
            row = plain.rows["epoch"] if number is None else (1, number, *plain.rows["epoch"][2:])
            before = plain._replace(rows={**plain.rows, "epoch": row})
            put_back(now.file, now, before, names)
            for deed in (partial(session.append, clew.user(NEW)), partial(store.sessions.create, title=NEW)):
                with pytest.raises((Conflict, Corrupted)):
                    deed()
            assert not any(WORDS in part.read_bytes() for part in now.file.parent.glob("now.db*"))
        put_back(now.file, now, now, names)


def test_an_open_store_does_not_go_back(life: list[Moment], now: Moment) -> None:
    """A process that has seen a state of the store writes nothing once an earlier one is put back, whole or not."""
    before = moment(life, "sealed again")
    with clew.open(now.file, key=now.key) as store:
        session = store.sessions.list().items[0]
        put_back(now.file, now, before, ("epoch", "header secrets", "header rekey"))
        with pytest.raises(Corrupted, match="was restored"):
            session.append(clew.user(NEW))


def test_a_hold_outlives_its_row(life: list[Moment], now: Moment) -> None:
    """A session's row from before its hold, put back: it is not deleted, `verify` names it, and a release works."""
    (name,) = [name for name in now.rows if name.startswith("ref ")]
    put_back(now.file, now, moment(life, "sealed again"), (name,))
    with clew.open(now.file, key=now.key) as store:
        session = store.sessions.list().items[0]
        assert not session.held
        for deed in (partial(delete_session, session), session.trash, partial(store.sessions.purge, session.id)):
            attempt(deed)
        with pytest.raises(Corrupted, match="not held, but it is"):
            delete_session(session)
        assert any("not held, but it is" in one.why for one in store.verify().damage)
        session.hold()
        with pytest.raises(Conflict, match="is held"):
            delete_session(session)
        with store.transaction():
            session.release()
            delete_session(session)
        assert store.sessions.list().items == []


PLANTED = {
    "rekey": b'{"kind":"rotate","stage":99}',
    "kdf 0123456789abcdef": b'{"v":1,"kdf":"argon2id","t":3,"m":65536,"p":4,"salt":"AAAAAAAAAAAAAAAAAAAAAA=="}',
    "kdf": b"x",
    "unclean": b"more than eight bytes",
    "unclean things": bytes(8),
    "unsealed": bytes(16),
    "lookup_key": bytes(32),
}


@pytest.mark.parametrize("key", [None, K1])
@pytest.mark.parametrize("name", PLANTED)
def test_verify_reports_planted_header_rows(path: Path, key: bytes | None, name: str) -> None:
    """A header row that clew would not have written is reported, while the store is open and when it is opened."""
    with clew.open(path, key=key) as store:
        store.sessions.create()
        if key is None and name in ("unsealed", "lookup_key"):
            return  # those are what a plain store may have
        with closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("INSERT OR REPLACE INTO header VALUES (?, ?)", (name, PLANTED[name]))
        assert name in [one.where for one in store.verify().damage]
    try:
        with clew.open(path, key=key, tidy=False) as store:
            assert not store.verify().ok
    except Corrupted:
        assert name == "rekey"


@pytest.mark.parametrize("change", ["state = 'rotating'", "state = 'unsealing'", "number = number + 1"])
def test_verify_reports_a_false_epoch(path: Path, change: str) -> None:
    """An epoch row that the secrets do not belong to is reported, and the store is not opened."""
    with clew.open(path, key=K1) as store:
        store.sessions.create()
        with closing(sqlite3.connect(path)) as conn, conn:
            conn.execute(f"UPDATE epoch SET {change}")
        assert [one.what for one in store.verify().damage if one.what == "epoch"]
    with pytest.raises(Corrupted):
        clew.open(path, key=K1)


def test_a_key_change_needs_its_mark(life: list[Moment], now: Moment) -> None:
    """Secrets and epoch row of a key change, put back without the mark of it: the store is not opened."""
    for name in ("sealing again", "unsealing"):
        put_back(now.file, now, moment(life, name), ("header secrets", "epoch"))
        with pytest.raises(Corrupted, match="does not match its state"):
            clew.open(now.file, key=now.key)


def test_a_forged_mark_is_not_followed(path: Path) -> None:
    """A mark that says that all rows are sealed, while they are not: the key change is not finished on its word."""
    with clew.open(path) as store:
        store.sessions.create().append(clew.user("word"))
        engine = Parts.of(store).engine
        rekey.begin(engine, "seal", K1)
        engine.write(lambda tx: rekey._step(engine, tx))
        engine.write(lambda tx: tx.set_header("rekey", b'{"kind":"seal","stage":99,"after":-1,"rows":9,"mac":""}'))
        with pytest.raises(Corrupted, match="mark of a key change"):
            store.seal(K1)


def test_a_hold_of_before_the_seal_is_listed(path: Path) -> None:
    """A session that was held while the store was plain: once it is sealed, its row is not needed to keep it."""
    with clew.open(path) as store:
        held, other = store.sessions.create(), store.sessions.create()
        held.hold()
        store.seal(K1)
        refs = {row.key: row for row in Parts.of(store).engine.read(lambda tx: tx.refs_after(-1, 9))}
        names = {session.id: refs[clew.base.ids.parse(session.id)] for session in (held, other)}
        engine = Parts.of(store).engine
        listed = engine.read(lambda tx: {id: is_hold_listed(engine, tx, row) for id, row in names.items()})
        assert listed == {held.id: True, other.id: False}


def test_a_head_of_before_a_rotation_is_not_believed(path: Path) -> None:
    """Where a session ended before a key change, put back into its row after it: that is damage."""
    select = "SELECT head, head_id, version, active_at, rank, mac FROM refs WHERE kind = 'session'"
    with clew.open(path, key=K1) as store:
        session = store.sessions.create()
        session.append(clew.user("one"))
        with closing(sqlite3.connect(path)) as conn:
            before = conn.execute(select).fetchone()
        session.append(clew.user("two"))
        store.rotate(K2)
        with closing(sqlite3.connect(path)) as conn, conn:
            fields = "head = ?, head_id = ?, version = ?, active_at = ?, rank = ?, mac = ?"
            conn.execute(f"UPDATE refs SET {fields} WHERE kind = 'session'", before)
        with pytest.raises(Corrupted):
            store.sessions.get(session.id).path()
