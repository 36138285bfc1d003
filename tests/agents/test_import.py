"""Reading trees of session files: a mirror's, other programs', and hostile ones."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path

import pytest

import clew
from clew import agents
from clew.agents import import_tree
from clew.agents.lines import LINE_LIMIT
from tests.agents.conftest import place, sdk, texts

A, B, C = (str(uuid.UUID(int=number)) for number in (10, 11, 12))


def write(folder: Path, id: str, messages: bytes, transcript: bytes = b"", **about: object) -> Path:
    """A session's folder as another program would leave it."""
    at = folder / "sessions" / id
    at.mkdir(parents=True)
    (at / "metadata.json").write_text(json.dumps({"id": id, **about}))
    (at / "messages.jsonl").write_bytes(messages)
    if transcript:
        (at / "transcript.jsonl").write_bytes(transcript)
    return at


def row(text: str, name: str | None = None) -> bytes:
    return json.dumps(sdk("user", text, name or str(uuid.uuid4()))).encode() + b"\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return tmp_path / "tree"


@pytest.fixture
def full(mirrored: agents.SessionStore) -> agents.SessionStore:
    """A mirror with a bit of everything."""
    session = mirrored.create(cwd="/src", model="m")
    session.append_and_save(sdk("user", "one\u2028", A, isMeta=True))
    session.append_and_save(
        clew.native("openai", b'{"role": "assistant",\n  "content": "two"}', label="x", extra={"a": 1})
    )
    session.append_and_save(clew.assistant("three", usage=clew.Usage(input=1, output=2), extra={"b": [1, None]}))
    session.append_event({"type": "x", "text": "\ud800"})
    session.append_event({"type": "y", "uuid": B})
    session.metadata.exit_reason = "done"
    session.save()
    fork = mirrored.fork(session, at=session.messages[1].id)
    fork.append_and_save(clew.user("in the fork"))
    mirrored.fork(fork).append_and_save(clew.user("in the fork of the fork"))
    child = mirrored.create(agent_name="helper", parent=session, cwd="/src")
    child.append_and_save(clew.user("below"))
    child.append_event({"type": "z"})
    mirrored.memory("/src").write("remember")
    return mirrored


def told(sessions: agents.SessionStore) -> list[object]:
    """Everything that has to survive the way through files."""
    found: list[object] = []
    for one in [*sessions.list(), *sessions.list(subagents=True)]:
        about = json.loads(one.json())
        about.pop("updated_at")
        said = [(node.id, node.parent_id, node.created_at, node.message) for node in sessions.load_messages(one.id)]
        found.append((about, said, [event.raw for event in sessions.transcript(one.id).read()]))
    return found


def test_a_mirror_comes_back_whole(full, root, tmp_path):
    """Sessions, ids, times, forks that share, subagents, transcripts, memory; in the same order of activity."""
    with agents.open(tmp_path / "other.db") as other:
        would = import_tree(other, root, dry_run=True)
        assert other.list() == []
        done = import_tree(other, root)
        assert done == would
        assert done.skipped == ()
        assert told(other) == told(full)
        assert other.memory("/src").read() == "remember"
        nodes = len(other._store.nodes.list(limit=100).items)
        assert nodes == len(full._store.nodes.list(limit=100).items)  # what forks share is stored once
        again = import_tree(other, root)
        assert [(one.messages, one.events) for one in again.sessions] == [(0, 0)] * 4
        assert (again.memories, again.skipped) == ((), ())
        assert told(other) == told(full)
        assert other._store.verify().ok


def test_importing_into_the_store_it_came_from(full, root):
    """Nothing is new, and nothing is doubled."""
    before = told(full)
    done = import_tree(full, root)
    assert sum(one.messages + one.events for one in done.sessions) == 0
    assert done.skipped == ()
    assert told(full) == before


def test_what_has_grown_is_added(full, root, tmp_path):
    """A second import brings what was said since the first."""
    with agents.open(tmp_path / "other.db") as other:
        import_tree(other, root)
        session = full.load_latest("/src")
        session.append_and_save(clew.user("since"))
        session.append_event({"type": "since"})
        done = import_tree(other, root)
        assert sum(one.messages for one in done.sessions) == sum(one.events for one in done.sessions) == 1
        assert texts(other.load_messages(session.id))[-1] == "since"


