"""Quarantine: damaged messages are taken out alone, kept, brought back or purged; nothing else is taken for one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

import clew
from clew.backends import Tx
from clew.backends.sqlite import SQLiteBackend
from clew.backends.sqlite.tx import SQLiteTx
from clew.base import ids
from clew.engine.engine import Engine
from clew.engine.node import node_row
from clew.store.parts import Parts
from clew.store.session import delete_session
from clew.store.store import Store
from clew.upkeep.quarantine import Event
from tests.reliability.tools import AS_IT_WAS, DEAR, need_strace, output, python

T = TypeVar("T")
KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
COUNT = 500
WORD = "Ariadne"


@pytest.fixture(scope="module", params=[None, KEY], ids=["plain", "sealed"])
def key(request: pytest.FixtureRequest) -> Any:
    """The key of the store, or None."""
    return request.param


@pytest.fixture(scope="module")
def original(key: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound store with one long session, in which each message has a word of its own."""
    path = tmp_path_factory.mktemp("original") / "chats.db"
    with clew.open(path, key=key, durability="relaxed") as store:
        session = store.sessions.create(title="Long", cwd="/src")
        session.append([clew.user(f"{WORD} number{n:03}") for n in range(COUNT)])
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(original, tmp_path / "chats.db"))


@pytest.fixture
def reopen(path: Path, key: Any) -> Callable[..., Store]:
    """Opens the copy."""
    return lambda **settings: clew.open(path, key=settings.pop("key", key), **settings)


def sql(path: Path, statement: str, *values: object) -> list[Any]:
    """Runs a statement behind the store's back, into the main file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        rows = conn.execute(statement, values).fetchall()
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return rows


def body(path: Path, node: clew.Node) -> bytes:
    """A message's body, as it is stored."""
    ((found,),) = sql(path, "SELECT body FROM nodes WHERE id = ?", ids.parse(node.id))
    return bytes(found)


