"""Writes that run beside each other: which ones wait for which, and that each is as if it had run alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

import pytest

import clew
from clew.backends import ID, BlobTx, Call, MaintenanceTx, Tx
from clew.backends.postgres import shared
from clew.backends.postgres.transactions import Turns
from clew.base import ids
from clew.errors import Conflict
from clew.store import partitions
from clew.store.parts import Parts
from clew.store.unit import Unit
from tests.backends.postgres import units
from tests.backends.postgres.units import INDEX, SESSIONS

ONE, TWO, THREE = SESSIONS
NOTE, OTHER, FREE = (bytes([number]) * 16 for number in (201, 202, 203))
Read = Callable[[Unit], object]
Write = Callable[[clew.Store], object]


def of(unit: Unit, id: str) -> clew.Session:
    found = unit.session(id)
    assert found is not None
    return found


def put(id: bytes, *, owner: str | None = None, index: bytes | None = None, kind: str = "note") -> Write:
    """Stores a document."""

    def work(unit: Unit) -> None:
        unit.put(kind, id, b"{}", owner=None if owner is None else of(unit, owner), index=index)

    return lambda store: store.write(work)


READS: dict[str, Read] = {
    "path": lambda unit: unit.path(of(unit, ONE)),
    "session": lambda unit: of(unit, ONE).data,
    "head": lambda unit: unit.head(of(unit, ONE)),
    "document of a session": lambda unit: unit.document("note", NOTE),
    "documents of a session": lambda unit: unit.documents("note", owner=of(unit, ONE)),
    "document": lambda unit: unit.document("note", OTHER),
    "no document": lambda unit: unit.document("note", FREE),
    "no session": lambda unit: unit.session(FREE),
    "index": lambda unit: unit.documents("note", index=INDEX),
    "append": lambda unit: unit.append(of(unit, ONE), [clew.user("unit")]),
    "create": lambda unit: unit.create(of(unit, TWO).data, FREE),
}
WRITES: dict[str, Write] = {
    "append": lambda store: store.sessions.get(ONE).append(clew.user("x")),
    "append of two": lambda store: store.sessions.get(ONE).append([clew.user("x"), clew.assistant("y")]),
    "append elsewhere": lambda store: store.sessions.get(TWO).append(clew.user("x")),
    "unit": lambda store: store.write(lambda unit: unit.append(of(unit, ONE), [clew.user("x")])),
    "unit elsewhere": lambda store: store.write(lambda unit: unit.append(of(unit, TWO), [clew.user("x")])),
    "rename": lambda store: store.sessions.get(ONE).rename("x"),
    "fork": lambda store: store.sessions.get(ONE).fork(),
    "fork elsewhere": lambda store: store.sessions.get(TWO).fork(),
    "subagent": lambda store: store.sessions.create(agent="a", owner=store.sessions.get(ONE)),
    "log": lambda store: store.sessions.get(ONE).log.append(b"x"),
    "attach": lambda store: store.sessions.get(ONE).attach(b"x", mime_type="text/plain"),
    "create": lambda store: store.sessions.create(),
    "create that": lambda store: store.sessions.create(id=ids.text(FREE)),
    "put": put(OTHER),
    "put new": put(FREE),
    "put to a session": put(b"a" * 16, owner=ONE),
    "put elsewhere": put(b"b" * 16, owner=TWO),
    "put to the index": put(b"c" * 16, index=INDEX),
}
SESSION = {"append", "append of two", "unit", "rename", "fork", "subagent", "log", "attach", "put to a session"}
PAIRS: dict[str, set[str]] = {
    **dict.fromkeys(("path", "session", "head", "document of a session", "documents of a session", "append"), SESSION),
    "document": {"put"},
    "no document": {"put new"},
    "no session": {"create that"},
    "index": {"put to the index"},
    # It has the data of another session.
    "create": {"append elsewhere", "unit elsewhere", "fork elsewhere", "put elsewhere", "create that"},
}


@pytest.mark.parametrize("read", READS)
def test_who_waits_for_whom(url: str, read: str) -> None:
    """A write waits for a unit that has read what it changes, and for no other."""
    entered, leave = threading.Event(), threading.Event()

    def work(unit: Unit) -> None:
        READS[read](unit)
        unit.put("mark", FREE, b"{}")
        entered.set()
        leave.wait(30)

    with clew.open(url) as one, clew.open(url, pool_size=20) as other, ThreadPoolExecutor(20) as pool:
        units.prepare(one)
        put(OTHER)(one)
        put(NOTE, owner=ONE)(one)
        for id in (ONE, TWO):
            other.sessions.get(id).append(clew.user("first"))
        begun = pool.submit(one.write, work)
        assert entered.wait(10)
        try:
            for name, write in WRITES.items():
                if name not in PAIRS[read]:
                    pool.submit(write, other).result(10)
            waiting = [pool.submit(WRITES[name], other) for name in PAIRS[read]]
            assert not wait(waiting, 0.5).done
            behind = pool.submit(lambda: other.sessions.get(THREE).trash())  # it waits for everything
            assert not wait([behind], 0.2).done
        finally:
            leave.set()
        begun.result(10)
        behind.result(10)
        for written in waiting:
            with suppress(Conflict):  # both have created the same
                written.result(10)
        assert one.verify().ok


def test_an_id_that_comes_meanwhile(url: str) -> None:
    """A unit that has found no message with an id runs again if another stores one, unless it stores it itself."""
    one, two = ids.text(FREE), ids.text(OTHER)
    with clew.open(url) as first, clew.open(url) as second:
        units.prepare(first)
        met = threading.Barrier(2)

        def work(store: clew.Store, session: str, mine: str, theirs: str) -> bool:
            runs: list[int] = []

            def skewed(unit: Unit) -> bool:
                runs.append(0)
                found = unit.node(theirs) is not None
                if len(runs) == 1:
                    met.wait(10)
                if not found:
                    unit.append(of(unit, session), [Parts.of(store).engine.draft(clew.user("x"), mine)])
                return found

            return store.write(skewed)

        with ThreadPoolExecutor(2) as pool:
            mine = pool.submit(work, first, ONE, one, two)
            theirs = pool.submit(work, second, TWO, two, one)
            assert sorted([mine.result(20), theirs.result(20)]) == [False, True]


def test_an_id_that_is_missing_in_partitions(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no index has all ids, a unit that looks for one waits for its turn: another tree may get it meanwhile."""
    with clew.open(url) as store:
        partitions.divide(store, 4)
        units.prepare(store)
        taken: list[int] = []
        real = Turns.take

        def take(turns: Turns) -> Any:
            taken.append(0)
            return real(turns)

        monkeypatch.setattr(Turns, "take", take)
        store.write(lambda unit: unit.append(of(unit, ONE), [clew.user("x")]))
        assert not taken
        store.nodes.save(clew.NewNode(clew.user("y"), None, ids.text(FREE)))
        assert taken


