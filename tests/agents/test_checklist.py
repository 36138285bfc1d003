"""The requirements of an agent runtime, each in one test."""

from __future__ import annotations

import threading
import time
import uuid

import pytest

import clew
from clew import agents
from tests.agents.conftest import lines, place, sdk, texts

U1, U2, U3 = (str(uuid.UUID(int=number)) for number in (1, 2, 3))


@pytest.mark.checklist("B4", "B6", "B7")
def test_session_crud(sessions):
    """Create, load, list, delete."""
    made = sessions.create(cwd="/src", model="m")
    assert made.metadata == sessions.load(made.id).metadata
    assert sessions.load(made.id).messages == []
    assert [one.id for one in sessions.list()] == [made.id]
    sessions.delete(made.id)
    assert sessions.list() == []
    for call in (sessions.load, sessions.delete, sessions.resume, sessions.fork, sessions.load_messages):
        with pytest.raises(clew.NotFound):
            call(made.id)


@pytest.mark.checklist("B8")
def test_continue_mode(sessions):
    """Continues the last active session of exactly that directory: activity counts, not creation."""
    first, second = sessions.create(cwd="/src/app"), sessions.create(cwd="/src/app")
    sessions.create(cwd="/src/other").append_and_save(clew.user("elsewhere"))
    sessions.create(cwd="/src/app", agent_name="helper", parent=second).append_and_save(clew.user("a subagent's"))
    first.append_and_save(clew.user("again"))
    assert sessions.load_latest("/src/app/").id == first.id
    with pytest.raises(clew.NotFound, match="/src/ap'"):
        sessions.load_latest("/src/ap")
    with pytest.raises(clew.Invalid):
        sessions.load_latest("")


@pytest.mark.checklist("B9")
def test_resume_mode(sessions):
    """A session is resumed by its id, which stays the same."""
    made = sessions.create()
    made.append_and_save(clew.user("one"))
    again = sessions.resume(made.id)
    again.append_and_save(clew.assistant("two"))
    assert again.id == made.id
    assert texts(sessions.load_messages(made.id)) == ["one", "two"]
    assert len(sessions.list()) == 1


@pytest.mark.checklist("B4", "B10")
def test_resume_at(sessions):
    """Messages up to and with the one named; one that is unknown is an error, and looking changes nothing."""
    made = sessions.create()
    for text, name in (("one", U1), ("two", U2), ("three", U3)):
        made.append_and_save(sdk("user", text, name))
    assert texts(sessions.load_messages_up_to(made.id, U2)) == ["one", "two"]
    early = sessions.resume(made.id, at=U2)
    assert texts(early.messages) == ["one", "two"]
    assert texts(early.last(1)) == ["two"]
    assert texts(sessions.load(made.id).messages) == ["one", "two", "three"]
    elsewhere = sessions.create().append_and_save(clew.user("elsewhere"))
    for unknown in (str(uuid.uuid4()), elsewhere.id, "msg_1", "zzzzzz"):
        for call in (sessions.load_messages_up_to, sessions.resume):
            with pytest.raises(clew.NotFound):
                call(made.id, unknown)
    early.append_and_save(clew.user("instead"))
    assert texts(sessions.load(made.id).messages) == ["one", "two", "instead"]
    assert texts(early.messages) == ["one", "two", "instead"]
    (left,) = early.conversation.branches()
    assert left.head_id == U3  # nothing is lost


@pytest.mark.checklist("B4", "B11")
def test_fork(sessions):
    """An independent copy with its parent's id; forks of forks, and at a message; errors leave nothing behind."""
    made = sessions.create(cwd="/src", model="m")
    made.append_and_save(sdk("user", "one", U1))
    made.append_and_save(sdk("assistant", "two", U2))
    made.metadata.exit_reason = "done"
    made.save()
    fork = sessions.fork(made.id, new_id=U3)
    assert (fork.id, fork.metadata.parent_id, fork.metadata.cwd, fork.metadata.model) == (U3, made.id, "/src", "m")
    assert fork.metadata.exit_reason is None
    assert fork.metadata.created_at > made.metadata.created_at
    fork.append_and_save(clew.user("in the fork"))
    made.append_and_save(clew.user("in the source"))
    assert texts(sessions.load_messages(made.id)) == ["one", "two", "in the source"]
    assert texts(sessions.load_messages(U3)) == ["one", "two", "in the fork"]
    early = sessions.fork(made, at=U1)
    assert texts(early.messages) == ["one"]
    assert texts(sessions.fork(sessions.fork(U3)).messages) == ["one", "two", "in the fork"]
    before = len(sessions.list())
    with pytest.raises(clew.Conflict):
        sessions.fork(made, new_id=U3)
    with pytest.raises(clew.NotFound):
        sessions.fork(made, at=fork.messages[-1].id)  # it is in the same tree, and not among the source's
    assert len(sessions.list()) == before


