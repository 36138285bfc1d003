"""P14: retention survives a bad clock. Time that has passed purges; a clock that is wrong removes nothing unasked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import retention
from clew.retention import Due, Policy, SweepReport
from clew.retention.policy import doubts
from clew.store.store import Store
from clew.testing import FakeClock
from tests.reliability.tools import need, output, python

DAY = timedelta(days=1)
T0 = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = Policy(14)
MANY = 12
"""More than so few that any share of them may go."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(int(T0.timestamp()) * 1_000_000)


@pytest.fixture
def store(path: Path, clock: FakeClock) -> Iterator[Store]:
    with clew.open(path, clock=clock) as store:
        yield store


def fill(store: Store, count: int = MANY) -> tuple[clew.Session, list[clew.Session]]:
    """One session that is held, and others."""
    with store.transaction():
        held, *others = (store.sessions.create() for _ in range(count))
        for session in (held, *others):
            session.append(clew.user("x"))
    return held.hold(), others


def sweep(store: Store, policy: Policy, **settings: Any) -> SweepReport:
    """Sweeps a store whose policy this is."""
    retention.set_policy(store, policy)
    return retention.sweep(store, **settings)


def everything(store: Store) -> set[str]:
    return {session.id for session in store.sessions.list(limit=1000, include_expired=True).items}


def test_fifteen_days_later_a_policy_of_fourteen_purges(store: Store, clock: FakeClock) -> None:
    """What was not used for 15 days goes, the hold stays, and so does what was used."""
    held, others = fill(store, 6)
    clock.advance(10 * DAY)
    others[0].append(clew.user("y"))
    clock.advance(5 * DAY)
    assert set(sweep(store, POLICY).sessions) == {session.id for session in others[1:]}
    assert everything(store) == {held.id, others[0].id}


def test_most_of_a_store_is_not_removed_unasked(store: Store, clock: FakeClock) -> None:
    """More than half of more than ten sessions: it stops with both counts; forced, it goes on, and the hold stays."""
    held, _ = fill(store)
    clock.advance(15 * DAY)
    before = everything(store)
    with pytest.raises(clew.SweepRefused, match="remove 11 of 12 sessions: that is more than 50%") as caught:
        sweep(store, POLICY)
    assert (caught.value.going, caught.value.total, len(caught.value.doubts)) == (11, 12, 1)
    assert "force" in caught.value.hint
    assert everything(store) == before
    assert store.sessions.receipts() == []
    assert len(retention.preview(store, POLICY).going) == 11
    assert retention.preview(store, POLICY).doubts == caught.value.doubts
    assert len(sweep(store, POLICY, force=True).sessions) == 11
    assert everything(store) == {held.id}


@pytest.mark.parametrize(("count", "idle", "asks"), [(10, 9, False), (11, 5, False), (11, 6, True), (40, 20, False)])
def test_half_is_plausible_and_so_is_any_share_of_few(
    store: Store, clock: FakeClock, count: int, idle: int, asks: bool
) -> None:
    """The border: up to half, or up to ten sessions, a sweep does not ask."""
    sessions = [store.sessions.create() for _ in range(count)]
    clock.advance(15 * DAY)
    for session in sessions[idle:]:
        session.append(clew.user("y"))
    assert bool(retention.preview(store, POLICY).doubts) == asks
    if asks:
        assert retention.preview(store, Policy(14, share=0.6)).doubts == ()


@pytest.mark.parametrize("count", [3, MANY])
@pytest.mark.parametrize("talks", [False, True], ids=["idle", "talking"])
def test_ten_years_ahead_it_asks(store: Store, clock: FakeClock, count: int, talks: bool) -> None:
    """A clock that jumps by years stops the sweep, of a small store too, also after something new was said by it."""
    held, others = fill(store, count)
    clock.advance(3650 * DAY)
    if talks:
        others[0].append(clew.user("y"))
    before = everything(store)
    with pytest.raises(clew.SweepRefused, match=r"was due 3,636 days ago"):
        sweep(store, POLICY)
    assert everything(store) == before
    clock.advance(-3650 * DAY)
    assert sweep(store, POLICY).sessions == ()
    assert everything(store) == before
    clock.advance(3650 * DAY)
    assert len(sweep(store, POLICY, force=True).sessions) == count - 1 - talks
    assert held.id in everything(store)


