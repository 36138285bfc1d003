"""The log of llm, both generations."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path

import clew
from clew.sources.contract import About, Entry
from clew.sources.items import Item
from clew.sources.llm import Llm
from tests.sources.made import messages, view
from tests.sources.samples import from_sql


def database(tmp_path: Path) -> Path:
    from_sql("llm/logs.sql", tmp_path / "logs.db")
    return tmp_path / "logs.db"


def read(path: Path) -> dict[str, list[Entry]]:
    """The messages of each conversation, by its title."""
    parts = list(Llm().read(Item(str(path), 0, 0)))
    named = {part.conversation: part.title for part in parts if isinstance(part, About) and part.title}
    found: dict[str, list[Entry]] = {}
    for part in parts:
        if isinstance(part, Entry) and part.id is not None:
            found.setdefault(named.get(part.conversation) or view(part).text, []).append(part)
    return found


def test_a_conversation_that_a_newer_version_continued(tmp_path: Path) -> None:
    """What both generations have is there once, and the newer messages follow the older ones."""
    talk = read(database(tmp_path))["What was it about?"]
    assert [view(entry).text for entry in talk] == [
        "Rivers run to the sea.\n\nWhat is it about? (old)", "About rivers.", "What was it about?",
        "It was about rivers.",
    ]  # fmt: skip
    assert [entry.parent for entry in talk] == [None, *(entry.id for entry in talk[:-1])]


def test_tools_of_both_generations(tmp_path: Path) -> None:
    """Calls, results and failures read the same, and tokens are counted with each answer."""
    found = read(database(tmp_path))
    for which in ("old", "new"):
        seen = [view(entry) for entry in found[f"Run both ({which})"]]
        assert [one.role for one in seen] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
        results = [block for block in seen[2].blocks if isinstance(block, clew.ToolResult)]
        assert [(one.call_id, one.is_error) for one in results] == [("call_a", False), ("call_b", True)]
        assert [one.usage is not None for one in seen] == [one.role == "assistant" for one in seen]


def test_a_fork_shares_its_messages(tmp_path: Path) -> None:
    """A thread that was forked has the messages of its origin, as inherited ones."""
    found = read(database(tmp_path))
    fork, origin = found["A fork"], found["Run both (new)"]
    assert [entry.id for entry in fork] == [entry.id for entry in origin[:2]]
    assert all(entry.inherited for entry in fork)


def test_an_attachment_in_the_database(tmp_path: Path) -> None:
    """Bytes that the database has are an attachment; a path is not opened."""
    path = database(tmp_path)
    (before,) = (entry for entry in read(path)["What is this? (new)"] if view(entry).role == "user")
    assert before.attachments == ()
    with closing(sqlite3.connect(path)) as changed:
        changed.execute("UPDATE attachments SET path = NULL, content = ?", (b"a picture",))
        changed.commit()
    (after,) = (entry for entry in read(path)["What is this? (new)"] if view(entry).role == "user")
    (file,) = after.attachments
    with file.open() as opened:
        assert io.BytesIO(opened.read()).getvalue() == b"a picture"
    assert file.reference in [block.url for block in view(after).blocks if isinstance(block, clew.Media)]


def test_the_oldest_form(tmp_path: Path) -> None:
    """A single table of prompts and answers."""
    with closing(sqlite3.connect(tmp_path / "log.db")) as made:
        made.execute("CREATE TABLE log (id INTEGER, system, prompt, chat_id, response, model, timestamp)")
        rows = [(1, "Be brief", "One", 1, "A", "m", "2023-05-01T10:00:00"), (2, None, "Two", 1, "B", "m", None)]
        made.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        made.commit()
    assert Llm().recognise(str(tmp_path / "log.db"), (tmp_path / "log.db").read_bytes())
    parts = list(Llm().read(Item(str(tmp_path / "log.db"), 0, 0)))
    assert [view(entry).text for entry in messages(parts).values()] == ["Be brief", "One", "A", "Two", "B"]


def test_the_command_that_resumes() -> None:
    """llm continues a conversation by its id; those of the oldest form have none."""
    assert Llm().resume("01h") == "llm chat --cid 01h"
    assert Llm().resume("log 1") is None
