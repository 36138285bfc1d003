"""Sessions as agent runtimes use them."""

from __future__ import annotations

import json
import uuid

import msgspec
import pytest

import clew
from clew import agents
from clew.agents import Options, project_hash
from clew.agents.jsonl import LINE_LIMIT
from clew.agents.store import store_of
from clew.checkpoints import Checkpoints
from tests.agents.conftest import sdk, texts

ID = str(uuid.UUID(int=7))
FIELDS = (
    "id project_hash cwd model created_at updated_at message_count turn_count total_tokens exit_reason parent_id "
    "agent_name"
).split()


@pytest.mark.checklist("B2")
def test_metadata_has_the_names_of_the_wire(sessions):
    """All twelve, in their order; the last three are left out while nothing is known."""
    session = sessions.create(cwd="/src", model="m")
    assert list(json.loads(session.metadata.json())) == FIELDS[:9]
    child = sessions.create(agent_name="helper", parent=session)
    child.metadata.exit_reason = "done"
    child.save()
    assert list(json.loads(sessions.load(child.id).metadata.json())) == FIELDS
    assert child.metadata.parent_id == session.id


@pytest.mark.checklist("B3")
def test_metadata_follows_what_is_appended(sessions):
    """Counts, tokens and the time of the last activity are right after every append, wherever it comes from."""
    session = sessions.create()
    before = session.metadata.updated_at
    session.append_and_save(clew.user("one"))
    session.append_and_save(clew.assistant("two", usage=clew.Usage(input=10, output=5)))
    told = session.metadata
    assert (told.message_count, told.turn_count, told.total_tokens) == (2, 1, 15)
    assert told.updated_at > before
    sessions.append_message(session.id, {"role": "assistant", "content": "x", "usage": {"output_tokens": 2}})
    assert sessions.load(session.id).metadata.total_tokens == 17
    session.refresh()
    assert session.metadata == sessions.list()[0]
    assert texts(session.messages) == ["one", "two", "x"]


def test_projects_that_look_alike_are_not_the_same():
    """A project's name comes from its whole directory."""
    names = {project_hash(cwd) for cwd in ("/a-b", "/a/b", "/a_b", "/a", None)}
    assert len(names) == 5
    assert project_hash("/a/b/") == project_hash("/a/b")


@pytest.mark.checklist("B5")
def test_a_save_is_one(sessions, sound):
    """`save` stores messages and settings together or not at all; an empty save does nothing."""
    session = sessions.create()
    session.add(clew.user("one"))
    id = session.add(clew.assistant("two"))
    session.metadata.model = "m2"
    session.metadata.exit_reason = "interrupted"
    assert sessions.load(session.id).messages == []
    assert session.save()[-1].id == id
    loaded = sessions.load(session.id)
    assert (texts(loaded.messages), loaded.metadata.model) == (["one", "two"], "m2")
    assert loaded.metadata.exit_reason == "interrupted"
    session.add(clew.user("three"))
    session.add(clew.user("other"), id=id)  # taken
    session.metadata.model = "m3"
    with pytest.raises(clew.Conflict):
        session.save()
    assert sessions.load(session.id).metadata == loaded.metadata
    assert loaded.save() == []
    loaded.metadata.exit_reason = None
    loaded.save()
    assert sessions.load(session.id).metadata.exit_reason is None
    sound(store_of(sessions))


def test_a_save_at_an_earlier_message_is_safe_to_repeat(sessions):
    """Repeating a save whose response was lost does not rewind the session again."""
    session = sessions.create()
    first, _ = (session.append_and_save(clew.user(text)) for text in ("one", "two"))
    names = [str(uuid.uuid4()) for _ in range(2)]
    for _ in range(3):
        again = sessions.resume(session.id, at=first.id)
        for name in names:
            again.add(clew.user("new"), id=name)
        assert [node.id for node in again.save()] == names
        assert [node.id for node in sessions.load_messages(session.id)] == [first.id, *names]
        assert [node.id for node in again.messages] == [first.id, *names]
    assert len(session.conversation.branches()) == 1


def test_a_message_that_is_not_there_is_called_as_it_was(sessions):
    """The error has the caller's id, not the stored one."""
    session = sessions.create()
    session.append_and_save(clew.user("one"))
    for call in (sessions.load_messages_up_to, sessions.resume):
        with pytest.raises(clew.NotFound, match="msg_7"):
            call(session.id, "msg_7")
    with pytest.raises(clew.NotFound, match="msg_7"):
        sessions.fork(session, at="msg_7")


def test_what_is_counted_cannot_be_set(sessions):
    """Of a session only its directory, its model and why it ended can be set."""
    session = sessions.create()
    session.metadata.message_count = 5
    with pytest.raises(clew.Invalid, match="message_count cannot be set"):
        session.save()


def test_an_append_that_fails_is_forgotten(sessions):
    """A message that cannot be stored is not tried again with the next one."""
    session = sessions.create()
    session.append_and_save(clew.user("one"), id=ID)
    with pytest.raises(clew.Conflict):
        session.append_and_save(clew.user("other"), id=ID)
    session.append_and_save(clew.user("two"))
    assert texts(session.messages) == ["one", "two"]


