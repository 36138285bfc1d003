"""An import adds: it changes nothing that is not its own, and each session shows what its own file says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.adapters.transcripts import MirroredTranscript
from clew.sources.import_all import FileOutcome, import_all
from clew.sources.import_log import ImportRecorder
from clew.sources.importer import records
from clew.sources.registry import find
from clew.sources.undo import undo
from tests.sources.made import SESSION, an_id, claude_line
from tests.sources.made import jsonl as lines
from tests.sources.samples.copilot_cli import EVENTS, FILES

GENUINE = [claude_line(1, None, "user", "Is it safe?"), claude_line(2, 1, "assistant", "No. Do not run it.")]
EVIL = [claude_line(1, None, "user", "Is it safe?"), claude_line(2, 1, "assistant", "Yes. Run it.")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "s.db") as store:
        yield store
        assert store.verify().damage == []


def write(folder: Path, session: str, found: list[dict[str, Any]], project: str = "p") -> Path:
    """A log of Claude Code."""
    file = folder / "projects" / project / f"{session}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lines({**one, "sessionId": session} for one in found))
    return file


def bring(store: clew.Store, file: Path, **options: Any) -> FileOutcome:
    (outcome,) = import_all(store, find([str(file)]), **options)
    assert outcome.skipped == ()
    return outcome


def texts(store: clew.Store, session: str) -> list[str]:
    return [node.text for node in store.sessions.get(session).path()]


def everything(store: clew.Store, session: str) -> tuple[Any, ...]:
    """All that a session has."""
    one = store.sessions.get(session)
    said = [(node.id, node.said, node.created_at) for node in one.path()]
    kept = [entry.data for entry in one.log.read()]
    branches = list(one.branches())
    return one.data, one.head_id, one.updated_at, one.held, said, kept, len(branches)


@pytest.mark.parametrize("first", ["evil", "genuine"])
def test_two_files_with_the_same_message_ids(store: clew.Store, tmp_path: Path, first: str) -> None:
    """Whichever is imported first, each conversation shows its own words, and the report of the second says so."""
    evil, genuine = write(tmp_path, an_id(800), EVIL), write(tmp_path, SESSION, GENUINE)
    order = [evil, genuine] if first == "evil" else [genuine, evil]
    assert bring(store, order[0]).notes == ()
    (note,) = bring(store, order[1]).notes
    assert note.endswith("1 message has the id of another message: stored under a new id")
    assert texts(store, SESSION) == ["Is it safe?", "No. Do not run it."]
    assert texts(store, an_id(800)) == ["Is it safe?", "Yes. Run it."]
    assert b"".join(records(store.sessions.get(SESSION), store)) == genuine.read_bytes()
    for file in order:
        outcome = bring(store, file, again=True)
        assert (outcome.messages, outcome.notes) == (0, ())


def test_a_file_grows_after_a_message_that_got_another_id(store: clew.Store, tmp_path: Path) -> None:
    """New messages follow the conversation's own message, not the other one that has its id."""
    bring(store, write(tmp_path, an_id(800), EVIL))
    bring(store, write(tmp_path, SESSION, GENUINE))
    bring(store, write(tmp_path, SESSION, [*GENUINE, claude_line(3, 2, "user", "Thanks")]))
    file = write(tmp_path, SESSION, [*GENUINE, claude_line(3, 2, "user", "Thanks"), claude_line(4, 3, "user", "Bye")])
    bring(store, file)
    assert texts(store, SESSION) == ["Is it safe?", "No. Do not run it.", "Thanks", "Bye"]
    assert b"".join(records(store.sessions.get(SESSION), store)) == file.read_bytes()
    assert texts(store, an_id(800)) == ["Is it safe?", "Yes. Run it."]


def test_other_words_before_the_same_message(store: clew.Store, tmp_path: Path) -> None:
    """A message that another file has after other words is shown after its own."""
    bring(store, write(tmp_path, an_id(800), [claude_line(7, None, "user", "EVIL"), claude_line(2, 7, "user", "Two")]))
    bring(store, write(tmp_path, SESSION, [claude_line(1, None, "user", "One"), claude_line(2, 1, "user", "Two")]))
    assert texts(store, SESSION) == ["One", "Two"]


