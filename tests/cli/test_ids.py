"""What an id names, in every command that takes one."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import pytest

import clew
from tests.agents.cpe.files import sample
from tests.cli.conftest import Run, leaves

CONVERSATION, POSITION, MESSAGE = "a conversation", "a conversation or a message", "a message"
SNAPSHOT = "a snapshot"
TAKES: dict[tuple[str, str], tuple[str, list[str]]] = {
    ("chat", "resume_id"): (POSITION, ["chat", "-m", "offline", "x", "-c", "{}"]),
    ("run", "parent"): (CONVERSATION, ["run", "--as", "helper", "-m", "offline", "x", "--parent", "{}"]),
    ("append", "session"): (CONVERSATION, ["append", "{}"]),
    ("tree", "id"): (POSITION, ["tree", "{}"]),
    ("show", "id"): (POSITION, ["show", "{}"]),
    ("search", "session"): (POSITION, ["search", "help", "--session", "{}"]),
    ("conversation print", "id"): (POSITION, ["conversation", "print", "{}"]),
    ("conversation delete", "ids"): (MESSAGE, ["conversation", "delete", "--cascade", "{}"]),
    ("fork", "id"): (POSITION, ["fork", "{}"]),
    ("fork", "at"): (MESSAGE, ["fork", "Hello", "--at", "{}"]),
    ("rewind", "names"): (MESSAGE, ["rewind", "Hello", "{}"]),
    ("undo", "session"): (CONVERSATION, ["undo", "{}"]),
    ("checkpoint ls", "session"): (CONVERSATION, ["checkpoint", "ls", "{}"]),
    ("checkpoint show", "names"): (MESSAGE, ["checkpoint", "show", "Hello", "{}"]),
    ("checkpoint diff", "names"): (MESSAGE, ["checkpoint", "diff", "Hello", "{}"]),
    ("rename", "id"): (CONVERSATION, ["rename", "{}", "New"]),
    ("label", "id"): (CONVERSATION, ["label", "{}", "new"]),
    ("rm", "sessions"): (CONVERSATION, ["rm", "{}"]),
    ("trash restore", "sessions"): (CONVERSATION, ["trash", "restore", "{}"]),
    ("hold add", "sessions"): (CONVERSATION, ["hold", "add", "{}"]),
    ("hold release", "sessions"): (CONVERSATION, ["hold", "release", "{}"]),
    ("purge", "sessions"): (CONVERSATION, ["purge", "--yes", "{}"]),
    ("snapshot show", "snapshot_id"): (SNAPSHOT, ["snapshot", "show", "{}"]),
    ("snapshot save", "session"): (POSITION, ["snapshot", "save", "{}"]),
    ("snapshot restore", "snapshot_id"): (SNAPSHOT, ["snapshot", "restore", "{}"]),
    ("snapshot rm", "snapshot_ids"): (SNAPSHOT, ["snapshot", "rm", "{}"]),
    ("snapshot convert", "snapshot_id"): (SNAPSHOT, ["snapshot", "convert", "{}", "--to", "openai"]),
    ("retention set", "sessions"): (CONVERSATION, ["retention", "set", "--days", "90", "{}"]),
    ("redact", "ids"): (POSITION, ["redact", "--yes", "--apply", "{}"]),
    ("quarantine restore", "messages"): (MESSAGE, ["quarantine", "restore", "{}"]),
    ("quarantine purge", "messages"): (MESSAGE, ["quarantine", "purge", "--yes", "{}"]),
    ("export", "what"): (POSITION, ["export", "{}"]),
}
"""What each parameter takes, and a command line with it."""
ELSEWHERE = {("open", "id")}
"""`open` starts a server."""
NOTHING_HERE = {"undo", "trash restore", "checkpoint ls", "checkpoint show", "checkpoint diff",
                "quarantine restore", "quarantine purge"}  # fmt: skip
"""Commands that find nothing to act on in the sample."""
BELOW = {"pqr678": {"pqr678"}, "abc123": {"abc123", "def456", "ghi789", "jkl012", "mno345", "pqr678"}}


def _parameters() -> set[tuple[str, str]]:
    found = set()
    for name, command in leaves().items():
        for one in command.params:
            words = set((one.metavar or "").strip("[]. ").replace(".", "").replace("]", "").replace("[", "").split())
            plain_argument = isinstance(one, click.Argument) and one.name in ("id", "ids", "session", "sessions")
            if words & {"ID", "CONVERSATION", "MESSAGE"} or plain_argument:
                found.add((name, str(one.name)))
    return found


def test_the_table_is_complete() -> None:
    """Every parameter that takes an id is in the table."""
    assert _parameters() - ELSEWHERE == set(TAKES)


@pytest.fixture
def ids(clew_cli: Run, db: str, tmp_path: Path) -> dict[str, str]:
    """A store with an imported file; its ids by their kind."""
    sample(tmp_path / ".cpeconvo").close()
    assert clew_cli("import", str(tmp_path / ".cpeconvo")).code == 0
    with clew.open(db) as store:
        session = store.sessions.list().items[-1].rename("Hello")
        handle, id = session.handle, session.id
    shutil.copy(db, f"{db}.fresh")
    listed = {one["cpe_id"]: one for one in clew_cli("conversation", "list", "--json").json}
    return {
        "leaf of CPE": "pqr678",
        "root of CPE": "abc123",
        "handle of a message": listed["pqr678"]["handle"],
        "id of a message": listed["pqr678"]["id"],
        "handle of a conversation": handle,
        "id of a conversation": id,
        "unknown": "zzz999",
    }


def _messages(clew_cli: Run) -> set[str]:
    return {one["cpe_id"] for one in clew_cli("conversation", "list", "--json").json if "cpe_id" in one}


@pytest.mark.checklist("D14")
@pytest.mark.parametrize("name", sorted({name for name, _ in TAKES}))
def test_an_id_names_what_it_names(clew_cli: Run, db: str, ids: dict[str, str], name: str) -> None:
    """A command acts on the kind of thing that it takes, refuses others without a change, and deletes nothing else."""
    before = _messages(clew_cli)
    for takes, line in [TAKES[key] for key in TAKES if key[0] == name]:
        for kind, id in ids.items():
            for end in ("-wal", "-shm", "-search", "-search-wal", "-search-shm"):
                Path(db + end).unlink(missing_ok=True)
            shutil.copy(f"{db}.fresh", db)
            done = clew_cli(*(word.format(id) for word in line), input='{"text": "x"}')
            is_message = "message" in kind or "CPE" in kind
            right = takes == POSITION or (takes == MESSAGE) == is_message
            accepted = right and kind != "unknown" and takes != SNAPSHOT
            if name not in NOTHING_HERE:
                assert (done.code == 0) == accepted, (line, kind, done)
                assert accepted or done.code in (1, 3), (line, kind, done)
            gone = before - _messages(clew_cli)
            if not accepted or name not in ("rm", "purge", "conversation delete"):
                assert gone == set(), (line, kind, done)
            elif name == "conversation delete":
                assert gone == BELOW["abc123" if kind == "root of CPE" else "pqr678"], (line, kind, done)
            else:
                assert gone == BELOW["abc123"], (line, kind, done)
