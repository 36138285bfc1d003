"""Updates the search index, a file next to the store, in commit order. Each search first applies all new changes.

The index of a sealed store is in memory. Its parts are saved as encrypted images, so that a new process need not index
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import zip_longest
from typing import TypeVar

import msgspec

from clew.backends import ID, POS, Growth, NodeLocation, Tx
from clew.backends.fts_images import MAX_IMAGE, Image, Images
from clew.backends.fts_tables import MODES, FtsTables, IndexRow, Mode, Part, has_any, short_id
from clew.backends.open import open_search_images, open_search_index
from clew.backends.problems import Damage
from clew.base.messages import Message, ToolCall, texts
from clew.engine.engine import Engine
from clew.engine.node import node_facts
from clew.errors import ClewError, Corrupted

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with the amount done and the total."""

BATCH = 500
REFILL = 2
"""Parts that a purge fills again. If more have deleted messages, the next search fills the rest."""


class Index:
    """The index of one store. Not thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # No plaintext of a sealed store may reach the disk, so its index is in memory.
        self._file = open_search_index(engine.backend.file, engine.store_id, lambda: engine.keyed)
        self.open = self._file.open
        self._all_images = None if engine.backend.file is None else PartImages(engine, engine.backend.file)

    @property
    def images(self) -> PartImages | None:
        """The images of a sealed store's index."""
        return self._all_images if self._engine.keyed else None

    def close(self) -> None:
        """Idempotent."""
        self._file.close()
        if self._all_images is not None:
            self._all_images.close()

    def remove(self) -> None:
        """Deletes the file, if there is one."""
        self.close()
        self._file.remove()

    def shred(self) -> bool:
        """Removes the words of deleted messages from the files; False if another process prevents it."""
        cleared = self._file.shred(self._follow_now)
        return (self.images is None or self.images.shred()) and cleared

    def refill(self) -> None:
        """Fills parts that `shred` has emptied, if they are few, so that the next search need not."""
        if self._file.is_open:
            with suppress(ClewError):
                self._file.run(self._refill)

    def _refill(self, tables: FtsTables) -> None:
        total = self._engine.backend.settled_ord()
        for mode in MODES:
            parts = tables.plan(mode, total, self._first_from) if tables.parts(mode) else []
            for part in parts if len(parts) <= REFILL else ():
                tables.fill(part, total, self._read(part, total, _Count(None, 0)))

    def search(self, mode: Mode, find: Callable[[FtsTables], T], progress: Progress | None = None) -> T:
        """Runs `find` on an up-to-date index."""

        def work(tables: FtsTables) -> T:
            self._begin(tables, mode, progress)
            return find(tables)

        return self._file.run(work)

    def _begin(self, tables: FtsTables, mode: Mode, progress: Progress | None) -> None:
        """Begins a transaction on an up-to-date index. One transaction locks once, not for each statement."""
        conn = tables.conn
        conn.execute("BEGIN")
        done, id, followed, complete = tables.standing(mode)
        growth = self._engine.read(lambda tx: tx.maintenance.growth(done), single=True)
        if growth.id != id or growth.last != done or growth.last_forgotten != followed or not complete:
            while True:
                conn.execute("COMMIT")
                done = self._catch_up(tables, mode, growth, progress)
                conn.execute("BEGIN")
                now = tables.standing(mode)
                if now.complete and now.ord >= done:  # else another process emptied a part meanwhile
                    return

    def _catch_up(self, tables: FtsTables, mode: Mode, growth: Growth, progress: Progress | None) -> int:
        """Adds new nodes and removes deleted ones. Returns the number of the last indexed node."""
        images = self.images
        if images is not None and not tables.parts(mode):
            images.load(tables, mode)
        tables.conn.execute("BEGIN IMMEDIATE")
        with tables.conn:
            self._follow(tables, mode, growth)
        done = tables.standing(mode).ord
        total = self._engine.backend.settled_ord() if done < growth.last else done
        parts = tables.plan(mode, total, self._first_from)
        count = _Count(progress, sum(min(part.high, total) - part.done for part in parts))
        for part in parts:
            tables.fill(part, total, self._read(part, total, count))
        if images is not None:
            images.save(tables, mode)
        return tables.standing(mode).ord

    def _first_from(self, low: int) -> int:
        """The number of the first message from this number on, or the number itself if there is none."""
        found = self._engine.read(lambda tx: tx.by_ord(low - 1, None, newest=False, limit=1))
        return found[0][0] if found else low

    def _read(self, part: Part, total: int, count: _Count) -> Iterator[list[tuple[int, bytes, IndexRow | None]]]:
        """The messages of a part that are not indexed yet, in batches."""
        done, end = part.done, min(part.high, total)
        while found := self._engine.read(partial(_after, done=done, edge=end)):
            yield [(ord, place.row[ID], self._row(ord, place)) for ord, place in found]
            count.add(found[-1][0] - done)
            done = found[-1][0]

    def check(self) -> Iterator[Damage]:
        """Compares the index with the store; writes nothing. Nodes that are not indexed yet are not reported."""
        for problem in self._file.check(self._find_differences):
            yield Damage(*problem)

    def _find_differences(self, tables: FtsTables, mode: Mode) -> Iterator[str]:
        """The parts whose words differ from those of the messages in the store."""
        if not self._belongs(tables, mode):
            return
        for part in tables.indexed(mode):
            with closing(FtsTables.in_memory()) as expected:
                empty = part._replace(done=part.low - 1)
                expected.put(empty)
                expected.fill(empty, part.done, self._read(empty, part.done, _Count(None, 0)))
                stored = {ord for (ord,) in expected.conn.execute("SELECT ord FROM messages")}
                found = (one for one in tables.occurrences(part) if one[1] in stored)
                if any(one != other for one, other in zip_longest(found, expected.occurrences(part))):
                    yield f"messages {part.low} to {part.done} in commit order"

    def _belongs(self, tables: FtsTables, mode: Mode) -> bool:
        """True if the index belongs to the present store: after a restored backup, the nodes may differ.

        A mark is an indexed node. The newest mark whose node still exists decides: True if that node has the same id.
        Nodes of marks may be deleted; if all are, the index is not trusted.
        """
        marks = tables.marks(mode)
        for ord, id in marks:
            found = self._id_at(ord)
            if found is not None:
                return found == id
        return not marks

    def _id_at(self, ord: int) -> bytes | None:
        return self._engine.read(lambda tx: tx.maintenance.ord_id(ord))

    def _follow_now(self, tables: FtsTables) -> None:
        """Applies all deletions, for all modes. A message in quarantine counts as deleted."""
        growth = self._engine.read(lambda tx: tx.maintenance.growth(0), single=True)
        for mode in MODES:
            self._follow(tables, mode, growth)
        tables.follow(self._engine.read(quarantined), growth.last_forgotten)

    def _follow(self, tables: FtsTables, mode: Mode, growth: Growth) -> None:
        """Applies the deletions since the last search, inside a transaction of the index."""
        first, last = growth.first_forgotten, growth.last_forgotten
        done = tables.standing(mode).deletion
        if not self._belongs(tables, mode) or (done is not None and done < first - 1):
            tables.clear()
            if self.images is not None:
                self.images.remove()
            done = None
        deletions = [] if done is None else self._engine.read(partial(deletions_after, after=done))
        tables.follow(
            [(number, min(low, high), high) for number, low, high in deletions], last if done is None else done
        )
        if any(low > high for _, low, high in deletions):
            tables.drop_stale()  # a replaced body has new words

    def _row(self, ord: int, place: NodeLocation) -> IndexRow | None:
        """The index row of a node; None for a corrupted node."""
        node, row = self._engine.node(place), place.row
        try:
            words, about = searchable(node.message), node_facts(node)
        except Corrupted:
            return None
        return IndexRow(ord, row[POS], short_id(row[ID]), about.role, about.created_at, words)


