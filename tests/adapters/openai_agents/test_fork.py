"""`ClewSession.fork`, forks and rewinds that are made in clew, and values that JSON does not have."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import math

import pytest

pytest.importorskip("agents.memory", reason="openai-agents is not installed")

import clew
from clew.adapters.openai_agents import ClewSession


def user(text):
    return {"role": "user", "content": text}


def texts(session):
    return [item.get("content", item.get("name")) for item in asyncio.run(session.get_items())]


@pytest.fixture
def session(opened):
    def make(target, **options):
        return ClewSession("s", target, **options)

    with opened(make) as session:
        asyncio.run(session.add_items([user("a"), user("b"), user("c")]))
        yield session


def test_fork(session):
    """A fork has the items up to a number of them, shares their messages, and is a session of its own."""
    whole, early, late, none = (
        asyncio.run(session.fork(name, at=at)) for name, at in (("w", None), ("e", 1), ("l", -1), ("n", 0))
    )
    assert [texts(one) for one in (whole, early, late, none)] == [["a", "b", "c"], ["a"], ["a", "b"], []]
    asyncio.run(early.add_items([user("d")]))
    assert texts(early) == ["a", "d"]
    assert texts(ClewSession("e", session.store)) == ["a", "d"]
    assert texts(session) == ["a", "b", "c"]
    assert len(session.store.nodes.list().items) == 4
    with pytest.raises(clew.Conflict):
        asyncio.run(session.fork("w"))
    asyncio.run(early.purge())
    assert texts(session) == ["a", "b", "c"]
    assert session.store.verify().ok


def test_a_fork_in_the_middle_of_a_message(session):
    """A message of another program can be several items; a fork has those before it ends."""
    call = clew.ToolCall(id="c1", name="weather", arguments={})
    session.store.sessions.latest().append(clew.assistant("Let me see", call))
    fork = asyncio.run(session.fork("f", at=4))
    assert texts(fork) == ["a", "b", "c", "Let me see"]
    assert texts(session) == ["a", "b", "c", "Let me see", "weather"]


def test_a_fork_made_in_clew_is_found_by_its_id(session):
    """`clew fork` makes a session that the SDK has under the fork's own id; the original is another one."""
    fork = session.store.sessions.latest().fork()
    theirs = ClewSession(fork.id, session.store)
    asyncio.run(theirs.add_items([user("d")]))
    assert texts(theirs) == ["a", "b", "c", "d"]
    assert texts(session) == ["a", "b", "c"]
    assert len(session.store.sessions.list().items) == 2
    asyncio.run(theirs.purge())
    assert texts(session) == ["a", "b", "c"]


def test_a_rewind_in_clew_reaches_the_session(session):
    """Also a session object that has read it."""
    assert texts(session) == ["a", "b", "c"]
    kept = session.store.sessions.latest()
    kept.rewind(kept.path()[0].id)
    assert texts(session) == ["a"]
    asyncio.run(session.add_items([user("d")]))
    assert texts(session) == ["a", "d"]


def test_numbers_that_json_does_not_have(session):
    """They are kept, as the SDK's own sessions keep them, and the message can be read in clew."""
    item = {"type": "function_call_output", "call_id": "c", "output": "x", "score": math.inf, "of": [math.nan, "é"]}
    asyncio.run(session.add_items([item]))
    found = asyncio.run(session.get_items(1))[0]
    assert found["score"] == math.inf
    assert math.isnan(found["of"][0])
    assert found["of"][1] == "é"
    assert session.store.sessions.latest().path()[-1].message.text == "x"
    assert asyncio.run(session.pop_item())["score"] == math.inf


@pytest.mark.parametrize(
    "value",
    [b"x", {1}, datetime.date(2026, 1, 1), decimal.Decimal(1), object()],
    ids=lambda value: type(value).__name__,
)
def test_values_that_are_not_json_are_refused(session, value):
    """With TypeError, as by the SDK's own sessions; nothing is stored."""
    with pytest.raises(TypeError):
        asyncio.run(session.add_items([user("d"), {"role": "user", "content": "x", "more": value}]))
    assert texts(session) == ["a", "b", "c"]


def test_a_negative_limit_is_none(session):
    assert len(asyncio.run(session.get_items(-1))) == 3
