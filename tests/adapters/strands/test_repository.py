"""`ClewSessionRepository`: what the tests of Strands do not have."""

from __future__ import annotations

import asyncio
import os

import pytest

pytest.importorskip("strands.session", reason="strands-agents is not installed")

from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import clew
from clew.adapters.strands import ClewSessionRepository
from tests.adapters.commands import QUESTION, expect_weather
from tests.adapters.processes import run_together
from tests.adapters.strands.agents import agent


def said(text, role="user"):
    return {"role": role, "content": [{"text": text}]}


def texts(records):
    return [record.to_message()["content"][0]["text"] for record in records]


@pytest.fixture
def repository(opened):
    with opened(ClewSessionRepository) as repository:
        yield repository


@pytest.fixture
def filled(repository):
    """A repository with a session of two agents, of which the first has three messages."""
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    for name in ("a", "b"):
        repository.create_agent("s", SessionAgent(agent_id=name, state={}, conversation_manager_state={}))
    for number, text in enumerate(("one", "two", "three")):
        repository.create_message("s", "a", SessionMessage(said(text), number))
    return repository


def test_a_run_is_a_conversation(repository):
    """A run is a session with roles, calls and results; an agent of another process continues it."""
    first = agent(agent_id="main", session_manager=RepositorySessionManager("trip", repository))
    first("How is it?")
    session = repository.store.sessions.latest()
    assert [node.role for node in session.path()] == ["user", "assistant", "tool", "assistant"]
    assert session.path()[3].message.text == "It is sunny in Turin."
    assert session.extra["source"]["id"] == "trip"
    second = agent(agent_id="main", session_manager=RepositorySessionManager("trip", repository))
    assert second.messages == first.messages
    second("And now?")
    assert len(session.path()) == 8
    assert len(repository.store.search("Turin")) >= 2
    assert repository.store.verify().ok


def test_records_come_back_equal(filled):
    """Bytes, text and times of a record are as they were."""
    picture = {"image": {"format": "png", "source": {"bytes": b"\x00\xff"}}}
    record = SessionMessage({"role": "user", "content": [picture, {"text": "é\u2028"}]}, 3)
    filled.create_message("s", "a", record)
    assert filled.read_message("s", "a", 3) == record
    assert filled.list_messages("s", "a")[-1] == record
    assert [record.message_id for record in filled.list_messages("s", "a", limit=2, offset=1)] == [1, 2]
    assert filled.store.sessions.latest().path()[3].message.blocks[0].mime_type == "image/png"


def test_agents_are_apart(filled):
    """The first agent has the session itself, another one is a subagent of it; their messages do not mix."""
    filled.create_message("s", "b", SessionMessage(said("other"), 0))
    assert texts(filled.list_messages("s", "a")) == ["one", "two", "three"]
    assert texts(filled.list_messages("s", "b")) == ["other"]
    session = filled.store.sessions.latest()
    assert [node.text for node in session.path()] == ["one", "two", "three"]
    (trace,) = session.subagents()
    assert [node.text for node in trace.path()] == ["other"]
    agent = filled.read_agent("s", "a")
    agent.state = {"n": 1}
    filled.update_agent("s", agent)
    assert filled.read_agent("s", "a").state == {"n": 1}
    assert filled.read_agent("s", "b").state == {}


def test_a_redacted_message(filled):
    """A guardrail's text replaces that of a message, also in the middle: in the view, in search, and in the record."""
    record = filled.read_message("s", "a", 1)
    record.redact_message = said("[blocked]")
    filled.update_message("s", "a", record)
    assert texts(filled.list_messages("s", "a")) == ["one", "[blocked]", "three"]
    session = filled.store.sessions.latest()
    assert [node.text for node in session.path()] == ["one", "[blocked]", "three"]
    assert session.branches() == []
    assert filled.store.search("two") == []
    assert len(filled.store.search("blocked")) == 1
    assert filled.read_message("s", "a", 1) == record
    filled.create_message("s", "a", SessionMessage(said("four"), 3))
    assert texts(filled.list_messages("s", "a")) == ["one", "[blocked]", "three", "four"]
    assert filled.store.verify().ok