def spoil(path: Path, *nodes: clew.Node) -> None:
    """Flips a bit in the middle of messages' bodies."""
    for node in nodes:
        flipped = bytearray(body(path, node))
        flipped[len(flipped) // 2] ^= 4
        sql(path, "UPDATE nodes SET body = ? WHERE id = ?", bytes(flipped), ids.parse(node.id))


def everything(store: Store) -> list[clew.Node]:
    return store.sessions.latest("/src").path()


def dump(path: Path) -> list[str]:
    """All rows, without those that only say when the store was opened or how."""
    with closing(sqlite3.connect(path)) as conn:
        return list(conn.iterdump())


def raw(path: Path, what: bytes) -> int:
    """How often bytes are in any file of the store."""
    return sum(file.read_bytes().count(what) for file in path.parent.glob("chats.db*"))


def kept_rows(path: Path) -> int:
    return int(sql(path, "SELECT count(*) FROM quarantine")[0][0])


# -- taking out


def test_reading_changes_nothing(path: Path, reopen: Callable[..., Store]) -> None:
    """A damaged message raises Corrupted as often as it is read, and that alone puts nothing in quarantine."""
    with reopen() as store:
        node = everything(store)[7]
    spoil(path, node)
    before = path.read_bytes()
    with reopen() as store:
        for _ in range(2):
            with pytest.raises(clew.Corrupted):
                store.nodes.get(node.id)[0].text  # noqa: B018
        assert not store.verify().ok
        assert store.quarantine.list() == []
    assert path.read_bytes() == before


def test_a_damaged_message_is_taken_out_alone(path: Path, reopen: Callable[..., Store], key: Any) -> None:
    """The message says that it is in quarantine; ids, totals and all others are as before, and the store is sound."""
    with reopen() as store:
        nodes = everything(store)
        counters = store.sessions.latest("/src").counters
        assert len(store.search("number007")) == 1
    spoil(path, nodes[7])
    found = body(path, nodes[7])
    with reopen() as store:
        steps: list[tuple[int, int]] = []
        swept = store.quarantine.sweep(progress=lambda done, total: steps.append((done, total)))
        assert (swept.bodies, swept.moved, swept.left, swept.receipt) == (COUNT + 1, (nodes[7].id,), (), None)
        assert steps[-1] == (COUNT + 1, COUNT + 1)
        session = store.sessions.latest("/src")
        assert [node.id for node in session.path()] == [node.id for node in nodes]
        assert session.counters == counters
        assert [node.text for node in session.path() if node.id != nodes[7].id] == [
            f"{WORD} number{n:03}" for n in range(COUNT) if n != 7
        ]
        with pytest.raises(clew.Corrupted, match="it is in quarantine"):
            session.path()[7].text  # noqa: B018
        assert (store.search("number007"), len(store.search("number008"))) == ([], 1)
        session.append(clew.assistant("and on"))
        report = store.verify()
        assert (report.damage, report.counts["quarantined"]) == ([], 1)
        assert store.quarantine.sweep().moved == ()
    with reopen() as store:
        (one,) = store.quarantine.list()
        assert (one.node, one.session, one.bytes, one.kept) == (nodes[7].id, session.id, len(found), True)
        assert one.why == "its checksum does not match"
        with pytest.raises(clew.Corrupted, match="quarantine"):
            store.sessions.latest("/src").append(clew.user("again"), id=nodes[7].id)
    assert body(path, nodes[7]) == b""
    assert (raw(path, found) == 1) == (key is None)


def test_a_message_in_quarantine_affects_what_follows_it(path: Path, reopen: Callable[..., Store]) -> None:
    """It affects its own path from there on: not the messages before it, not a fork that leaves before it."""
    with reopen() as store:
        nodes = everything(store)
        fork = store.sessions.latest("/src").fork(at=nodes[6].id).append(clew.user("aside"))
        assert not store.quarantine.affects(nodes[-1].id)
    spoil(path, nodes[7])
    with reopen() as store:
        store.quarantine.sweep()
        affected = [store.quarantine.affects(one.id) for one in (nodes[6], nodes[7], nodes[-1], fork)]
        assert affected == [False, True, True, False]
        with pytest.raises(clew.NotFound):
            store.quarantine.affects(ids.text(bytes(16)))


ODD = {
    "its own bytes as text": "CAST(body AS TEXT)",
    "other bytes as text": "CAST(x'fffe80' AS TEXT)",
    "words": "'words'",
    "a number": "12",
    "a fraction": "0.5",
}
"""What damage may make of a body, beside other bytes."""


@pytest.mark.parametrize("what", ODD)
def test_a_body_of_another_kind(path: Path, reopen: Callable[..., Store], key: Any, what: str) -> None:
    """A body that became text or a number is taken out like any other, and keeps nobody from exchanging keys."""
    with reopen() as store:
        node = everything(store)[7]
    before = body(path, node)
    sql(path, f"UPDATE nodes SET body = {ODD[what]} WHERE id = ?", ids.parse(node.id))
    with reopen() as store:
        with pytest.raises(clew.Corrupted):
            everything(store)[7].text  # noqa: B018
        assert store.quarantine.sweep().moved == (node.id,)
        (kept,) = store.quarantine.list()
        assert (kept.kept, kept.bytes > 0) == (True, True)
        if key is None:
            store.seal(KEY)
        store.rotate(OTHER, deep=True)
        store.unseal()
        assert store.verify().ok
        if key is None and what == "its own bytes as text":  # else they are under a key that is gone
            assert store.quarantine.restore(node.id).text == f"{WORD} number007"
            assert body(path, node) == before
            assert store.verify().ok


@pytest.mark.parametrize("count", [3, 4])
def test_more_than_a_few_stop_the_sweep(path: Path, reopen: Callable[..., Store], count: int) -> None:
    """Three are taken out; with a fourth nothing is moved, the counts are named, and only force goes on."""
    with reopen() as store:
        damaged = everything(store)[10 : 10 + count]
    spoil(path, *damaged)
    before = dump(path)
    with reopen() as store:
        if count > 3:
            with pytest.raises(clew.Conflict, match=f"4 of {COUNT + 1} .*force") as error:
                store.quarantine.sweep()
            assert WORD not in str(error.value)
            assert dump(path) == before
            with pytest.raises(clew.Conflict):
                store.quarantine.sweep(strict=True)
        moved = store.quarantine.sweep(force=count > 3).moved
        assert moved == tuple(node.id for node in damaged)
        assert store.verify().ok


def test_more_than_one_in_a_hundred_stop_the_sweep(tmp_path: Path, key: Any) -> None:
    """In a store of 99 bodies one is too many, in one of 100 it is not."""
    path = tmp_path / "chats.db"
    with clew.open(path, key=key) as store:
        session = store.sessions.create(cwd="/src")
        nodes = session.append([clew.user(str(n)) for n in range(98)])
    spoil(path, nodes[0])
    with clew.open(path, key=key) as store:
        with pytest.raises(clew.Conflict, match="1 of 99"):
            store.quarantine.sweep()
        assert store.quarantine.list() == []
        store.sessions.latest("/src").append(clew.user("one more"))
        assert len(store.quarantine.sweep().moved) == 1


def test_a_dry_run_moves_nothing(path: Path, reopen: Callable[..., Store]) -> None:
    """It says what would be moved, and leaves every row as it is."""
    with reopen() as store:
        node = everything(store)[3]
    spoil(path, node)
    before = dump(path)
    with reopen() as store:
        for strict in (False, True):
            swept = store.quarantine.sweep(dry_run=True, strict=strict)
            assert (swept.moved, swept.receipt) == ((node.id,), None)
        assert store.quarantine.list() == []
    assert dump(path) == before


def test_what_cannot_be_taken_out_is_named(tmp_path: Path, key: Any) -> None:
    """Data of a session, a log entry, a piece of a blob, a damaged data key, an odd row: named, and left there."""
    path = tmp_path / "chats.db"
    with clew.open(path, key=key) as store:
        session = store.sessions.create(title=WORD)
        first = session.append(
            clew.user("a picture", session.attach(b"x" * 1000, mime_type="image/png", modality="image"))
        )
        second = session.append(clew.user("no picture"))
        session.log.append([b"one", b"two"])
        other = store.sessions.create()
        other.append([clew.user("a"), clew.user("b")])
    for table in ("refs SET data", "log SET body", "chunks SET body"):
        name, _, column = table.partition(" SET ")
        sql(
            path,
            f"UPDATE {name} SET {column} = CAST({column} || 'x' AS BLOB) WHERE rowid = (SELECT min(rowid) FROM {name})",
        )
    sql(path, "UPDATE nodes SET facts = 'never' WHERE pos = 1 << 24")
    sql(path, "UPDATE nodes SET facts = CAST(facts || 'x' AS BLOB) WHERE pos = (1 << 24) + 1")
    if key is not None:
        sql(path, "UPDATE runs SET wrapped_key = zeroblob(85) WHERE run = 2")
    with clew.open(path, key=key) as store:
        swept = store.quarantine.sweep(force=True)
        assert swept.moved == ()
        assert {(one.where, one.why) for one in swept.left} == {
            (f"the data of session {session.id}", "its checksum does not match"),
            (f"log entry 0 of session {session.id}", "its checksum does not match"),
            ("piece 0 of blob 1", "its checksum does not match"),
            (f"node {first.id}", "a column of its row has a value of the wrong kind"),
            (f"node {second.id}", "a column of its row has a value of the wrong kind"),
            *([("run 2", "its data key is damaged")] if key else []),
        }
    assert kept_rows(path) == 0


# -- what is never damage


class Repairing(SQLiteBackend):
    """A backend under which a fault goes away again: before a second look, or before a write."""

    def __init__(self, path: Path, when: str, repair: Callable[[], None]) -> None:
        self.when, self.repair = when, repair
        super().__init__(str(path))

    def read_fresh(self, work: Callable[[Tx], T]) -> T:
        if self.when == "second look" and cast("Any", work).keywords["limit"] == 1:
            self.repair()
        return super().read_fresh(work)

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        if self.when == "write":
            self.repair()
        return super().write(work, settle)


@pytest.mark.parametrize("when", ["second look", "write"])
def test_what_opens_the_second_time_is_not_damaged(
    path: Path, reopen: Callable[..., Store], key: Any, when: str
) -> None:
    """A body that fails once and opens when it is read again, through another connection, stays where it is."""
    with reopen() as store:
        node = everything(store)[7]
    sound = body(path, node)
    spoil(path, node)

    def repair() -> None:
        sql(path, "UPDATE nodes SET body = ? WHERE id = ?", sound, ids.parse(node.id))

    with Store(Parts(Engine(Repairing(path, when, repair), key=key))) as store:
        assert store.quarantine.sweep().moved == ()
        assert store.nodes.get(node.id)[0].text == f"{WORD} number007"
        assert store.verify().ok
    assert kept_rows(path) == 0


def test_a_second_look_has_a_connection_of_its_own(reopen: Callable[..., Store]) -> None:
    """It is made for the one look, sees what is committed, and is closed after it."""
    with reopen() as store:
        node = store.sessions.latest("/src").append(clew.user("new"))
        backend = Parts.of(store).engine.backend
        conn, found = backend.read_fresh(lambda tx: (cast("SQLiteTx", tx).conn, tx.node(ids.parse(node.id))))
        assert found is not None
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            conn.execute("SELECT 1")


FAULTY = """
import sys, clew
path, key = sys.argv[1], bytes.fromhex(sys.argv[2]) or None
try:
    with clew.open(path, key=key) as store:
        print("moved", *store.quarantine.sweep(force=True).moved)
except clew.ClewError as error:
    print(type(error).__name__)
"""


def test_an_io_error_is_never_damage(path: Path, reopen: Callable[..., Store], key: Any, tmp_path: Path) -> None:
    """Whichever read of the disk fails, once or from then on: what is damaged is moved alone, or nothing is."""
    strace = need_strace()
    with reopen() as store:
        node = everything(store)[COUNT // 2]
    spoil(path, node)
    outcomes = set()
    # SQLite takes EIO for a malformed file, and clew says so of the file as a whole; it is of no message.
    for when, errno in (
        ("6", "EIO"),
        ("12+", "EIO"),
        ("12", "ENODEV"),
        ("20+", "ENODEV"),
        ("30", "EIO"),
        ("40+", "EIO"),
    ):
        copy = Path(shutil.copy(path, tmp_path / "copy.db"))
        inject = f"inject=pread64:error={errno}:when={when}"
        wrap = (strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=pread64", "-P", str(copy), "-e", inject)
        said = output(python(FAULTY, copy, (key or b"").hex(), wrap=wrap))
        outcomes.add(said.split()[0])
        assert said.split() in (["Corrupted"], ["Unavailable"], ["moved", node.id]), (when, errno)
        with clew.open(copy, key=key) as store:
            assert [one.node for one in store.quarantine.list()] == ([node.id] if "moved" in said else [])
    assert outcomes == {"Corrupted", "Unavailable"}


def test_a_busy_store_moves_nothing(path: Path, reopen: Callable[..., Store]) -> None:
    """If others keep it from writing, the sweep says so, and can be made again."""
    with reopen() as store:
        node = everything(store)[7]
    spoil(path, node)
    with reopen(timeout=0.1) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(clew.Unavailable):
            store.quarantine.sweep()
        other.execute("ROLLBACK")
        assert store.quarantine.list() == []
        assert store.quarantine.sweep().moved == (node.id,)


def test_a_key_that_is_not_right_any_more_moves_nothing(path: Path, key: Any) -> None:
    """Who still has the old key when it is retired is told so; to them nothing is damaged."""
    with clew.open(path, key=key) as here, clew.open(path, key=key) as there:
        there.rotate(OTHER, deep=True) if key else there.seal(OTHER)
        with pytest.raises(clew.Sealed):
            here.quarantine.sweep(force=True)
        assert there.quarantine.list() == []
        assert there.verify().ok


def test_the_key_is_tried_first(tmp_path: Path, key: Any) -> None:
    """Also where nothing is stored that could fail to open."""
    with clew.open(tmp_path / "new.db", key=key) as here, clew.open(tmp_path / "new.db", key=key) as there:
        there.rotate(OTHER) if key else there.seal(OTHER)
        with pytest.raises(clew.Sealed):
            here.quarantine.sweep()


def test_a_sweep_is_not_part_of_a_transaction(reopen: Callable[..., Store]) -> None:
    """Neither is a restore or a purge: they read anew, or clear the files."""
    with reopen() as store, store.transaction():
        for work in (
            store.quarantine.sweep, lambda: store.quarantine.restore("k3m9qa"),
            lambda: store.quarantine.purge(everything=True),
        ):  # fmt: skip
            with pytest.raises(clew.Invalid):
                work()


# -- bringing back


def test_a_message_comes_back_when_its_row_is_repaired(path: Path, reopen: Callable[..., Store]) -> None:
    """While what was kept does not open, restore is Corrupted and changes nothing; then all is as it was."""
    with reopen() as store:
        node = everything(store)[7]
        nodes = [one.text for one in everything(store)]
    sql(path, f"UPDATE nodes SET {DEAR} WHERE id = ?", ids.parse(node.id))
    with reopen() as store:
        store.quarantine.sweep()
        assert store.verify().ok
        before = dump(path)
        with pytest.raises(clew.Corrupted, match="does not open"):
            store.quarantine.restore(node.id)
        assert dump(path) == before
    sql(path, f"UPDATE nodes SET {AS_IT_WAS} WHERE id = ?", ids.parse(node.id))
    with reopen() as store:
        assert [one.why for one in store.verify().damage] == ["the row of its message was changed since"]
        assert store.search("number007") == []
        assert store.quarantine.restore(store.nodes.get(node.id)[0].handle).text == f"{WORD} number007"
        assert [one.text for one in everything(store)] == nodes
        assert len(store.search("number007")) == 1
        assert store.verify().ok
        assert store.quarantine.list() == []
        with pytest.raises(clew.NotFound):
            store.quarantine.restore(node.id)


def test_what_was_damaged_stays_damaged(path: Path, reopen: Callable[..., Store]) -> None:
    """A body with a flipped bit is not brought back, nor one that is purged, nor a message that is not there."""
    with reopen() as store:
        node = everything(store)[7]
    spoil(path, node)
    with reopen() as store:
        store.quarantine.sweep()
        with pytest.raises(clew.Corrupted, match="does not open"):
            store.quarantine.restore(node.id)
        store.quarantine.purge(node.id)
        with pytest.raises(clew.Corrupted, match="purged"):
            store.quarantine.restore(node.id)
        for unknown in (everything(store)[8].id, "01890a5d-ac96-774b-bcce-b302099a8057"):
            with pytest.raises(clew.NotFound):
                store.quarantine.restore(unknown)


# -- gone for good


def test_purging_leaves_no_trace(path: Path, reopen: Callable[..., Store]) -> None:
    """The bytes are in no file any more, also while the store is open; a receipt says so, and the tree stays whole."""
    with reopen() as store:
        one, two = everything(store)[7:9]
        store.search(WORD)
    spoil(path, one, two)
    found = body(path, one), body(path, two)
    ends = [each[-20:] for each in found]
    with reopen() as store:
        store.quarantine.sweep()
        dry = store.quarantine.purge(one.id, dry_run=True)
        assert (dry.messages, dry.pending) == (1, ())
        assert store.sessions.receipts() == []
        assert all(item.kept for item in store.quarantine.list())

        receipt = store.quarantine.purge(one.id)
        assert (receipt.reason, receipt.messages, receipt.sessions) == ("corruption-detected", 1, ())
        assert receipt.bytes > len(found[0])
        assert receipt.finished_at is not None
        assert receipt.pending == ()
        assert raw(path, ends[0]) == raw(path, f"{WORD} number007".encode()) == 0
        assert [item.kept for item in store.quarantine.list()] == [False, True]
        assert store.quarantine.purge(one.id).messages == 0

        assert store.quarantine.purge(everything=True).messages == 1
        assert raw(path, ends[1]) == 0
        assert [receipt.messages for receipt in store.sessions.receipts()] == [1, 1]
        assert [(item.bytes, item.kept) for item in store.quarantine.list()] == [(0, False)] * 2
        report = store.verify()
        assert (report.damage, report.counts["quarantined"]) == ([], 2)
        with pytest.raises(clew.Corrupted, match="in quarantine"):
            everything(store)[7].text  # noqa: B018


def test_what_to_purge_has_to_be_said(path: Path, reopen: Callable[..., Store]) -> None:
    """Ids or everything, and only what is in quarantine; else nothing is purged."""
    with reopen() as store:
        nodes = everything(store)
    spoil(path, nodes[7])
    with reopen() as store:
        store.quarantine.sweep()
        with pytest.raises(clew.Invalid):
            store.quarantine.purge()
        with pytest.raises(clew.Invalid):
            store.quarantine.purge(nodes[7].id, everything=True)
        with pytest.raises(clew.NotFound):
            store.quarantine.purge([nodes[7].id, nodes[8].id])
        assert [one.kept for one in store.quarantine.list()] == [True]


def test_strict_keeps_nothing(path: Path, reopen: Callable[..., Store]) -> None:
    """A strict sweep purges what it finds at once, with a receipt, and the files are cleared of it."""
    with reopen() as store:
        node = everything(store)[7]
        store.search(WORD)
    spoil(path, node)
    end = body(path, node)[-20:]
    with reopen() as store:
        swept = store.quarantine.sweep(strict=True)
        assert swept.moved == (node.id,)
        assert swept.receipt is not None
        assert (swept.receipt.reason, swept.receipt.messages, swept.receipt.pending) == ("corruption-detected", 1, ())
        assert store.sessions.receipts() == [swept.receipt]
        assert [(one.node, one.kept) for one in store.quarantine.list()] == [(node.id, False)]
        assert raw(path, end) == raw(path, f"{WORD} number007".encode()) == 0
        assert store.verify().ok
        assert store.quarantine.sweep(strict=True).receipt is None


def test_a_hold_keeps_what_is_in_quarantine(path: Path, reopen: Callable[..., Store]) -> None:
    """What a held session shows, or its fork's other end does, is not purged: not by a strict sweep either."""
    with reopen() as store:
        session = store.sessions.latest("/src")
        nodes = session.path()
        fork = session.fork(at=nodes[20].id)
        fork.append(clew.user("elsewhere"))
        session.hold("Audit")
    spoil(path, nodes[7], nodes[30])
    with reopen() as store:
        receipt = store.quarantine.sweep(strict=True).receipt
        assert receipt is not None
        assert (receipt.messages, [one.session for one in receipt.failures]) == (0, [session.id, session.id])
        receipt = store.quarantine.purge(everything=True)
        assert (receipt.messages, len(receipt.failures)) == (0, 2)
        assert [one.kept for one in store.quarantine.list()] == [True, True]
        assert store.sessions.receipts() == []
        assert store.sessions.purge(session.id).failures
        with pytest.raises(clew.Conflict):
            store.nodes.delete(nodes[30].id, recursive=True)
        assert kept_rows(path) == 2

        store.sessions.release(session.id)
        store.sessions.hold(fork.id)
        receipt = store.quarantine.purge(everything=True)
        assert (receipt.messages, [one.session for one in receipt.failures]) == (1, [fork.id])
        assert [one.kept for one in store.quarantine.list()] == [True, False]


@pytest.mark.parametrize("how", ["delete", "purge", "nodes", "both"])
def test_what_is_in_quarantine_goes_with_its_session(path: Path, reopen: Callable[..., Store], how: str) -> None:
    """Deleting or purging a session, or its messages, leaves nothing in quarantine but what others share."""
    with reopen() as store:
        session = store.sessions.latest("/src")
        nodes = session.path()
        fork = session.fork(at=nodes[20].id)
        fork.append(clew.user("elsewhere"))
    spoil(path, nodes[7], nodes[30])
    with reopen() as store:
        assert len(store.quarantine.sweep().moved) == 2
        match how:
            case "delete":
                delete_session(store.sessions.get(session.id))
            case "purge":
                assert store.sessions.purge(session.id).bytes > 0
            case "nodes":
                store.nodes.delete(nodes[25].id, recursive=True)
            case "both":
                store.sessions.purge([session.id, fork.id])
        left = [] if how == "both" else [nodes[7].id]
        assert [one.node for one in store.quarantine.list() if one.kept] == left
        assert store.verify().damage == []
    assert kept_rows(path) == len(left)


# -- keys


def test_what_is_in_quarantine_is_sealed_with_the_rest(path: Path, reopen: Callable[..., Store], key: Any) -> None:
    """Sealing, exchanging and taking away keys go past what is in quarantine, and nothing of it is readable."""
    with reopen() as store:
        one, two = everything(store)[7:9]
    spoil(path, one, two)
    kept = body(path, one)
    with reopen() as store:
        store.quarantine.sweep()
        store.quarantine.purge(two.id)

        def check() -> None:
            assert store.verify().damage == []
            assert [(item.bytes, item.kept) for item in store.quarantine.list()] == [(len(kept), True), (0, False)]

        if key is None:
            store.seal(KEY)
            check()
        assert raw(path, kept[-20:]) == 0
        store.rotate(OTHER)
        check()
        store.rotate(KEY, deep=True)
        check()
        assert raw(path, kept[-20:]) == 0
        store.unseal()
        check()
    with clew.open(path) as store:
        assert [item.bytes for item in store.quarantine.list()] == [len(kept), 0]


def test_a_sweep_frees_an_exchange_of_keys(path: Path, reopen: Callable[..., Store], key: Any) -> None:
    """A damaged message stops it in the middle; once that is in quarantine it goes on to the end."""
    with reopen() as store:
        node = everything(store)[7]
    spoil(path, node)
    with reopen() as store:

        def exchange() -> None:
            store.seal(OTHER) if key is None else store.rotate(OTHER, deep=True)

        with pytest.raises(clew.Corrupted):
            exchange()
        store.quarantine.sweep()
        exchange()
        assert store.key_status().state == "sealed"
        assert store.verify().ok
    assert raw(path, WORD.encode()) == 0


# -- who is told


def test_whoever_listens_is_told(path: Path, reopen: Callable[..., Store]) -> None:
    """Each listener hears of each change once, after it, without content; one that fails disturbs nobody."""
    with reopen() as store:
        one, two = everything(store)[7:9]
    spoil(path, one)
    sql(path, f"UPDATE nodes SET {DEAR} WHERE id = ?", ids.parse(two.id))
    heard: list[Event] = []
    with reopen() as store:

        def fails(event: Event) -> None:
            raise ValueError(event)

        store.quarantine.on_event(fails)
        store.quarantine.on_event(heard.append)
        store.quarantine.sweep(dry_run=True)
        assert heard == []
        store.quarantine.sweep()
        sql(path, f"UPDATE nodes SET {AS_IT_WAS} WHERE id = ?", ids.parse(two.id))
        store.quarantine.restore(two.id)
        store.quarantine.purge(everything=True, dry_run=True)
        store.quarantine.purge(everything=True)
        assert [(event.kind, event.nodes) for event in heard] == [
            ("quarantined", (one.id, two.id)), ("restored", (two.id,)), ("purged", (one.id,)),
        ]  # fmt: skip
        assert all(event.at.tzinfo is not None for event in heard)
    spoil(path, two)
    heard.clear()
    with reopen() as store:
        store.quarantine.on_event(heard.append)
        store.quarantine.sweep(strict=True)
    assert [(event.kind, event.nodes) for event in heard] == [("quarantined", (two.id,)), ("purged", (two.id,))]


# -- verify


def test_a_forged_quarantine_is_damage(path: Path, reopen: Callable[..., Store]) -> None:
    """A row without its message, an empty body without a row, a row beside a body, a row made up: each is named."""
    with reopen() as store:
        session = store.sessions.latest("/src").id
        nodes = everything(store)
    spoil(path, nodes[7])
    with reopen() as store:
        store.quarantine.sweep()
    empty = "UPDATE nodes SET body = x'' WHERE id = ?"
    role = "UPDATE nodes SET facts = CAST(substr(facts, 1, 8) || x'02' || substr(facts, 10) AS BLOB) WHERE id = ?"
    made = "INSERT INTO quarantine SELECT pos, 1, 'so it is', x'01' FROM nodes WHERE id = ?"
    cases: list[tuple[str, int, list[tuple[str, clew.Node]]]] = [
        ("node", 7, [("DELETE FROM quarantine WHERE ? != ''", nodes[7])]),
        ("node", 8, [(empty, nodes[8])]),
        ("quarantine", 8, [(made, nodes[8])]),
        ("quarantine", 8, [(empty, nodes[8]), (made, nodes[8])]),
        ("quarantine", 7, [(role, nodes[7])]),
    ]
    sound = path.read_bytes()
    for what, position, statements in cases:
        path.write_bytes(sound)
        for statement, node in statements:
            sql(path, statement, ids.parse(node.id))
        with reopen() as store:
            found = store.verify().damage
        assert (what, session, position) in [(one.what, one.session, one.position) for one in found], found
    path.write_bytes(sound)
    sql(path, "UPDATE quarantine SET pos = 99 << 24")
    with reopen() as store:
        assert {one.why for one in store.verify().damage} >= {"its message is missing"}


def test_a_message_that_shows_a_blob(tmp_path: Path, key: Any) -> None:
    """The blob stays as long as the message is in quarantine, and the store is sound."""
    path = tmp_path / "chats.db"
    with clew.open(path, key=key) as store:
        session = store.sessions.create(cwd="/src")
        node = session.append(clew.user("look", session.attach(b"x" * 99, mime_type="image/png", modality="image")))
        blob = session.blobs.put(b"x" * 99)
    spoil(path, node)
    with clew.open(path, key=key) as store:
        store.quarantine.sweep(force=True)
        assert store.verify().damage == []
        assert store.sessions.latest("/src").blobs.get(blob.digest) == b"x" * 99


def test_workspaces_do_not_see_each_others(tmp_path: Path, key: Any) -> None:
    """A sweep reads the whole store; what it took out is listed, brought back and purged by its own workspace alone."""
    path = tmp_path / "chats.db"
    with clew.open(path, key=key, workspace="a") as store:
        node = store.sessions.create().append(clew.user("mine"))
    sql(path, f"UPDATE nodes SET {DEAR}")
    with clew.open(path, key=key, workspace="b") as store:
        assert store.quarantine.sweep(force=True).moved == (node.id,)
        assert store.quarantine.list() == []
        assert store.quarantine.purge(everything=True).messages == 0
        with pytest.raises(clew.NotFound):
            store.quarantine.restore(node.id)
    sql(path, f"UPDATE nodes SET {AS_IT_WAS}")
    with clew.open(path, key=key, workspace="a") as store:
        assert store.quarantine.restore(node.id).text == "mine"


def test_in_memory(key: Any) -> None:
    """A store without a file has a quarantine as well."""
    with clew.open(":memory:", key=key) as store:
        node = store.sessions.create().append(clew.user("a"))
        Parts.of(store).engine.write(
            lambda tx: tx.maintenance.set_bodies("nodes", [(b"\x01nothing", node_row(node)[0])])
        )
        assert store.quarantine.sweep(force=True).moved == (node.id,)
        assert store.quarantine.purge(node.id).messages == 1
        assert store.verify().ok
