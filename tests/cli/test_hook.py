"""`clew hook`: what a coding agent tells it, it keeps; and it never stands in the way."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

import clew
from clew import agents
from clew.checkpoints import Checkpoints
from clew.cli.commands.hook import last_prompt
from clew.sources import lines, records
from clew.sources.imported_files import ImportedFiles

SESSION = "8c35adc1-0000-4000-8000-000000000001"
PROMPTS = ["e117e877-9dc4-4e2a-8260-2910af0c3b05", "e117e877-9dc4-4e2a-8260-2910af0c3b06"]
SAID = ["5107aed3-a999-4b03-9fce-8df4972449b1", "5107aed3-a999-4b03-9fce-8df4972449b2"]


class Agent:
    """Plays a coding agent: a project, a transcript, and its hooks."""

    def __init__(self, clew_cli, folder, *, prompts=True):
        self.cli = clew_cli
        self.work = folder / "project"
        self.work.mkdir()
        self.transcript = folder / "projects" / "p" / f"{SESSION}.jsonl"
        self.transcript.parent.mkdir(parents=True)
        self.prompts, self.turn, self.last = prompts, -1, None

    def write(self, **event):
        """Writes a line, as a link of the chain unless it names its parent."""
        if "uuid" in event:
            event = {"parentUuid": self.last, "sessionId": SESSION, "cwd": str(self.work), **event}
            self.last = event["uuid"]
        with self.transcript.open("a") as file:
            file.write(json.dumps(event) + "\n")

    def hook(self, name, **fields):
        common = {
            "session_id": SESSION, "transcript_path": str(self.transcript), "cwd": str(self.work),
            "permission_mode": "default", "hook_event_name": name, "new_field": {"x": [1]},
        }  # fmt: skip
        if self.prompts and self.turn >= 0:
            common["prompt_id"] = PROMPTS[self.turn]
        done = self.cli("hook", input=json.dumps({**common, **fields}))
        assert (done.code, done.out) == (0, "")
        return done.err

    def say(self, text):
        self.turn += 1
        assert self.hook("UserPromptSubmit", prompt=text) == ""
        about = {"promptId": PROMPTS[self.turn]} if self.prompts else {}
        self.write(type="user", uuid=SAID[self.turn], message={"role": "user", "content": text}, **about)

    def tool(self, name, act, **given):
        err = self.hook("PreToolUse", tool_name=name, tool_input=given, tool_use_id="toolu_1")
        act()
        self.write(type="user", uuid=str(uuid.uuid4()), promptId=PROMPTS[self.turn],
                   message={"role": "user", "content": [{"type": "tool_result", "content": "ok"}]})  # fmt: skip
        return err + self.hook("PostToolUse", tool_name=name, tool_input=given, tool_response={})


@pytest.fixture
def agent(clew_cli, tmp_path):
    return Agent(clew_cli, tmp_path)


def run(agent):
    """Two turns: edits in the first, a command in the second."""
    work = agent.work
    (work / "a.py").write_text("one\n")
    agent.write(type="summary", summary="x")
    agent.say("edit it")
    assert agent.tool("Edit", lambda: (work / "a.py").write_text("two\n"), file_path=str(work / "a.py")) == ""
    assert agent.tool("Write", lambda: (work / "new.py").write_text("new\n"), file_path=str(work / "new.py")) == ""
    assert agent.hook("Stop", stop_hook_active=False) == ""
    agent.say("run it")
    assert agent.tool("Bash", lambda: (work / "a.py").write_text("three\n"), command="make") == ""
    assert agent.hook("Stop") == ""
    assert agent.hook("SessionEnd", reason="logout") == ""


@pytest.mark.parametrize("prompts", [True, False])
def test_what_the_agent_did_can_be_taken_back(clew_cli, tmp_path, db, prompts):
    """Edits, new files and commands are kept by the message; a rewind by that message takes them back."""
    agent = Agent(clew_cli, tmp_path, prompts=prompts)
    run(agent)
    done = clew_cli("rewind", SESSION, SAID[1], "--files", "--json").json
    assert (done["canRewind"], done["filesChanged"]) == (True, ["a.py"])
    assert (agent.work / "a.py").read_text() == "two\n"
    assert clew_cli("rewind", SESSION, SAID[0], "--files").code == 0
    assert (agent.work / "a.py").read_text() == "one\n"
    assert not (agent.work / "new.py").exists()


def test_what_someone_else_did_meanwhile_is_told(agent, clew_cli):
    """After the turn is over, changes are the person's own: a rewind asks for force."""
    run(agent)
    (agent.work / "a.py").write_text("mine\n")
    assert clew_cli("rewind", SESSION, SAID[0], "--files", "--json").json["conflicts"] == ["a.py"]