def test_retries_and_races(filled):
    """The same record twice is stored once; another one with its number is kept as well."""
    again = filled.read_message("s", "a", 2)
    filled.create_message("s", "a", again)
    assert texts(filled.list_messages("s", "a")) == ["one", "two", "three"]
    filled.create_message("s", "a", SessionMessage(said("of another process"), 2))
    assert texts(filled.list_messages("s", "a")) == ["one", "two", "three", "of another process"]


def test_what_is_not_there(filled):
    """Unknown sessions, agents and messages are None, or an error of Strands."""
    assert filled.read_session("x") is None
    assert filled.read_agent("s", "x") is None
    assert filled.read_message("s", "a", 9) is None
    assert filled.read_multi_agent("s", "x") is None
    for call in (
        lambda: filled.create_session(Session(session_id="s", session_type=SessionType.AGENT)),
        lambda: filled.create_message("s", "x", SessionMessage(said("y"), 0)),
        lambda: filled.create_message("x", "a", SessionMessage(said("y"), 0)),
        lambda: filled.update_message("s", "a", SessionMessage(said("y"), 9)),
        lambda: filled.update_agent("s", SessionAgent(agent_id="x", state={}, conversation_manager_state={})),
        lambda: filled.create_agent("x", SessionAgent(agent_id="a", state={}, conversation_manager_state={})),
        lambda: filled.list_messages("s", "x"),
        lambda: filled.delete_session("x"),
    ):
        with pytest.raises(SessionException):
            call()
    assert filled.read_session("s").session_type == SessionType.AGENT


def test_deletion_leaves_nothing(tmp_path):
    """After a deletion no file beside the store has a word of the session or its agents; a held one stays."""
    with ClewSessionRepository(tmp_path / "c.db") as repository:
        repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
        for name in ("a", "b"):
            state = {"n": "needle"}
            repository.create_agent("s", SessionAgent(agent_id=name, state=state, conversation_manager_state={}))
            repository.create_message("s", name, SessionMessage(said("needle"), 0))
        session = repository.store.sessions.latest()
        session.hold()
        with pytest.raises(clew.Conflict):
            repository.delete_session("s")
        session.release()
        repository.delete_session("s")
        assert repository.read_agent("s", "a") is None
        assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]


def fill(path, name):
    with ClewSessionRepository(path) as repository:
        for number in range(30):
            repository.create_message("s", "a", SessionMessage(said(f"{name} {number}"), number))


def test_two_processes(tmp_path):
    """Two processes that append to one agent, with the same numbers, lose nothing."""
    path = os.fspath(tmp_path / "c.db")
    with ClewSessionRepository(path) as repository:
        repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
        repository.create_agent("s", SessionAgent(agent_id="a", state={}, conversation_manager_state={}))
        run_together(fill, path, ("x", "y"))
        found = texts(repository.list_messages("s", "a"))
        for name in ("x", "y"):
            assert [one for one in found if one.startswith(name)] == [f"{name} {number}" for number in range(30)]
        assert repository.store.verify().ok


KILLED = """
import os, signal, sys, threading
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from clew.adapters.strands import ClewSessionRepository
repository = ClewSessionRepository(sys.argv[1])
repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
repository.create_agent("s", SessionAgent(agent_id="a", state={}, conversation_manager_state={}))
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGKILL)).start()
for number in range(100000):
    repository.create_message("s", "a", SessionMessage({"role": "user", "content": [{"text": str(number)}]}, number))
    print(number, flush=True)
"""


def test_killed(killed, tmp_path):
    """After kill -9 every acknowledged message is there."""
    acknowledged = len(killed(KILLED).split())
    with ClewSessionRepository(tmp_path / "chats.db") as repository:
        found = texts(repository.list_messages("s", "a"))
        assert found == [str(number) for number in range(len(found))]
        assert len(found) >= acknowledged


def test_async_agents(repository):
    """An agent that is called from a loop stores its messages."""
    one = agent(agent_id="main", session_manager=RepositorySessionManager("trip", repository))
    asyncio.run(one.invoke_async("How is it?"))
    assert len(repository.store.sessions.latest().path()) == 4


def test_in_the_command_line(opened):
    """A session with a tool call is listed, found, shown, redacted and purged."""
    with opened(ClewSessionRepository) as repository:
        agent(agent_id="main", session_manager=RepositorySessionManager("trip", repository))(QUESTION)
    expect_weather(opened)
