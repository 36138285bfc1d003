"""Updates the search index, a file next to the store, in commit order. Each search first applies all new changes."""

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
"""Called with the amount done and the total."""

BATCH = 500


class Index:
    """The index of one store. Not thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # No plaintext of a sealed store may reach the disk, so its index is in memory.
        self._file = open_search_index(engine.backend.file, engine.store_id, lambda: engine.keyed)
        self.open, self.close, self.remove = self._file.open, self._file.close, self._file.remove

    def shred(self) -> bool:
        """Empties the index; False if another process prevents it."""
        return self._file.shred()

    def search(self, mode: Mode, find: Callable[[sqlite3.Connection], T], progress: Progress | None = None) -> T:
        """Runs `find` on an up-to-date index."""

        def work(conn: sqlite3.Connection) -> T:
            self._begin(conn, mode, progress)
            return find(conn)

        return self._file.run(work)

    def _begin(self, conn: sqlite3.Connection, mode: Mode, progress: Progress | None) -> None:
        """Begins a transaction on an up-to-date index. One transaction locks once, not for each statement."""
        conn.execute("BEGIN")
        done, id, followed = self._file.standing(conn, mode)
        growth = self._engine.read(lambda tx: tx.maintenance.growth(done), single=True)
        if growth.id != id or growth.last != done or growth.last_forgotten != followed:
            while True:
                conn.execute("COMMIT")
                done = self._catch_up(conn, mode, growth, progress)
                conn.execute("BEGIN")
                if self._file.edge(conn, mode) >= done:  # else another process emptied it meanwhile
                    return

    def _catch_up(self, conn: sqlite3.Connection, mode: Mode, growth: Growth, progress: Progress | None) -> int:
        """Adds new nodes and removes deleted ones. Returns the number of the last indexed node."""
        file = self._file
        if not self._belongs(conn, mode):
            file.empty(conn, mode)
        self._follow_deletions(conn, mode, growth.first_forgotten, growth.last_forgotten)
        start = done = file.edge(conn, mode)
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
        if done - start > max(BATCH, done // 4):
            file.merge(conn, mode)
        return done

    def check(self) -> Iterator[Damage]:
        """Compares the index with the store; writes nothing. Nodes that are not indexed yet are not reported."""
        for problem in self._file.check(self._find_differences):
            yield Damage(*problem)

    def _find_differences(self, conn: sqlite3.Connection, mode: Mode) -> Iterator[str]:
        """Names of nodes whose text in the index differs from the store."""
        done, edge = 0, self._file.edge(conn, mode)
        if not self._belongs(conn, mode):
            return
        while done < edge:
            found = self._engine.read(partial(_after, done=done, edge=edge))
            if not found:
                return
            for row in filter(None, (self._row(place) for _, place in found)):
                indexed = conn.execute(f"SELECT text, id FROM {mode} WHERE rowid = ?", row[:1]).fetchone()
                if indexed != row[1:3]:
                    yield f"node {ids.text(row[2])}"
            done = found[-1][0]

    def _belongs(self, conn: sqlite3.Connection, mode: Mode) -> bool:
        """True if the index belongs to the present store: after a restored backup, the nodes may differ.

        A mark is an indexed node. The newest mark whose node still exists decides: True if that node has the same id.
        Nodes of marks may be deleted; if all are, the index is not trusted.
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
        """Removes nodes that were deleted from the store after the last search."""
        known = self._file.last_deletion(conn, mode)
        done = last if known is None else known
        if done < first - 1:
            self._file.empty(conn, mode)
            done = last
        if not done == known == last:
            deletions = partial(self._engine.read, partial(_deletions_after, after=done))
            self._file.remove_rows(conn, mode, deletions, done)

    def _row(self, place: NodeLocation) -> tuple[int, str, bytes, int, int] | None:
        """The index row of a node; None for a corrupted node."""
        node, row = self._engine.node(place), place.row
        try:
            words, about = searchable(node.message), node_facts(node)
        except Corrupted:
            return None
        return row[POS], words, row[ID], about.role, about.created_at


def _after(tx: Tx, done: int, edge: int) -> list[tuple[int, NodeLocation]]:
    return tx.by_ord(done, edge + 1, newest=False, limit=BATCH)


def _deletions_after(tx: Tx, after: int) -> list[tuple[int, int, int]]:
    return tx.maintenance.deletions_after(after, -1)


def searchable(message: Message) -> str:
    """The text of a message for search: text, tool results, names and arguments of tool calls, and the label."""
    words = texts(message.blocks)
    for block in message.blocks:
        if isinstance(block, ToolCall):
            words.append(f"{block.name} {msgspec.json.encode(block.arguments).decode()}")
    if message.label:
        words.append(message.label)
    return "\n".join(words)
