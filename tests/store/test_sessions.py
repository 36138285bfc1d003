"""Sessions, beyond what the contract of every backend says."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

import clew
from clew.store.session import delete_session
from clew.store.store import Store
from clew.testing import FakeClock

CHANGES: dict[str, Callable[[clew.Session, str], object]] = {
    "append": lambda session, _: [session.append(clew.user("undone")) for _ in range(3)],
    "rewind": lambda session, first: session.rewind(first),
    "compact": lambda session, _: session.compact(clew.system("undone")),
    "rename": lambda session, _: session.rename("undone"),
    "label": lambda session, _: session.label("undone"),
    "hold": lambda session, _: session.hold("undone"),
    "trash": lambda session, _: session.trash(),
    "append, rename": lambda session, _: (session.append(clew.user("undone")), session.rename("undone")),
}
"""What can be done to a session in a transaction."""


def said(count: int) -> list[clew.Message]:
    return [clew.user(str(number)) for number in range(count)]


def test_what_a_session_says_of_itself(store: Store) -> None:
    """Everything given at creation is there when the session is read again."""
    made = store.sessions.create(title="t", cwd=Path("/src/app"), model="m", labels=["b", "a", "b"], extra={"k": [1]})
    session = store.sessions.get(made.id)
    assert (session.title, session.cwd, session.model, session.labels) == ("t", "/src/app", "m", ("a", "b"))
    assert (session.extra, session.agent, session.forked_from, session.head_id) == ({"k": [1]}, None, None, None)
    assert session == made
    assert {session, made} == {made}
    with session as same:
        assert same is session


def test_appending_moves_the_session_forward(path: Path) -> None:
    """Activity, counts and version follow every append, so that `latest` continues the right session."""
    clock = FakeClock()
    with clew.open(path, clock=clock) as store:
        session, other = store.sessions.create(cwd="/a"), store.sessions.create(cwd="/a")
        began = session.updated_at
        clock.advance(timedelta(minutes=5))
        session.append([clew.user("q"), clew.assistant("a", usage=clew.Usage(input=5, output=2, cost=9))])
        assert session.updated_at - began == timedelta(minutes=5)
        assert session.created_at == began
        assert (session.counters.messages, session.counters.turns, session.counters.tokens) == (2, 1, 7)
        assert store.sessions.latest("/a") == session
        other.append(clew.user("q"))
        assert store.sessions.latest("/a") == other


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE nodes SET body = substr(body, 1, 20) || x'00' || substr(body, 22)",
        "UPDATE nodes SET body = 'text'",
        "UPDATE nodes SET body = x''",
        "UPDATE nodes SET facts = x'00'",
        "UPDATE nodes SET id = x'0102'",
        "DELETE FROM nodes",
    ],
)
def test_messages_report_the_damage_that_nodes_report(path: Path, damage: str) -> None:
    """`messages` raises the error of `path` for a message that was changed or is missing, and then reads on."""
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append(said(5))
        with sqlite3.connect(path) as conn:
            conn.execute(f"{damage} WHERE pos & 0xffffff = 2")
        conn.close()
        with pytest.raises(clew.Corrupted) as by_node:
            [node.message for node in session.path()]
        with pytest.raises(clew.Corrupted) as by_message:
            session.messages()
        assert str(by_message.value) == str(by_node.value)
        assert store.sessions.latest().messages(last=1) == said(5)[-1:]


def test_continuing_keeps_the_id(store: Store) -> None:
    """Resuming by id is the same session, not a copy of it."""
    session = store.sessions.create()
    session.append(clew.user("a"))
    resumed = store.sessions.get(session.id)
    resumed.append(clew.user("b"))
    assert (resumed.id, len(session.path()), store.sessions.list(total=True).total) == (session.id, 2, 1)


def test_resuming_at_a_message(store: Store) -> None:
    """A path up to a message includes it; an unknown one is an error, not everything."""
    session = store.sessions.create()
    nodes = session.append(said(5))
    assert session.path(until=nodes[2].handle) == nodes[:3]
    with pytest.raises(clew.NotFound):
        session.path(until="00000000-0000-4000-8000-000000000001")


def test_directories_are_exact(store: Store) -> None:
    """`/a-b` and `/a/b` are different, `/a/b/` and `/a/b` are not; the error of `latest` names the directory."""
    one, two = store.sessions.create(cwd="/a/b"), store.sessions.create(cwd="/a-b")
    assert (store.sessions.latest("/a/b/"), store.sessions.latest("/a-b")) == (one, two)
    with pytest.raises(clew.NotFound, match="/elsewhere"):
        store.sessions.latest("/elsewhere")
    one.update(cwd="/moved/")
    assert store.sessions.latest("/moved") == one
    with pytest.raises(clew.NotFound):
        store.sessions.latest("/a/b")
    one.update(cwd=None, model="m2", extra={"x": 1})
    assert (one.cwd, one.model, one.extra) == (None, "m2", {"x": 1})


def test_a_subagents_trace_is_its_own_chain(store: Store) -> None:
    """A subagent's messages are apart from its owner's, never continued, and forking one makes a session."""
    session = store.sessions.create(cwd="/a")
    session.append(clew.user("q"))
    trace = store.sessions.create(agent="explorer", owner=session, labels=["subagent:explorer:1"], cwd="/a")
    assert (trace.owner_id, session.owner_id) == (session.id, None)
    trace.append([clew.user("go"), clew.assistant("done")])
    assert [node.parent_id is None for node in trace.path()] == [True, False]
    assert store.sessions.latest() == store.sessions.latest("/a") == session
    assert store.sessions.list(label="subagent:explorer:1").items == []
    assert store.sessions.get(trace.handle).agent == "explorer"
    fork = trace.fork()
    assert (fork.is_subagent, store.sessions.latest()) == (False, fork)
    with pytest.raises(clew.Invalid):
        store.sessions.create(owner=session)


def test_deleting_an_owner_takes_its_subagents_whole(store: Store, sound: Callable[[Store], None]) -> None:
    """Traces of subagents of subagents go too, with what was attached to them and never shown."""
    session = store.sessions.create()
    inner = store.sessions.create(agent="a", owner=session)
    innermost = store.sessions.create(agent="b", owner=inner)
    innermost.append(clew.user("x"))
    innermost.blobs.put(b"never shown")
    assert delete_session(session).messages == 1
    counts = store.verify().counts
    assert [counts[name] for name in ("trees", "refs", "nodes", "blobs", "chunks")] == [
        0,
        1,
        0,
        0,
        0,
    ]  # what was purged
    sound(store)


def test_rewinding_loses_nothing(store: Store) -> None:
    """A rewound session can be rewound again, forked from what it left, and goes back to before its first message."""
    session = store.sessions.create()
    nodes = session.append(said(4))
    for to in (nodes[2].id, nodes[1].id, None):
        session.rewind(to)
        session.append(clew.user(f"after {to}"))
    assert len(session.branches()) == 3
    back = session.fork(at=nodes[3].id)
    assert back.path() == nodes
    with pytest.raises(clew.NotFound):
        session.rewind(nodes[3].id)


def test_forks_of_forks_stay_apart(store: Store) -> None:
    """Ten generations of forks each see their own line, and deleting all but one keeps that one."""
    session = store.sessions.create()
    session.append(clew.user("0"))
    line = [session]
    for number in range(1, 10):
        line.append(line[-1].fork())
        line[-1].append(clew.user(str(number)))
    for number, one in enumerate(line):
        assert [node.text for node in one.path()] == [str(n) for n in range(number + 1)]
    for one in line[:-1]:
        delete_session(one)
    assert [node.text for node in line[-1].path()] == [str(n) for n in range(10)]
    assert delete_session(line[-1]).messages == 10


def test_a_fork_at_a_compacted_message_is_before_the_summary(store: Store) -> None:
    """A session can be forked at a message that a compaction replaced."""
    session = store.sessions.create()
    old = session.append(said(3))
    session.compact(clew.system("summary"))
    fork = session.fork(at=old[1].id)
    assert fork.path() == old[:2]
    delete_session(session)
    assert fork.path() == old[:2]


def test_compacting_what_has_moved_is_a_conflict(store: Store) -> None:
    """A summary of what is no longer all is refused if the head was named."""
    session = store.sessions.create()
    first = session.append(clew.user("a"))
    session.append(clew.user("b"))
    with pytest.raises(clew.Conflict):
        session.compact(clew.system("s"), expect_head=first.id)
    assert len(session.path()) == 2
    assert session.compact([clew.system("s"), clew.user("go on")], expect_head=session.head_id)[1].parent_id is not None


def test_a_lost_answer_is_settled_by_asking_again(store: Store) -> None:
    """The same append after an unknown outcome is stored once, alone, in a list, or with a named head (P12)."""
    session = store.sessions.create()
    names = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(3)]
    for _ in range(3):
        session.append(said(3), id=names, expect_head=None)
        session.append(clew.user("x"), id="00000000-0000-4000-8000-00000000000a", expect_head=names[2])
    assert len(session.path()) == 4


def test_concurrent_changes_are_never_lost(path: Path) -> None:
    """Labels added through two openers at once are both kept: no last write wins."""
    with clew.open(path) as one, clew.open(path) as two:
        here = one.sessions.create()
        there = two.sessions.get(here.id)
        here.label("a")
        there.label("b")
        there.rename("t")
        here.append(clew.user("x"))
        assert (here.refresh().labels, here.title, there.refresh().version) == (("a", "b"), "t", here.version)


def test_times_are_utc_to_the_microsecond(path: Path) -> None:
    """Times are read back exactly, with their zone; a time in another zone is the same time."""
    with clew.open(path, clock=FakeClock(1_700_000_000_123_457)) as store:
        session = store.sessions.create()
        assert session.created_at == datetime(2023, 11, 14, 22, 13, 20, 123457, tzinfo=UTC)
        east = datetime(2024, 1, 1, 9, tzinfo=timezone(timedelta(hours=9)))
        assert session.append(clew.user("x"), created_at=east).created_at == datetime(2024, 1, 1, tzinfo=UTC)


def test_a_thousand_sessions_page_through(path: Path) -> None:
    """Pages of a long list have each session once, in order, with a total; the last page has no cursor."""
    with clew.open(path, durability="relaxed", clock=FakeClock()) as store:
        with store.transaction():
            made = [store.sessions.create(title=str(number)).id for number in range(1000)]
        seen, cursor, pages = [], None, 0
        while True:
            page = store.sessions.list(limit=300, cursor=cursor, total=pages == 0)
            assert page.total == (1000 if pages == 0 else None)
            seen += [session.id for session in page.items]
            cursor, pages = page.next_cursor, pages + 1
            if cursor is None:
                break
        assert (seen, pages) == (made[::-1], 4)
        found = store.sessions.list(title="99", limit=5, total=True)
        assert ([one.title for one in found.items], found.total) == (["999", "998", "997", "996", "995"], 19)


def test_a_cursor_of_another_store_is_refused(tmp_path: Path) -> None:
    """A cursor is good only where it was made."""
    with clew.open(tmp_path / "a.db") as one, clew.open(tmp_path / "b.db") as two:
        for store in (one, two):
            for _ in range(3):
                store.sessions.create()
        with pytest.raises(clew.Invalid):
            two.sessions.list(cursor=one.sessions.list(limit=1).next_cursor)


@pytest.mark.parametrize("change", CHANGES)
def test_a_session_shows_what_is_stored_after_an_undone_transaction(store: Store, change: str) -> None:
    """After a rollback, head, version, title and trash state of the object are those of the store."""
    session = store.sessions.create(title="before")
    first = session.append([clew.user("one"), clew.user("two")])[0]
    shown = (session.head_id, session.version, session.title, session.labels, session.trashed_at, session.held)
    with pytest.raises(KeyError), store.transaction():
        CHANGES[change](session, first.id)
        raise KeyError
    now = (session.head_id, session.version, session.title, session.labels, session.trashed_at, session.held)
    assert now == shown
    assert session.append(clew.user("three"), expect_head=session.head_id).parent_id == shown[0]


def test_a_session_after_an_undone_part_of_a_transaction(store: Store) -> None:
    """A rolled-back inner transaction is undone in the object; changes of the outer one stay while it is open."""
    session = store.sessions.create(title="before")
    with pytest.raises(KeyError), store.transaction():
        session.rename("outer")
        with pytest.raises(ValueError, match="inner"), store.transaction():
            session.append(clew.user("inner"))
            session.rename("inner")
            raise ValueError("inner")
        assert (session.title, session.head_id) == ("outer", None)
        with store.transaction():
            session.rename("kept inside")
        assert session.title == "kept inside"
        raise KeyError
    assert (session.title, session.version) == ("before", 1)


def test_a_session_that_others_changed_before_an_undone_transaction(store: Store, path: Path) -> None:
    """It is read again, not only put back: what others had stored shows."""
    session = store.sessions.create(title="before")
    with clew.open(path) as other:
        other.sessions.get(session.id).rename("by another")
    with pytest.raises(KeyError), store.transaction():
        session.append(clew.user("undone"))
        raise KeyError
    assert (session.title, session.head_id) == ("by another", None)


def test_a_session_made_in_an_undone_transaction_is_not_there(store: Store, sound: Callable[[Store], None]) -> None:
    """A session created in a rolled-back transaction cannot be used, even if its number was given to another."""
    with pytest.raises(RuntimeError), store.transaction():
        ghost = store.sessions.create(title="ghost")
        raise RuntimeError
    real = store.sessions.create(title="real")
    for use in (
        lambda: ghost.append(clew.user("x")),
        lambda: ghost.rewind(None),
        lambda: ghost.log.append(b"x"),
        ghost.path,
        ghost.purge,
    ):
        with pytest.raises(clew.NotFound):
            use()
    assert (real.path(), len(real.log)) == ([], 0)
    sound(store)


def _hammer(path: str, session: str, writer: int, count: int) -> None:
    with clew.open(path, durability="relaxed") as store:
        mine = store.sessions.get(session)
        for number in range(count):
            mine.append(clew.user(f"{writer} {number}"))


@pytest.mark.checklist("D21")
def test_processes_share_a_session(path: Path, sound: Callable[[Store], None]) -> None:
    """Messages of several processes interleave in one session, each in its writer's order."""
    with clew.open(path) as store:
        session = store.sessions.create()
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_hammer, args=(str(path), session.id, writer, 40)) for writer in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    with clew.open(path) as store:
        texts = [node.text for node in store.sessions.get(session.id).path()]
        assert len(texts) == 120
        for writer in range(3):
            assert [text for text in texts if text.startswith(f"{writer} ")] == [f"{writer} {n}" for n in range(40)]
        sound(store)