@pytest.mark.checklist("B14", "B15")
def test_jsonl_format(mirrored):
    """One compact object per line, append-only; a truncated line is completed, and earlier lines stay."""
    session = mirrored.create(cwd="/src")
    session.append_and_save(sdk("user", "a\u2028b\x85c\nd", U1))
    file = place(mirrored, session) / "messages.jsonl"
    before = file.read_bytes()
    assert before.count(b"\n") == 1
    assert lines(file)[0]["message"]["content"] == "a\u2028b\x85c\nd"
    assert b'": ' not in before
    with file.open("ab") as torn:
        torn.write(b'{"type":"user","uu')
    session.append_and_save(clew.assistant("two"))
    mirrored.flush()
    assert file.read_bytes().startswith(before)
    assert [line["uuid"] for line in lines(file)] == [U1, session.messages[-1].id]


@pytest.mark.checklist("B19")
def test_concurrent_safety(mirrored):
    """Threads that write to one session and its transcript lose and mix up nothing."""
    session = mirrored.create()

    def work(name: str) -> None:
        for number in range(10):
            mirrored.append_message(session.id, clew.user(f"{name}{number}"))
            mirrored.append_event(session.id, {"type": "x", "name": name, "number": number})

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said, events = texts(mirrored.load_messages(session.id)), list(session.transcript.read())
    assert mirrored.mirror is not None and mirrored.mirror.error is None
    for name in "abcd":
        assert [text for text in said if text[0] == name] == [f"{name}{number}" for number in range(10)]
        assert [event.data["number"] for event in events if event.data["name"] == name] == list(range(10))
    folder = place(mirrored, session)
    assert [line["message"]["blocks"][0]["text"] for line in lines(folder / "messages.jsonl")] == said
    assert lines(folder / "transcript.jsonl") == [event.data for event in events]


@pytest.mark.checklist("B18")
def test_transcript_storage(mirrored):
    """Events of every type are stored unchanged, apart from the messages; hooks find them in a file."""
    session = mirrored.create(cwd="/src")
    given = [
        {"type": "system", "subtype": "init", "uuid": U1, "tools": []},
        {"type": "stream_event", "uuid": U2, "event": {"big": 12345678901234567890123, "text": "\ud800 \x00 \u2028"}},
        {"type": "of tomorrow", "uuid": U3, "n": 1.5},
    ]
    for event in given:
        session.append_event(event)
    assert [event.data for event in session.transcript.read()] == given
    assert session.messages == []
    path = mirrored.transcript_path(session.id)
    assert path == str(place(mirrored, session) / "transcript.jsonl")
    assert lines(place(mirrored, session) / "transcript.jsonl") == given


@pytest.mark.checklist("B17")
def test_large_sessions(tmp_path):
    """Appending to a session with thousands of messages takes no longer than to a new one."""
    with agents.open(tmp_path / "s.db", mirror=tmp_path / "m", durability="relaxed") as sessions:
        session = sessions.create()
        for number in range(3000):
            session.add(clew.user(f"{number}"))
        session.save()
        assert session.metadata.message_count == 3000
        assert len(lines(place(sessions, session) / "messages.jsonl")) == 3000
        took: dict[str, list[float]] = {"long": [], "short": []}
        short = sessions.create()
        for _ in range(15):
            for name, one in (("long", session), ("short", short)):
                began = time.perf_counter()
                one.append_and_save(clew.user("more"))
                took[name].append(time.perf_counter() - began)
        assert min(took["long"]) < 5 * min(took["short"])
