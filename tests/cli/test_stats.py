"""`clew stats`: everything counted once."""

from __future__ import annotations

from datetime import UTC, datetime

import clew
from clew.engine.node import node_row
from clew.store.parts import Parts
from clew.store.stats import Tally, stats


def fill(db: str) -> None:
    with clew.open(db) as store:
        one = store.sessions.create(cwd="/src/app")
        at = datetime(2026, 5, 1, 12, tzinfo=UTC)
        used = clew.Usage(input=10, output=5, cost=20_000)
        one.append(clew.user("A"), created_at=at)
        one.append(clew.assistant("B", model="m-1", usage=used), created_at=at)
        fork = one.fork()
        one.append(clew.assistant("C", model="m-2"), created_at=datetime(2026, 5, 2, tzinfo=UTC))
        fork.append(clew.assistant("D", model="m-1", usage=used), created_at=datetime(2026, 5, 2, tzinfo=UTC))
        other = store.sessions.create()
        other.append(clew.native("openai", b'{"role":"assistant","content":"x"}', extra={"model": "m-1"}))


def test_a_shared_message_counts_once(db):
    """By model, day and project; what has no name is counted too."""
    fill(db)
    with clew.open(db) as store:
        found = stats(store)
    assert found.total == Tally(3, 5, 1, 20, 10, 40_000, 2)
    assert {name: one.messages for name, one in found.by_model.items()} == {"m-1": 3, "m-2": 1}
    assert [one.messages for one in found.by_day.values()] == [2, 2, 1]
    assert list(found.by_day)[:2] == ["2026-05-01", "2026-05-02"]
    assert found.by_project == {"/src/app": Tally(2, 4, 1, 20, 10, 40_000, 1), "": Tally(1, 1, cost_unknown=1)}
    assert (found.unknown, found.damaged) == (2, 0)


def test_a_time_may_be_chosen(db):
    """From then on, up to then."""
    fill(db)
    with clew.open(db) as store:
        found = stats(store, since=datetime(2026, 5, 2, tzinfo=UTC), until=datetime(2026, 5, 3, tzinfo=UTC))
    assert found.total.messages == 2


def test_sessions_are_those_of_that_time_and_not_of_the_trash(db):
    """What was not active then is not counted, and neither is what is in the trash, nor what was said there."""
    fill(db)
    with clew.open(db) as store:
        now = datetime.now(UTC)
        assert stats(store, until=datetime(2026, 5, 2, tzinfo=UTC)).total.messages == 2
        assert stats(store, since=now).total == Tally()
        assert stats(store, since=now).by_project == {}
        assert stats(store, until=now).total.sessions == 3
        store.sessions.list().items[0].trash()
        assert stats(store).total == Tally(2, 4, 1, 20, 10, 40_000, 1)


def test_damage_is_told(clew_cli, db):
    """An answer that cannot be read is counted as such: exit 7."""
    fill(db)
    with clew.open(db) as store:
        node = next(one for one in store.nodes.list().items if one.text == "C")
        Parts.of(store).engine.write(lambda tx: tx.maintenance.set_bodies("nodes", [(b"spoiled", node_row(node)[0])]))
    done = clew_cli("stats")
    assert (done.code, "1 damaged message" in done.out) == (7, True)
    assert clew_cli("stats", "--json").json["damaged"] == 1


def test_text_and_json(clew_cli, db):
    """Bars for people, numbers for scripts; an empty store is no failure."""
    assert clew_cli("stats").code == 3  # it is named, and not there
    fill(db)
    out = clew_cli("stats", env={"COLUMNS": "80"}).out
    assert "messages                   5" in out
    assert "$0.0400" in out
    (row,) = [line for line in out.splitlines() if line.startswith("m-1")]
    assert "█" in row
    assert max(map(len, out.splitlines())) <= 80
    assert clew_cli("stats", "--json").json["by_model"]["m-2"]["messages"] == 1
    assert clew_cli("stats", "--jsonl", "--since", "2026-05-03").lines[0]["total"]["messages"] == 1


def test_an_unknown_cost_is_null(clew_cli, db):
    """A cost is null where no answer tells it, and 0 only if it is known to be nothing."""
    fill(db)
    with clew.open(db) as store:
        free = clew.Usage(input=1, output=1, cost=0)
        store.sessions.create().append(clew.assistant("E", model="free", usage=free))
        unpriced = clew.Usage(input=1, output=1)
        store.sessions.create().append(clew.assistant("F", model="unpriced", usage=unpriced))
    found = clew_cli("stats", "--json").json
    costs = {name: one["cost"] for name, one in found["by_model"].items()}
    assert costs == {"m-1": 40_000, "m-2": None, "free": 0, "unpriced": None}
    assert (found["total"]["cost"], found["total"]["cost_unknown"]) == (40_000, 3)
    assert "Cost unknown for 3 answers." in clew_cli("stats").out


def test_a_trace_counts_where_its_session_does(clew_cli, db):
    """Messages of a subagent have the project and the tool of the conversation that called it."""
    with clew.open(db) as store:
        origin = {"source": {"tool": "codex", "id": "x"}}
        session = store.sessions.create(cwd="/src/app", extra=origin)
        session.append(clew.user("a"))
        trace = store.sessions.create(agent="helper", owner=session, extra=origin)
        trace.append([clew.user("b"), clew.user("c")])
    found = clew_cli("stats", "--json").json
    assert {name: one["messages"] for name, one in found["by_project"].items()} == {"/src/app": 3}
    assert {name: one["messages"] for name, one in found["by_tool"].items()} == {"codex": 3}
    assert clew_cli("stats", "--project", "/src/app", "--json").json["total"]["messages"] == 3