@pytest.mark.parametrize("held", [False, True])
def test_a_file_with_the_id_of_a_native_conversation(store: clew.Store, tmp_path: Path, held: bool) -> None:
    """It becomes a conversation of its own, with a note; the native one stays as it is, and undo removes the other."""
    native = store.sessions.create(title="Mine", id=SESSION)
    native.append([clew.user("Hello"), clew.assistant("Hi")])
    if held:
        native.hold()
    before = everything(store, SESSION)
    file = write(tmp_path, SESSION, [claude_line(1, None, "user", "INJECTED")])
    import_run = ImportRecorder(store)
    outcome = bring(store, file, recorder=import_run)
    (made,) = outcome.conversations
    assert outcome.notes[0].endswith("its id is that of another conversation: imported as a new conversation")
    assert (made.session != SESSION, texts(store, made.session)) == (True, ["INJECTED"])
    assert everything(store, SESSION) == before
    write(tmp_path, SESSION, [claude_line(1, None, "user", "INJECTED"), claude_line(2, 1, "user", "again")])
    assert [one.session for one in bring(store, file, recorder=import_run).conversations] == [made.session]
    assert (texts(store, made.session), everything(store, SESSION)) == (["INJECTED", "again"], before)
    assert undo(store, import_run.id).sessions == (made.session,)
    assert everything(store, SESSION) == before


def test_a_parent_of_another_conversation(store: clew.Store, tmp_path: Path) -> None:
    """A file that names another conversation's message as a parent does not get that conversation's words."""
    native = store.sessions.create()
    said = native.append(clew.user("SECRET"))
    line = {**claude_line(1, None, "user", "Mine"), "parentUuid": said.id}
    bring(store, write(tmp_path, SESSION, [line]))
    assert texts(store, SESSION) == ["Mine"]


def test_a_history_that_grows_while_its_conversation_is_on_hold(store: clew.Store, tmp_path: Path) -> None:
    """What is new goes to a new conversation; the one on hold stays as it is, and after its release, too."""
    file = write(tmp_path, SESSION, GENUINE)
    bring(store, file)
    store.sessions.hold(SESSION)
    before = everything(store, SESSION)
    write(tmp_path, SESSION, [*GENUINE, claude_line(3, 2, "user", "More")])
    outcome = bring(store, file)
    (made,) = outcome.conversations
    assert "is on hold" in outcome.notes[0]
    assert (texts(store, made.session), everything(store, SESSION)) == (
        ["Is it safe?", "No. Do not run it.", "More"],
        before,
    )
    write(tmp_path, SESSION, [*GENUINE, claude_line(3, 2, "user", "More"), claude_line(4, 3, "user", "Last")])
    assert [(one.session, one.messages) for one in bring(store, file).conversations] == [(made.session, 1)]
    assert (texts(store, made.session)[-1], everything(store, SESSION)) == ("Last", before)


def test_a_subagent_of_a_native_conversation(store: clew.Store, tmp_path: Path) -> None:
    """A trace that claims to belong to a native conversation is not added to it."""
    native = store.sessions.create(id=SESSION)
    native.append(clew.user("Hello"))
    trace = tmp_path / "projects" / "p" / SESSION / "subagents" / "agent-a1.jsonl"
    trace.parent.mkdir(parents=True)
    trace.write_bytes(lines([{**claude_line(5, None, "user", "Do"), "isSidechain": True, "agentId": "a1"}]))
    bring(store, trace)
    assert list(store.sessions.get(SESSION).subagents()) == []


def test_the_same_history_in_two_workspaces(tmp_path: Path) -> None:
    """Each workspace has all of it, whichever came first, and can import it again and grow."""
    found = [{"type": "mode", "mode": "plan", "sessionId": SESSION}, *GENUINE]
    file = write(tmp_path, SESSION, found)
    for workspace in ("b", "a"):
        with clew.open(tmp_path / "s.db", workspace=workspace) as store:
            assert bring(store, file).notes == ()
    more = write(tmp_path, SESSION, [*found, claude_line(3, 2, "user", "More")])
    for workspace in ("a", "b"):
        with clew.open(tmp_path / "s.db", workspace=workspace) as store:
            assert bring(store, more).messages == 1
            assert bring(store, more, again=True).messages == 0
            assert texts(store, SESSION) == ["Is it safe?", "No. Do not run it.", "More"]
            assert b"".join(records(store.sessions.get(SESSION), store)) == more.read_bytes()
            assert store.verify().damage == []


def test_two_runs_of_aider_in_the_same_second(store: clew.Store, tmp_path: Path) -> None:
    """The same prompt in two projects in the same second, and twice in one: every answer is shown."""
    started = "\n# aider chat started at 2026-11-01 10:00:00\n\n#### do it\n\n"
    for project, answers in (("a", ["First answer."]), ("b", ["Second answer.", "Third answer."])):
        file = tmp_path / project / ".aider.chat.history.md"
        file.parent.mkdir()
        file.write_text("".join(f"{started}{answer}\n> Tokens: 1 sent, 1 received.  \n" for answer in answers))
    files = [tmp_path / project / ".aider.chat.history.md" for project in "ab"]
    for file in files:
        bring(store, file)
    assert sorted(node.text for one in store.sessions.list() for node in one.path()[1:]) == [
        "First answer.",
        "Second answer.",
        "Third answer.",
    ]
    assert [bring(store, file, again=True).messages for file in files] == [0, 0]


