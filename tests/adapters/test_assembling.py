"""Conversations put together from model calls, and the thread that records them."""

from __future__ import annotations

import json
import os
import threading

import pytest

import clew
from clew.adapters.assembling import Assembler, ModelCall
from clew.adapters.keyed import Keyed
from clew.adapters.recorder import LIMIT, CallRecorder
from clew.base.messages import Native


@pytest.fixture
def keyed(tmp_path):
    keyed = Keyed(tmp_path / "c.db", "made-up", {})
    yield keyed
    keyed.close()


def said(text, role="user", **more):
    return Native("openai", json.dumps({"role": role, "content": text, **more}).encode())


def call(*asked, answer=None, **more):
    """A call with the texts of user and assistant in turn."""
    messages = [said(text, "assistant" if at % 2 else "user") for at, text in enumerate(asked)]
    choices = [] if answer is None else [[said(text, "assistant")] for text in answer.split("|")]
    return ModelCall(messages, choices, **more)


def texts(session):
    return [node.text for node in session.path()]


def sessions(keyed):
    return sorted(texts(one) for one in keyed.store.sessions.list().items)


def test_a_conversation_is_one_session(keyed):
    """Calls that repeat the conversation so far extend one session, and each message is stored once."""
    store = Assembler(keyed).store
    store(call("a", answer="b"))
    store(call("a", "b", "c", answer="d"))
    store(call("a", "b", "c", "d", "e", answer="f"))
    (session,) = keyed.store.sessions.list().items
    assert texts(session) == list("abcdef")
    assert session.title == "a"
    assert len(keyed.store.nodes.list().items) == 6
    assert keyed.store.verify().ok


def test_another_prefix_is_a_fork(keyed):
    """A call that leaves the path forks a session, which shares the messages before."""
    store = Assembler(keyed).store
    store(call("a", answer="b"))
    store(call("a", "b", "c", answer="d"))
    store(call("a", "b", "other", answer="x"))
    store(call("unrelated", answer="y"))
    assert sessions(keyed) == [["a", "b", "c", "d"], ["a", "b", "other", "x"], ["unrelated", "y"]]
    assert len(keyed.store.nodes.list().items) == 8


def test_a_call_is_stored_once(keyed):
    """A call that is recorded twice, or after a later one, changes nothing."""
    store = Assembler(keyed).store
    first, second = call("a", answer="b"), call("a", "b", "c", answer="d")
    for one in (first, first, second, first, second):
        store(one)
    assert sessions(keyed) == [["a", "b", "c", "d"]]
    assert keyed.store.sessions.list().items[0].branches() == []


def test_a_failed_call_and_its_retry(keyed):
    """The question of a call that failed is stored, and the retry continues it."""
    store = Assembler(keyed).store
    store(call("a"))
    assert sessions(keyed) == [["a"]]
    store(call("a", answer="b"))
    assert sessions(keyed) == [["a", "b"]]


def test_several_answers(keyed):
    """The first answer is where the session continues; the others are branches."""
    store = Assembler(keyed).store
    store(call("a", answer="one|two|three"))
    (session,) = keyed.store.sessions.list().items
    assert texts(session) == ["a", "one"]
    assert len(session.branches()) == 2
    store(call("a", "two", "more", answer="x"))
    assert sessions(keyed) == [["a", "one"], ["a", "two", "more", "x"]]


def test_a_named_conversation(keyed):
    """Conversations with names stay apart, and one that was shortened continues in its session."""
    store = Assembler(keyed).store
    store(call("a", answer="b", conversation="1"))
    store(call("a", answer="b", conversation="2"))
    store(call("a", "b", "c", answer="d", conversation="1"))
    store(call("summary", answer="ok", conversation="2"))
    assert sessions(keyed) == [["a", "b", "c", "d"], ["summary", "ok"]]
    other = keyed.find("conversation", "2")
    assert len(other.branches()) == 1
    store(call("next", answer="sure", conversation="2", continues=True))
    assert texts(keyed.find("conversation", "2")) == ["summary", "ok", "next", "sure"]


def test_the_same_message_in_other_forms(keyed):
    """A text in one string or in parts, with or without thoughts, is the same message; other arguments are not."""
    store = Assembler(keyed).store

    def calling(arguments):
        return [{"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]

    answer = said("Hello", "assistant", tool_calls=calling('{"x": 1, "y": 2}'), reasoning_content="hm")
    store(ModelCall([said("a")], [[answer]]))
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    store(ModelCall([said("a"), said(parts, "assistant", tool_calls=calling('{"y":2,"x":1}')), said("b")], []))
    assert sessions(keyed) == [["a", "Hello", "b"]]
    store(ModelCall([said("a"), said("Hello", "assistant", tool_calls=calling('{"x": 2}'))], []))
    assert len(sessions(keyed)) == 2


def test_a_session_of_another_tool_is_left_alone(keyed):
    """A call that continues at a message of a fork that somebody else made does not write to that fork."""
    store = Assembler(keyed).store
    store(call("a", answer="b"))
    (session,) = keyed.store.sessions.list().items
    mine = keyed.store.sessions.create(title="mine")
    session.append(clew.user("c"))
    store(call("a", "b", "other", answer="x"))
    assert texts(mine) == []
    assert texts(session) == ["a", "b", "c"]


def test_recording_never_waits_and_never_fails(tmp_path, caplog):
    """A store that cannot be opened is logged, once for each call, and the caller notices nothing."""
    recorder = CallRecorder(tmp_path / "missing" / "c.db", "made-up", {})
    recorder.record(lambda: call("secret"))
    assert recorder.flush(30)
    assert recorder.failed == 1
    assert "not stored" in caplog.text
    assert "secret" not in caplog.text
    recorder.close()


def test_calls_beyond_the_limit_are_dropped(tmp_path, caplog):
    """While the store is stuck, calls wait up to a limit; further ones are counted and dropped."""
    stuck = threading.Event()
    recorder = CallRecorder(tmp_path / "c.db", "made-up", {})
    begun = threading.Event()

    def wait():
        begun.set()
        stuck.wait(60)

    recorder.record(wait)
    assert begun.wait(60)
    for _ in range(LIMIT + 5):
        recorder.record(lambda: None)
    assert recorder.dropped == 5
    assert "dropped" in caplog.text
    stuck.set()
    recorder.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process(tmp_path):
    """A forked process records with a store and a thread of its own."""
    recorder = CallRecorder(tmp_path / "c.db", "made-up", {})
    recorder.record(lambda: call("parent"))
    assert recorder.flush(30)
    child = os.fork()
    if child == 0:
        recorder.record(lambda: call("child"))
        os._exit(0 if recorder.flush(30) and not recorder.failed else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    recorder.close()
    with clew.open(tmp_path / "c.db") as store:
        assert sorted(texts(one)[0] for one in store.sessions.list().items) == ["child", "parent"]
