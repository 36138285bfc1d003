"""What every session service of ADK promises: ADK's own two services, and ours on each kind of store."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("google.adk.sessions", reason="google-adk is not installed")

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from clew.adapters.google_adk import ClewSessionService

WHO = {"app_name": "app", "user_id": "ada"}
ONE = {**WHO, "session_id": "s"}


def said(text, number=0, author="user", **delta):
    """An event with a text; `number` is its time."""
    return Event(
        author=author,
        invocation_id=f"i{number}",
        timestamp=1_800_000_000.0 + number,
        content=types.Content(role="user", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=delta),
    )


def texts(session):
    return [event.content.parts[0].text for event in session.events]


@pytest.fixture(params=["memory", "sqlite", "clew"])
def service(request, tmp_path):
    """ADK's services first: a promise that they do not keep is none."""
    if request.param == "memory":
        yield InMemorySessionService()
    elif request.param == "sqlite":
        yield SqliteSessionService(str(tmp_path / "adk.db"))
    else:
        with ClewSessionService(tmp_path / "c.db") as ours:
            yield ours


@pytest.fixture
def run():
    with asyncio.Runner() as runner:
        yield runner.run


def test_create_and_get(service, run):
    """A session is found by app, user and id, and by nothing else."""
    made = run(service.create_session(**ONE, state={"a": 1}))
    assert (made.id, made.state, made.events) == ("s", {"a": 1}, [])
    found = run(service.get_session(**ONE))
    assert found == made
    assert run(service.get_session(app_name="other", user_id="ada", session_id="s")) is None
    assert run(service.get_session(app_name="app", user_id="bob", session_id="s")) is None


def test_ids(service, run):
    """Without an id a session gets one; spaces around an id do not count; an id is used once."""
    first, second = run(service.create_session(**WHO)), run(service.create_session(**WHO))
    assert first.id and second.id and first.id != second.id
    assert run(service.create_session(**WHO, session_id=" s ")).id == "s"
    assert run(service.get_session(**WHO, session_id="s ")) is not None
    with pytest.raises(AlreadyExistsError):
        run(service.create_session(**ONE))


