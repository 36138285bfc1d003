"""Reads every body and finds those that do not open.

A body that does not open is read again through a new connection, and counts as damaged only if it fails there too.
Errors while reading are raised; they never count as damage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from clew.backends import BODY, MAX_SEQ, POS, SEQ_BITS, RefRow, Tx
from clew.base import ids
from clew.engine.engine import Engine
from clew.engine.node import Node, body_context, run_info
from clew.engine.sealing.envelope import (
    MISTYPED,
    NO_BOX,
    Box,
    blob_owner,
    chunk_context,
    log_context,
    ref_context,
    ref_owner,
)

BATCH = 200
_FEW = 8  # pieces of blobs are large
_CHECKSUM = "its checksum does not match"
_NO_KEY = "its data key is damaged"
_ODD = "a column of its row has a value of the wrong kind"

Progress = Callable[[int, int], None]
"""Called with the number of bodies read, and the total."""


class Body(NamedTuple):
    """A body that was read."""

    at: int
    """Its number in its table."""
    where: str
    """What it belongs to."""
    why: str | None
    """What is wrong with it; None if it opens."""
    node: Node | None = None
    """Its message, if it has one whose other columns are intact."""


_Walk = Callable[..., list[Body]]


def find_damaged(engine: Engine, progress: Progress | None = None) -> tuple[int, list[Body]]:
    """The number of bodies, and those that did not open twice."""
    sizes = engine.read(lambda tx: tx.maintenance.sizes())
    total = sum(sizes[table] for table in ("nodes", "refs", "log", "chunks"))
    done, found = 0, list[Body]()
    for walk, limit in _WALKS:
        after = -1
        # Not `read`: damage may have turned a body into invalid text.
        while page := engine.backend.read_fresh(partial(walk, engine=engine, after=after, limit=limit)):
            found += [again for one in page if one.why is not None for again in _read_again(engine, walk, one)]
            after, done = page[-1].at, done + len(page)
            if progress is not None:
                progress(min(done, total), total)
    return done, found


def still_damaged(tx: Tx, engine: Engine, one: Body) -> Node | None:
    """The message of a damaged body, if it still does not open and its row is intact."""
    return next((now.node for now in nodes(tx, engine=engine, after=one.at - 1, limit=1) if now.at == one.at), None)


def _read_again(engine: Engine, walk: _Walk, one: Body) -> Sequence[Body]:
    """Reads a body a second time; empty if it opens."""
    look = partial(walk, engine=engine, after=one.at - 1, limit=1)
    return [now for now in engine.backend.read_fresh(look) if now.at == one.at and now.why is not None]


# -- each function reads the bodies of one table after a number, in order


def nodes(tx: Tx, *, engine: Engine, after: int, limit: int) -> list[Body]:
    """Messages. A message in quarantine is not damaged."""
    found = []
    for place in tx.maintenance.places_after(after, limit):
        at, node = place.row[POS], None
        name = f"message {at & MAX_SEQ} of run {at >> SEQ_BITS}"
        try:
            node = engine.node(place)
            name = f"node {node.id}"
            why = _wrong(run_info(node).box, place.row[BODY], body_context(node))
        except (*MISTYPED, AttributeError, ValueError):
            node, why = None, _ODD
        if why is not None and tx.maintenance.quarantine_row(at) is not None:
            node, why = None, None if place.row[BODY] == b"" else "it is in quarantine, and has a body"
        elif why == _NO_KEY:  # the run is damaged, not the body
            node, name = None, f"run {at >> SEQ_BITS}"
        found.append(Body(at, name, why, node if why is not None else None))
    return found


def _refs(tx: Tx, *, engine: Engine, after: int, limit: int) -> list[Body]:
    found = []
    for row in tx.refs_after(after, limit):
        why: str | None = _ODD
        with suppress(*MISTYPED, AttributeError):
            why = _wrong(engine.seal.box(row.wrapped_key, ref_owner(row.key)), row.data, ref_context(row))
        found.append(Body(row.ref, f"the data of {_name(row)}", why))
    return found


def _log(tx: Tx, *, engine: Engine, after: int, limit: int) -> list[Body]:
    found = []
    for row in tx.maintenance.log_after(after, limit):
        ref = tx.ref_at(row.pos >> SEQ_BITS)
        why: str | None = "there is no such ref" if ref is None else _ODD
        if ref is not None:
            with suppress(*MISTYPED):
                box = engine.seal.box(ref.wrapped_key, ref_owner(ref.key))
                why = _wrong(box, row.body, log_context(row.pos, row.created_at, row.id))
        name = f"ref {row.pos >> SEQ_BITS}" if ref is None else _name(ref)
        found.append(Body(row.pos, f"log entry {row.pos & MAX_SEQ} of {name}", why))
    return found


def _chunks(tx: Tx, *, engine: Engine, after: int, limit: int) -> list[Body]:
    found = []
    for pos, body in tx.maintenance.chunks_after(after, limit):
        blob = tx.blobs.blob_by_number(pos >> SEQ_BITS)
        why: str | None = "there is no such blob" if blob is None else _ODD
        if blob is not None:
            with suppress(*MISTYPED):
                box = engine.seal.box(blob.wrapped_key, blob_owner(blob.tree, blob.blob))
                why = _wrong(box, body, chunk_context(pos))
        found.append(Body(pos, f"piece {pos & MAX_SEQ} of blob {pos >> SEQ_BITS}", why))
    return found


_WALKS: tuple[tuple[_Walk, int], ...] = ((nodes, BATCH), (_refs, BATCH), (_log, BATCH), (_chunks, _FEW))


def _wrong(box: Box, body: bytes, context: bytes) -> str | None:
    """Why a body does not open; None if it does."""
    if box is NO_BOX:
        return _NO_KEY
    try:
        return None if box.open(body, context) is not None else _CHECKSUM
    except MISTYPED:
        return _CHECKSUM


def _name(row: RefRow) -> str:
    known = isinstance(row.key, bytes) and len(row.key) == 16
    return f"{row.kind} {ids.text(row.key)}" if known else f"ref {row.ref}"
