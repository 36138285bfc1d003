"""The trash and holds, where the contract of a backend does not reach: damage, other processes, expiry, old data."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import clew
import clew.aio
from clew.backends import RefRow
from clew.engine.session_data import SessionData, unpack
from clew.store.parts import Parts
from clew.store.session import delete_session
from clew.store.store import Store
from clew.testing import FakeClock

FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "format-1.db"


def test_a_hold_is_seen_by_whoever_deletes(path: Path) -> None:
    """A hold that another process sets after a session was read is checked when it is deleted, not before."""
    with clew.open(path) as here, clew.open(path) as there:
        session = here.sessions.create()
        nodes = session.append([clew.user("a"), clew.user("b")])
        there.sessions.hold(session.id)
        assert not session.held
        for deed in (partial(delete_session, session), session.trash, lambda: here.nodes.delete(nodes[1].id)):
            with pytest.raises(clew.Conflict, match=session.id) as caught:
                deed()
            assert caught.value.hint == "Release it first."
        assert session.refresh().held
        there.sessions.release(session.id)
        assert delete_session(session).messages == 2


def test_two_restore_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second restore raises NotFound, even if the session was in the trash when it was found."""
    with clew.open(path) as here, clew.open(path) as there:
        session = here.sessions.create().trash()
        table = Parts.of(here).table
        find = table.find

        def find_late(*args: Any, **settings: Any) -> RefRow:
            found = find(*args, **settings)
            there.sessions.restore(session.id)
            return found

        monkeypatch.setattr(table, "find", find_late)
        with pytest.raises(clew.NotFound, match="in the trash"):
            here.sessions.restore(session.id)
        assert there.sessions.get(session.id).version == 3


def test_a_hold_reaches_through_compactions_of_compactions(store: Store, sound: Callable[[Store], None]) -> None:
    """A hold also covers messages that two compactions replaced, and those of earlier branches."""
    session = store.sessions.create()
    first = session.append([clew.user("a"), clew.user("b")])
    session.rewind(first[0].id)
    session.append(clew.user("c"))
    session.compact(clew.user("one"))
    session.compact(clew.user("two"))
    session.append(clew.user("d"))
    fork = session.fork()
    delete_session(session)
    fork.hold()
    for node in fork.history():
        with pytest.raises(clew.Conflict, match=fork.id):
            store.nodes.delete(node.id, recursive=True)
    assert [node.text for node in fork.history()] == ["a", "c", "one", "two", "d"]
    sound(store)


def test_a_hold_on_what_is_deep_down_is_found(store: Store) -> None:
    """The hold of a subagent's subagent keeps every session above it; the hold of a session every trace below it."""
    top = store.sessions.create()
    middle = store.sessions.create(agent="m", owner=top)
    low = store.sessions.create(agent="l", owner=middle)
    said = low.append(clew.user("x"))
    for held in (top, middle, low):
        held.hold()
        for session in (top, middle, low):
            for deed in (partial(delete_session, session), session.trash):
                with pytest.raises(clew.Conflict, match=held.id):
                    deed()
        with pytest.raises(clew.Conflict, match=held.id):
            store.nodes.delete(said.id)
        held.release()
    assert delete_session(top).messages == 1


def test_what_is_held_does_not_expire(store: Store) -> None:
    """A session past its time is not listed, counted or picked; a hold brings it back until it is released."""
    session = store.sessions.create()

    def expire(tx):
        row = store._refs.get(tx, "session", session._row.key)
        store._refs.change(tx, row, store._refs.data(row), look=row.look, expires_at=1)

    store._engine.write(expire)
    for held in (False, True, False):
        (store.sessions.hold if held else store.sessions.release)(session.id)
        page = store.sessions.list(total=True)
        assert (page.items, page.total) == (([session], 1) if held else ([], 0))
        assert store.sessions.list(title="", total=True).total == int(held)
        if held:
            assert store.sessions.latest() == session
        else:
            with pytest.raises(clew.NotFound):
                store.sessions.latest()


@pytest.mark.parametrize(
    ("column", "value"), [("hold", "0"), ("hold", "1"), ("trashed_at", "NULL"), ("trashed_at", "5")]
)
def test_a_changed_mark_is_noticed(path: Path, column: str, value: str) -> None:
    """Changing a hold or the time of trashing in the database is detected: the session's data does not open."""
    with clew.open(path) as store:
        held, plain, gone = (store.sessions.create(title=title) for title in ("held", "plain", "gone"))
        held.hold("why")
        gone.trash()
    conn = sqlite3.connect(path)
    title = "held" if (column, value) == ("hold", "0") else "gone" if value == "NULL" else "plain"
    changed = {"held": held, "plain": plain, "gone": gone}[title]
    where = "(SELECT ref FROM refs WHERE instr(data, ?))"
    assert conn.execute(f"UPDATE refs SET {column} = {value} WHERE ref = {where}", (title,)).rowcount == 1
    conn.commit()
    conn.close()
    with clew.open(path) as store:
        assert [one.where for one in store.verify().damage] == [changed.id]
        (found,) = [one for one in (*store.sessions.list().items, *store.sessions.trashed().items) if one == changed]
        for look in (lambda: found.title, lambda: found.held, lambda: found.hold_reason):
            with pytest.raises(clew.Corrupted):
                look()
        for deed in (store.sessions.restore, store.sessions.trash, store.sessions.release):
            with suppress(clew.ClewError):
                deed(found.id)
        # Nothing has signed it anew, which would hide the damage.
        assert [one.where for one in store.verify().damage] == [changed.id]