def test_any_folder_on_the_way(full, root, tmp_path):
    """A folder of projects, a project's, its sessions', or one session's."""
    session = full.load_latest("/src")
    folder = place(full, session)
    for number, (at, count) in enumerate(((root, 4), (folder.parent.parent, 4), (folder.parent, 4), (folder, 1))):
        with agents.open(tmp_path / f"{number}.db") as other:
            assert len(import_tree(other, at).sessions) == count
    for nothing in (tmp_path / "none", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(clew.NotFound):
            import_tree(full, nothing)


def test_lines_that_cannot_be_read_are_named(sessions, tree):
    """Every one with its number and its reason, and never its content; all the others are imported, in their order."""
    bad = [
        (b'{"torn": "harbour', "not JSON"),
        (b"\xff\xfe harbour", "not valid Unicode"),
        (b"[1, 2]", "not an object"),
        (b"\0" * 50, "nothing but zeros"),
        (b'{"type": "summary", "text": "harbour"}', "not a message"),
        (b'{"message": {"text": "harbour"}}', "not a message"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "nested more than 200"),
        (b'{"role": "user", "content": "' + b"x" * (LINE_LIMIT + 300_000) + b'"}', "the limit is 10,485,760"),
        (b'{"role": "user", "content": NaN}', "not JSON"),
    ]
    body = row("first")
    for number, (line, _) in enumerate(bad):
        body += line + b"\n" + row(f"good {number}")
    at = write(tree, A, body + b'{"type": "user", "mess', body)
    done = import_tree(sessions, tree)
    assert texts(sessions.load_messages(A)) == ["first", *(f"good {number}" for number in range(len(bad)))]
    missed = [one for one in done.skipped if one.path == str(at / "messages.jsonl")]
    assert [one.line for one in missed] == [*range(2, 2 * len(bad) + 1, 2), 2 * len(bad) + 2]
    for one, (_, why) in zip(missed, bad, strict=False):
        assert why in one.why
    assert "the file ends in it" in missed[-1].why
    assert "harbour" not in str(done)
    # Events need not be messages: of those only what is no object, or too long, is skipped.
    assert len([one for one in done.skipped if one.path == str(at / "transcript.jsonl")]) == 7
    assert sessions._store.verify().ok


def test_lines_of_other_programs(sessions, tree):
    """API messages without an envelope, strange ids, times, separators inside of strings, a byte order mark."""
    body = (
        "\ufeff".encode()
        + b'{"role": "user", "content": "plain\\u2028 one \\u0085"}\r\n'
        + '{"role": "user", "content": "raw\u2028two\u0085"}\n'.encode()
        + b"\n"
        + b'{"role": "assistant", "tool_calls": [], "content": "openai"}\n'
        + b'{"type": "user", "uuid": "msg_1", "timestamp": "2025-01-02T03:04:05Z", '
        + b'"message": {"role": "user", "content": "x"}}\n'
        + b'{"type": "user", "uuid": 5, "timestamp": "soon", "message": {"role": "user", "content": "y"}}'
    )
    write(tree, A, body, cwd="/src/", model="m", someone="else", project_hash="-src")
    done = import_tree(sessions, tree)
    nodes = sessions.load_messages(A)
    assert [node.text for node in nodes] == ["plain\u2028 one \x85", "raw\u2028two\x85", "openai", "x", "y"]
    assert [node.native.provider for node in nodes if node.native] == ["anthropic"] * 2 + ["openai"] + ["anthropic"] * 2
    assert nodes[3].created_at.isoformat() == "2025-01-02T03:04:05+00:00"
    assert texts(sessions.load_messages_up_to(A, "msg_1"))[-1] == "x"
    session = sessions.load(A)
    assert (session.metadata.project_hash, session.metadata.cwd) == ("-src", "/src")
    assert session.conversation.extra["someone"] == "else"
    assert done.skipped == ()
    assert [one.known for one in import_tree(sessions, tree).sessions] == [5]


def test_metadata_that_cannot_be_read(sessions, tree):
    """The messages are imported all the same; the last write tells when it was active."""
    for number, (id, text) in enumerate(((A, "old"), (B, "new"), (C, "middle"))):
        at = write(tree, id, row(text))
        (at / "metadata.json").write_text(["{", "[]", "{}"][number])
        for file in at.iterdir():
            os.utime(file, (1000 + {A: 0, B: 20, C: 10}[id],) * 2)
    (tree / "sessions" / C / "metadata.json").unlink()
    done = import_tree(sessions, tree)
    assert [one.id for one in done.sessions] == [A, C, B]
    assert len(done.skipped) == 3
    assert [one.id for one in sessions.list()] == [B, C, A]


def test_names_that_are_no_ids(sessions, tree):
    """A folder whose name is no id is skipped, whatever its metadata says; an id that lies is not believed."""
    write(tree, "not-an-id", row("x"))
    write(tree, A, row("y"), project_hash="../../up")
    (tree / "sessions" / A / "metadata.json").write_text(json.dumps({"id": B, "project_hash": "../../up", "cwd": 5}))
    done = import_tree(sessions, tree)
    assert [one.id for one in done.sessions] == [A]
    assert [one.why for one in done.skipped] == [
        "its id is not the name of its folder, which is taken instead", "its name is not the id of a session",
    ]  # fmt: skip
    assert sessions.load(A).metadata.project_hash == agents.project_hash(None)


def test_ids_that_are_taken(sessions, tree):
    """A message whose id another session has, with other words, is stored under another one; nothing is lost."""
    elsewhere = sessions.create()
    elsewhere.append_and_save(sdk("user", "mine", B))
    write(tree, A, row("theirs", B) + row("more", C) + row("more", C) + row("other", C))
    done = import_tree(sessions, tree)
    assert texts(sessions.load_messages(A)) == ["theirs", "more", "other"]
    assert done.sessions == (agents.ImportedSession(A, 3, 0, 1),)
    assert texts(sessions.load_messages(elsewhere.id)) == ["mine"]
    assert import_tree(sessions, tree).sessions[0].messages == 0


def test_forks_in_a_circle(sessions, tree):
    """Parents that are each other's, or nobody's, do no harm."""
    write(tree, A, row("a"), parent_id=B)
    write(tree, B, row("b"), parent_id=A)
    write(tree, C, row("c"), parent_id=C, agent_name="lost")
    done = import_tree(sessions, tree)
    assert {one.id for one in done.sessions} == {A, B, C}
    assert sessions.load(C).metadata.agent_name == "lost"


def test_a_session_that_cannot_be_imported_leaves_nothing(sessions, tree):
    """One in the trash is not written over; the others are imported."""
    sessions.create(id=A).conversation.trash()
    write(tree, A, row("x"))
    write(tree, B, row("y"))
    done = import_tree(sessions, tree)
    assert [one.id for one in done.sessions] == [B]
    assert [one.path for one in done.skipped] == [str(tree / "sessions" / A)]
    assert sessions._store.verify().ok


def test_links_and_pipes_are_not_followed(sessions, tree, tmp_path):
    """A link to a secret, a pipe that never ends, a folder in the place of a file: named, and passed over."""
    secret = tmp_path / "secret"
    secret.write_bytes(row("secret"))
    at = write(tree, A, b"")
    (at / "messages.jsonl").unlink()
    (at / "messages.jsonl").symlink_to(secret)
    os.mkfifo(at / "transcript.jsonl")
    (tree / "sessions" / B).symlink_to(at)
    (tree / "memory").mkdir()
    (tree / "memory" / "summary.md").mkdir()
    done = import_tree(sessions, tree)
    assert [one.messages for one in done.sessions] == [0]
    assert {os.path.basename(one.path) for one in done.skipped} == {"messages.jsonl", "transcript.jsonl", "summary.md"}


def test_a_memory_is_not_written_over(full, root, tmp_path):
    """If the store remembers something else already, its own stays, and that is said."""
    with agents.open(tmp_path / "other.db") as other:
        other.memory("/src").write("mine")
        done = import_tree(other, root)
        assert done.memories == ()
        assert [one.why for one in done.skipped] == ["the store remembers something else"]
        assert other.memory("/src").read() == "mine"


def test_an_import_is_mirrored(full, root, tmp_path):
    """A store with a mirror of its own writes what it imports, as files that are the same."""
    with agents.open(tmp_path / "other.db", mirror=tmp_path / "copy") as other:
        import_tree(other, root)
        other.flush()
    for name in ("messages.jsonl", "transcript.jsonl", "summary.md"):
        for file in root.rglob(name):
            assert (tmp_path / "copy" / file.relative_to(root)).read_bytes() == file.read_bytes()


def test_checkpoints_are_named_as_left_out(sessions, tree):
    """They are no part of the talk: it is said that they were not taken."""
    at = write(tree, A, row("x"))
    (at / "checkpoints" / B).mkdir(parents=True)
    done = import_tree(sessions, tree)
    assert [one.why for one in done.skipped] == ["checkpoints of files are not imported"]
    shutil.rmtree(at / "checkpoints")
    assert import_tree(sessions, tree).skipped == ()