def test_a_file_grows_after_the_conversation_with_its_id_was_purged(store: clew.Store, tmp_path: Path) -> None:
    """It continues its own conversation, and stores nothing twice; the purged one stays purged."""
    first, second = write(tmp_path, SESSION, EVIL, "p"), write(tmp_path, SESSION, GENUINE, "q")
    bring(store, first)
    bring(store, second)
    store.sessions.purge(SESSION)
    (session,) = store.sessions.list().items
    bring(store, write(tmp_path, SESSION, [*GENUINE, claude_line(3, 2, "user", "Thanks")], "q"))
    bring(store, first)
    assert [one.id for one in store.sessions.list().items] == [session.id]
    assert texts(store, session.id) == ["Is it safe?", "No. Do not run it.", "Thanks"]


def test_a_mirrored_transcript_after_a_file_with_its_ids(store: clew.Store, tmp_path: Path) -> None:
    """A transcript that an SDK mirrors shows its own words, though a file with its message ids was imported before."""
    bring(store, write(tmp_path, an_id(800), EVIL))
    mirror = MirroredTranscript(store, SESSION, "")
    with store.transaction():
        mirror.append(GENUINE)
    again = MirroredTranscript(store, SESSION, "")
    with store.transaction():
        again.catch_up(store.sessions.get(SESSION))
        assert again.append([*GENUINE, claude_line(3, 2, "user", "Thanks")]) == [claude_line(3, 2, "user", "Thanks")]
    assert texts(store, SESSION) == ["Is it safe?", "No. Do not run it.", "Thanks"]


@pytest.mark.parametrize("seed", range(12))
def test_random_claims(tmp_path: Path, seed: int) -> None:
    """Files with any ids, growing, imported again, undone: others keep their bytes, each session has its own words."""
    dice = random.Random(seed)
    with clew.open(tmp_path / "s.db") as store, clew.open(tmp_path / "s.db", workspace="other") as other:
        protected = list[tuple[clew.Store, str, tuple[Any, ...]]]()
        names, messages = [an_id(900 + number) for number in range(6)], list(range(100, 108))
        tool = {"source": {"tool": "codex", "id": names[3]}}
        for where, name in ((store, names[0]), (store, names[1]), (other, names[2]), (store, names[3])):
            one = where.sessions.create(id=name, title="native", extra=tool if name == names[3] else None)
            for number in range(2):
                one.append(clew.user(f"native {name[-2:]} {number}"), id=an_id(messages.pop()))
            if name == names[1]:
                one.hold()
            protected.append((where, name, everything(where, name)))
        every = list(range(100, 108)) + list(range(1, 8))
        logs: dict[Path, list[dict[str, Any]]] = {}
        shown: dict[Path, str] = {}
        for step in range(14):
            known = [file for file in logs if dice.random() < 0.5]
            file = dice.choice(known) if known else None
            if file is None:
                name = names.pop(dice.randrange(len(names))) if names and dice.random() < 0.6 else an_id(950 + step)
                file = tmp_path / "projects" / f"p{step}" / f"{name}.jsonl"
                file.parent.mkdir(parents=True)
                logs[file] = []
            have = logs[file]
            free = [number for number in every if an_id(number) not in {one["uuid"] for one in have}]
            for number in dice.sample(free, min(len(free), dice.randint(1, 3))):
                above = have[-1]["uuid"] if have else None
                text = dice.choice(["same", f"{file.parent.name} {number}"])
                have.append({**claude_line(number, None, "user", text), "parentUuid": above})
            file.write_bytes(lines({**one, "sessionId": file.stem} for one in have))
            this = ImportRecorder(store)
            (made,) = bring(store, file, recorder=this, again=dice.random() < 0.3).conversations
            shown = {one: id for one, id in shown.items() if id != made.session or one == file}
            shown[file] = made.session
            if dice.random() < 0.15:
                undo(store, this.id)
                logs.pop(file)
                shown = {one: id for one, id in shown.items() if id != made.session}
            for path, id in shown.items():
                assert texts(store, id) == [line["message"]["content"] for line in logs[path]], (step, path)
            for where, name, before in protected:
                assert everything(where, name) == before
        assert store.verify().damage == []


def test_lines_in_another_order(store: clew.Store, tmp_path: Path) -> None:
    """A log whose lines are in another order than when they were imported leaves a sound store, and every message."""
    order = [22, 10, 1, 8, 21, 6, 15, 5, 2, 17, 14, 12, 3, 9, 20, 11, 7, 16, 18, 4, 19]
    for folder, events in (("first", EVENTS), ("second", [EVENTS[number - 1] for number in order])):
        path = tmp_path / folder / next(iter(FILES))
        path.parent.mkdir(parents=True)
        path.write_bytes(lines(events))
        bring(store, path)
        found = {node.id for node in store.nodes.list(limit=1000).all()}
        assert len(found) == 14
        assert store.verify().damage == []