def test_what_rules_left_out_is_not_removed(agent, clew_cli):
    """A command empties `.gitignore`: what it left out was there before, and a rewind leaves it."""
    (agent.work / ".gitignore").write_text(".env\n")
    (agent.work / ".env").write_text("secret")
    agent.say("clean up")
    agent.tool("Bash", lambda: (agent.work / ".gitignore").write_text(""), command="> .gitignore")
    agent.hook("Stop")
    done = clew_cli("rewind", SESSION, SAID[0], "--files", "--json").json
    assert (done["canRewind"], done["unseen"]) == (True, [".env"])
    assert (agent.work / ".env").read_text() == "secret"
    assert (agent.work / ".gitignore").read_text() == ".env\n"


def test_the_transcript_is_kept(agent, db):
    """Every whole line is there once, byte for byte and in order, however often hooks run; a torn one waits."""
    run(agent)
    with agent.transcript.open("a") as file:
        file.write('{"type":"torn"')
    agent.hook("Stop")
    agent.hook("Stop")
    with agent.transcript.open("a") as file:
        file.write(',"uuid":"x"}\nnot json\n[1]\n{"type":"again","uuid":"x"}\n{"no":"name"}\n')
    agent.hook("Stop")
    lines = [line for line in agent.transcript.read_bytes().splitlines(keepends=True) if line.startswith(b"{")]
    with clew.open(db) as store:
        session = store.sessions.get(SESSION)
        assert list(records(session, store)) == lines
        assert session.extra["exit_reason"] == "logout"
        assert session.cwd == str(agent.work)


def test_a_transcript_that_was_exchanged_is_read_from_its_beginning(agent, db):
    """Another file under the same name: its lines come after those that are there."""
    agent.say("one")
    agent.hook("Stop")
    agent.transcript.write_text('{"type":"other","uuid":"1"}\n')
    agent.hook("Stop")
    with clew.open(db) as store:
        assert [json.loads(line)["type"] for line in records(store.sessions.get(SESSION), store)] == ["user", "other"]


def test_a_subagent_has_a_session_of_its_own(agent, db):
    """Its transcript goes into a trace that belongs to the session, under the name that is beside it."""
    agent.say("send someone")
    other = agent.transcript.with_suffix("") / "subagents" / "agent-a1.jsonl"
    other.parent.mkdir(parents=True)
    line = {"type": "user", "uuid": str(uuid.UUID(int=7)), "parentUuid": None, "isSidechain": True,
            "sessionId": SESSION, "message": {"role": "user", "content": "look"}}  # fmt: skip
    other.write_text(json.dumps(line) + "\n")
    other.with_name("agent-a1.meta.json").write_text('{"agentType": "Explore"}')
    for _ in range(2):
        agent.hook("SubagentStop", agent_id="a1", agent_type="Explore", agent_transcript_path=str(other))
    with clew.open(db) as store:
        (trace,) = store.sessions.get(SESSION).subagents()
        assert (trace.agent, [node.text for node in trace.path()]) == ("Explore", ["look"])


def test_many_hooks_at_once(agent, db, tmp_path):
    """Tools that run side by side: every hook ends well, every line is there once, every file is kept."""
    agent.say("all at once")
    names = [f"f{number}.py" for number in range(3)]
    events = []
    for number, name in enumerate(names):
        (agent.work / name).write_text(f"original {number}")
        agent.write(type="assistant", uuid=f"line {number}")
        base = {"session_id": SESSION, "transcript_path": str(agent.transcript), "cwd": str(agent.work)}
        base["prompt_id"] = PROMPTS[0]
        events.append({**base, "hook_event_name": "PreToolUse", "tool_name": "Write",
                       "tool_input": {"file_path": str(agent.work / name)}})  # fmt: skip
        events.append({**base, "hook_event_name": "UserPromptSubmit"})
    env = {**os.environ, "CLEW_DB": db}
    command, running = [sys.executable, "-m", "clew", "hook"], []
    for number, event in enumerate(events):
        (tmp_path / f"event-{number}").write_text(json.dumps(event))
        with (tmp_path / f"event-{number}").open() as given, (tmp_path / f"told-{number}").open("w") as said:
            running.append(subprocess.Popen(command, stdin=given, stderr=said, env=env))
    assert [one.wait(timeout=60) for one in running] == [0] * len(events)
    assert [(tmp_path / f"told-{number}").read_text() for number in range(len(events))] == [""] * len(events)
    with clew.open(db) as store:
        session = store.sessions.get(SESSION)
        assert {*Checkpoints(session, agent.work).show(PROMPTS[0]).states} == {*names}
        assert len(list(records(session, store))) == 4