class _Count:
    """Reports how many numbers have been read."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def add(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


def _after(tx: Tx, done: int, edge: int) -> list[tuple[int, NodeLocation]]:
    return tx.by_ord(done, edge + 1, newest=False, limit=BATCH)


def searchable(message: Message) -> str:
    """The text of a message for search: text, tool results, names and arguments of tool calls, and the label."""
    words = texts(message.blocks)
    for block in message.blocks:
        if isinstance(block, ToolCall):
            words.append(f"{block.name} {msgspec.json.encode(block.arguments).decode()}")
    if message.label:
        words.append(message.label)
    return "\n".join(words)


NEW_MESSAGES = 4096
"""A part that is not full gets a new image after so many messages: a new process indexes at most these."""
_BATCH = 500


class PartImages:
    """The images of one store. Not thread-safe."""

    def __init__(self, engine: Engine, file: str) -> None:
        self._engine = engine
        self._file = open_search_images(file, engine.store_id)
        self.close, self.remove = self._file.close, self._file.remove
        self._unusable: set[tuple[Mode, int]] = set()
        """The parts whose image does not open or has another layout, by mode and first number: `save` replaces it."""

    def load(self, tables: FtsTables, mode: Mode) -> None:
        """Puts the parts that have an image in the index, and the others as empty ones.

        The next step must be to apply the deletions since the images were made.
        """

        def work(stored: Images) -> None:
            if stored.deletion is None:
                return
            done = tables.standing(mode).deletion
            tables.follow((), stored.deletion if done is None else min(done, stored.deletion))
            for part in stored.parts(mode).values():
                image = stored.get(part)
                if not tables.load(part, self._opened(image)) and image.body:  # an empty one was too large
                    self._unusable.add((mode, part.low))

        self._file.read(work)

    def save(self, tables: FtsTables, mode: Mode) -> None:
        """Makes an image of each part without a usable one, or with one of many fewer messages. Delays no append."""
        known = self._file.read(lambda stored: stored.parts(mode)) or {}
        for part in tables.unchanged(mode):
            none = part._replace(done=part.low - 1)
            before = none if (mode, part.low) in self._unusable else known.get(part.low, none)
            if part.done - before.done >= NEW_MESSAGES or (part.done == part.high and part != before):
                self._file.write(partial(self._put, tables=tables, part=part))

    def _put(self, stored: Images, tables: FtsTables, part: Part) -> None:
        """Adds the image of a part, unless a key or a message is gone, or another process has more parts."""
        engine = self._engine
        engine.reload()
        last = engine.read(lambda tx: tx.maintenance.growth(0), single=True).last_forgotten
        if not engine.keyed or tables.standing(part.mode).deletion != last:
            return
        own = {one.low: one for one in tables.parts(part.mode)}
        others = stored.parts(part.mode)
        if others and max(others) > max(own):
            return
        if any(low not in own for low in others):  # the parts were divided at another place
            stored.clear(part.mode)
            others = {}
        for low, one in own.items():
            if low not in others:
                stored.drop(one)
        image = tables.image(part)
        box, wrapped = engine.seal.new_box(_owner(part))
        if wrapped is None:
            return
        body = box.close(image, _context(part))
        stored.put(Image(part, wrapped, body) if len(body) <= MAX_IMAGE else Image(part))
        self._unusable.discard((part.mode, part.low))
        if stored.deletion is None:
            stored.deletion = last

    def shred(self) -> bool:
        """Removes the images that have words of deleted messages; False if another process prevents it."""
        return self._file.shred(self._drop)

    def _drop(self, stored: Images) -> None:
        growth = self._engine.read(lambda tx: tx.maintenance.growth(0), single=True)
        first, done = growth.first_forgotten, stored.deletion
        if done is None:
            return
        gone = self._engine.read(partial(deletions_after, after=done)) + self._engine.read(quarantined)
        ranges = [(min(low, high), high) for _, low, high in gone]
        for mode in MODES if ranges else ():
            for part in stored.parts(mode).values():
                if done < first - 1 or has_any(self._opened(stored.get(part)), ranges):
                    stored.drop(part)
        stored.deletion = growth.last_forgotten

    def _opened(self, image: Image) -> bytes:
        """What an image has; nothing if it is damaged, or of another key."""
        with suppress(ClewError):
            box = self._engine.seal.box(image.wrapped_key, _owner(image.part))
            return box.open(image.body, _context(image.part)) or b""
        return b""


def _owner(part: Part) -> bytes:
    return f"search {part.mode} {part.low}".encode()


def _context(part: Part) -> bytes:
    return f"search {part.mode} {part.low} {part.high} {part.done}".encode()


def deletions_after(tx: Tx, after: int) -> list[tuple[int, int, int]]:
    """Deletions as ranges, in which a replaced body has low = high + 1."""
    return list(tx.maintenance.deletions_after(after, -1))


def quarantined(tx: Tx) -> list[tuple[int, int, int]]:
    """The messages in quarantine, as deletions."""
    found: list[tuple[int, int, int]] = []
    while rows := tx.maintenance.quarantined_after(found[-1][1] if found else -1, _BATCH):
        found += [(0, row.pos, row.pos) for row in rows]
    return found
