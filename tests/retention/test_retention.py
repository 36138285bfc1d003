"""Retention: the policy as a table, what a sweep takes and what it leaves, and the sweepers that run it."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

import clew
import clew.aio
import clew.aio.retention
from clew import retention
from clew.retention import Due, Policy, Spared, Sweeper, SweepReport
from clew.store.evaluate import RETENTION
from clew.store.parts import Parts
from clew.store.session import row_of
from clew.store.store import Store
from clew.testing import FakeClock

T0 = datetime(2026, 1, 1, tzinfo=UTC)
START = int(T0.timestamp()) * 1_000_000
DAY = timedelta(days=1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture(params=["plain", "sealed"])
def store(request: pytest.FixtureRequest, path: Path, clock: FakeClock) -> Iterator[Store]:
    """A store whose clock is ours, plain and sealed."""
    with clew.open(path, clock=clock, key=bytes(range(32)) if request.param == "sealed" else None) as store:
        yield store


def talk(store: Store, *words: str) -> clew.Session:
    session = store.sessions.create(title=words[0])
    session.append([clew.user(word) for word in words])
    return session


def sweep(store: Store, policy: Policy, **settings: Any) -> SweepReport:
    """Sweeps a store whose policy this is."""
    retention.set_policy(store, policy)
    return retention.sweep(store, **settings)


def fates(store: Store, policy: Policy, **settings: Any) -> tuple[set[str], set[tuple[str, str]]]:
    """What would go, and what is spared and why."""
    plan = retention.preview(store, policy, **settings)
    return {due.session for due in plan.going}, {(one.session, one.why) for one in plan.spared}


# -- the policy


@pytest.mark.parametrize(
    ("settings", "given", "days"),
    [
        ({}, {}, 30),
        ({"days": 7}, {}, 7),
        ({"days": 180}, {}, 180),
        ({"workspaces": {"acme": 14}}, {"workspace": "acme"}, 14),
        ({"workspaces": {"acme": 14}}, {"workspace": "other"}, 30),
        ({"workspaces": {"acme": 14}}, {"workspace": "acme", "days": 60}, 60),
        ({}, {"days": 8}, 8),
        ({}, {"until": T0 + 400 * DAY}, 400),
        ({}, {"until": T0 - DAY}, -1),
        ({}, {"trashed_at": T0 + 20 * DAY}, 50),
        ({"days": 7, "trash_days": 10}, {"trashed_at": T0 + 20 * DAY}, 30),
        ({}, {"trashed_at": T0 + 20 * DAY, "days": 7}, 50),
        ({}, {"trashed_at": T0 + 20 * DAY, "until": T0 + 21 * DAY}, 21),
        ({}, {"trashed_at": T0 + 20 * DAY, "until": T0 + 400 * DAY}, 50),
        ({"days": 1}, {}, 1),
        ({"days": 400}, {}, 400),
        ({"days": 400}, {"record": True}, 180),
        ({"days": 1}, {"record": True}, 7),
        ({"days": None, "records": 30}, {"record": True}, 30),
        ({"days": 400, "records": 30}, {"record": True}, 30),
        ({"days": 90, "records": 30}, {}, 90),
        ({"records": 30, "workspaces": {"acme": 8}}, {"workspace": "acme", "record": True}, 8),
        ({"trash_days": None, "records": 9}, {"trashed_at": T0 + 20 * DAY, "record": True}, 29),
    ],
)
def test_when_a_session_is_due(settings: Any, given: Any, days: int) -> None:
    """A policy counts from the last activity, or from the trash; what a session says of itself comes first."""
    policy, due = Policy(**settings), T0 + days * DAY
    assert policy.expires_at(T0, **given) == due
    assert policy.expired(due, T0, **given)
    assert not policy.expired(due - timedelta(microseconds=1), T0, **given)


def test_the_end_of_time_is_no_error() -> None:
    """What would be due after the year 9999 is due at its end."""
    end = datetime.max.replace(tzinfo=UTC)
    assert Policy().expires_at(end - DAY) == end
    assert Policy().expires_at(end - 40 * DAY) == end - 10 * DAY


@pytest.mark.checklist("C24")
@pytest.mark.parametrize(
    "settings",
    [{"days": 0}, {"days": 2_592_000}, {"days": -30}, {"days": True}, {"days": 30.0}, {"days": "30"},
     {"trash_days": 0}, {"trash_days": 36_501}, {"workspaces": {"a": 0}}, {"workspaces": {1: 30}}, {"workspaces": None},
     {"workspaces": {"\ud800": 30}}, {"records": 6}, {"records": 181},
     {"share": 1.1}, {"share": -0.1}, {"share": float("nan")}, {"share": "half"}],
)  # fmt: skip
def test_a_policy_out_of_range_is_invalid(settings: Any) -> None:
    """1 to 36,500 days, records 7 to 180: no number of seconds is ever taken for days."""
    with pytest.raises(clew.Invalid):
        Policy(**settings)


@pytest.mark.parametrize(
    ("settings", "given"),
    [({"days": None}, {}), ({"trash_days": None}, {"trashed_at": T0}),
     ({"days": None, "records": 30}, {}), ({"workspaces": {"a": None}}, {"workspace": "a"})],
)  # fmt: skip
def test_a_policy_may_have_no_limit(settings: Any, given: Any) -> None:
    """What no number of days is set for is never due."""
    policy = Policy(**settings)
    assert not policy.expired(datetime(9999, 1, 1, tzinfo=UTC), T0, **given)
    assert policy.expired(T0 + 2 * DAY, T0, days=1, **{name: given[name] for name in given if name == "workspace"})


@pytest.mark.checklist("C24")
def test_a_policy_can_be_clamped() -> None:
    """Settings of others are brought into range, with a warning for each; what is no number is still Invalid."""
    assert Policy.clamped() == (Policy(), ())
    assert Policy.clamped(30, 30, {"a": 14}, 1.0) == (Policy(workspaces={"a": 14}, share=1.0), ())
    policy, warnings = Policy.clamped(3, 400, {"acme": 1000, "b": 8})
    assert policy == Policy(7, 180, {"acme": 180, "b": 8})
    assert len(warnings) == 3
    assert warnings[-2:] == (
        "days is 7, not 3: a record is kept 7 to 180 days",
        "trash_days is 180, not 400: a record is kept 7 to 180 days",
    )
    assert "'acme'" in warnings[0]
    with pytest.raises(clew.Invalid):
        Policy.clamped("many")  # type: ignore[arg-type]
    with pytest.raises(clew.Invalid):
        Policy.clamped(workspaces=[7])  # type: ignore[arg-type]


def test_the_policy_is_kept_in_the_store(path: Path) -> None:
    """It is read back by whoever opens the store; a workspace without its own goes by that of the store."""
    with clew.open(path) as store, clew.open(path, workspace="acme") as acme:
        assert retention.get_policy(store) is None
        with pytest.raises(clew.Invalid, match="no retention is set"):
            retention.sweep(store)
        retention.set_policy(store, Policy(14, workspaces={"acme": 60}))
        assert retention.get_policy(store) == retention.get_policy(acme) == Policy(14, workspaces={"acme": 60})
        retention.set_policy(acme, Policy(7))
        retention.set_policy(acme, Policy(8, share=0.9))
        assert retention.get_policy(acme) == Policy(8, share=0.9)
        assert retention.get_policy(store) == Policy(14, workspaces={"acme": 60})
        assert retention.sweep(store).sessions == ()
        assert store.verify().ok
        with pytest.raises(clew.Invalid):
            retention.set_policy(store, 30)  # type: ignore[arg-type]


def test_a_policy_of_a_newer_clew_is_not_guessed_at(store: Store) -> None:
    """A policy that says more than this version knows might spare what would go: nothing is swept by it."""
    retention.set_policy(store, Policy())

    def work(tx):
        row = Parts.of(store).refs.own(tx, RETENTION)
        assert row is not None
        Parts.of(store).refs.change(tx, row, b'\x01{"days":14,"spare":"labelled"}', look=None)

    Parts.of(store).engine.write(work)
    with pytest.raises(clew.Invalid, match="newer version"):
        retention.sweep(store)


# -- what goes


def test_what_is_inactive_goes_and_nothing_else(store: Store, clock: FakeClock, sound: Callable[[Store], None]) -> None:
    """AC-003: with 14 days, after 15 days without activity, a session is purged; one that was active since is not."""
    old, busy = talk(store, "old", "words"), talk(store, "busy")
    clock.advance(10 * DAY)
    busy.append(clew.user("still here"))
    clock.advance(5 * DAY)
    plan = retention.preview(store, Policy(14))
    assert plan.going == (Due(old.id, T0, T0 + 14 * DAY, "policy"),)
    assert (plan.now, plan.total, plan.messages, plan.spared, plan.doubts) == (T0 + 15 * DAY, 2, 2, (), ())
    assert plan.bytes > 0
    assert store.sessions.list(total=True).total == 2
    swept = sweep(store, Policy(14))
    assert swept.sessions == (old.id,)
    assert (swept.failures, swept.total) == ((), 2)
    assert swept.receipt is not None
    assert (swept.receipt.reason, swept.receipt.messages) == ("retention-expired", 2)
    assert store.sessions.list(include_expired=True).items == [busy]
    assert [receipt.sessions for receipt in store.sessions.receipts()] == [(old.id,)]
    again = sweep(store, Policy(14))
    assert (again.sessions, again.failures, again.receipt) == ((), (), None)
    sound(store)


def test_one_expiry_touches_no_other(store: Store, clock: FakeClock) -> None:
    """Of sessions that were active on different days each goes on its own day, and not before."""
    sessions = []
    for _ in range(6):
        sessions.append(talk(store, "x"))
        clock.advance(DAY)
    assert sweep(store, Policy(7)).sessions == ()
    for session in sessions:  # the n-th was active on day n, and is due on day n + 7
        clock.advance(DAY)
        assert sweep(store, Policy(7)).sessions == (session.id,)
    assert store.sessions.list(include_expired=True).items == []


def test_shortening_takes_effect_at_once(store: Store, clock: FakeClock) -> None:
    """What 30 days keep, 7 days purge at the next sweep, without anything else happening."""
    session, fresh = talk(store, "a"), None
    clock.advance(8 * DAY)
    fresh = talk(store, "b")
    assert sweep(store, Policy(30)).sessions == ()
    assert sweep(store, Policy(7)).sessions == (session.id,)
    assert store.sessions.list().items == [fresh]


def test_each_workspace_goes_by_itself(path: Path, clock: FakeClock) -> None:
    """A sweep sees the sessions of its workspace alone, by the days of that workspace."""
    policy = Policy(30, workspaces={"acme": 7})
    with clew.open(path, clock=clock) as store, clew.open(path, clock=clock, workspace="acme") as acme:
        mine, theirs = talk(store, "a"), talk(acme, "b")
        clock.advance(10 * DAY)
        assert sweep(store, policy).total == 1
        assert store.sessions.list().items == [mine]
        assert sweep(acme, policy).sessions == (theirs.id,)
        assert store.sessions.list().items == [mine]


def test_a_session_may_have_its_own_retention(store: Store, clock: FakeClock) -> None:
    """Days of its own count from its last activity, a moment does not; both hide it once they have passed."""
    short, long, fixed, other = (talk(store, word) for word in ("short", "long", "fixed", "other"))
    short.retain(days=7)
    long.retain(days=180)
    fixed.retain(until=T0 + 20 * DAY)
    assert (short.expires_at, fixed.expires_at, other.expires_at) == (T0 + 7 * DAY, T0 + 20 * DAY, None)
    clock.advance(6 * DAY)
    short.append(clew.user("more"))
    fixed.append(clew.user("more"))
    assert (short.expires_at, fixed.expires_at) == (T0 + 13 * DAY, T0 + 20 * DAY)
    clock.advance(6 * DAY)
    assert store.sessions.list(total=True).total == 4
    clock.advance(DAY)
    assert [one.title for one in store.sessions.list().items] == ["fixed", "other", "long"]
    assert store.sessions.list(total=True).total == store.sessions.list(title="", total=True).total == 3
    assert store.sessions.list(include_expired=True, total=True).total == 4
    assert store.sessions.latest() == fixed
    clock.advance(27 * DAY)  # day 40
    plan = retention.preview(store, Policy(30))
    assert {(due.session, due.why) for due in plan.going} == {
        (short.id, "own"), (fixed.id, "own"), (other.id, "policy"),
    }  # fmt: skip
    store.sessions.get(other.id).retain(days=60)
    store.sessions.get(fixed.id).retain()
    assert store.sessions.get(fixed.id).expires_at is None
    assert sweep(store, Policy(30)).sessions == (short.id, fixed.id)  # fixed: day 6 + 30
    assert set(store.sessions.list().items) == {long, other}
    assert store.verify().ok


@pytest.mark.parametrize(
    "settings",
    [{"days": 0}, {"days": 36_501}, {"days": "30"}, {"days": 30, "until": T0}, {"until": datetime(2026, 1, 1)},
     {"until": "2026-01-01"}],
)  # fmt: skip
def test_a_retention_that_is_none_is_invalid(store: Store, settings: Any) -> None:
    """Out of range, two at once, or a time without a zone: Invalid, and nothing is changed."""
    session = talk(store, "a")
    with pytest.raises(clew.Invalid):
        session.retain(**settings)
    assert session.refresh().expires_at is None


def test_a_moment_long_past_is_no_number_of_days(store: Store, clock: FakeClock) -> None:
    """A session that was to be kept until before 1970 is due at once, as soon as it is quiet."""
    session = talk(store, "a")
    session.retain(until=datetime(1960, 1, 1, tzinfo=UTC))
    assert store.sessions.list().items == []
    assert fates(store, Policy()) == (set(), {(session.id, "open")})
    clock.advance(timedelta(minutes=31))
    assert fates(store, Policy()) == ({session.id}, set())


def test_the_trash_has_its_own_days(store: Store, clock: FakeClock) -> None:
    """What is in the trash goes so long after it was put there, however old it is; nothing else empties the trash."""
    old, new = talk(store, "old"), talk(store, "new")
    clock.advance(29 * DAY)
    old.trash()
    clock.advance(10 * DAY)
    assert fates(store, Policy(30, 20)) == ({new.id}, set())
    clock.advance(10 * DAY)
    plan = retention.preview(store, Policy(180, 20))
    assert [(due.session, due.expires_at, due.why) for due in plan.going] == [(old.id, T0 + 49 * DAY, "trash")]
    assert sweep(store, Policy(180, 20)).sessions == (old.id,)
    assert store.sessions.trashed().items == []
    assert store.sessions.list().items == [new]


def test_a_trace_in_the_trash_goes_without_its_owner(store: Store, clock: FakeClock) -> None:
    """A trace that was put in the trash by itself is purged after its days there, and its owner stays."""
    owner = talk(store, "owner")
    trace = store.sessions.create(agent="a", owner=owner)
    trace.append(clew.user("x"))
    trace.trash()
    clock.advance(31 * DAY)
    owner.append(clew.user("here"))
    owner.hold()
    assert retention.preview(store, Policy()).spared == (Spared(trace.id, "hold", owner.id),)
    owner.release()
    assert sweep(store, Policy()).sessions == (trace.id,)
    assert store.sessions.list().items == [owner]


def test_a_purge_of_the_trash_takes_such_traces_too(store: Store) -> None:
    """`purge(trashed=True)` takes a trace that is in the trash without its owner, and not its owner."""
    owner = talk(store, "owner")
    trace = store.sessions.create(agent="a", owner=owner)
    trace.trash()
    assert store.sessions.purge(trashed=True).sessions == (trace.id,)
    assert store.sessions.list().items == [owner]
    trace = store.sessions.create(agent="b", owner=owner)
    owner.trash()
    receipt = store.sessions.purge(trashed=True)
    assert (receipt.sessions, receipt.failures) == ((owner.id,), ())


def test_an_owner_and_its_trace_in_the_trash_go_together(store: Store, clock: FakeClock) -> None:
    """When both are due each goes once, and nothing fails."""
    owner = talk(store, "owner")
    trace = store.sessions.create(agent="a", owner=owner)
    trace.trash()
    clock.advance(40 * DAY)
    swept = sweep(store, Policy())
    assert (swept.sessions, swept.failures) == ((trace.id, owner.id), ())


def test_traces_count_as_activity(store: Store, clock: FakeClock) -> None:
    """While a subagent of it works, a session is not due; a trace has no retention but that of its owner."""
    owner = talk(store, "owner")
    trace = store.sessions.create(agent="a", owner=owner)
    deep = store.sessions.create(agent="b", owner=trace)
    clock.advance(25 * DAY)
    deep.append(clew.user("working"))
    clock.advance(10 * DAY)
    assert fates(store, Policy()) == (set(), set())
    clock.advance(20 * DAY)
    plan = retention.preview(store, Policy())
    assert [(due.session, due.last_activity) for due in plan.going] == [(owner.id, T0 + 25 * DAY)]
    with pytest.raises(clew.Invalid, match="of its owner"):
        trace.retain(days=7)
    alone = store.sessions.create(agent="alone")
    alone.retain(days=7)
    clock.advance(8 * DAY)
    assert sweep(store, Policy()).sessions == (owner.id, alone.id)


# -- what stays


def test_what_is_held_stays(store: Store, clock: FakeClock) -> None:
    """A hold on a session, or on a trace that it owns, keeps it; once released it goes."""
    held, owner, free = talk(store, "held"), talk(store, "owner"), talk(store, "free")
    trace = store.sessions.create(agent="a", owner=owner)
    assert store.sessions.hold(held.id, "Audit of May").hold_reason == "Audit of May"
    trace.hold()
    held.refresh().retain(days=7)
    clock.advance(40 * DAY)
    plan = retention.preview(store, Policy())
    assert set(plan.spared) == {Spared(held.id, "hold", held.id), Spared(owner.id, "hold", trace.id)}
    swept = sweep(store, Policy(), force=True)
    assert (swept.sessions, swept.failures, set(swept.spared)) == ((free.id,), (), set(plan.spared))
    assert store.sessions.get(held.id).path()
    assert held in store.sessions.list().items
    store.sessions.release(held.id)
    assert sweep(store, Policy()).sessions == (held.id,)


def test_what_a_fork_shares_stays_with_it(store: Store, clock: FakeClock, sound: Callable[[Store], None]) -> None:
    """The plan names the fork that keeps messages; after the sweep the fork still says all of it."""
    session = talk(store, "a", "b", "c")
    clock.advance(25 * DAY)
    fork = session.fork(at=session.path()[1].id)
    clock.advance(10 * DAY)
    plan = retention.preview(store, Policy())
    assert [(one.session, one.messages, one.needed_by) for one in plan.kept] == [(session.id, 2, (fork.id,))]
    assert plan.messages == 1
    swept = sweep(store, Policy())
    assert swept.receipt is not None
    assert (swept.receipt.kept, swept.receipt.messages) == (plan.kept, plan.messages)
    assert [node.text for node in fork.path()] == ["a", "b"]
    sound(store)


def test_what_is_open_stays(store: Store, clock: FakeClock) -> None:
    """A session the application has open is not swept: named by itself, by id, by handle, or by a trace it owns."""
    session = talk(store, "a")
    trace = store.sessions.create(agent="x", owner=session)
    clock.advance(40 * DAY)
    for opened in (session, session.id, session.handle, trace):
        assert fates(store, Policy(), open_sessions=[opened]) == (set(), {(session.id, "open")})
    swept = sweep(store, Policy(), open_sessions=[session])
    assert (swept.sessions, swept.spared) == ((), (Spared(session.id, "open", session.id),))
    gone = "00000000-0000-4000-8000-000000000005"
    assert fates(store, Policy(), open_sessions=[gone]) == ({session.id}, set())
    with pytest.raises(clew.NotFound):
        retention.preview(store, Policy(), open_sessions=["zzzzzz"])
    assert sweep(store, Policy()).sessions == (session.id,)


def test_what_was_active_just_now_stays(store: Store, clock: FakeClock) -> None:
    """Whatever its retention says, a session is not taken away from under those who talk in it."""
    session = talk(store, "a")
    session.retain(until=T0 + timedelta(minutes=10))
    clock.advance(timedelta(minutes=20))
    assert sweep(store, Policy()).spared == (Spared(session.id, "open", session.id),)
    assert fates(store, Policy(), quiet=timedelta(minutes=5)) == ({session.id}, set())
    clock.advance(timedelta(minutes=10))
    assert sweep(store, Policy()).sessions == (session.id,)


@pytest.mark.parametrize("deed", ["append", "hold", "retain", "release"])
def test_a_session_that_comes_to_life_meanwhile_stays(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    """What another process does between the look and the purge counts: it is checked in the purging transaction."""
    with clew.open(path, clock=clock) as store, clew.open(path, clock=clock) as there:
        session, other = talk(store, "a"), talk(store, "b")
        clock.advance(40 * DAY)
        purge = Parts.of(store).purger.purge

        def late(*args: Any, **settings: Any) -> Any:
            twin = there.sessions.get(session.id)
            {"append": lambda: twin.append(clew.user("wait")), "retain": lambda: twin.retain(days=180)}.get(
                deed, getattr(twin, deed)
            )()
            return purge(*args, **settings)

        monkeypatch.setattr(Parts.of(store).purger, "purge", late)
        swept = sweep(store, Policy())
        assert swept.sessions == (other.id,)
        assert [failure.session for failure in swept.failures] == [session.id]
        assert ("changed meanwhile" if deed == "release" else "no longer due") in swept.failures[0].error
        assert store.sessions.list().items == [session]


@pytest.mark.parametrize(
    ("column", "value"),
    [("active_at", "0"), ("expires_at", "1"), ("trashed_at", "1"), ("hold", "0"), ("active_at", "'x'"), ("key", "'x'")],
)
def test_damage_is_not_taken_for_age(path: Path, clock: FakeClock, column: str, value: str) -> None:
    """A session whose row was changed behind clew's back is never purged by what the row says; the others go."""
    with clew.open(path, clock=clock) as store:
        session, other = talk(store, "one"), talk(store, "two")
        if column == "hold":
            session.hold()
        clock.advance(20 * DAY)
        if column != "hold":
            session.append(clew.user("still here"))
    conn = sqlite3.connect(path)
    with suppress(sqlite3.IntegrityError):
        where = "(SELECT ref FROM refs WHERE kind = 'session' AND instr(data, 'one'))"
        assert conn.execute(f"UPDATE refs SET {column} = {value} WHERE ref = {where}").rowcount == 1
    conn.commit()
    conn.close()
    with clew.open(path, clock=clock) as store:
        clock.advance(11 * DAY)
        swept = sweep(store, Policy())
        assert swept.sessions == (other.id,)
        assert [one.why for one in swept.spared] == ["damage"]
        assert swept.spared[0].session in (session.id, "ref 1")


