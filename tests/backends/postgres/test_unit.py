"""P12 for a unit of work: whatever it has written when the answer of its commit is lost, it is stored once."""

from __future__ import annotations

import pytest

import clew
from clew.engine.session_data import SessionData
from clew.store.unit import Unit
from tests.backends.postgres.proxy import Cut, Proxy
from tests.store.test_unit import check_shared_commits


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_unit_whose_answer_is_lost(proxy: Proxy, when: Cut) -> None:
    """Appends, moves, documents, entries and deletions are stored once, and the caller never hears of it."""
    with clew.open(proxy.url(), timeout=10) as store:
        session = store.sessions.create()
        session.append([clew.user(text) for text in "123"])
        key, cuts = store.derived_id("a"), 0

        def pop(unit: Unit) -> str:
            (last,) = unit.path(session, last=1)
            unit.move(session, to=last.parent_id)
            return last.text

        works = [
            (lambda unit: unit.append(session, [clew.user("CANARY")])[0].text, "CANARY"),
            (pop, "CANARY"),
            (lambda unit: unit.put("document", key, b"[1]", owner=session).data, b"[1]"),
            (lambda unit: unit.put("document", key, b"[2]").data, b"[2]"),
            (lambda unit: unit.log(unit.document("document", key), [(None, b"x")]), None),
            (lambda unit: unit.label(unit.document("document", key), [key]), None),
            (lambda unit: unit.create(SessionData(title="t"), store.derived_id("b")).title, "t"),
            (lambda unit: unit.save(session, SessionData(title="new")).title, "new"),
            (lambda unit: unit.delete(unit.session(store.derived_id("b"))), None),
        ]
        # An append is one statement if this process has left the head where it is; all else ends with COMMIT.
        for work, wanted in works:
            proxy.cut_at(b"CANARY" if wanted == "CANARY" and work is not pop else b"COMMIT", when)
            assert store.write(work) == wanted
            cuts += 1
            assert proxy.cuts == cuts
        assert [node.text for node in session.path()] == ["1", "2", "3"]
        assert len(session.branches()) == 1
        document = store.read(lambda unit: unit.document("document", key))
        assert document is not None
        assert document.data == b"[2]"
        assert [one.data for one in document.log.read()] == [b"x"]
        assert session.refresh().title == "new"
        assert len(store.sessions.list().items) == 1
        assert store.verify().ok


def test_what_was_there_before_proves_nothing(proxy: Proxy) -> None:
    """A document whose label and blob the store has already is replaced, although the first commit is lost."""
    with clew.open(proxy.url(), timeout=10) as store:
        session, key = store.sessions.create(), store.derived_id("a")

        def replace(unit: Unit, data: bytes) -> None:
            document = unit.put("document", key, data, owner=session)
            unit.label(document, [key])
            unit.use(document, session, [unit.blob(session, b"the same")])

        store.write(lambda unit: replace(unit, b"[1]"))
        proxy.cut_at(b"COMMIT", "before")
        store.write(lambda unit: replace(unit, b"[2]"))
        assert proxy.cuts == 1
        found = store.read(lambda unit: unit.document("document", key))
        assert found is not None
        assert found.data == b"[2]"


def test_units_share_commits(server) -> None:
    """Units of many threads on a server: each is stored once or not at all, and its own error reaches the caller."""
    with clew.open(server.url()) as store:
        check_shared_commits(store)
