"""`CpeFile`: a `.cpeconvo` file that is changed in place."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.agents import cpe
from clew.agents.cpe import writer
from clew.errors import Conflict, Invalid, NotFound, ReadOnly, Unavailable
from tests.agents.cpe.files import sample


@pytest.fixture
def path(tmp_path: Path) -> Path:
    sample(tmp_path / ".cpeconvo").close()
    return tmp_path / ".cpeconvo"


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    conn = sqlite3.connect(path)
    try:
        return conn.execute(query).fetchall()
    finally:
        conn.close()


def messages(path: Path) -> dict[object, object]:
    return dict(rows(path, "SELECT id, parent_id FROM messages"))  # type: ignore[arg-type]


def chained() -> tuple[clew.Session, list[clew.Node]]:
    session = clew.open(":memory:").sessions.create()
    call = clew.ToolCall(id="c1", name="look", arguments={"path": "x"})
    return session, session.append(
        [
            clew.system("Be brief."),
            clew.user("Look"),
            clew.assistant(call),
            clew.tool("gone", call_id="c1", is_error=True),
        ]
    )


@pytest.mark.checklist("D1", "D2")
def test_saving_messages(path: Path) -> None:
    """Messages are appended after their parent in CPE's own schema, with 6-letter ids; a view reads them back."""
    schema = rows(path, "SELECT sql FROM sqlite_master ORDER BY name")
    before = messages(path)
    session, nodes = chained()
    ids = cpe.CpeFile(path).save(session, nodes, parent="jkl012")
    assert ids[0] is None  # CPE has no system messages
    assert all(re.fullmatch(r"[0-9A-Za-z]{6}", str(id)) for id in ids[1:])
    assert messages(path) == before | {ids[1]: "jkl012", ids[2]: ids[1], ids[3]: ids[2]}
    assert rows(path, "SELECT sql FROM sqlite_master ORDER BY name") == schema
    assert rows(path, "PRAGMA foreign_key_check") == []
    found = rows(path, f"SELECT role, tool_result_error FROM messages WHERE id = '{ids[3]}'")
    assert found == [("tool_result", 1)]
    with (view := cpe.view(path)).store:
        said = view.store.nodes.path(view.ids[str(ids[3])])
    assert [node.text for node in said[-4:]] == ["Sure, what's your question?", "Look", "", "gone"]
    assert said[-1].created_at == nodes[-1].created_at


def test_saving_all_or_nothing(path: Path) -> None:
    """If a parent is missing, or the file cannot be written, nothing is stored."""
    before = messages(path)
    session, nodes = chained()
    with pytest.raises(NotFound, match="zzz999"):
        cpe.CpeFile(path).save(session, nodes, parent="zzz999")
    with pytest.raises(Invalid):
        other = path.with_name("other")
        other.write_bytes(b"x" * 200)
        cpe.CpeFile(other).save(session, nodes)
    if os.geteuid():
        path.chmod(0o400)
        with pytest.raises(ReadOnly):
            cpe.CpeFile(path).save(session, nodes)
        path.chmod(0o600)
    assert messages(path) == before


@pytest.mark.checklist("D2", "D22")
def test_ids_run_out(path: Path) -> None:
    """After ten ids that are taken it gives up, and stores nothing."""
    tried: list[str] = []

    def taken() -> Iterator[str]:
        while True:
            tried.append("abc123")
            yield "abc123"

    before = messages(path)
    session, nodes = chained()
    with pytest.raises(Conflict, match="10 attempts"):
        cpe.CpeFile(path, ids=taken).save(session, nodes)
    assert (len(tried), messages(path)) == (writer.ATTEMPTS, before)


@pytest.mark.checklist("D1")
def test_deleting_messages(path: Path) -> None:
    """A message goes with its blocks; one with children only with them; unknown ids are ignored; all or none."""
    file, before = cpe.CpeFile(path), messages(path)
    with pytest.raises(Conflict):
        file.delete(["jkl012", "def456"])
    assert messages(path) == before
    assert file.delete("def456", recursive=True, dry_run=True) == 5
    assert messages(path) == before
    assert file.delete("zzz999") == 0
    assert file.delete(["ghi789", "jkl012"]) == 2  # both are named, in any order
    assert file.delete("def456", recursive=True) == 3
    gone = {"def456", "ghi789", "jkl012", "mno345", "pqr678"}
    assert messages(path).keys() == before.keys() - gone
    assert not {id for (id,) in rows(path, "SELECT message_id FROM blocks")} & gone
    assert b"Actually, Python instead" not in path.read_bytes()  # deleted text is overwritten


@pytest.mark.checklist("D1")
def test_writers_at_the_same_time(path: Path) -> None:
    """Several writers of one file wait for each other, and nothing is lost."""
    before = len(messages(path))

    def write() -> None:
        session, nodes = chained()
        for _ in range(10):
            cpe.CpeFile(path).save(session, nodes, parent="jkl012")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(messages(path)) == before + 4 * 10 * 3


def test_a_locked_file(path: Path) -> None:
    """It waits as long as it may, then says that the file is locked, for reading as for writing."""
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    session, nodes = chained()
    with pytest.raises(Unavailable, match="locked by another program"):
        cpe.CpeFile(path, timeout=0.1).save(session, nodes)
    with pytest.raises(Unavailable, match="locked by another program"):
        cpe.view(path, timeout=0.1)
    lock.close()
    assert len(cpe.CpeFile(path).save(session, nodes)) == 4
