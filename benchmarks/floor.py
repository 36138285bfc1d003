"""The floor: what SQLite itself costs, through Python's own module, doing as little as can be called the same work.

WAL, synchronous=FULL, one table of bodies with the index that reading a session needs. It checks nothing, knows no
tree, keeps no totals, and has no ids. Everything else is measured against it in the same run.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, session TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS messages_session ON messages (session, id);
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, title TEXT, cwd TEXT, updated INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS sessions_updated ON sessions (updated);
CREATE INDEX IF NOT EXISTS sessions_cwd ON sessions (cwd, updated);
"""

Row = tuple[Any, ...]


class Floor:
    """Bare sqlite3 on one file."""

    def __init__(self, path: str, *, timeout: float = 60.0) -> None:
        self.conn = sqlite3.connect(path, timeout=timeout, check_same_thread=False)
        self.conn.execute("PRAGMA journal_mode = WAL")
        self.conn.execute("PRAGMA synchronous = FULL")
        self.conn.executescript(SCHEMA)

    def append(self, session: str, body: bytes) -> None:
        """One message, durable when this returns."""
        self.conn.execute("INSERT INTO messages (session, body) VALUES (?, ?)", (session, body))
        self.conn.commit()

    def fill(self, session: str, bodies: Iterable[bytes]) -> None:
        """Many messages in one transaction."""
        self.conn.executemany(
            "INSERT INTO messages (session, body) VALUES (?, ?)", ((session, body) for body in bodies)
        )
        self.conn.commit()

    def path(self, session: str) -> list[Any]:
        rows = self.conn.execute("SELECT body FROM messages WHERE session = ? ORDER BY id", (session,))
        return [json.loads(body) for (body,) in rows]

    def last(self, session: str, count: int) -> list[Any]:
        rows = self.conn.execute(
            "SELECT body FROM messages WHERE session = ? ORDER BY id DESC LIMIT ?", (session, count)
        ).fetchall()
        return [json.loads(body) for (body,) in reversed(rows)]

    def add_sessions(self, rows: Iterable[tuple[str, str, str, int]]) -> None:
        self.conn.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?)", rows)
        self.conn.commit()

    def newest(self, count: int) -> list[Row]:
        return self.conn.execute(
            "SELECT id, title, cwd, updated FROM sessions ORDER BY updated DESC LIMIT ?", (count,)
        ).fetchall()

    def latest(self, cwd: str) -> Row:
        row: Row = self.conn.execute(
            "SELECT id, title, cwd, updated FROM sessions WHERE cwd = ? ORDER BY updated DESC LIMIT 1", (cwd,)
        ).fetchone()
        return row

    def index(self, texts: Iterable[str]) -> None:
        """Fills a bare FTS5 table, in one transaction."""
        self.conn.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
        self.conn.executemany("INSERT INTO words (text) VALUES (?)", ((text,) for text in texts))
        self.conn.commit()

    def search(self, word: str, count: int) -> list[Row]:
        """The best matches by bm25, each with a snippet: what a search has to answer."""
        return self.conn.execute(
            "SELECT rowid, snippet(words, 0, '[', ']', '…', 12), rank FROM words WHERE words MATCH ?"
            " ORDER BY rank LIMIT ?",
            (f'"{word}"', count),
        ).fetchall()

    def count(self) -> int:
        return int(self.conn.execute("SELECT count(*) FROM messages").fetchone()[0])

    def close(self) -> None:
        self.conn.close()


def session_id() -> str:
    """A session's name, as long as everybody's: 36 characters."""
    return str(uuid.uuid4())