@pytest.mark.parametrize(
    "given",
    [
        b"", b"not json", b"[1]", b"null", b"{}", b'{"hook_event_name": 5}', b"\xff\xfe", b"[" * 100_000,
        b'{"hook_event_name": "Stop"}', b'{"hook_event_name": "PreToolUse", "session_id": "x", "tool_name": "Edit"}',
        b'{"hook_event_name": "PreToolUse", "session_id": "x", "tool_name": "Edit", "tool_input": {"file_path": 5}}',
        b'{"hook_event_name": "Stop", "session_id": "x", "cwd": "/none", "transcript_path": "/none"}',
        b'{"hook_event_name": "PreToolUse", "session_id": "x", "cwd": "/tmp", "tool_name": "Write", "tool_input": {}}',
    ],
)  # fmt: skip
def test_a_hook_never_stands_in_the_way(clew_cli, given):
    """Whatever comes on stdin, it ends with 0 and says nothing on stdout."""
    done = clew_cli("hook", input=given)
    assert (done.code, done.out) == (0, "")
    assert "Traceback" not in done.err


def test_events_that_are_not_known_are_passed_over(agent, db):
    """A new event, or a tool that changes no file, makes no store."""
    assert agent.hook("SomethingNew") == ""
    assert not os.path.exists(db)
    agent.hook("PreToolUse", tool_name="Read", tool_input={"file_path": "x"})


def test_failures_are_told_and_let_pass(agent, clew_cli, tmp_path, db):
    """A file outside the project, a store that cannot be opened, a wrong key: told on stderr, exit code 0."""
    agent.say("x")
    assert "is not below" in agent.hook("PreToolUse", tool_name="Edit", tool_input={"file_path": "/etc/hosts"})
    (tmp_path / "bad.db").write_text("not a store, and long enough to be looked at " * 20)
    event = json.dumps({"hook_event_name": "Stop", "session_id": SESSION})
    done = clew_cli("--db", str(tmp_path / "bad.db"), "hook", input=event)
    assert (done.code, "is not a clew store" in done.err) == (0, True)
    with clew.open(tmp_path / "sealed.db", key=bytes(32)):
        pass
    before = (tmp_path / "sealed.db").read_bytes()
    done = clew_cli("hook", "--db", str(tmp_path / "sealed.db"), input=event)
    assert (done.code, "is sealed" in done.err) == (0, True)
    assert (tmp_path / "sealed.db").read_bytes() == before


def test_a_file_that_is_too_large_is_told(agent):
    """A skipped file is named on stderr."""
    agent.say("x")
    with (agent.work / "large").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    assert "not saved: large" in agent.hook(
        "PreToolUse", tool_name="Write", tool_input={"file_path": str(agent.work / "large")}
    )