def test_a_session_and_a_subagent_never_share_an_id(tmp_path):
    """An id belongs to one session of any kind."""
    with clew.open(tmp_path / "s.db") as store:
        child = store.sessions.create(agent="helper")
        for make in (store.sessions.create, store.sessions.create().fork):
            with pytest.raises(clew.Conflict):
                make(id=child.id)
        assert store.sessions.get(child.id) == child


@pytest.mark.parametrize("limit", [0, -1, "5", 2.5, None, 1 << 70])
def test_a_limit_is_a_whole_number(tmp_path, limit):
    """An invalid limit is refused by every list."""
    with clew.open(tmp_path / "s.db") as store:
        for ask in (store.sessions.list, store.nodes.list, lambda limit: store.search("x", limit=limit)):
            with pytest.raises(clew.Invalid):
                ask(limit=limit)
        with pytest.raises(clew.Invalid):
            store.nodes.get(5)  # type: ignore[arg-type]


def test_a_session_deleted_while_it_is_read_is_not_damage(tmp_path):
    """Reading a session that is deleted between two pages raises NotFound."""
    with clew.open(tmp_path / "s.db") as store:
        session = store.sessions.create()
        session.append([clew.user(str(number)) for number in range(50)])
        nodes = session.iter()
        next(nodes)
        delete_session(session)
        with pytest.raises(clew.NotFound, match="deleted while"):
            list(nodes)