def test_two_who_hold_the_same_session(sessions):
    """Messages of the other writer in between are there afterwards."""
    mine = sessions.create()
    mine.append_and_save(clew.user("one"))
    assert len(mine.messages) == 1
    theirs = sessions.load(mine.id)
    theirs.append_and_save(clew.user("theirs"))
    mine.append_and_save(clew.user("mine"))
    assert texts(mine.messages) == ["one", "theirs", "mine"]


def test_an_sdk_message_is_kept_as_its_provider_wrote_it(sessions):
    """The provider's message byte for byte, under its own uuid; what came with it is not lost."""
    session = sessions.create()
    raw = '{"role": "user",  "content": [{"type": "text", "text": "x", "n": 12345678901234567890}]}'
    line = f'{{"type": "user", "uuid": "{ID}", "message": {raw}, "isMeta": true}}'
    node = sessions.append_message(session.id, line)
    assert node.id == ID
    assert node.native == clew.native("anthropic", raw, extra={"isMeta": True})
    assert sessions.append_message(session.id, line) == node
    assert len(sessions.load_messages(session.id)) == 1
    with pytest.raises(clew.Conflict):
        sessions.append_message(session.id, sdk("user", "other", ID))


def test_ids_that_are_no_uuids(sessions):
    """A message whose uuid is another kind of name is found by it, and stored once."""
    session = sessions.create()
    first = sessions.append_message(session.id, sdk("user", "one", "msg_01"))
    assert sessions.append_message(session.id, sdk("user", "one", "msg_01")) == first
    sessions.append_message(session.id, sdk("user", "two", "msg_02"))
    assert texts(sessions.load_messages_up_to(session.id, "msg_01")) == ["one"]
    other = sessions.create()
    assert sessions.append_message(other.id, sdk("user", "one", "msg_01")).id != first.id


@pytest.mark.parametrize(
    "bad", [b"[]", b"{", "nonsense", 5, None, {}, {"type": "result"}, {"message": {}}, b'{"a":\xff}']
)
def test_what_is_no_message(sessions, bad):
    """It is an error, and nothing is stored."""
    session = sessions.create()
    with pytest.raises(clew.Invalid):
        sessions.append_message(session.id, bad)
    assert session.messages == []


@pytest.mark.checklist("B14")
def test_a_message_longer_than_a_line(sessions):
    """A message or event that is too long is refused, with both sizes in the error."""
    session = sessions.create()
    long = "x" * LINE_LIMIT
    for message in (clew.user(long), {"role": "user", "content": long}):
        with pytest.raises(clew.Invalid, match="the limit is 10,481,664"):
            sessions.append_message(session.id, message)
    with pytest.raises(clew.Invalid, match="the limit is 10,485,759"):
        session.append_event({"type": "x", "text": long})
    sessions.append_message(session.id, clew.user("x" * (LINE_LIMIT - 8192)))


@pytest.mark.checklist("B6")
def test_list_leaves_out_what_is_damaged(sessions, path):
    """Newest first; a session with a damaged row is omitted and reported."""
    made = [sessions.create(cwd="/a" if number % 2 else "/b") for number in range(6)]
    made[0].append_and_save(clew.user("newest"))
    order = [made[number].id for number in (0, 5, 4, 3, 2, 1)]
    assert [one.id for one in sessions.list()] == order
    assert [one.id for one in sessions.list(limit=2)] == order[:2]
    assert [one.id for one in sessions.list(cwd="/a")] == [made[number].id for number in (5, 3, 1)]
    import sqlite3

    sessions.close()
    with sqlite3.connect(path) as spoil:
        spoil.execute("UPDATE refs SET data = x'0102' WHERE ref = (SELECT max(ref) FROM refs)")
    spoil.close()
    told: list[clew.ClewError] = []
    with agents.open(path) as again:
        assert [one.id for one in again.list(on_damage=told.append)] == [order[0], *order[2:]]
    assert [type(one) for one in told] == [clew.Corrupted]


@pytest.mark.checklist("B32")
def test_deleting_takes_all_that_goes_with_it(mirrored, root):
    """Messages, transcript, subagents and theirs, and all their files; a fork keeps what it shares."""
    session = mirrored.create(cwd="/src")
    session.append_and_save(clew.user("one"))
    session.append_event({"type": "x"})
    child = mirrored.create(agent_name="helper", parent=session, cwd="/elsewhere")
    mirrored.create(agent_name="helper's helper", parent=child)
    fork = mirrored.fork(session)
    mirrored.flush()
    assert len(list(root.glob("*/sessions/*"))) == 4
    mirrored.delete(session.id)
    assert [file.name for file in root.glob("*/sessions/*")] == [fork.id]
    assert texts(mirrored.load_messages(fork.id)) == ["one"]
    assert mirrored.list(subagents=True) == []
    assert store_of(mirrored).verify().ok