def test_the_last_prompt_is_found_from_the_end(tmp_path):
    """Results of tools, notes and side talk are passed over; a long file is not read from its beginning."""
    path = tmp_path / "t.jsonl"
    lines = [
        {"type": "user", "uuid": "a", "promptId": "p", "message": {"content": [{"type": "text", "text": "x"}]}},
        {"type": "user", "uuid": "b", "message": {"content": [{"type": "tool_result"}]}},
        {"type": "user", "uuid": "c", "isMeta": True, "message": {"content": "x"}},
        {"type": "user", "uuid": "d", "isSidechain": True, "message": {"content": "x"}},
        {"type": "assistant", "uuid": "e", "message": {"content": "user " * 50_000}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert last_prompt(str(path)) == ("a", "p")
    assert last_prompt(str(path), "p") == ("a", "p")
    assert last_prompt(str(path), "q") is None
    path.write_text("")
    assert last_prompt(str(path)) is None


# -- messages


def talked(agent):
    """A session as Claude Code writes it: an answer in two lines, a tool, notes, talk on the side."""
    agent.say("Why does the build fail?")
    usage = {"input_tokens": 10, "output_tokens": 5}
    about = {"role": "assistant", "id": "msg_1", "model": "claude-sonnet-4-5", "usage": usage}
    parent = SAID[0]
    for number, block in enumerate(({"type": "text", "text": "I will look."},
                                    {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}})):  # fmt: skip
        name = str(uuid.UUID(int=100 + number))
        agent.write(type="assistant", uuid=name, parentUuid=parent, timestamp="2026-01-31T10:00:00Z",
                    message={**about, "content": [block]})  # fmt: skip
        parent = name
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    agent.write(type="user", uuid=str(uuid.UUID(int=102)), parentUuid=parent, promptId=PROMPTS[0],
                message={"role": "user", "content": [result]})  # fmt: skip
    agent.write(type="assistant", uuid=str(uuid.UUID(int=103)), isSidechain=True,
                message={"role": "assistant", "content": "on the side"})  # fmt: skip
    agent.write(type="system", uuid=str(uuid.UUID(int=104)), parentUuid=str(uuid.UUID(int=102)))
    agent.hook("Stop")


def test_an_answer_in_several_lines_counts_its_largest_usage_once(agent, clew_cli):
    """An answer grows from line to line, also between two hooks: the sums are those of its last line."""
    agent.say("go")
    for number, output in enumerate((1, 40, 40, 90)):
        about = {"role": "assistant", "id": "msg_1", "content": [{"type": "text", "text": str(number)}]}
        usage = {"input_tokens": 10, "output_tokens": output, "service_tier": "standard"}
        agent.write(type="assistant", uuid=str(uuid.UUID(int=200 + number)), message={**about, "usage": usage})
        if number % 2:
            agent.hook("Stop")
    found = clew_cli("ls", "--all", "--json").json
    found = found["sessions"] if isinstance(found, dict) else found
    assert [(one["tokens_in"], one["tokens_out"], one["cost"]) for one in found] == [(10, 90, None)]


def test_messages_are_messages_of_the_session(agent, db, clew_cli):
    """What hooks alone have seen can be shown, searched and resumed, under the ids that the agent gave."""
    talked(agent)
    agent.hook("Stop")
    with clew.open(db) as store:
        session = store.sessions.get(SESSION)
        assert [node.id for node in session.path()] == [SAID[0], *(str(uuid.UUID(int=100 + n)) for n in range(3))]
        assert [node.role for node in session.path()] == ["user", "assistant", "assistant", "tool"]
        assert session.model == "claude-sonnet-4-5"
        assert session.path()[1].created_at.isoformat() == "2026-01-31T10:00:00+00:00"
        assert session.counters.tokens == 15
        assert len(list(records(session, store))) == 5
        store.verify()
    assert "Why does the build fail?" in clew_cli("show", SESSION).out
    assert clew_cli("search", "build", "--json").json
    with agents.open(db) as sessions:
        assert sessions.load_latest(agent.work).id == SESSION
        assert len(sessions.resume(SESSION, at=SAID[0]).messages) == 1


def test_conversation_and_files_go_back_together(agent, clew_cli, db):
    """A session that hooks have made goes back to a message, by its own id or the prompt's, and forward again."""
    run(agent)
    with clew.open(db) as store:
        before = [node.id for node in store.sessions.get(SESSION).path()]
    for name in (SAID[0], PROMPTS[0]):
        assert clew_cli("rewind", SESSION, name, "--both", "--json").json["canRewind"]
        assert (agent.work / "a.py").read_text() == "one\n"
        with clew.open(db) as store:
            assert [node.id for node in store.sessions.get(SESSION).path()] == [SAID[0]]
        assert clew_cli("undo", SESSION, "--json").json["canRewind"]
        assert (agent.work / "a.py").read_text() == "three\n"
        with clew.open(db) as store:
            assert [node.id for node in store.sessions.get(SESSION).path()] == before


def test_where_the_agent_goes_back_the_session_does(agent, db):
    """A prompt that follows an earlier message: what came after that stays, as a branch."""
    talked(agent)
    agent.turn = 1
    agent.write(type="user", uuid=SAID[1], parentUuid=SAID[0],
                message={"role": "user", "content": "No, something else"})  # fmt: skip
    agent.hook("Stop")
    with clew.open(db) as store:
        session = store.sessions.get(SESSION)
        assert [node.id for node in session.path()] == [SAID[0], SAID[1]]
        assert [branch.head_id for branch in session.branches()] == [str(uuid.UUID(int=102))]


def test_reading_the_same_lines_again_changes_nothing(agent, db):
    """A transcript that is read from its beginning once more: the session stays where it was."""
    talked(agent)
    for number, parent in ((200, 102), (201, 200)):
        about = {"uuid": str(uuid.UUID(int=number)), "parentUuid": str(uuid.UUID(int=parent))}
        agent.write(type="user", message={"role": "user", "content": "next"}, **about)
    agent.hook("Stop")
    with clew.open(db) as store:
        before = [node.id for node in store.sessions.get(SESSION).path()]
    agent.transcript.write_bytes(b'{"type":"other"}\n' + agent.transcript.read_bytes())
    agent.hook("Stop")
    with clew.open(db) as store:
        assert [node.id for node in store.sessions.get(SESSION).path()] == before
        assert store.sessions.get(SESSION).branches() == []


def test_a_prompt_after_a_note_goes_on_at_the_end(agent, db):
    """What a prompt follows may be no message, and in another piece of the file: nothing is left behind then."""
    talked(agent)
    agent.write(type="user", uuid=SAID[1], parentUuid=str(uuid.UUID(int=104)),
                message={"role": "user", "content": "Go on"})  # fmt: skip
    agent.hook("Stop")
    with clew.open(db) as store:
        session = store.sessions.get(SESSION)
        assert (len(session.path()), session.branches()) == (5, [])


def test_a_session_that_the_agent_copied(agent, db, clew_cli):
    """A fork by the agent has the same messages in another file: one node each, two sessions, files of its own."""
    talked(agent)
    other = SESSION[:-1] + "2"
    copy = agent.transcript.with_name(f"{other}.jsonl")
    copy.write_text(agent.transcript.read_text().replace(SESSION, other))
    (agent.work / "a.py").write_text("one")
    given = {"session_id": other, "transcript_path": str(copy)}
    edit = {"tool_name": "Edit", "tool_input": {"file_path": str(agent.work / "a.py")}, "prompt_id": PROMPTS[0]}
    assert agent.hook("PreToolUse", **given, **edit) == ""
    (agent.work / "a.py").write_text("two")
    assert agent.hook("Stop", **given) == ""
    with clew.open(db) as store:
        names = [[node.id for node in store.sessions.get(id).path()] for id in (SESSION, other)]
        assert (names[0], len(names[0])) == (names[1], 4)
        store.verify()
    assert clew_cli("rewind", other, SAID[0], "--files", "--json").json["canRewind"]
    assert (agent.work / "a.py").read_text() == "one"


def test_a_large_message(agent, db):
    """It is kept as an import keeps it, and the rest follows."""
    agent.say("x" * 11_000_000)
    agent.write(type="assistant", uuid=str(uuid.UUID(int=100)), message={"role": "assistant", "content": "yes"})
    assert agent.hook("Stop") == ""
    with clew.open(db) as store:
        session = store.sessions.get(SESSION)
        first, last = session.path()
        assert (first.id, last.text) == (SAID[0], "yes")
        assert b"".join(records(session, store)) == agent.transcript.read_bytes()


STRANGE: list[dict[str, object]] = [
    {"role": 5}, {"role": "user"}, {"role": "user", "content": {"a": 1}}, {"role": "robot", "content": "x"},
    {"role": "user", "content": ["\ud800"]}, {"role": "user", "content": "x", "usage": "none", "id": 7, "model": []},
]  # fmt: skip


@pytest.mark.parametrize("message", STRANGE)
def test_strange_messages_do_not_stop_the_rest(agent, db, message):
    """Whatever a line says, the lines after it are taken over."""
    agent.write(type="user", uuid=str(uuid.UUID(int=100)), message=message, parentUuid={"a": 1}, timestamp=[])
    agent.say("after")
    agent.hook("Stop")
    with clew.open(db) as store:
        session = store.sessions.get(SESSION)
        assert session.path()[-1].id == SAID[0]
        assert len(list(records(session, store))) == 2


# -- in the way


@pytest.mark.parametrize("what", ["pipe", "folder", "link to a pipe", "endless"])
def test_a_transcript_that_is_no_file_is_not_waited_for(agent, what):
    """A pipe that nobody writes to, a device that never ends: told at once."""
    place = agent.transcript.with_name("pipe")
    os.mkfifo(place)
    path = {"pipe": place, "folder": agent.work, "endless": "/dev/zero"}.get(what, agent.transcript)
    if what == "link to a pipe":
        agent.transcript.symlink_to(place)
    for name in ("Stop", "UserPromptSubmit"):
        assert "not imported" in agent.hook(name, transcript_path=str(path), prompt_id="")
    (agent.work / "a").write_text("one")
    tool = {"tool_name": "Edit", "tool_input": {"file_path": str(agent.work / "a")}}
    assert agent.hook("PreToolUse", transcript_path=str(path), prompt_id="", **tool) == ""


def test_an_endless_line_is_passed_over(agent, db, monkeypatch):
    """It is said how long it was, once; what comes after it is taken over; one that does not end yet waits."""
    monkeypatch.setattr(lines, "LONGEST", 5000)
    agent.say("before")
    with agent.transcript.open("a") as file:
        file.write('{"type":"x","y":"' + "x" * 20_000)
    assert agent.hook("Stop") == ""
    with agent.transcript.open("a") as file:
        file.write('"}\n{"type":"after","y":"' + "y" * 3000 + '"}\n')
    assert "line 2: the line has 20,020 bytes, more than" in agent.hook("Stop")
    assert agent.hook("Stop") == ""
    agent.say("more")
    assert agent.hook("Stop") == ""
    with clew.open(db) as store:
        found = [json.loads(line) for line in records(store.sessions.get(SESSION), store)]
        assert [one["type"] for one in found] == ["user", "after", "user"]
        (seen,) = ImportedFiles(store).files()
        assert [why[:27] for why in seen.file.skipped] == ["line 2: the line has 20,020"]


# -- beside an import


@pytest.mark.parametrize("first", ["hook", "import"])
def test_a_hook_and_an_import_agree(agent, db, clew_cli, first):
    """Whichever comes first: one session, one node for each message, and the second finds nothing new."""
    agent.say("Why does the build fail?")
    agent.write(type="assistant", uuid=str(uuid.UUID(int=100)), message={"role": "assistant", "content": "A test."})

    def by_import():
        done = clew_cli("import", str(agent.transcript.parent), "--json").json["files"]
        return [(one["state"], sum(each["messages"] for each in one["conversations"])) for one in done]

    def state():
        with clew.open(db) as store:
            store.verify()
            found = {one.id: [node.id for node in one.path()] for one in store.sessions.list().all()}
            return found, store.sessions.get(SESSION).version, list(records(store.sessions.get(SESSION), store))

    if first == "hook":
        agent.hook("Stop")
        before = state()
        assert by_import() == [("unchanged", 0)]
    else:
        assert by_import() == [("imported", 2)]
        before = state()
        agent.hook("Stop")
    assert state() == before
    assert before[0] == {SESSION: [SAID[0], str(uuid.UUID(int=100))]}
    agent.say("And now?")
    agent.hook("Stop") if first == "import" else by_import()
    assert state()[0] == {SESSION: [SAID[0], str(uuid.UUID(int=100)), SAID[1]]}
    clew_cli("import", str(agent.transcript.parent), "--again")
    assert state()[0] == {SESSION: [SAID[0], str(uuid.UUID(int=100)), SAID[1]]}


def test_a_folder_that_someone_keeps_is_not_waited_for_long(agent, monkeypatch):
    """Another program has locked the project: the agent goes on after a while, and is told."""
    monkeypatch.setenv("CLEW_HOOK_TIMEOUT", "2")
    agent.say("x")
    fd = os.open(agent.work, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        before = time.monotonic()
        told = agent.hook("PreToolUse", tool_name="Bash", tool_input={"command": "make"})
        assert "another process is capturing or rewinding" in told
        assert time.monotonic() - before < 20
    finally:
        os.close(fd)


def test_nobody_to_be_told():
    """Errors that cannot be written anywhere are no reason to fail."""
    with Path("/dev/full").open("w") as err:
        command = [sys.executable, "-m", "clew", "hook"]
        done = subprocess.run(command, input=b"nonsense", stdout=subprocess.PIPE, stderr=err, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
