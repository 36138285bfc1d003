"""CPE files: viewed in place, imported once, and never changed."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

import clew
from clew.agents import cpe
from clew.convert import convert_session
from clew.store.origin import CPE_NOTE
from clew.store.session import delete_session
from tests.agents.cpe.files import Convo, sample


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    sample(folder / ".cpeconvo").close()
    return folder / ".cpeconvo"


def names(node: clew.Node) -> str:
    return str((node.message.extra or {})[CPE_NOTE])


def state(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_trees_become_sessions(store: clew.Store, file: Path) -> None:
    """The head is the branch last active, the other is a branch; times, roles and places are as they were."""
    done = cpe.import_file(store, file)
    assert ([one.messages for one in done.sessions], done.skipped) == ([6, 2, 3], ())
    build = store.sessions.get(done.sessions[0].id)
    assert [names(node) for node in build.path()] == ["abc123", "def456", "mno345", "pqr678"]
    (left,) = build.branches()
    assert [names(node) for node in store.nodes.path(left.head_id)] == ["abc123", "def456", "ghi789", "jkl012"]
    first = build.path()[0]
    assert (first.created_at, first.role) == (datetime(2024, 1, 15, 10, 1, tzinfo=UTC), "user")
    assert build.cwd == str(file.parent)
    assert store.verify().ok


def test_a_subagents_trace_stays_one(store: clew.Store, file: Path) -> None:
    """A subagent is recognised by its label, and `latest` never returns it."""
    done = cpe.import_file(store, file)
    trace = store.sessions.get(done.sessions[1].id)
    assert (trace.agent, trace.is_subagent) == ("code-review", True)
    assert [node.message.label for node in trace.path()] == ["subagent:code-review:a1b2"] * 2
    assert trace.id not in [one.id for one in store.sessions.list().items]


@pytest.mark.checklist("D3")
def test_a_pdf_keeps_its_name(store: clew.Store, tmp_path: Path) -> None:
    """CPE keeps a PDF as an image with a file name beside it: it becomes a document of that name, for any provider."""
    made = Convo(tmp_path / "pdf")
    pdf = ("content", 1, "application/pdf", "JVBERi0=", None, {"filename": "report.pdf"})
    made.say("PDF001", None, "user", "Read it", pdf, ("content", 1, "image/png", "aGVsbG8=", None, {"filename": 7}))
    made.close()
    done = cpe.import_file(store, tmp_path / "pdf")
    session = store.sessions.get(done.sessions[0].id)
    _, document, picture = session.path()[0].message.blocks
    assert isinstance(document, clew.Media)
    assert isinstance(picture, clew.Media)
    assert (document.name, document.modality, picture.name, picture.modality) == (
        "report.pdf",
        "document",
        None,
        "image",
    )
    found = convert_session(store, session, to="claude").session.path()[0].native
    assert found is not None
    assert json.loads(found.raw)["content"][1]["title"] == "report.pdf"


@pytest.mark.checklist("D3", "D5")
def test_every_kind_of_block(store: clew.Store, file: Path) -> None:
    """Words, pictures, thinking, calls and their results; what is not known stays as it is."""
    done = cpe.import_file(store, file)
    session = store.sessions.get(done.sessions[2].id)
    look, thought, result = (node.message for node in session.path())
    assert session.title == "Pictures"
    text, picture = look.blocks
    assert isinstance(text, clew.Text)
    assert isinstance(picture, clew.Media)
    assert (text.text, picture.mime_type, session.blobs.get(picture.blob or "")) == ("Look", "image/png", b"hello")
    assert thought.blocks[:2] == (
        clew.Thinking(text="Let me see.", extra={"thinking_signature": "sig"}),
        clew.ToolCall(id="call_1", name="run", arguments={"cmd": "ls"}),
    )
    assert isinstance(thought.blocks[2], clew.Opaque)
    words = clew.Text(text="no such file")
    assert result.blocks == (clew.ToolResult(call_id="call_1", content=(words, words), is_error=True),)


def test_importing_again_adds_what_came_since(store: clew.Store, file: Path) -> None:
    """Stored messages stay; new ones follow their parents, and a session that was continued is not moved."""
    first = cpe.import_file(store, file)
    again = cpe.import_file(store, file)
    assert [(one.id, one.messages, one.known) for one in again.sessions] == [
        (one.id, 0, one.messages) for one in first.sessions
    ]
    session = store.sessions.get(first.sessions[0].id)
    assert len(session.branches()) == 1
    conn = sqlite3.connect(file)
    conn.execute("INSERT INTO messages VALUES ('new001', 'pqr678', NULL, 'user', 0, '2024-01-15 11:00:00')")
    conn.commit()
    assert sum(one.messages for one in cpe.import_file(store, file).sessions) == 1
    assert names(session.refresh().path()[-1]) == "new001"
    session.append(clew.user("said here"))
    conn.execute("INSERT INTO messages VALUES ('new002', 'new001', NULL, 'assistant', 0, '2024-01-15 12:00:00')")
    conn.execute("INSERT INTO messages VALUES ('new003', 'new002', NULL, 'user', 0, '2024-01-15 12:01:00')")
    conn.commit()
    conn.close()
    assert sum(one.messages for one in cpe.import_file(store, file).sessions) == 2
    assert session.refresh().path()[-1].text == "said here"
    fork = next(one for one in store.sessions.list().items if one.forked_from == session.id)
    assert [names(node) for node in fork.path()[-3:]] == ["new001", "new002", "new003"]
    assert store.verify().ok


def test_a_session_can_be_deleted_as_any_other(store: clew.Store, file: Path) -> None:
    """Nothing remains: the messages belonged only to the session."""
    done = cpe.import_file(store, file)
    for one in done.sessions:
        delete_session(store.sessions.get(one.id))
    assert store.nodes.list().items == []


def test_a_dry_run_says_the_same_and_stores_nothing(store: clew.Store, file: Path) -> None:
    """As an import would say."""
    would = cpe.import_file(store, file, dry_run=True)
    assert store.nodes.list().items == []
    assert store.sessions.list().items == []
    assert cpe.import_file(store, file) == would


def test_a_view_shows_when_it_was(file: Path) -> None:
    """Sessions were active when their last message was written, and keep the order of that."""
    shown = cpe.view(file)
    with shown.store as store:
        times = [(session.title, session.updated_at.isoformat()[:16]) for session in store.sessions.list().items]
        assert times == [("Pictures", "2024-01-15T10:11"), (None, "2024-01-15T10:06")]
        assert store.nodes.get(shown.ids["jkl012"])[0].text == "Sure, what's your question?"


@pytest.mark.parametrize("wal", [False, True])
@pytest.mark.parametrize("live", [False, True])
def test_the_file_is_never_changed(tmp_path: Path, store: clew.Store, wal: bool, live: bool) -> None:
    """Nor is anything made beside it, whether its program is at work or not, and in either way of writing."""
    folder = tmp_path / "project"
    folder.mkdir()
    made = sample(folder / ".cpeconvo", wal=wal)
    if not live:
        made.close()
    before = state(folder)
    assert cpe.recognised(made.path)
    assert sum(one.messages for one in cpe.import_file(store, made.path).sessions) == 11
    cpe.view(made.path).store.close()
    after = state(folder)
    for one in (before, after):
        one.pop(".cpeconvo-shm", None)  # which is no data
    assert after == before
    made.close()


@pytest.mark.checklist("D3", "D16", "D22")
def test_what_is_odd_is_told_and_the_rest_is_taken(store: clew.Store, tmp_path: Path) -> None:
    """Each by its id and why; what follows what is left out is a tree of its own, as is what has no parent."""
    made = Convo(tmp_path / ".cpeconvo")
    made.conn.execute("PRAGMA foreign_keys = OFF")
    made.say("root", None, "user", "first")
    made.say("role", "root", "narrator", "who?")
    made.say("child", "role", "user", "after the narrator")
    made.say("null", "root", "assistant", "nul \0 here")
    made.say("below", "null", "user", "after nul")
    made.say("lost", "nobody", "user", "an orphan")
    made.say("json", "root", "assistant", ("content", 0, "t", "x", None, "{no json"))
    made.say("when", "root", "assistant", "x", at="soon")
    made.say("raw", "root", "assistant", ("content", 1, "image/png", "not base 64!", None, None))
    made.say("utf8", "root", "user", "x")
    made.conn.execute("UPDATE blocks SET content = CAST(x'ff00fe' AS TEXT) WHERE message_id = 'utf8'")
    made.say("loop1", "loop2", "user", "round")
    made.say("loop2", "loop1", "user", "and round")
    made.say("zone", None, "user", "t", at="2024-01-15 10:30:00.123456789 +0200 CEST m=+0.1")
    made.close()
    done = cpe.import_file(store, made.path)
    assert {one.id for one in done.skipped} == {"role", "null", "json", "when", "utf8"}
    assert "nul" not in " ".join(one.why for one in done.skipped).replace("NUL", "")
    roots = {names(node) for node in store.nodes.list(limit=500).items if node.parent_id is None}
    assert roots == {"root", "child", "below", "lost", "loop1", "zone"}
    zone = next(node for node in store.nodes.list(limit=500).items if names(node) == "zone")
    assert zone.created_at == datetime(2024, 1, 15, 8, 30, 0, 123456, tzinfo=UTC)
    assert store.verify().ok


def test_a_long_talk_is_no_recursion(store: clew.Store, tmp_path: Path) -> None:
    """Deeper than Python's stack."""
    made = Convo(tmp_path / ".cpeconvo")
    made.conn.execute("BEGIN")
    for number in range(3000):
        parent = f"m{number - 1}" if number else None
        made.say(f"m{number}", parent, "user", "x", at=f"2024-01-15 10:00:00.{number:06}")
    made.conn.execute("COMMIT")
    made.close()
    (one,) = cpe.import_file(store, made.path).sessions
    assert one.messages == 3000


@pytest.mark.parametrize("kind", ["none", "folder", "text", "database", "torn"])
def test_what_is_not_cpes_is_refused(kind: str, store: clew.Store, tmp_path: Path) -> None:
    """With an error that says so."""
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("hello " * 100)
    elif kind == "database":
        conn = sqlite3.connect(path)
        conn.execute("CREATE TABLE messages (id)")
        conn.execute("CREATE VIEW blocks AS SELECT 1")
        conn.commit()
        conn.close()
    elif kind == "torn":
        sample(path).close()
        os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(clew.ClewError):
        cpe.import_file(store, path)
    assert kind == "torn" or not cpe.recognised(path)
    assert store.nodes.list().items == []
