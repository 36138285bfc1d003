"""A store that redacts does so for agents, too."""

from __future__ import annotations

from pathlib import Path

import clew
from clew import agents, redaction
from tests.agents.conftest import sdk

SECRET = "AKIAIOSFODNN7EXAMPLE"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----\n"


def test_no_way_of_an_agent_goes_around_redaction(path: Path, root: Path) -> None:
    """Messages, events and memories are redacted in the store and in the mirror."""
    rules = redaction.Rules(redaction.builtin())
    with agents.open(path, mirror=root, redact=rules) as sessions:
        session = sessions.create(cwd="/src", model="m")
        sessions.append_message(session.id, sdk("user", f"{SECRET} {KEY}", "11111111-1111-4111-8111-111111111111"))
        sessions.append_event(session.id, {"type": "result", "uuid": "e", "value": {"key": KEY, "id": [SECRET]}})
        (event,) = sessions.transcript(session.id).read()
        assert event.data["type"] == "result"
        sessions.memory("/src").write(f"{SECRET}\n{KEY}")
        assert sessions.memory("/src").read() == "***\n***\n"
        sessions.flush()
    files = [one for folder in (path.parent, root) for one in folder.rglob("*") if one.is_file()]
    assert len(files) > 3
    for word in (SECRET.encode(), b"MIIEvQIBADANBgkqhkiG9w0BAQ"):
        assert not [one.name for one in files if word in one.read_bytes()]


def test_an_import_knows_what_was_redacted(path: Path, root: Path, tmp_path: Path) -> None:
    """Files that were imported with redaction add nothing when they are imported without; their forks are shared."""
    first, second = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
    with agents.open(path, mirror=root) as sessions:
        session = sessions.create(cwd="/src")
        sessions.append_message(session.id, sdk("user", f"It is {SECRET}", first))
        sessions.append_message(session.id, sdk("assistant", "Thanks", second))
        fork = sessions.fork(session.id)
        fork.append_and_save(clew.user("Another way"))
        sessions.flush()
    other = tmp_path / "other.db"
    with agents.open(other, redact=redaction.Rules(redaction.builtin())) as sessions:
        agents.import_tree(sessions, root)
    with agents.open(other) as sessions:
        done = agents.import_tree(sessions, root)
        assert [one.messages for one in done.sessions] == [0, 0]
        assert [node.text for node in sessions.resume(session.id).messages] == ["It is ***", "Thanks"]
        shared = sessions.resume(fork.id).messages
        assert [node.id for node in shared[:2]] == [first, second]
        assert len(shared) == 3
