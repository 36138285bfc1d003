"""What a check of a whole store finds, and how it reads a file that may be broken.

A table is read by one cursor for as long as that works. Where the file is malformed, each row is asked for by itself:
what can still be read is, and what cannot is named.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from clew import ids
from clew.backends import MAX_POS, MAX_SEQ, SEQ_BITS, Tx
from clew.backends.sqlite.rows import SQLiteTx
from clew.engine import Engine
from clew.errors import Tampered

if TYPE_CHECKING:
    from clew.backends.postgres.reader import Reader

Progress = Callable[[int, int], object]

LIMIT = 1000
"""Findings that are listed. More are only counted: a store that is damaged all over must not fill the memory."""
STEP = 256
"""Rows between two calls of `progress`."""

BROKEN = (sqlite3.Error, OverflowError, UnicodeDecodeError)
"""What reading a malformed file raises; the last when the driver stumbles over its own message."""

_OWNERS = 8  # a branch, its session, the session above: more steps up are a circle
_KEYS = 4096


class Damage(NamedTuple):
    """One thing that is not as it was written."""

    what: str
    """Its kind: node, run, tree, session, branch, label, log, blob, header, schema, file, wal, search, …"""
    where: str
    """Which one."""
    why: str
    """What is wrong with it; never any content."""
    session: str | None = None
    """The id of a session that shows it, if one can be found."""
    position: int | None = None
    """Which message of that session, counted from 0 at the root."""


class Report(NamedTuple):
    """What a check of the whole store has found."""

    damage: list[Damage]
    """What is damaged; the first `LIMIT`, while ``counts["damage"]`` counts all."""
    counts: dict[str, int]
    """How many rows of each kind were read."""

    @property
    def ok(self) -> bool:
        """True if nothing is damaged."""
        return not self.damage


class Table(NamedTuple):
    """A table as the scan reads it."""

    name: str
    what: str
    columns: Mapping[str, type | tuple[type, ...]]
    """Each column with what its values may be; the first is the key, a number."""
    keys: str | None = None
    """An index that has every key: it tells them when the table itself cannot be read."""


NULL = type(None)
NODES = Table("nodes", "node", {"pos": int, "facts": bytes, "id": bytes, "body": bytes, "ord": int}, "nodes_ord")
RUNS = Table(
    "runs", "run",
    {"run": int, "tree": int, "parent": (int, NULL), "derived": (int, NULL), "depth": int, "carried": int, "tip": int,
     "closed": int, "wrapped_key": (bytes, NULL), "mac": bytes},
    "runs_tree",
)  # fmt: skip
REFS = Table(
    "refs", "ref",
    {"ref": int, "workspace": str, "kind": str, "key": bytes, "owner": (int, NULL), "tree": (int, NULL),
     "head": (int, NULL), "head_id": (bytes, NULL), "version": int, "created_at": int, "active_at": int, "rank": int,
     "trashed_at": (int, NULL), "expires_at": (int, NULL), "hold": int, "look": (bytes, NULL),
     "wrapped_key": (bytes, NULL), "mac": bytes, "data": bytes},
    "refs_key",
)  # fmt: skip
LOG = Table("log", "log", {"pos": int, "created_at": int, "id": bytes, "body": bytes}, "log_id")
BLOBS = Table(
    "blobs", "blob",
    {"blob": int, "tree": int, "look": bytes, "size": int, "chunks": int, "created_at": int,
     "wrapped_key": (bytes, NULL), "mac": bytes},
    "blobs_look",
)  # fmt: skip
TREES = Table("trees", "tree", {"tree": int, "workspace": str, "created_at": int})
FORGOTTEN = Table("forgotten", "forgotten", {"number": int, "low": int, "high": int})
QUARANTINE = Table("quarantine", "quarantine", {"pos": int, "created_at": int, "why": str, "body": bytes})
CHUNKS = Table("chunks", "blob", {"pos": int})


class Findings:
    """Collects damage while the tables are read, and tells how far the reading is."""

    def __init__(self, engine: Engine, reader: sqlite3.Connection | Reader, progress: Progress | None = None) -> None:
        self.engine = engine
        self.conn: Any = reader
        """Runs statements; in a server's store too, if they are of the common kind."""
        self.stream: Callable[..., Iterator[Any]]
        """Runs one whose rows are many."""
        if isinstance(reader, sqlite3.Connection):
            self.tx: Tx = SQLiteTx(reader)
            self.stream = reader.execute
        else:
            self.tx, self.stream = reader.tx, reader.stream
        self.damage: list[Damage] = []
        self.counts: dict[str, int] = {}
        self.indexes_doubted = False
        """True once SQLite itself has found something: then each node is looked up through its indexes too."""
        self._found = 0
        self._done = self._total = 0
        self._progress = progress

    # -- telling

    def add(self, what: str, where: str, why: str, *, pos: int | None = None, ref: int | None = None) -> None:
        """Notes damage, with the session and the position that the node at `pos`, or the ref, belongs to."""
        self._found += 1
        if len(self.damage) >= LIMIT:
            return
        session, position = None, None
        if pos is not None:
            session, position = self.session_at(pos), self.depth_at(pos)
        if ref is not None and session is None:
            session = self.session_of(ref)
        self.take(Damage(what, where, why, session, position), counted=True)

    def take(self, damage: Damage, *, counted: bool = False) -> None:
        """Notes damage that was found elsewhere."""
        self._found += not counted
        if len(self.damage) < LIMIT:
            self.damage.append(damage)

    def report(self) -> Report:
        """Everything found."""
        if self._progress is not None:
            self._progress(self._total, self._total)
        return Report(self.damage, {**self.counts, "damage": self._found})

    def expect(self, rows: int) -> None:
        """Says how many rows will be read."""
        self._total = rows
        if self._progress is not None:
            self._progress(0, rows)

    # -- reading

    def one(self, sql: str, *values: object) -> Any:
        """The first row, or None. Raises what the driver raises."""
        return self.conn.execute(sql, values).fetchone()

    def scan(self, table: Table) -> Iterator[tuple[int, Any]]:
        """Every row with its key, in order; None for a row that is there and damaged beyond reading, which is noted."""
        key = next(iter(table.columns))
        select = f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE {key}"
        kinds = tuple(table.columns.values())
        at, count = -1 << 63, 0
        for read in self._rows(table, select, key):
            row = None
            if isinstance(read, int):
                at = read
            else:
                at = read[0] if isinstance(read[0], int) else at
                if all(map(isinstance, read, kinds)):
                    row = read
                else:
                    self.blame(table, at, "a column has a value of the wrong kind")
            count += 1
            self._tick()
            yield at, row
        self.counts[table.name] = self.counts.get(table.name, 0) + count

    def blame(self, table: Table, key: int, why: str) -> None:
        """Notes damage of a row that is known by its key alone."""
        name = f"{table.what} {key}"
        match table.name:
            case "nodes":
                self.add("node", place(key), why, pos=key)
            case "quarantine":
                self.add("quarantine", place(key), why, pos=key)
            case "runs":
                self.add("run", name, why, pos=key << SEQ_BITS)
            case "refs":
                self.add("ref", name, why, ref=key)
            case "log":
                self.add("log", f"entry {key & MAX_SEQ} of ref {key >> SEQ_BITS}", why, ref=key >> SEQ_BITS)
            case _:
                self.add(table.what, name, why)

    def _rows(self, table: Table, select: str, key: str) -> Iterator[tuple[Any, ...] | int]:
        """Rows; or the key alone of a row that cannot be read."""
        after = -1 << 63
        try:
            for row in self.stream(f"{select} >= ? ORDER BY {key}", (after,)):
                yield row
                if isinstance(row[0], int):
                    after = max(after, row[0])
            return
        except BROKEN as error:
            broken = error
        # Another thing than this table may tell which rows there should be.
        self.add("file", f"table {table.name}", why(broken))
        for number in self._keys(table, key, after):
            try:
                found = self.one(f"{select} = ?", number)
            except BROKEN as error:
                self.blame(table, number, why(error))
                yield number
            else:
                if found is not None:
                    yield found
                else:
                    self.blame(table, number, "the index has it and the table has not")
                    yield number

    def _keys(self, table: Table, key: str, after: int) -> Iterator[int]:
        """The keys above `after`: from an index, else by trying further and further on."""
        if table.keys is not None:
            known = f"SELECT {key} FROM {table.name} INDEXED BY {table.keys} WHERE {key} > ?"
            try:
                while found := self.conn.execute(f"{known} ORDER BY {key} LIMIT {_KEYS}", (after,)).fetchall():
                    for (after,) in found:
                        yield after
            except BROKEN as error:
                self.add("file", f"index {table.keys}", why(error))
            else:
                return
        step, select = 1, f"SELECT {key} FROM {table.name} WHERE {key} >= ? ORDER BY {key} LIMIT 1"
        after = max(after, 0)
        while after + step <= MAX_POS:
            try:
                found_one = self.one(select, after + step)
            except BROKEN:
                step *= 2
                continue
            if found_one is None:
                return
            after, step = found_one[0], 1
            yield after

    def _tick(self) -> None:
        self._done += 1
        if self._progress is not None and self._done % STEP == 0:
            self._progress(min(self._done, self._total), self._total)

    # -- locating: for people, so a broken file makes it say less and never makes it fail

    def session_at(self, pos: int) -> str | None:
        """The id of a session that shows the node at a position: the newest whose head is in its run, or below."""
        seen: set[int] = set()
        queue = [pos]
        try:
            for low in queue:
                high = low | MAX_SEQ
                found = self.one(
                    "SELECT ref FROM refs WHERE head BETWEEN ? AND ? ORDER BY kind = 'session' DESC, rank DESC",
                    low,
                    high,
                )
                session = None if found is None else self.session_of(found[0])
                if session is not None:
                    return session
                grown = [run.run for run in self.tx.runs_from(low, high) if run.run not in seen]
                seen.update(grown)
                queue.extend(run << SEQ_BITS for run in grown)
        except (*BROKEN, TypeError):
            pass
        return None

    def session_of(self, ref: int) -> str | None:
        """The id of the session that a ref is, or belongs to."""
        try:
            for _ in range(_OWNERS):
                kind, key, owner = self.one("SELECT kind, key, owner FROM refs WHERE ref = ?", ref)
                if kind in ("session", "subagent"):
                    return ids.text(key)
                ref = owner
        except (*BROKEN, TypeError, Tampered):
            pass
        return None

    def depth_at(self, pos: int) -> int | None:
        """How many messages stand above a position."""
        try:
            runs = self.tx.lineage(pos)
            if runs and runs[0][0].parent is None:
                return sum(upto + 1 for _, upto in runs) - 1
            return runs[-1][0].depth + (pos & MAX_SEQ) if runs else None
        except (*BROKEN, TypeError):
            return None


def place(pos: int) -> str:
    """A position in words."""
    return f"message {pos & MAX_SEQ} of run {pos >> SEQ_BITS}"


def why(error: Exception) -> str:
    """What the driver says, without the text it stumbled over."""
    said = str(error)
    return "its text is not valid UTF-8" if "UTF-8" in said else f"it cannot be read: {said}"
