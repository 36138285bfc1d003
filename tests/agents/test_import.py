"""Reading trees of session files: a mirror's, other programs', and hostile ones."""

from __future__ import annotations

import json
import os
import shutil
import stat
import uuid
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

import clew
from clew import agents
from clew.agents import import_tree
from clew.agents.jsonl import LINE_LIMIT
from clew.agents.store import store_of
from clew.checkpoints import Checkpoints
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
    mirrored.flush()
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
        nodes = len(store_of(other).nodes.list(limit=100).items)
        assert nodes == len(store_of(full).nodes.list(limit=100).items)  # what forks share is stored once
        again = import_tree(other, root)
        assert [(one.messages, one.events) for one in again.sessions] == [(0, 0)] * 4
        assert (again.memories, again.skipped) == ((), ())
        assert told(other) == told(full)
        assert store_of(other).verify().ok


def test_importing_into_the_store_it_came_from(full, root):
    """A second import adds nothing."""
    before = told(full)
    done = import_tree(full, root)
    assert sum(one.messages + one.events for one in done.sessions) == 0
    assert done.skipped == ()
    assert told(full) == before


def test_what_has_grown_is_added(full, root, tmp_path):
    """A second import adds the new messages."""
    with agents.open(tmp_path / "other.db") as other:
        import_tree(other, root)
        session = full.load_latest("/src")
        session.append_and_save(clew.user("since"))
        session.append_event({"type": "since"})
        full.flush()
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