def test_events_come_back_equal(service, run):
    """Events are read in their order, and equal to what was appended."""
    session = run(service.create_session(**ONE))
    call = types.FunctionCall(id="c", name="weather", args={"city": "Turin", "x": [1, {"y": None}]})
    events = [
        said("é\n\u2028", 1, mood="sunny"),
        Event(author="bot", timestamp=1_800_000_002.0, content=types.Content(parts=[types.Part(function_call=call)])),
        Event(
            author="bot",
            timestamp=1_800_000_003.0,
            content=types.Content(parts=[types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x00\xff"))]),
            long_running_tool_ids={"b", "a"},
            branch="one.two",
            turn_complete=True,
            custom_metadata={"a": [1, 2.5]},
        ),
        Event(author="bot", timestamp=1_800_000_004.0, error_code="X", error_message="it failed"),
    ]
    for event in events:
        run(service.append_event(session, event))
    found = run(service.get_session(**ONE))
    assert found.events == events == session.events
    assert found.last_update_time == session.last_update_time == 1_800_000_004.0


def test_partial_events_are_not_stored(service, run):
    """A partial event is returned, and is neither stored nor in the session."""
    session = run(service.create_session(**ONE))
    event = said("half")
    event.partial = True
    assert run(service.append_event(session, event)) is event
    assert session.events == run(service.get_session(**ONE)).events == []


def test_scopes_of_state(service, run):
    """State of an app is shared by its users, a user's by their sessions; temporary state is never stored."""
    session = run(service.create_session(**ONE, state={"app:a": 1, "user:u": 2, "s": 3, "temp:t": 4}))
    assert session.state == {"app:a": 1, "user:u": 2, "s": 3}
    run(service.append_event(session, said("x", 1, **{"app:a": 5, "user:v": {"w": [6]}, "s": None, "temp:t": 8})))
    assert session.state["temp:t"] == 8
    stored = run(service.get_session(**ONE))
    assert stored.state == {"app:a": 5, "user:u": 2, "user:v": {"w": [6]}, "s": None}
    assert stored.events[0].actions.state_delta == {"app:a": 5, "user:v": {"w": [6]}, "s": None}
    assert run(service.create_session(**WHO)).state == {"app:a": 5, "user:u": 2, "user:v": {"w": [6]}}
    assert run(service.create_session(app_name="app", user_id="bob")).state == {"app:a": 5}
    assert run(service.create_session(app_name="other", user_id="ada")).state == {}
    assert run(service.get_user_state(**WHO)) == {"u": 2, "v": {"w": [6]}}
    assert run(service.get_user_state(app_name="app", user_id="bob")) == {}


def test_numbers_of_state(service, run):
    """Numbers in the state keep their value."""
    state = {"big": 2**70, "small": 0.1 + 0.2, "zero": 0.0, "one": 1}
    session = run(service.create_session(**ONE, state=state))
    run(service.append_event(session, said("x", 1, more=2**65)))
    assert run(service.get_session(**ONE)).state == {**state, "more": 2**65}


def test_recent_events(service, run):
    """A call can ask for the latest events, or for those from a time on."""
    session = run(service.create_session(**ONE))
    for number in range(1, 6):
        run(service.append_event(session, said(str(number), number)))

    def ask(**config):
        return texts(run(service.get_session(**ONE, config=GetSessionConfig(**config))))

    assert ask(num_recent_events=2) == ["4", "5"]
    assert ask(num_recent_events=0) == []
    assert ask(num_recent_events=9) == ["1", "2", "3", "4", "5"]
    assert ask(after_timestamp=1_800_000_004.0) == ["4", "5"]
    assert ask(after_timestamp=1_800_000_003.0, num_recent_events=2) == ["4", "5"]
    # InMemorySessionService returns all events here if none is recent enough.
    if not isinstance(service, InMemorySessionService):
        assert ask(after_timestamp=1_900_000_000.0) == []


def test_a_session_without_its_events_can_be_appended_to(service, run):
    """A session that was read without events takes the next one."""
    session = run(service.create_session(**ONE))
    run(service.append_event(session, said("1", 1)))
    bare = run(service.get_session(**ONE, config=GetSessionConfig(num_recent_events=0)))
    run(service.append_event(bare, said("2", 2)))
    assert texts(run(service.get_session(**ONE))) == ["1", "2"]


def test_lists(service, run):
    """Sessions are listed by app, or by user, without events, the last active one last."""
    for user, id in (("ada", "s1"), ("ada", "s2"), ("bob", "s3")):
        run(service.create_session(app_name="app", user_id=user, session_id=id, state={"n": id, "user:u": user}))
    run(service.create_session(app_name="other", user_id="ada", session_id="s4"))
    first = run(service.get_session(**WHO, session_id="s1"))
    run(service.append_event(first, said("x", 10**8)))
    mine = run(service.list_sessions(**WHO)).sessions
    assert [(one.id, one.events) for one in mine] == [("s2", []), ("s1", [])]
    assert mine[1].state == {"n": "s1", "user:u": "ada"}
    everybody = run(service.list_sessions(app_name="app")).sessions
    assert [(one.user_id, one.id) for one in everybody] == [("ada", "s2"), ("bob", "s3"), ("ada", "s1")]
    assert run(service.list_sessions(app_name="none")).sessions == []


def test_delete(service, run):
    """A deleted session is gone with its events; the state of app and user stays. Deleting twice is no error."""
    session = run(service.create_session(**ONE, state={"user:u": 1, "s": 2}))
    run(service.append_event(session, said("x", 1)))
    run(service.delete_session(**ONE))
    run(service.delete_session(**ONE))
    assert run(service.get_session(**ONE)) is None
    with pytest.raises(SessionNotFoundError):
        run(service.append_event(session, said("y", 2)))
    again = run(service.create_session(**ONE))
    assert (again.state, again.events) == ({"user:u": 1}, [])


def test_objects_in_the_state(service, run):
    """A value that has no JSON form does not stop an event from being stored."""
    session = run(service.create_session(**ONE))
    run(service.append_event(session, said("x", 1, call=print)))
    found = run(service.get_session(**ONE))
    assert "call" in found.state
    assert texts(found) == ["x"]


def test_names_do_not_run_together(service, run):
    """Names with separators in them stay apart."""
    run(service.create_session(app_name="a/b", user_id="c", session_id="s", state={"n": 1}))
    run(service.create_session(app_name="a", user_id="b/c", session_id="s", state={"n": 2}))
    assert [one.state for one in run(service.list_sessions(app_name="a", user_id="b/c")).sessions] == [{"n": 2}]
    assert run(service.get_session(app_name="a/b", user_id="c", session_id="s")).state == {"n": 1}


def test_a_session_that_was_sent_elsewhere(service, run):
    """A session that went through JSON, and so lost its revision, is not stale."""
    session = run(service.create_session(**ONE))
    run(service.append_event(session, said("1", 1)))
    copy = Session.model_validate_json(run(service.get_session(**ONE)).model_dump_json())
    run(service.append_event(copy, said("2", 2)))
    assert texts(run(service.get_session(**ONE))) == ["1", "2"]
