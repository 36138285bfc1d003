"""A survey counts what an import of the same files stores."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from clew.sources import find, import_all
from clew.sources.contract import Home
from clew.sources.registry import sources
from clew.sources.survey import survey
from tests.sources.made import SESSION, claude_line, jsonl


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Claude Code's history of a conversation, and of a fork of it, which has copies of its messages."""
    folder = tmp_path / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    first = [claude_line(1, None, "user", "Read it"), claude_line(2, 1, "assistant", [{"type": "text", "text": "Yes"}])]
    fork = "f" + SESSION[1:]
    more = [{**line, "sessionId": fork} for line in (*first, claude_line(3, 2, "user", "Again"))]
    for name, lines in ((SESSION, first), (fork, more)):
        (folder / f"{name}.jsonl").write_bytes(jsonl(lines))
    return Home(str(tmp_path), {}, "linux")


def test_copies_in_a_fork_are_counted_once(home: Home, tmp_path: Path) -> None:
    """Conversations and messages of the survey are those of the import."""
    claude = next(source for source in sources() if source.name == "claude-code")
    (history,) = survey(home, unreadable={}, only=claude)
    with clew.open(tmp_path / "store.db") as store:
        done = list(import_all(store, find([str(tmp_path / ".claude")])))
        stored = {each.session for one in done for each in one.conversations}
        assert (history.conversations, history.messages) == (len(stored), sum(one.messages for one in done)) == (2, 3)