@pytest.mark.checklist("B14")
def test_lines_that_cannot_be_read_are_named(sessions, tree):
    """Every one with its number and its reason, and never its content; all the others are imported, in their order."""
    bad = [
        (b'{"torn": "harbour', "not JSON"),
        (b"\xff\xfe harbour", "not valid Unicode"),
        (b"[1, 2]", "not an object"),
        (b"\0" * 50, "only zero bytes"),
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
    assert "the file ends within it" in missed[-1].why
    assert "harbour" not in str(done)
    # Events need not be messages: of those only what is no object, or too long, is skipped.
    assert len([one for one in done.skipped if one.path == str(at / "transcript.jsonl")]) == 7
    assert store_of(sessions).verify().ok


@pytest.mark.checklist("B16")
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


@pytest.mark.checklist("B7")
def test_a_session_without_messages(sessions, tree):
    """A folder with only metadata is a session without messages."""
    at = write(tree, A, b"", cwd="/src")
    (at / "messages.jsonl").unlink()
    assert import_tree(sessions, tree).skipped == ()
    assert (sessions.load(A).messages, sessions.load_messages(A), sessions.load(A).metadata.cwd) == ([], [], "/src")


def test_names_that_are_no_ids(sessions, tree):
    """A folder whose name is not an id is skipped; a different id in its metadata is ignored."""
    write(tree, "not-an-id", row("x"))
    write(tree, A, row("y"), project_hash="../../up")
    (tree / "sessions" / A / "metadata.json").write_text(json.dumps({"id": B, "project_hash": "../../up", "cwd": 5}))
    done = import_tree(sessions, tree)
    assert [one.id for one in done.sessions] == [A]
    assert [one.why for one in done.skipped] == [
        "its id differs from the name of its folder; using the folder's name", "its name is not a session id",
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
    """Cyclic and missing parents do no harm."""
    write(tree, A, row("a"), parent_id=B)
    write(tree, B, row("b"), parent_id=A)
    write(tree, C, row("c"), parent_id=C, agent_name="lost")
    done = import_tree(sessions, tree)
    assert {one.id for one in done.sessions} == {A, B, C}
    assert sessions.load(C).metadata.agent_name == "lost"


def test_a_session_that_cannot_be_imported_leaves_nothing(sessions, tree):
    """A session in the trash is not changed; the others are imported."""
    sessions.create(id=A).conversation.trash()
    write(tree, A, row("x"))
    write(tree, B, row("y"))
    done = import_tree(sessions, tree)
    assert [one.id for one in done.sessions] == [B]
    assert [one.path for one in done.skipped] == [str(tree / "sessions" / A)]
    assert store_of(sessions).verify().ok


def test_links_and_pipes_are_not_followed(sessions, tree, tmp_path):
    """Links, pipes and folders in place of files are reported and skipped."""
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


def test_an_import_keeps_times(sessions, tree):
    """The last activity of an imported session comes from its files; continuing it is activity now."""
    at = write(
        tree, A, row("one"), cwd="/src", created_at="2024-01-02T03:04:05Z", updated_at="2024-02-03T04:05:06.789Z"
    )
    import_tree(sessions, tree)
    then = datetime(2024, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)
    session = sessions.load(A)
    assert (session.metadata.updated_at, session.conversation.updated_at) == (then, then)
    assert store_of(sessions).verify().ok
    with (at / "messages.jsonl").open("ab") as file:
        file.write(row("two"))
    assert import_tree(sessions, tree).sessions[0].messages == 1
    assert sessions.load(A).metadata.updated_at == then
    session = sessions.load(A)
    session.append_and_save({"role": "user", "content": "three"})
    assert sessions.load(A).metadata.updated_at > then


def test_a_memory_can_be_read_after_it_was_imported(sessions, tmp_path):
    """It is that of the directory that the sessions beside it were in; if nothing tells that, it is skipped."""
    for name, cwd in (("-src-app", "/src/app"), ("unknown", None)):
        write(tmp_path / name, str(uuid.uuid4()), row("one"), cwd=cwd)
        (tmp_path / name / "memory").mkdir()
        (tmp_path / name / "memory" / "summary.md").write_text(f"of {name}")
    done = import_tree(sessions, tmp_path)
    assert done.memories == (agents.project_hash("/src/app"),)
    assert sessions.memory("/src/app").read() == "of -src-app"
    assert [(os.path.relpath(one.path, tmp_path), "directory" in one.why) for one in done.skipped] == [
        ("unknown/memory/summary.md", True)
    ]


def test_a_memory_is_not_written_over(full, root, tmp_path):
    """If the store has a different memory, it stays, and the report says so."""
    with agents.open(tmp_path / "other.db") as other:
        other.memory("/src").write("mine")
        done = import_tree(other, root)
        assert done.memories == ()
        assert [one.why for one in done.skipped] == ["the store has a different memory"]
        assert other.memory("/src").read() == "mine"


def test_an_import_is_mirrored(full, root, tmp_path):
    """A store with a mirror of its own writes what it imports, as files that are the same."""
    with agents.open(tmp_path / "other.db", mirror=tmp_path / "copy") as other:
        import_tree(other, root)
        other.flush()
    for name in ("messages.jsonl", "transcript.jsonl", "summary.md"):
        for file in root.rglob(name):
            assert (tmp_path / "copy" / file.relative_to(root)).read_bytes() == file.read_bytes()


# -- checkpoints


@pytest.fixture
def worked(mirrored, tmp_path):
    """A session with three checkpoints, in the mirror; and its folder there."""
    work = tmp_path / "work"
    work.mkdir()
    session = mirrored.create(cwd=work)
    checkpoints = Checkpoints(session.conversation, work, max_file=1000)
    (work / "run.sh").write_bytes(b"one\n")
    (work / "run.sh").chmod(0o750)
    (work / "link").symlink_to("run.sh")
    odd = os.fsdecode(b"odd-\xff\n")
    (work / odd).write_bytes(b"\0")
    for number in range(3):
        said = session.append_and_save(clew.user(f"change {number}"))
        with checkpoints.guard(said, [odd, "run.sh", "link", "new"]):
            (work / "run.sh").write_bytes(b"change %d" % number)
            (work / odd).unlink(missing_ok=True)
            (work / "new").write_text(f"{number}")
    (work / "large").write_bytes(b"x" * 2000)
    checkpoints.capture(said, ["large"])
    assert checkpoints.rewind(said, mode="both").can_rewind
    session.append_event({"type": "x"})
    return session, place(mirrored, session), work


def test_checkpoints_come_with_their_session(worked, mirrored, root, tmp_path):
    """The same checkpoints in another store: a rewind there does what it would have done here; again adds nothing."""
    session, _, work = worked
    first = session.messages[0].id
    with agents.open(tmp_path / "other.db") as other:
        done = import_tree(other, root)
        assert (done.skipped, [one.checkpoints for one in done.sessions]) == ((), [4])
        assert [one.checkpoints for one in import_tree(other, root).sessions] == [0]
        talk = other.load(session.id).conversation
        mine, theirs = (Checkpoints(one, work, max_file=1000) for one in (session.conversation, talk))
        assert [one.manifest() for one in theirs.list()] == [one.manifest() for one in mine.list()]
        assert theirs.rewind(first, dry_run=True) == mine.rewind(first, dry_run=True)
        assert theirs.undo(dry_run=True) == mine.undo(dry_run=True)
        assert theirs.rewind(first).can_rewind
        assert (work / "run.sh").read_bytes() == b"one\n" and (work / "run.sh").stat().st_mode & 0o777 == 0o750
        assert (work / os.fsdecode(b"odd-\xff\n")).read_bytes() == b"\0" and not (work / "new").exists()
        store_of(other).verify()


def test_checkpoints_that_were_taken_since_are_added(worked, root, tmp_path, mirrored):
    """A second import brings what is new, also in a checkpoint that has grown; where both went on, nothing is mixed."""
    session, _, work = worked
    with agents.open(tmp_path / "other.db") as other:
        import_tree(other, root)
        mine = Checkpoints(session.conversation, work)
        mine.capture(session.messages[0], ["another"])
        mine.capture(str(uuid.uuid4()), ["run.sh"])
        session.append_event({"type": "y"})
        mirrored.flush()
        assert [one.checkpoints for one in import_tree(other, root).sessions] == [1]
        theirs = Checkpoints(other.load(session.id).conversation, work)
        assert [sorted(one.states) for one in theirs.list()] == [sorted(one.states) for one in mine.list()]
        theirs.capture(str(uuid.uuid4()), ["run.sh"])
        mine.capture(str(uuid.uuid4()), ["run.sh"])
        session.append_event({"type": "z"})
        mirrored.flush()
        (told,) = import_tree(other, root).skipped
        assert "other checkpoints in the store" in told.why


@pytest.mark.parametrize("how", ["torn", "content", "spoilt", "other", "out", "git", "twice", "link"])
def test_a_checkpoint_that_is_not_whole_takes_those_before_it_with_it(worked, root, tmp_path, how):
    """Going back to one before would leave out what it has. Those after it are imported; each one left out is named."""
    session, at, work = worked
    names = [node.id for node in session.conversation.path()]
    here = at / "checkpoints" / names[1]
    manifest = json.loads((here / "manifest.json").read_bytes())
    if how == "torn":
        (here / "manifest.json").write_bytes(b'{"files": [')
    elif how == "content":
        shutil.rmtree(here / "files")
    elif how == "spoilt":
        next((here / "files").iterdir()).write_bytes(b"x")
    elif how == "link":
        one = next((here / "files").iterdir())
        one.rename(tmp_path / "elsewhere")
        one.symlink_to(tmp_path / "elsewhere")
    else:
        path = {"other": names[0], "out": "../out", "git": "sub/.GIT/hooks/pre-commit", "twice": "run.sh"}[how]
        if how == "other":
            manifest["user_message_uuid"] = path
        else:
            manifest["files"][0] = {**manifest["files"][1], "path": path}
        (here / "manifest.json").write_text(json.dumps(manifest))
    with agents.open(tmp_path / "other.db") as other:
        done = import_tree(other, root)
        theirs = Checkpoints(other.load(session.id).conversation, work, max_file=1000)
        if how in ("content", "spoilt", "link"):
            assert [one.path for one in done.skipped] == [str(at / "checkpoints" / name) for name in names[:2]]
            assert len(theirs.list()) == 2
        else:  # nobody knows when it was taken
            assert len(done.skipped) == 4 and theirs.list() == []
        assert names[1] in done.skipped[0].why
        store_of(other).verify()


def test_checkpoints_of_another_program(sessions, tree, tmp_path):
    """Absolute paths, no modes and no types: what the simplest writer leaves."""
    (tmp_path / "a.txt").write_text("later")
    (tmp_path / "new").write_text("new")
    at = write(tree, A, row("x", B), cwd=str(tmp_path)) / "checkpoints" / B
    (at / "files").mkdir(parents=True)
    digest = sha256(b"before").hexdigest()
    (at / "files" / digest).write_bytes(b"before")
    files = [{"path": str(tmp_path / "a.txt"), "exists": True, "hash": digest, "size": 6},
             {"path": str(tmp_path / "new"), "exists": False},
             {"path": "tool", "exists": True, "hash": digest, "size": 6, "mode": "6755"}]  # fmt: skip
    manifest = {"user_message_uuid": B, "created_at": "2026-01-01T10:00:00Z", "files": files}
    (at / "manifest.json").write_text(json.dumps(manifest))
    assert import_tree(sessions, tree).skipped == ()
    checkpoints = Checkpoints(sessions.load(A).conversation, tmp_path)
    assert checkpoints.show(B).created_at.isoformat() == "2026-01-01T10:00:00+00:00"
    assert checkpoints.rewind(B).can_rewind
    assert (tmp_path / "a.txt").read_text() == "before" and not (tmp_path / "new").exists()
    assert stat.S_IMODE((tmp_path / "tool").stat().st_mode) == 0o755  # who runs it is not for strangers to say


def test_checkpoints_without_a_directory(sessions, tree):
    """Nobody can say which files they are of: they are named as left out."""
    at = write(tree, A, row("x"))
    (at / "checkpoints" / B).mkdir(parents=True)
    (told,) = import_tree(sessions, tree).skipped
    assert "has no directory" in told.why
    assert import_tree(sessions, tree).sessions[0].known == 1


@pytest.mark.checklist("B33")
@pytest.mark.parametrize("messages", [row("hi"), b""], ids=["messages", "events"])
@pytest.mark.parametrize(
    "about",
    [None, b"", b"{", b"\xff", b"[]", b"{}", b'{"updated_at": 12}', b'{"updated_at": "soon"}', b'{"updated_at": null}',
     b'{"updated_at": "2026-01-01T00:00:00"}', b'{"updated_at": "2026-13-01T00:00:00Z"}'],
)  # fmt: skip
def test_damaged_metadata_falls_back_to_the_time_of_the_files(sessions, tree, about, messages):
    """A session whose metadata does not say when it was used is as old as its files, and is cleaned up with its age."""
    at = write(tree, A, messages, b'{"type":"x"}\n')
    (at / "metadata.json").unlink() if about is None else (at / "metadata.json").write_bytes(about)
    old = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    for file in at.iterdir():
        os.utime(file, (old.timestamp(), old.timestamp()))
    import_tree(sessions, tree)
    assert sessions.load(A).metadata.updated_at == old
    assert sessions.cleanup(force=True).deleted == (A,)


def test_a_message_that_the_mirror_left_out(mirrored, root, tmp_path):
    """An import says that a message was too long for the mirror, and how long it was."""
    session = mirrored.create(cwd="/src")
    store_of(mirrored).sessions.get(session.id).append(clew.user("x" * (LINE_LIMIT + 1)))
    mirrored.rebuild_mirror()
    with clew.agents.open(tmp_path / "other.db") as other:
        (skipped,) = import_tree(other, root).skipped
    assert "the mirror left out its message, which was too long: 10" in skipped.why
