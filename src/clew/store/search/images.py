"""Saves the parts of a sealed store's search index as encrypted images, so that a new process need not index them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from clew.backends import Tx
from clew.backends.fts_images import MAX_IMAGE, Image, Images
from clew.backends.fts_tables import MODES, FtsTables, Mode, Part, has_any
from clew.backends.open import open_search_images
from clew.engine.engine import Engine
from clew.errors import ClewError

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
