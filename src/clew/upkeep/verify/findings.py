"""Collects damage during a verify, and reads tables that may be broken.

A table is read with one cursor as long as that works. If the file is malformed, each row is read with its own query, so
that readable rows are still checked and unreadable ones are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from clew.backends import MAX_POS, MAX_SEQ, SEQ_BITS, Reader, rows
from clew.backends.problems import BROKEN, Damage, describe
from clew.backends.rows import Table
from clew.base import ids
from clew.engine.engine import Engine
from clew.errors import Corrupted

Progress = Callable[[int, int], object]

LIMIT = 1000
"""Maximum findings listed; more are only counted, to bound memory."""
STEP = 256
"""Rows between two calls of `progress`."""

_OWNERS = 8  # a branch, its session, the session's owner: more levels mean a loop
_KEYS = 4096


class Report(NamedTuple):
    """The result of a check of the whole store."""

    damage: list[Damage]
    """The first `LIMIT` damages; ``counts["damage"]`` counts all."""
    counts: dict[str, int]
    """Number of rows read, by kind."""

    @property
    def ok(self) -> bool:
        """True if nothing is damaged."""
        return not self.damage


CHUNKS = rows.CHUNKS._replace(columns={"pos": int})
"""Without the bodies, which are large."""
_WHAT = {"trees": "tree", "nodes": "node", "runs": "run", "refs": "ref", "blobs": "blob", "chunks": "blob"}
"""The kind of damage in a table, if it differs from the table's name."""


class Findings:
    """Collects damage while the tables are read, and reports progress."""

    def __init__(self, engine: Engine, reader: Reader, progress: Progress | None = None) -> None:
        self.engine = engine
        self.reader = reader
        self.tx, self.stream = reader.tx, reader.stream
        self.damage: list[Damage] = []
        self.counts: dict[str, int] = {}
        self.indexes_doubted = False
        """True after SQLite's own check found damage: then each node is looked up through its indexes too."""
        self._found = 0
        self._done = self._total = 0
        self._progress = progress

    # -- collecting

    def add(self, what: str, where: str, why: str, *, pos: int | None = None, ref: int | None = None) -> None:
        """Adds damage, with the session and position of the node at `pos`, or the session of the ref."""
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
        """Adds damage that was found elsewhere."""
        self._found += not counted
        if len(self.damage) < LIMIT:
            self.damage.append(damage)

    def report(self) -> Report:
        """Everything found."""
        if self._progress is not None:
            self._progress(self._total, self._total)
        return Report(self.damage, {**self.counts, "damage": self._found})

    def expect(self, rows: int) -> None:
        """Sets the number of rows to read."""
        self._total = rows
        if self._progress is not None:
            self._progress(0, rows)

    # -- reading

    def one(self, sql: str, *values: object) -> Any:
        """The first row, or None. Raises what the driver raises."""
        return next(iter(self.reader.execute(sql, values)), None)

    def scan(self, table: Table) -> Iterator[tuple[int, Any]]:
        """Every row with its key, in order; None for an unreadable row, which is added as damage."""
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
        """Adds damage of a row of which only the key is known."""
        what = _WHAT.get(table.name, table.name)
        match table.name:
            case "nodes":
                self.add("node", place(key), why, pos=key)
            case "quarantine":
                self.add("quarantine", place(key), why, pos=key)
            case "runs":
                self.add(what, f"run {key}", why, pos=key << SEQ_BITS)
            case "refs":
                self.add(what, f"ref {key}", why, ref=key)
            case "log":
                self.add("log", f"entry {key & MAX_SEQ} of ref {key >> SEQ_BITS}", why, ref=key >> SEQ_BITS)
            case _:
                self.add(what, f"{what} {key}", why)

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
        # An index may still list the rows.
        self.add("file", f"table {table.name}", describe(broken))
        for number in self._keys(table, key, after):
            try:
                found = self.one(f"{select} = ?", number)
            except BROKEN as error:
                self.blame(table, number, describe(error))
                yield number
            else:
                if found is not None:
                    yield found
                else:
                    self.blame(table, number, "the index has it, but the table does not")
                    yield number

    def _keys(self, table: Table, key: str, after: int) -> Iterator[int]:
        """The keys above `after`: from an index, or else by probing with growing steps."""
        if table.key_index is not None:
            known = f"SELECT {key} FROM {table.name} INDEXED BY {table.key_index} WHERE {key} > ?"
            try:
                while found := list(self.reader.execute(f"{known} ORDER BY {key} LIMIT {_KEYS}", (after,))):
                    for (after,) in found:
                        yield after
            except BROKEN as error:
                self.add("file", f"index {table.key_index}", describe(error))
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

    # -- locating damage for people: a broken file gives less information, never an error

    def session_at(self, pos: int) -> str | None:
        """The id of a session that has the node at a position: the newest whose head is in its run, or below."""
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
        except (*BROKEN, TypeError, Corrupted):
            pass
        return None

    def depth_at(self, pos: int) -> int | None:
        """Number of messages above a position."""
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
