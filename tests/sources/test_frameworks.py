"""Databases of agent frameworks: what `test_apps.py` does not say of every format."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.sources.contract import Skip
from clew.sources.importer import import_item
from clew.sources.items import items
from clew.sources.registry import find, source_named
from tests.sources.samples import frameworks

TOOLS = ["user", "assistant", "tool", "assistant"]


def bring(path: Path, name: str, store: clew.Store) -> Any:
    (item,) = items(str(path))
    return import_item(store, source_named(name), item)


@pytest.mark.parametrize(
    ("name", "write", "roles", "key"),
    [
        ("openai-agents", frameworks.openai_agents, TOOLS, "ada"),
        ("google-adk", frameworks.google_adk, [*TOOLS, "system"], "trip/ada/s"),
        ("langgraph", frameworks.langgraph, ["user", "assistant"], "trip"),
        ("agno", frameworks.agno, [*TOOLS, "user"], "s1"),
        ("agno", frameworks.old_agno, [*TOOLS, "user"], "s1"),
    ],
)
def test_conversations(name: str, write: Callable[[Path], None], roles: list[str], key: str, tmp_path: Path) -> None:
    """A session of each framework is a conversation with roles, calls, results and a title; twice adds nothing."""
    write(tmp_path / "f.db")
    with clew.open(tmp_path / "c.db") as store:
        assert bring(tmp_path / "f.db", name, store).skipped == ()
        found = {session.extra["source"]["id"]: session for session in store.sessions.list()}
        session = found[key]
        assert [node.role for node in session.path()] == roles
        assert session.title == "How is Turin?"
        assert session.extra["source"]["tool"] == name
        assert len(store.search("Turin")) >= 1
        before = {one.id: [node.id for node in one.history()] for one in store.sessions.list()}
        bring(tmp_path / "f.db", name, store)
        assert {one.id: [node.id for node in one.history()] for one in store.sessions.list()} == before
        assert store.verify().ok


def test_a_session_that_grew(tmp_path: Path) -> None:
    """After an item was removed and another one added, the next import has both: one on a branch."""
    frameworks.openai_agents(tmp_path / "f.db")
    with clew.open(tmp_path / "c.db") as store:
        bring(tmp_path / "f.db", "openai-agents", store)
        with closing(sqlite3.connect(tmp_path / "f.db")) as database:
            database.execute("DELETE FROM agent_messages WHERE id = 4")
            row = (10, "ada", json.dumps({"role": "assistant", "content": "It rains."}), "2026-11-01 10:00:01")
            database.execute("INSERT INTO agent_messages VALUES (?, ?, ?, ?)", row)
            database.commit()
        bring(tmp_path / "f.db", "openai-agents", store)
        session = next(one for one in store.sessions.list() if one.extra["source"]["id"] == "ada")
        assert session.path()[-1].text == "It rains."
        assert len(session.branches()) == 1


def test_encrypted_items_are_skipped(tmp_path: Path) -> None:
    """An item that the SDK encrypted is reported, and the others are read."""
    frameworks.openai_agents(tmp_path / "f.db")
    with closing(sqlite3.connect(tmp_path / "f.db")) as database:
        database.execute("""UPDATE agent_messages SET message_data = '{"__enc__": 1, "v": 1}' WHERE id = 2""")
        database.commit()
    with clew.open(tmp_path / "c.db") as store:
        (skip,) = bring(tmp_path / "f.db", "openai-agents", store).skipped
        assert skip == Skip(2, "the item is encrypted")


def test_threads_have_branches_and_subgraphs(tmp_path: Path) -> None:
    """A thread continues at its last checkpoint, earlier messages are a branch, and a subgraph is a subagent."""
    frameworks.langgraph(tmp_path / "f.db")
    with clew.open(tmp_path / "c.db") as store:
        bring(tmp_path / "f.db", "langgraph", store)
        session = store.sessions.latest()
        assert [node.text for node in session.path()] == ["How is Turin?", "No idea."]
        (branch,) = session.branches()
        path = store.nodes.get(branch.head_id or "")
        assert path[0].text == "It is sunny."
        (trace,) = session.subagents()
        assert (trace.agent, trace.path()[0].text) == ("search", "Look it up.")


def test_no_class_is_created(tmp_path: Path) -> None:
    """A checkpoint that names a class imports nothing and runs nothing; its fields are read as data."""
    module = "clew_never_imported"
    (tmp_path / f"{module}.py").write_text("raise SystemExit('imported')")
    frameworks.langgraph(tmp_path / "f.db")
    evil = msgspec.msgpack.Ext(0, msgspec.msgpack.encode([module, "Evil", "x"]))
    run = msgspec.msgpack.Ext(3, msgspec.msgpack.encode(["os", "system", "exit 1", "call"]))
    deep: Any = msgspec.msgpack.Ext(5, msgspec.msgpack.encode(["a", "b", {}]))
    for _ in range(3000):
        deep = msgspec.msgpack.Ext(5, msgspec.msgpack.encode(["a", "b", deep]))
    with closing(sqlite3.connect(tmp_path / "f.db")) as database:
        for id, value in (("2a", evil), ("2b", run), ("2c", deep)):
            said = [frameworks.message("human", f"hello {id}", 50, additional_kwargs={"x": value})]
            state = frameworks.checkpoint(said, other=value)
            row = (f"t{id}", "", id, None, "msgpack", state, b"{}")
            database.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        database.execute("INSERT INTO checkpoints VALUES ('p', '', '3', NULL, 'pickle', x'80', x'')")
        database.commit()
    sys.path.insert(0, str(tmp_path))
    try:
        with clew.open(tmp_path / "c.db") as store:
            skipped = bring(tmp_path / "f.db", "langgraph", store).skipped
            texts = {session.path()[0].text for session in store.sessions.list()}
    finally:
        sys.path.remove(str(tmp_path))
    assert {"hello 2a", "hello 2b"} <= texts
    assert [skip.why for skip in skipped] == [
        "the checkpoint cannot be read: RecursionError",
        "the checkpoint cannot be read: ValueError",
    ]
    assert module not in sys.modules


def test_members_of_a_team(tmp_path: Path) -> None:
    """A run inside another one is a subagent's trace, and repeated messages are read once."""
    frameworks.agno(tmp_path / "f.db")
    with clew.open(tmp_path / "c.db") as store:
        bring(tmp_path / "f.db", "agno", store)
        session = next(one for one in store.sessions.list() if one.extra["source"]["id"] == "s1")
        assert len(session.path()) == 5
        assert session.path()[1].message.usage == clew.Usage(input=5, output=2)
        (trace,) = session.subagents()
        assert (trace.agent, trace.path()[0].text) == ("guide", "Ask.")


def test_databases_are_told_apart(tmp_path: Path) -> None:
    """Each database in a folder is recognised by its tables, whatever its name."""
    writers = {
        "openai-agents": frameworks.openai_agents,
        "google-adk": frameworks.google_adk,
        "langgraph": frameworks.langgraph,
        "agno": frameworks.agno,
    }
    for name, write in writers.items():
        write(tmp_path / f"x-{name}.db")
    found = {Path(one.item.path).stem: one.source.name for one in find([str(tmp_path)]) if one.source is not None}
    assert found == {f"x-{name}": name for name in writers}
