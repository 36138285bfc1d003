"""Feeds the search index beside a store's file, in order of commit, when someone searches.

A search first reads the nodes that were stored and deleted since the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from clew.backends import ID, POS, Growth, NodeLocation, Tx
from clew.backends.open import open_search_index
from clew.base import ids
from clew.base.messages import Message, ToolCall, texts
from clew.engine.damage import Damage
from clew.engine.engine import Engine
from clew.engine.node import node_facts
from clew.errors import Corrupted

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
Mode = Literal["words", "substring"]
Progress = Callable[[int, int], None]
"""Called with what is done and what there is to do."""

BATCH = 500


class Index:
    """The index of one store. Not for two threads at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Nothing readable of a sealed store may reach the disk: its index is in memory.
        self._file = open_search_index(engine.backend.file, engine.store_id, lambda: engine.keyed)
        self.open, self.close, self.remove = self._file.open, self._file.close, self._file.remove

    def shred(self) -> bool:
        """Empties the index; False if another process prevents it."""
        return self._file.shred()

    def search(self, mode: Mode, find: Callable[[sqlite3.Connection], T], progress: Progress | None = None) -> T:
        """Runs `find` on an index that has every node stored now."""

        def work(conn: sqlite3.Connection) -> T:
            self._begin(conn, mode, progress)
            return find(conn)

        return self._file.run(work)

    def _begin(self, conn: sqlite3.Connection, mode: Mode, progress: Progress | None) -> None:
        """Begins a transaction that sees everything that is stored now: it locks once, not for each statement."""
        conn.execute("BEGIN")
        done, id, followed = self._file.standing(conn, mode)
        growth = self._engine.read(lambda tx: tx.maintenance.growth(done), single=True)
        if growth.id != id or growth.last != done or growth.last_forgotten != followed:
            while True:
                conn.execute("COMMIT")
                done = self._catch_up(conn, mode, growth, progress)
                conn.execute("BEGIN")
                if self._file.edge(conn, mode) >= done:  # else another process has emptied it meanwhile
                    return

    def _catch_up(self, conn: sqlite3.Connection, mode: Mode, growth: Growth, progress: Progress | None) -> int:
        """Adds new nodes and removes deleted ones. Returns the number up to which all nodes are indexed then."""
        file = self._file
        if not self._belongs(conn, mode):
            file.empty(conn, mode)
        self._follow_deletions(conn, mode, growth.first_forgotten, growth.last_forgotten)
        known = done = file.edge(conn, mode)
        total = self._engine.backend.settled_ord() if done < growth.last else done
        while done < total:
            more = self._engine.read(partial(_after, done=done, edge=total))
            if not more:
                break
            rows = [row for row in (self._row(place) for _, place in more) if row is not None]
            ord, last = more[-1]
            file.add(conn, mode, rows, done, (ord, last.row[ID]))
            done = file.edge(conn, mode)
            if progress is not None:
                progress(min(done, total), total)
        if done - known > max(BATCH, done // 4):
            file.merge(conn, mode)
        return done

    def check(self) -> Iterator[Damage]:
        """Compares the index with the store, writing nothing. Nodes that are not indexed yet are no damage."""
        for problem in self._file.check(self._differing):
            yield Damage(*problem)

    def _differing(self, conn: sqlite3.Connection, mode: Mode) -> Iterator[str]:
        """Names of nodes that were indexed and have other words in the index than in the store."""
        done, edge = 0, self._file.edge(conn, mode)
        if not self._belongs(conn, mode):
            return
        while done < edge:
            found = self._engine.read(partial(_after, done=done, edge=edge))
            if not found:
                return
            for row in filter(None, (self._row(place) for _, place in found)):
                kept = conn.execute(f"SELECT text, id FROM {mode} WHERE rowid = ?", row[:1]).fetchone()
                if kept != row[1:3]:
                    yield f"node {ids.text(row[2])}"
            done = found[-1][0]

    def _belongs(self, conn: sqlite3.Connection, mode: Mode) -> bool:
        """True if the index was read from the store as it is: a restored backup may have other nodes.

        A mark is a node that was read. One that has another id now says no; the newest that still has its id says yes.
        Marks may be missing because their nodes were deleted; if all are, the index is not trusted.
        """
        marks = self._file.marks(conn, mode)
        for ord, id in marks:
            found = self._id_at(ord)
            if found is not None:
                return found == id
        return not marks

    def _id_at(self, ord: int) -> bytes | None:
        return self._engine.read(lambda tx: tx.maintenance.ord_id(ord))

    def _follow_deletions(self, conn: sqlite3.Connection, mode: Mode, first: int, last: int) -> None:
        """Removes nodes that were deleted from the store since the last search."""
        known = self._file.last_deletion(conn, mode)
        done = last if known is None else known
        if done < first - 1:
            self._file.empty(conn, mode)
            done = last
        if not done == known == last:
            deletions = partial(self._engine.read, partial(_forgotten, after=done))
            self._file.remove_rows(conn, mode, deletions, done)

    def _row(self, place: NodeLocation) -> tuple[int, str, bytes, int, int] | None:
        """What the index keeps of a node; None for one whose bytes are damaged."""
        node, row = self._engine.node(place), place.row
        try:
            words, about = searchable(node.message), node_facts(node)
        except Corrupted:
            return None
        return row[POS], words, row[ID], about.role, about.created_at


def _after(tx: Tx, done: int, edge: int) -> list[tuple[int, NodeLocation]]:
    return tx.by_ord(done, edge + 1, newest=False, limit=BATCH)


def _forgotten(tx: Tx, after: int) -> list[tuple[int, int, int]]:
    return tx.maintenance.deletions_after(after, -1)


def searchable(message: Message) -> str:
    """The words of a message that a search looks at: text, tool results, and what tools were called with."""
    words = texts(message.blocks)
    for block in message.blocks:
        if isinstance(block, ToolCall):
            words.append(f"{block.name} {msgspec.json.encode(block.arguments).decode()}")
    if message.label:
        words.append(message.label)
    return "\n".join(words)