@pytest.mark.parametrize(
    "bad", [{"max_body": "x"}, {"max_body": 0}, {"workspace": 5}, {"timeout": "x"}, {"timeout": -1}]
)
def test_options_of_open_are_checked(bad):
    """An option that makes no sense is Invalid when the store is opened, not when it is used."""
    with pytest.raises(clew.Invalid):
        clew.open(":memory:", **bad)


def test_a_session_may_begin_at_any_stored_message(tmp_path):
    """A session can continue from a message saved without a session; deleting the session keeps that message."""
    with clew.open(tmp_path / "s.db") as store, clew.open(tmp_path / "s.db", workspace="other") as other:
        root, reply = store.nodes.save([clew.user("root"), clew.assistant("reply")])
        session = store.sessions.create(title="on", at=reply.handle)
        session.append(clew.user("more"))
        assert [node.text for node in session.path()] == ["root", "reply", "more"]
        assert session.counters.messages == 3
        with pytest.raises(clew.NotFound):
            other.sessions.create(at=root.id)
        with pytest.raises(clew.NotFound):
            store.sessions.create(at="01890a5d-ac96-774b-bcce-b302099a8057")
        assert delete_session(session).messages == 1
        assert [node.text for node in store.nodes.path(reply.id)] == ["root", "reply"]
        assert store.verify().ok


