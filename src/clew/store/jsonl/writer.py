"""Writes clew's own export: see `clew.store.jsonl.lines`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from clew.backends import ID, MAX_SEQ, POS, SEQ_BITS, RefRow, RunRow, Tx, creation_counter
from clew.base import ids
from clew.base.messages import Native
from clew.engine import paths
from clew.engine.blobs import Blobs
from clew.engine.log import Log
from clew.engine.node import Node, microseconds, node_row
from clew.engine.session_data import unpack
from clew.errors import Conflict, Corrupted, NotFound
from clew.store.export_guard import refuse
from clew.store.jsonl.lines import (
    KINDS,
    VERSION,
    BlobLine,
    EndLine,
    ExportLine,
    Line,
    LogLine,
    NodeLine,
    RefLine,
    TreeLine,
    encode,
    pack,
)
from clew.store.parts import Parts
from clew.store.session import Session, row_of
from clew.store.session_table import SESSION, SUBAGENT
from clew.store.store import Store

Progress = Callable[[int, int], object]
"""Called with the messages written, and how many there are about to be."""
PAGE = 500
PIECE = 3 << 16
"""Bytes of an attachment in a line: a multiple of three, so that Base64 needs no padding inside."""


class _Head(NamedTuple):
    """A ref to be written: its number, and where it pointed when the export began."""

    rank: int
    ref: int
    pos: int | None
    id: bytes | None


def jsonl(
    store: Store,
    sessions: Sequence[Session] | None = None,
    *,
    damaged: list[str] | None = None,
    refused: list[str] | None = None,
    progress: Progress | None = None,
) -> Iterator[bytes]:
    """The lines of an export of these sessions, or of the whole store. The memory used does not grow with them.

    Others can write meanwhile; the export has what was there when it began, without what is deleted before it is
    written. Messages that cannot be read are marked, and their ids are added to `damaged`. Sessions of a whole store
    that are marked as not to be exported are left out, with what they alone use, and are added to `refused`.
    """
    refused = refused if refused is not None else []
    writer = _Writer(store, damaged if damaged is not None else [], progress)
    heads = writer.all_heads(refused) if sessions is None else writer.heads_of(map(row_of, sessions))
    runs = None if sessions is None and not refused else writer.runs_of(heads, saved=sessions is None)
    return (encode(line) + b"\n" for line in writer.lines(heads, runs))


class _Writer:
    def __init__(self, store: Store, damaged: list[str], progress: Progress | None) -> None:
        parts = Parts.of(store)
        self._engine = parts.engine
        self._refs = parts.refs
        self._damaged = damaged
        self._progress = progress
        self._nodes = self._entries = self._written = 0
        self._trees: set[int] = set()
        """Trees whose blobs are written."""
        self._digests: dict[int, str] = {}
        self._gone: set[int] = set()
        """Numbers of refs that were deleted since the export began."""

    # -- what to write

    def all_heads(self, refused: list[str]) -> list[_Head]:
        """Every ref of the workspace that an export has, without sessions that must not leave and what they own."""
        rows: list[_Head] = []
        barred: list[RefRow] = []
        after = -1
        while page := self._engine.read(partial(_refs_after, after=after)):
            after = page[-1].ref
            for row in page:
                if row.workspace == self._engine.workspace and row.kind in KINDS:
                    rows.append(_head(row))
                    if row.kind in (SESSION, SUBAGENT) and not self._may_leave(row, refused):
                        barred.append(row)
        without = {head.ref for head in self.heads_of(barred)}
        return [head for head in rows if head.ref not in without]

    def _may_leave(self, row: RefRow, refused: list[str]) -> bool:
        try:
            refuse(ids.text(row.key), unpack(self._refs.data(row)))
        except Conflict as error:
            refused.append(f"{ids.text(row.key)}: {error.message}")
            return False
        except Corrupted:  # reported when it is to be written
            return True
        return True

    def heads_of(self, rows: Iterable[RefRow]) -> list[_Head]:
        """Sessions with all that they own: branches, checkpoints, traces of subagents."""
        found: dict[int, _Head] = {}
        waiting = list(rows)
        while waiting:
            row = waiting.pop()
            if row.ref not in found and row.kind in KINDS:
                found[row.ref] = _head(row)
                waiting += self._engine.read(partial(lambda tx, ref: tx.refs_owned(ref), ref=row.ref))
        return list(found.values())

    def runs_of(self, heads: Iterable[_Head], *, saved: bool) -> dict[int, int]:
        """The runs on the paths to these heads, with the highest seq that is needed of each.

        With `saved` also those of messages that were saved without a session.
        """
        upto: dict[int, int] = {}

        def work(tx: Tx, pos: int) -> None:
            for origin in paths.origins(self._engine, tx, pos):
                for run, seq in paths.lineage(tx, origin):
                    upto[run.run] = max(seq, upto.get(run.run, -1))

        ends = [head.pos for head in heads if head.pos is not None]
        if saved:
            ends += [run.run << SEQ_BITS | run.tip for run, _ in self._all_runs() if run.tip >= 0]
        for pos in ends:
            self._engine.read(partial(work, pos=pos))
        return upto

    # -- lines

    def lines(self, heads: list[_Head], runs: dict[int, int] | None) -> Iterator[Line]:
        """All lines, first to last."""
        yield ExportLine(VERSION, self._engine.clock())
        total = self._engine.read(lambda tx: tx.maintenance.sizes())["nodes"] if runs is None else (
            sum(upto + 1 for upto in runs.values())
        )  # fmt: skip
        for run, upto in self._all_runs() if runs is None else self._some_runs(runs):
            for line in self._run(run, upto):
                yield line
                if isinstance(line, NodeLine):
                    self._nodes += 1
            if self._progress is not None:
                self._progress(self._nodes, total)
        written: set[int] = set()
        by_number = {head.ref: head for head in heads}
        for head in sorted(heads):
            for one in self._owners_first(head, by_number, written):
                yield from self._ref(one)
        yield EndLine(self._nodes, self._written, self._entries)

    def _all_runs(self) -> Iterator[tuple[RunRow, int]]:
        """Every run of the workspace; a run comes after the one that it grows from, which has a lower number."""
        after = -1
        while rows := self._engine.read(partial(lambda tx, after: tx.maintenance.runs_after(after, PAGE), after=after)):
            after = rows[-1][0].run
            for run, _ in rows:
                if self._engine.read(partial(lambda tx, tree: tx.tree_workspace(tree), tree=run.tree)) == (
                    self._engine.workspace
                ):
                    yield run, self._engine.read(partial(lambda tx, run: tx.last_seq(run), run=run.run))

    def _some_runs(self, runs: dict[int, int]) -> Iterator[tuple[RunRow, int]]:
        for number in sorted(runs, key=creation_counter):
            run = self._engine.read(partial(lambda tx, number: tx.run(number), number=number))
            if run is not None:
                yield run, runs[number]

    def _run(self, run: RunRow, upto: int) -> Iterator[Line]:
        """The nodes of a run, and before the first of a tree its attachments."""
        first = self._engine.read(lambda tx: tx.node_at(run.run << SEQ_BITS))
        if first is None:  # deleted since
            return
        if run.tree not in self._trees:
            self._trees.add(run.tree)
            yield TreeLine(run.tree, ids.text(first.row[ID]))
            yield from self._blobs(run.tree)
        low, limit = 0, PAGE
        derived = run.derived
        while low <= upto:

            def work(tx: Tx, low: int = low, limit: int = limit) -> tuple[list[Node], int, bytes | None]:
                now, last = tx.run(run.run), min(upto, tx.last_seq(run.run))
                if now is None or low > last:  # deleted since
                    return [], limit, None
                at = None if derived is None or low else tx.node_at(derived)
                nodes, fitting = paths.piece(self._engine, tx, self._engine.verify_run(tx, now), low, last, limit)
                return nodes, fitting, None if at is None else at.row[ID]

            nodes, limit, replaced = self._engine.read(work)
            if not nodes:
                return
            for node in nodes:
                yield self._node(run, node, None if replaced is None else ids.text(replaced))
                replaced = None
            low += len(nodes)

    def _node(self, run: RunRow, node: Node, derived: str | None) -> NodeLine:
        saved = node_row(node)[POS] & MAX_SEQ <= run.tip
        line = NodeLine(run.tree, node.id, microseconds(node.created_at), node.parent_id, derived, saved=saved)
        try:
            message = node.said
        except Corrupted as error:
            self._damaged.append(node.id)
            return msgspec.structs.replace(line, damaged=error.why)
        if isinstance(message, Native):
            return msgspec.structs.replace(
                line, provider=message.provider, raw=pack(message.raw), label=message.label, extra=message.extra
            )
        return msgspec.structs.replace(line, message=message)

    def _blobs(self, tree: int) -> Iterator[BlobLine]:
        from hashlib import sha256

        blobs = Blobs(self._engine, lambda: tree)
        for row in self._engine.read(lambda tx: tx.blobs.blobs_between(tree, b"", b"\xff" * 32)):
            if not row.mac:
                continue  # its upload is not complete
            digest, waiting = sha256(), b""
            try:
                for piece in blobs.open_row(row):
                    digest.update(piece)
                    waiting += piece
                    while len(waiting) > PIECE:
                        part, waiting = waiting[:PIECE], waiting[PIECE:]
                        yield BlobLine(tree, b64encode(part).decode())
            except NotFound:  # deleted since: without its last piece it is not restored
                continue
            except Corrupted:
                self._damaged.append(f"an attachment of {row.size:,} bytes")
                continue
            self._digests[row.blob] = digest.hexdigest()
            yield BlobLine(tree, b64encode(waiting).decode(), digest.hexdigest())

    def _owners_first(self, head: _Head, heads: dict[int, _Head], written: set[int]) -> Iterator[_Head]:
        way: list[_Head] = []
        at: _Head | None = head
        while at is not None and at.ref not in written:
            written.add(at.ref)
            way.append(at)
            row = self._engine.read(partial(lambda tx, ref: tx.ref_at(ref), ref=at.ref))
            at = None if row is None or row.owner is None else heads.get(row.owner)
        return reversed(way)

    def _ref(self, head: _Head) -> Iterator[Line]:
        """A ref and its log. One that was deleted since, or whose owner was, is left out."""

        def work(tx: Tx) -> tuple[RefRow | None, RefRow | None, list[int]]:
            row = tx.ref_at(head.ref)
            owner = None if row is None or row.owner is None else tx.ref_at(row.owner)
            return row, owner, tx.blobs.blobs_used(-head.ref, -head.ref)

        row, owner, used = self._engine.read(work)
        if row is None or (row.owner is not None and (owner is None or owner.ref in self._gone)):
            self._gone.add(head.ref)
            return
        try:
            data = self._refs.data(row)
        except Corrupted:
            self._gone.add(head.ref)
            self._damaged.append(f"{row.kind} {ids.text(row.key)}")
            return
        if row.tree is not None and row.tree not in self._trees:
            self._trees.add(row.tree)
            yield TreeLine(row.tree)
            yield from self._blobs(row.tree)
        self._written += 1
        yield RefLine(
            row.kind, ids.text(row.key), row.version, row.created_at, row.active_at, row.rank, pack(data),
            tree=row.tree, head=None if head.id is None else ids.text(head.id),
            owner=None if owner is None else (owner.kind, ids.text(owner.key)),
            trashed_at=row.trashed_at, expires_at=row.expires_at, hold=row.hold,
            blobs=tuple(sorted(self._digests[blob] for blob in used if blob in self._digests)),
        )  # fmt: skip
        try:
            for entry in Log(self._engine, lambda: row).read():
                self._entries += 1
                yield LogLine(entry.id, microseconds(entry.created_at), pack(entry.data))
        except NotFound:
            return
        except Corrupted:
            self._damaged.append(f"the log of {row.kind} {ids.text(row.key)}")


def _refs_after(tx: Tx, after: int) -> list[RefRow]:
    return tx.refs_after(after, PAGE)


def _head(row: RefRow) -> _Head:
    return _Head(row.rank, row.ref, row.head, row.head_id)