@pytest.mark.checklist("B20")
def test_closing(path, root):
    """Closing twice is once; afterwards nothing is written, and the error says so."""
    sessions = agents.open(path, mirror=root)
    session = sessions.create()
    sessions.close()
    sessions.close()
    for call in (lambda: session.append_and_save(clew.user("late")), lambda: session.append_event({"type": "late"})):
        with pytest.raises(clew.Closed):
            call()
    with agents.open(path) as again:
        assert again.load(session.id).messages == []


def test_a_store_that_was_lent_stays_open(store):
    """Sessions over an open store do not close it."""
    with agents.SessionStore(store) as sessions:
        session = sessions.create()
    assert store.sessions.get(session.id).id == session.id


# -- how a run begins

WRONG = [
    ({"continue": True, "resume": ID}, "continue and resume cannot be combined"),
    ({"continue": True, "sessionId": ID}, "sessionId names a new session"),
    ({"resume": ID, "sessionId": ID}, "sessionId names a new session"),
    ({"forkSession": True}, "forkSession needs continue or resume"),
    ({"forkSession": True, "sessionId": ID}, "forkSession needs continue or resume"),
    ({"resumeSessionAt": ID}, "resumeSessionAt needs resume"),
    ({"continue": True, "resumeSessionAt": ID}, "resumeSessionAt needs resume"),
    ({"sessionId": "../../etc"}, "is not an id"),
    ({"continue": "yes"}, "invalid options"),
]


@pytest.mark.checklist("B12")
@pytest.mark.parametrize(("options", "said"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_options_that_do_not_go_together(sessions, options, said):
    """The error says which, and nothing is made."""
    sessions.create(cwd="/src")
    with pytest.raises(clew.Invalid, match=said):
        sessions.start(options, cwd="/src")
    assert len(sessions.list()) == 1


def test_beginning_as_asked(sessions):
    """New, with an id, going on, going on elsewhere, and beside: each is what it says."""
    first = sessions.start(cwd="/src", model="m")
    one, _two = first.append_and_save(clew.user("one")), first.append_and_save(clew.user("two"))
    named = sessions.start({"sessionId": ID}, cwd="/other")
    assert named.id == ID
    assert sessions.start(Options(continue_=True), cwd="/src").id == first.id
    assert sessions.start({"resume": first.id}).id == first.id
    assert texts(sessions.start({"resume": first.id, "resumeSessionAt": one.id}).messages) == ["one"]
    fork = sessions.start(Options(continue_=True, fork=True), cwd="/src")
    assert (fork.metadata.parent_id, texts(fork.messages)) == (first.id, ["one", "two"])
    new = str(uuid.uuid4())
    early = sessions.start({"resume": first.id, "resumeSessionAt": one.id, "forkSession": True, "sessionId": new})
    assert (early.id, texts(early.messages)) == (new, ["one"])
    with pytest.raises(clew.NotFound, match="/nowhere"):
        sessions.start({"continue": True}, cwd="/nowhere")
    with pytest.raises(clew.Invalid):
        sessions.start({"continue": True})


def test_options_have_the_names_of_the_wire():
    """As JSON they are what agent SDKs call them."""
    every = Options(continue_=True, resume="r", resume_at="a", fork=True, session_id="s", persist=False)
    assert set(json.loads(msgspec.json.encode(every))) == {
        "continue", "resume", "resumeSessionAt", "forkSession", "sessionId", "persistSession",
    }  # fmt: skip


def test_a_message_that_is_stored_before_something_fails(sessions, monkeypatch):
    """The error is the one that happened, and what is stored is not kept in mind for the next save."""
    session = sessions.create(cwd="/src")
    with monkeypatch.context() as patch:
        patch.setattr("clew.agents.metadata.of", _gone)
        with pytest.raises(clew.NotFound):
            session.append_and_save(clew.user("hello"))
    session.append_and_save(clew.assistant("hello"))
    assert [node.text for node in sessions.load(session.id).messages] == ["hello", "hello"]


def _gone(*_):
    raise clew.NotFound("session", "gone")


def test_options_that_are_not_known_are_refused(sessions):
    """A misspelt option is an error that names it, and starts nothing."""
    with pytest.raises(clew.Invalid, match="resumeSession"):
        sessions.start({"resumeSession": ID}, cwd="/src")
    assert sessions.list() == []


def test_files_are_checkpointed_if_that_was_asked_for(sessions, tmp_path):
    """`enableFileCheckpointing` is known to the session, also one that is resumed; without it captures do nothing."""
    (tmp_path / "a").write_text("one")
    first = sessions.start(cwd=tmp_path)
    for asked in (True, False):
        run = sessions.start({"resume": first.id, "enableFileCheckpointing": asked})
        checkpoints = Checkpoints(run.conversation, tmp_path, enabled=run.file_checkpointing)
        assert (checkpoints.capture(ID, ["a"]) is not None) == asked
    assert first.file_checkpointing is False
    assert sessions.create().file_checkpointing is True


def test_a_relative_directory_is_made_absolute(sessions, tmp_path, monkeypatch):
    """It is that of the process, and found by either name."""
    monkeypatch.chdir(tmp_path)
    made = sessions.create(cwd="app")
    assert made.metadata.cwd == str(tmp_path / "app")
    assert sessions.load_latest("./app/").id == sessions.load_latest(tmp_path / "app").id == made.id