def test_the_trash_does_not_hide_damage(path: Path) -> None:
    """A session with a damaged branch is not trashed, because that would sign the branch again."""
    with clew.open(path) as store:
        session = store.sessions.create()
        nodes = session.append([clew.user("a"), clew.user("b")])
        session.rewind(nodes[0].id)
    conn = sqlite3.connect(path)
    assert conn.execute("UPDATE refs SET active_at = 7 WHERE kind = 'branch'").rowcount == 1
    conn.commit()
    conn.close()
    with clew.open(path) as store:
        with pytest.raises(clew.Corrupted):
            store.sessions.trash(session.id)
        assert store.sessions.get(session.id).trashed_at is None
        assert not store.verify().ok


def test_data_without_a_reason_is_read(tmp_path: Path, sound: Callable[[Store], None]) -> None:
    """Sessions of a store that knew no holds can be read, held, trashed and restored."""
    assert unpack(b'\x01{"title":"t"}') == SessionData("t")
    shutil.copy(FORMAT_1, tmp_path / "old.db")
    with clew.open(tmp_path / "old.db") as store:
        sessions = store.sessions.list().items
        said = {session: [node.id for node in session.history()] for session in sessions}
        assert {(one.held, one.hold_reason, one.trashed_at) for one in sessions} == {(False, None, None)}
        for session in sessions:
            session.hold("why").release().trash()
        assert store.sessions.list(total=True).total == 0
        assert store.sessions.trashed().items == sessions[::-1]
        for session in sessions:
            assert [node.id for node in store.sessions.restore(session.id).history()] == said[session]
        assert store.sessions.list().items == sessions
        sound(store)


@pytest.mark.parametrize("reason", [5, b"why", "\ud800", ["why"]])
def test_a_reason_is_text(store: Store, reason: object) -> None:
    """An invalid reason is refused, and the session is not held."""
    session = store.sessions.create()
    with pytest.raises(clew.Invalid):
        session.hold(reason)  # type: ignore[arg-type]
    assert not session.refresh().held


def test_an_undone_transaction_leaves_nothing_in_the_trash(store: Store) -> None:
    """A rolled-back transaction leaves no trace of trashing, restoring or holding."""
    one, two = store.sessions.create(), store.sessions.create()
    two.append(clew.user("x"))
    with pytest.raises(ZeroDivisionError), store.transaction():
        one.trash()
        store.sessions.hold(two.id)
        assert store.sessions.trashed().items == [one]
        raise ZeroDivisionError
    assert store.sessions.list().items == [two, one]
    assert not store.sessions.get(two.id).held
    two.append(clew.user("y"))
    assert delete_session(two).messages == 2


def test_a_hidden_hit_makes_room_for_the_next(store: Store) -> None:
    """A search finds as many as it was asked for, however many better ones are in the trash."""
    for number in range(30):
        session = store.sessions.create()
        session.append(clew.user("lint " + "word " * number))
        if number < 25:
            session.trash()
    assert len(store.search("lint", limit=3)) == 3
    assert len(store.search("lint", limit=20)) == 5


def test_a_large_trash_is_paged(path: Path) -> None:
    """Pages of a large trash have each session once, in order; the last one has no cursor."""
    with clew.open(path, durability="relaxed", clock=FakeClock(tick=1)) as store:
        with store.transaction():
            made = [store.sessions.create(title="t") for _ in range(700)]
        with store.transaction():
            for session in made:
                session.trash()
        seen: list[clew.Session] = []
        cursor, pages = None, 0
        while cursor is not None or pages == 0:
            page = store.sessions.trashed(limit=300, cursor=cursor)
            seen, cursor, pages = [*seen, *page.items], page.next_cursor, pages + 1
        assert (seen, pages) == (made[::-1], 3)


def test_the_async_face_has_them() -> None:
    """Trash, restore, hold and release are awaited, and give sessions with the async face."""

    async def work() -> None:
        async with clew.aio.open(":memory:") as store:
            session = await store.sessions.create(title="t")
            await session.hold("why")
            assert (session.held, session.hold_reason) == (True, "why")
            with pytest.raises(clew.Conflict):
                await store.sessions.trash(session.id)
            await (await store.sessions.release(session.id)).trash()
            page = await store.sessions.trashed()
            assert page.items == [session]
            assert page.items[0].trashed_at is not None
            back = await store.sessions.restore(await session.handle)
            await back.append(clew.user("x"))

    anyio.run(work)