def test_one_that_cannot_go_keeps_no_other(path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures are gathered in the receipt, are not counted as purged, and the sweep goes on."""
    from clew.engine import deletion

    with clew.open(path, clock=clock) as store:
        sessions = [talk(store, word) for word in "abc"]
        clock.advance(40 * DAY)
        real = deletion.delete_ref

        def failing(engine: Any, tx: Any, ref: Any, **settings: Any) -> Any:
            if ref.key == row_of(sessions[1]).key:
                raise clew.Unavailable("the disk failed")
            return real(engine, tx, ref, **settings)

        monkeypatch.setattr(deletion, "delete_ref", failing)
        assert [one.session for one in retention.preview(store, Policy()).failures] == [sessions[1].id]
        swept = sweep(store, Policy())
        assert swept.sessions == (sessions[0].id, sessions[2].id)
        assert [(one.session, one.error) for one in swept.failures] == [(sessions[1].id, "the disk failed")]
        (receipt,) = store.sessions.receipts()
        assert (receipt.sessions, receipt.failures) == (swept.sessions, swept.failures)
        monkeypatch.undo()
        assert sweep(store, Policy()).sessions == (sessions[1].id,)


def test_a_receipt_does_not_grow_with_the_square(path: Path, clock: FakeClock) -> None:
    """Each session that goes is noted once: what many leave in the log is many times what one leaves."""
    with clew.open(path, clock=clock, durability="relaxed") as store:
        with store.transaction():
            made = [store.sessions.create() for _ in range(300)]
        clock.advance(31 * DAY)
        swept = sweep(store, Policy(share=1.0))
        assert set(swept.sessions) == {session.id for session in made}
        (receipt,) = store.sessions.receipts()
        assert receipt == swept.receipt
        conn = sqlite3.connect(path)
        assert conn.execute("SELECT sum(length(body)) FROM log").fetchone()[0] < 300 * 400
        conn.close()


# -- sweepers


def again(sweeper: Sweeper) -> None:
    """Lets the sweeper sweep once more, as if its interval had passed, and waits for that."""
    sweeper.sweep_now()
    settled(sweeper)


def sweepers() -> list[threading.Thread]:
    """The threads of all sweepers."""
    return [thread for thread in threading.enumerate() if thread.name == "clew-sweeper"]


def settled(sweeper: Sweeper) -> None:
    """Returns once the sweeper waits for its next sweep."""
    assert sweeper._worker.flush(30)


@pytest.mark.checklist("C25")
def test_a_sweeper_sweeps_at_the_start_and_then_again(path: Path, clock: FakeClock) -> None:
    """The first sweep is at once, the next after six hours, until it is stopped; stopping twice is one stop."""
    with clew.open(path, clock=clock) as store:
        first, second = talk(store, "a"), talk(store, "b")
        clock.advance(40 * DAY)
        second.append(clew.user("busy"))
        told: list[tuple[str, ...]] = []
        retention.set_policy(store, Policy())
        sweeper = Sweeper(store, on_swept=lambda swept: told.append(swept.sessions))
        with sweeper:
            assert sweeper.start() is sweeper
            settled(sweeper)
            assert told == [(first.id,)]
            (due,) = sweeper._worker._jobs.values()
            assert 6 * 3600 - 60 < due - time.monotonic() <= 6 * 3600
            clock.advance(31 * DAY)
            again(sweeper)
        assert told == [(first.id,), (second.id,)]
        sweeper.stop()
        sweeper.start()
        assert len(told) == 2
        assert not sweepers()


def test_a_sweeper_that_waits_is_stopped_at_once(path: Path) -> None:
    """With the real clock it does not have to wait for six hours to end."""
    with clew.open(path) as store:
        done = threading.Event()
        retention.set_policy(store, Policy())
        sweeper = Sweeper(store, on_swept=lambda _: done.set()).start()
        assert done.wait(30)
        sweeper.stop()
        Sweeper(store).stop()


def test_a_sweeper_may_be_stopped_by_what_it_tells(path: Path) -> None:
    """Whoever is told may stop it, on its own thread."""
    with clew.open(path) as store:
        told: list[object] = []

        def enough(swept: object) -> None:
            told.append(swept)
            sweeper.stop()

        retention.set_policy(store, Policy())
        sweeper = Sweeper(store, on_swept=enough)
        sweeper.start()
        for thread in sweepers():
            thread.join(30)
        assert not sweepers()
        assert len(told) == 1


def test_a_shorter_policy_is_swept_by_at_once(path: Path, clock: FakeClock) -> None:
    """C26: a sweeper obeys a new policy at once when it is asked to, and not only after six hours."""
    with clew.open(path, clock=clock) as store:
        session = talk(store, "a")
        clock.advance(8 * DAY)
        told: list[tuple[str, ...]] = []
        retention.set_policy(store, Policy())
        with Sweeper(store, on_swept=lambda swept: told.append(swept.sessions)) as sweeper:
            settled(sweeper)
            retention.set_policy(store, Policy(7))
            again(sweeper)
            assert told == [(), (session.id,)]


def test_errors_are_told_and_do_not_end_a_sweeper(path: Path, clock: FakeClock) -> None:
    """No policy, doubts, a callback that fails: each is told, and the next sweep comes. A closed store ends it."""
    store = clew.open(path, clock=clock)
    session = talk(store, "a")
    errors: list[Exception] = []
    opened: list[clew.Session] = [session]

    def told(error: Exception) -> None:
        errors.append(error)
        raise RuntimeError("not even this")

    boom = ZeroDivisionError("told badly")

    def swept(_: object) -> None:
        raise boom

    sweeper = Sweeper(store, on_error=told, on_swept=swept, open_sessions=lambda: opened).start()
    settled(sweeper)
    assert isinstance(errors.pop(), clew.Invalid)
    clock.advance(4000 * DAY)
    retention.set_policy(store, Policy())
    again(sweeper)
    assert errors.pop() is boom  # it is open, so nothing was in doubt
    opened.clear()
    again(sweeper)
    assert isinstance(errors.pop(), clew.SweepRefused)
    assert store.sessions.list().items == [session]
    store.close()
    assert not sweepers()
    assert errors == []


def test_without_listeners_a_sweeper_logs(path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    """What went is logged as a count, what went wrong as its message; a sweep that found nothing says nothing."""
    with clew.open(path, clock=clock) as store:
        talk(store, "secret words")
        retention.set_policy(store, Policy())
        with caplog.at_level(logging.INFO, "clew.retention"), Sweeper(store) as sweeper:
            settled(sweeper)
            assert caplog.messages == []
            clock.advance(40 * DAY)
            again(sweeper)
            assert caplog.messages == ["sweep: 1 of 1 sessions purged, 0 failed"]
            sweeper._open = lambda: [5]  # type: ignore[list-item]
            again(sweeper)
            assert caplog.messages[1].startswith("sweep: ")
            assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "settings",
    [{"quiet": 5}, {"open_sessions": 5}, {"open_sessions": "k3m9qa"}, {"open_sessions": [5]}, {"now": "now"},
     {"now": datetime(2026, 1, 1)}],
)  # fmt: skip
def test_a_sweep_that_makes_no_sense_is_invalid(store: Store, settings: Any) -> None:
    """It is told before anything is looked at, and nothing is removed."""
    retention.set_policy(store, Policy())
    for call in (retention.preview, retention.sweep):
        with pytest.raises(clew.Invalid):
            call(store, **settings)
    with pytest.raises(clew.Invalid):
        retention.preview(store, 30)  # type: ignore[arg-type]


def test_what_is_never_quiet_is_always_open(store: Store, clock: FakeClock) -> None:
    """The longest time there is spares everything, and is no error."""
    session = store.sessions.create()
    clock.advance(31 * DAY)
    assert [spared.why for spared in sweep(store, Policy(), quiet=timedelta.max).spared] == ["open"]
    assert session in store.sessions.list().items


@pytest.mark.parametrize("every", [timedelta(), -DAY, 6, timedelta.max])
def test_a_sweeper_needs_an_interval(store: Store, every: Any) -> None:
    """A sweeper that would never rest, or for longer than can be waited, is Invalid."""
    with pytest.raises(clew.Invalid):
        Sweeper(store, every=every)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_the_async_face(path: Path, clock: FakeClock) -> None:
    """Preview, sweep and policy are awaited; a sweeper sweeps at once, again when asked, and ends with its block."""
    async with clew.aio.open(path, clock=clock) as store:
        session = await store.sessions.create()
        await session.retain(days=60)
        other = await store.sessions.create()
        await clew.aio.retention.set_policy(store, Policy())
        assert await clew.aio.retention.get_policy(store) == Policy()
        clock.advance(40 * DAY)
        plan = await clew.aio.retention.preview(store, open_sessions=[other])
        assert [one.why for one in plan.spared] == ["open"]
        assert (await clew.aio.retention.sweep(store, open_sessions=[other])).sessions == ()
        told: list[tuple[str, ...]] = []
        errors: list[Exception] = []
        loop = threading.get_ident()
        changed = anyio.Event()

        def swept(report: SweepReport) -> None:
            assert threading.get_ident() == loop
            told.append(report.sessions)
            changed.set()

        def failed(error: Exception) -> None:
            errors.append(error)
            changed.set()

        opened: list[Any] = [session]
        with anyio.fail_after(60):
            async with clew.aio.Sweeper(
                store, on_swept=swept, on_error=failed, open_sessions=lambda: opened
            ) as sweeper:
                await changed.wait()
                assert told == [(other.id,)]
                clock.advance(30 * DAY)
                opened.clear()
                changed = anyio.Event()
                sweeper.sweep_now()
                await changed.wait()
                assert told[1:] == [(session.id,)]
                opened.append(5)
                changed = anyio.Event()
                sweeper.sweep_now()
                await changed.wait()
                assert isinstance(errors.pop(), clew.Invalid)
        assert not sweepers()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_async_sweeper_waits_for_real(path: Path) -> None:
    """With the real waiting it sweeps every so often, and ends when its block does."""
    async with clew.aio.open(path) as store:
        twice = anyio.Event()
        told: list[object] = []

        def swept(one: object) -> None:
            told.append(one)
            if len(told) == 2:
                twice.set()

        await clew.aio.retention.set_policy(store, Policy())
        with anyio.fail_after(30):
            async with clew.aio.Sweeper(store, every=timedelta(milliseconds=5), on_swept=swept):
                await twice.wait()


def test_it_is_found_at_the_door() -> None:
    """`clew.retention` needs no import of its own."""
    assert clew.retention is retention