def test_two_who_create_the_same(url: str) -> None:
    """Of two units that create what they do not find, the second finds what the first has created."""
    with clew.open(url) as first, clew.open(url) as second:
        units.prepare(first)
        met = threading.Barrier(2)

        def work(store: clew.Store) -> bool:
            met.wait(10)

            def ensure(unit: Unit) -> bool:
                found = unit.session(FREE)
                if found is None:
                    unit.create(of(unit, ONE).data, FREE)
                return found is None

            return store.write(ensure)

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(work, (first, second))) == [False, True]


def test_an_index_whose_newest_came_meanwhile(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is added last to an index is the first of it, also if another was added after the highest rank was read."""
    with clew.open(url) as first, clew.open(url) as second:
        real = shared.SharedTx.add_ref
        calls = [put(OTHER, index=INDEX)]

        def add_ref(tx: shared.SharedTx, row: Any) -> int:
            if calls:
                calls.pop()(second)
            return real(tx, row)

        monkeypatch.setattr(shared.SharedTx, "add_ref", add_ref)
        put(NOTE, index=INDEX)(first)
        found = first.documents("note", index=INDEX)
        assert [one.id for one in found] == [ids.text(NOTE), ids.text(OTHER)]


def test_what_needs_no_lock_of_the_store(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What people and adapters do all the time runs beside others."""
    with clew.open(url) as store:
        monkeypatch.setattr(Turns, "take", lambda turns: pytest.fail("it waits for its turn"))
        session = store.sessions.create(title="one", cwd="/a", labels=["x"])
        first = session.append(clew.user("first"))
        session.append([clew.user("a"), clew.assistant("b")])
        session.rename("new").label("y").update(model="m")
        session.rewind(first)
        session.append(clew.user("c"))
        session.fork().append(clew.user("d"))
        session.compact(clew.user("in short"))
        session.log.append(
            [b"x", b"y"], id=["01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"]
        )
        session.append(clew.user("look", session.attach(b"x" * 600_000, mime_type="text/plain")))
        store.sessions.create(agent="explorer", owner=session).append(clew.user("e"))
        (root,) = store.nodes.save(clew.user("alone"))
        store.nodes.save([clew.user("f"), clew.user("g")], parent=root.id)
        session.hold("a case").release()

        def work(unit: Unit) -> None:
            found = of(unit, session.id)
            digest = unit.blob(found, b"z")
            document = unit.put("note", NOTE, b"{}", owner=found, index=INDEX, labels=[b"l" * 16])
            unit.use(document, found, [digest])
            unit.log(found, [(None, b"{}")])
            assert unit.documents("note", index=INDEX, limit=1)
            assert unit.has_label(document, b"l" * 16)
            unit.append(found, [clew.user("h")])
            unit.move(found, None)
            unit.put("note", NOTE, b"[]")

        store.write(work)
        call = Call(lambda: session.rename("in a batch"))
        Parts.of(store).engine.backend.batch([call, Call(lambda: store.write(work))])
        assert session.refresh().title == "in a batch"
        monkeypatch.undo()
        assert store.verify().ok


def test_a_reader_behind_eight_writers(url: str) -> None:
    """Who reads on in the order of storing, up to what is settled, reads each message once, whatever is on its way."""
    with clew.open(url) as one, clew.open(url) as two:
        sessions = [store.sessions.create() for store in (one, two) for _ in range(4)]
        backend = Parts.of(one).engine.backend
        found: list[bytes] = []
        over = threading.Event()

        def write(store: clew.Store, session: clew.Session) -> None:
            for number in range(25):
                session.append(clew.user(f"append {number}"))
                store.write(lambda unit: unit.append(of(unit, session.id), [clew.user("a"), clew.assistant("b")]))

        def read() -> None:
            last = 0
            while True:
                ended, settled = over.is_set(), backend.settled_ord()
                places = backend.read(lambda tx: tx.by_ord(last, settled + 1, newest=False, limit=100_000))
                found.extend(place.row[ID] for _, place in places)
                last = settled
                if ended:
                    return

        with ThreadPoolExecutor(9) as pool:
            reader = pool.submit(read)
            writers = [pool.submit(write, (one, two)[at // 4], session) for at, session in enumerate(sessions)]
            for writer in writers:
                writer.result(60)
            over.set()
            reader.result(60)
        assert len(found) == 8 * 25 * 3
        assert found == [
            place.row[ID] for _, place in backend.read(lambda tx: tx.by_ord(0, None, newest=False, limit=1000))
        ]


def test_each_method_is_protected() -> None:
    """Each method of a transaction has its own rule, or is refused: none comes from the other kind by mistake."""
    for kind in (Tx, BlobTx, MaintenanceTx):
        for name in vars(kind):
            if not name.startswith("_") and name not in ("blobs", "maintenance", *shared.ANYWHERE):
                assert name in vars(shared.SharedTx), name
    inherited = {name for kind in shared.SharedTx.__mro__[1:] for name in vars(kind)}
    assert not inherited.intersection(shared.SharedTx.__slots__)


def test_an_order_of_units(url: str) -> None:
    """What four processes have read and written can be explained by one unit after the other."""
    with clew.open(url) as store:
        units.prepare(store)
        done = units.together(url, 4, 6.0)
        units.check(done, units.final(store, done))
        life = store.read(lambda unit: unit.document("life", units.BORN))
        steps = [] if life is None else json.loads(life.data)
        assert steps == ["created", "deleted"] * (len(steps) // 2) + ["created"] * (len(steps) % 2)
        assert store.verify().ok
