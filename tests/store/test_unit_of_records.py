"""What records ask of a unit of work and of the lists of a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.errors import Invalid
from clew.store import listing
from clew.store.unit import Unit

KEY = bytes(range(32))


@pytest.fixture(params=["plain", "sealed"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "s.db", key=KEY if request.param == "sealed" else None) as store:
        yield store


def test_the_size_of_a_path(store: clew.Store) -> None:
    """A unit adds up the stored bytes of the messages down to the head, also those that it has stored itself."""
    session = store.sessions.create()
    assert store.read(lambda unit: unit.size(session)) == 0
    first, second = session.append([clew.user("a" * 1000), clew.assistant("b" * 3000)])
    assert store.read(lambda unit: unit.size(session)) == first.size + second.size > 4000

    def work(unit: Unit) -> tuple[int, int]:
        (third,) = unit.append(session, [clew.user("c" * 500)], after=first.id)
        return unit.size(session), third.size

    whole, third = store.write(work)
    assert whole == first.size + third


def test_what_a_compaction_replaced_is_above(store: clew.Store) -> None:
    """With `compacted`, a message that a compaction replaced is above what follows; one of a branch is not."""
    session = store.sessions.create()
    first, left = session.append([clew.user("1"), clew.assistant("left")])
    session.rewind(first.id)
    kept = session.append(clew.assistant("2"))
    session.compact(clew.user("in short"))
    end = session.append(clew.user("3")).id

    def above(unit: Unit, *, compacted: bool) -> list[bool]:
        return [unit.is_above(one.id, end, compacted=compacted) for one in (first, kept, left)]

    assert store.read(lambda unit: above(unit, compacted=True)) == [True, True, False]
    assert store.read(lambda unit: above(unit, compacted=False)) == [False, False, False]


def test_the_owner_of_a_document(store: clew.Store) -> None:
    """A document knows the session that owns it, also in the trash; the store's own documents have none."""
    session = store.sessions.create()
    owned = store.write(lambda unit: unit.put("document", store.derived_id("k"), b"{}", owner=session))
    free = store.write(lambda unit: unit.put("document", store.derived_id("l"), b"{}"))
    session.trash()
    assert (owned.owner and owned.owner.id, free.owner) == (session.id, None)
    session.purge()
    assert owned.owner is None


def test_sessions_are_listed_page_by_page(store: clew.Store) -> None:
    """The newest first, after the cursor of any of them, or those active before a time."""
    made = [store.sessions.create(title=str(n)) for n in range(7)]
    store.sessions.create(agent="helper")
    made[5].trash()
    titles = ["6", "4", "3", "2", "1", "0"]
    found = list(listing.recent(store, page=2))
    assert [one.title for one in found] == titles
    cursor = listing.cursor_after(store, found[2])
    assert [one.title for one in listing.recent(store, cursor=cursor, page=2)] == titles[3:]
    assert [one.title for one in store.sessions.list(cursor=cursor)] == titles[3:]
    before = listing.lifetime(found[3]).active_at
    assert [one.title for one in listing.recent(store, before=before)] == titles[4:]
    assert listing.count(store, now=store.clock(), include_expired=False) == 6
    assert {one.title for one in listing.independent(store)} == {*titles, "5", None}
    with pytest.raises(Invalid):
        next(listing.recent(store, cursor="other"))