@pytest.mark.parametrize("way", ["iter", "history", "log", "snapshot"])
def test_what_is_deleted_before_it_is_read_is_no_damage(way: str) -> None:
    """Reading a deleted session in pieces raises NotFound; a part is never returned as the whole."""
    with clew.open(":memory:") as store:
        session = store.sessions.create()
        session.append([clew.user("one"), clew.assistant("two")])
        session.log.append([b"entry"] * 300)
        snapshot = store.snapshots.load(store.snapshots.take(session).id)
        entries = session.log.read()
        reads = {"iter": session.iter(), "history": session.history(), "log": entries, "snapshot": snapshot.parts}
        next(entries)
        store.snapshots.delete(snapshot.id)
        delete_session(session)
        with pytest.raises(clew.NotFound):
            list(reads[way])


def test_the_session_of_a_message(store: Store) -> None:
    """The most recently active one that has it, also before a compaction; one with it in a branch only if asked."""
    first, other = store.sessions.create(), store.sessions.create()
    shared, left = first.append(said(2))
    fork = first.fork(at=shared.id)
    fork.append(clew.user("later"))
    lone = other.append(clew.user("lone"))
    other.compact(clew.system("summary"))
    assert [store.sessions.with_message(one) for one in (shared, left, lone)] == [fork, first, other]
    assert store.sessions.with_message(shared, branches=True) == fork
    first.rewind(shared.id)
    assert store.sessions.with_message(left) is None
    assert store.sessions.with_message(left, branches=True) == first


def test_a_session_that_may_be_in_the_trash(store: Store) -> None:
    """`find_anywhere` finds by id and handle what `get` does, and what the trash has."""
    live, gone = store.sessions.create(title="live"), store.sessions.create(title="gone")
    gone.trash()
    assert [store.sessions.find_anywhere(one.id).title for one in (live, gone)] == ["live", "gone"]
    assert store.sessions.find_anywhere(live.handle) == live
    with pytest.raises(clew.NotFound):
        store.sessions.find_anywhere("0" * 32)