@pytest.mark.parametrize("back", [3650, 100, 10, 2])
def test_a_clock_that_goes_back_removes_nothing(store: Store, clock: FakeClock, back: int) -> None:
    """Whatever was due before it went back, and whatever is due by its new time: nothing goes unasked."""
    fill(store, 5)
    store.sessions.create().retain(until=T0 - 4000 * DAY)
    clock.advance(30 * DAY)
    store.sessions.create()
    before = everything(store)
    clock.advance(-back * DAY)
    if back > 30:  # by this clock all of it is yet to be
        assert sweep(store, POLICY).sessions == ()
    else:
        with pytest.raises(clew.SweepRefused, match=f"was last active {back} days from now"):
            sweep(store, POLICY)
    assert everything(store) == before


def test_a_clock_that_is_set_right_by_an_hour_is_no_cause(store: Store, clock: FakeClock) -> None:
    """Small corrections are common, and raise no doubt."""
    _, others = fill(store, 3)
    clock.advance(15 * DAY)
    store.sessions.create()
    clock.advance(-timedelta(hours=1))
    assert len(sweep(store, POLICY).sessions) == len(others)


@pytest.mark.parametrize(
    ("going", "total", "newest", "count"),
    [
        ([], 100, T0 + 900 * DAY, 0),
        ([T0], 100, T0, 0),
        ([T0 - 365 * DAY], 100, T0, 0),
        ([T0, T0 - 366 * DAY], 100, T0, 1),
        ([T0], 100, T0 + DAY, 0),
        ([T0], 100, T0 + DAY + timedelta(microseconds=1), 1),
        ([T0 - 4000 * DAY] * 11, 11, T0 + 900 * DAY, 3),
    ],
)
def test_what_raises_doubts(going: list[datetime], total: int, newest: datetime, count: int) -> None:
    """A table of what would go, when it was due, and the last activity there is."""
    found = doubts([Due("id", due, due, "policy") for due in going], total, (newest, "id"), T0, 0.5)
    assert len(found) == count
    assert len(set(found)) == count


@pytest.mark.parametrize(("late", "record", "asks"), [(180, True, False), (181, True, True), (365, False, False)])
def test_records_raise_doubts_sooner(late: int, record: bool, asks: bool) -> None:
    """A record that was due more than 180 days ago stops the sweep, also next to a session that was due before."""
    going = [Due("id", T0, T0 - late * DAY, "policy", record), Due("chat", T0, T0 - 365 * DAY, "policy")]
    assert bool(doubts(going, 100, (T0, "id"), T0, 0.5)) == asks


# -- with the clock of the whole process turned


WORK = """
import json, sys
import clew
from clew.retention import Policy, set_policy, sweep
with clew.open(sys.argv[1]) as store:
    set_policy(store, Policy(14))
    try:
        swept = sweep(store, force=len(sys.argv) > 2)
        said = {"gone": swept.sessions}
    except clew.SweepRefused as error:
        said = {"asks": error.message, "going": error.going, "total": error.total}
    left = store.sessions.list(limit=1000, include_expired=True).items
    print(json.dumps({**said, "left": [one.id for one in left], "sound": store.verify().ok}))
"""


def swept_at(offset: str, path: Path, *force: str) -> Any:
    """A sweep by a process whose clock is off by so much."""
    return json.loads(output(python(WORK, path, *force, wrap=(need("faketime"), "-f", offset))))


@pytest.mark.parametrize("count", [4, MANY])
def test_under_faketime(path: Path, count: int) -> None:
    """The same with the real clock of a process: -10 years, +10 years, then +15 days."""
    with clew.open(path) as store:
        held, others = fill(store, count)
    whole = {held.id, *(session.id for session in others)}
    back = swept_at("-3650d", path)
    assert (back["gone"], set(back["left"]), back["sound"]) == ([], whole, True)
    far = swept_at("+3650d", path)
    assert (far["going"], far["total"]) == (count - 1, count)
    assert "days ago" in far["asks"]
    assert (set(far["left"]), far["sound"]) == (whole, True)
    later = swept_at("+15d", path)
    if count == MANY:
        assert "asks" in later
        assert set(later["left"]) == whole
        later = swept_at("+15d", path, "force")
    assert set(later["gone"]) == whole - {held.id}
    assert (later["left"], later["sound"]) == ([held.id], True)
