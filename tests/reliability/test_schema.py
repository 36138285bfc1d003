"""P6: a schema that was changed is refused at once, before anything that was put into it can run."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import clew
from clew.errors import Corrupted
from tests import made_up_migration
from tests.reliability.test_formats import FIXTURES

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT -i FROM n"
PLANTED = {
    "view": f"ALTER TABLE refs RENAME TO kept; CREATE VIEW refs AS SELECT * FROM kept WHERE ref IN ({ENDLESS})",
    "trigger": "CREATE TRIGGER evil AFTER INSERT ON nodes BEGIN DELETE FROM nodes WHERE pos < new.pos; END",
    "table": "CREATE TABLE evil (a)",
    "index": "CREATE UNIQUE INDEX evil ON nodes (facts)",
    "column": "ALTER TABLE log ADD COLUMN evil DEFAULT (abs(1))",
    "hidden": (
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_master VALUES ('trigger', 'sqlite_x', 'nodes', 0,"
        " 'CREATE TRIGGER sqlite_x AFTER INSERT ON nodes BEGIN DELETE FROM log; END')"
    ),
    "commented": (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'WITHOUT ROWID', '--' || char(11)"
        " || 'WITHOUT ROWID') WHERE name = 'header'"
    ),
}


def plant(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(sql)


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """A signal ends what takes longer, also where it is SQLite that does not come back."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(10)
    began = time.process_time()
    try:
        yield
    finally:
        signal.alarm(0)
    assert time.process_time() - began < seconds


@pytest.mark.parametrize("what", PLANTED)
def test_what_was_planted_is_refused(path: Path, what: str) -> None:
    """A store with something added to its schema, or changed in it, does not open, and its bytes stay as they are."""
    with clew.open(path) as store:
        store.sessions.create().append(clew.user("said"))
    plant(path, PLANTED[what])
    before = path.read_bytes()
    with within(1), pytest.raises(Corrupted, match="in its schema"):
        clew.open(path)
    assert path.read_bytes() == before


def test_what_was_planted_while_the_store_is_open(path: Path) -> None:
    """A store that was opened to read looks again before it first writes."""
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append(clew.user("said"))
    with clew.open(path) as store:
        session = store.sessions.get(session.id)
        assert len(session.path()) == 1
        plant(path, PLANTED["trigger"])
        with pytest.raises(Corrupted, match="evil"):
            session.append(clew.user("more"))
        assert len(session.path()) == 1


def test_an_old_format_is_looked_at_before_it_is_brought_to_the_newest(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trigger in a store of an older format does not run while that is migrated."""
    shutil.copy(FIXTURES / "format-1.db", path)
    plant(path, "CREATE TRIGGER evil AFTER UPDATE ON epoch BEGIN DELETE FROM nodes; END")
    before = path.read_bytes()
    made_up_migration.install(monkeypatch)
    with pytest.raises(Corrupted, match="evil"):
        clew.open(path)
    assert path.read_bytes() == before


def test_what_does_no_harm_opens(path: Path) -> None:
    """Statistics that SQLite keeps for itself are no damage; a missing index is, and the store can still be read."""
    with clew.open(path) as store:
        store.sessions.create().append(clew.user("said"))
    plant(path, "ANALYZE")
    with clew.open(path) as store:
        assert store.verify().ok
    plant(path, "DROP INDEX runs_parent")
    with clew.open(path) as store:
        assert [(one.what, one.where) for one in store.verify().damage] == [("schema", "runs_parent")]
        assert len(store.sessions.list().items) == 1


def test_what_was_planted_in_the_search_index(path: Path) -> None:
    """An index with a view in the place of its table is damage to verify, and is made anew by the next search."""
    index = Path(f"{path}-search")
    with clew.open(path) as store:
        store.sessions.create().append(clew.user("said"))
        assert store.search("said")
    plant(index, f"DROP TABLE words_1; CREATE VIEW words_1 AS {ENDLESS}")
    with clew.open(path) as store, within(2):
        (damage,) = store.verify().damage
        assert (damage.what, damage.where) == ("search", str(index))
        assert len(store.search("said")) == 1
        assert store.verify().ok
