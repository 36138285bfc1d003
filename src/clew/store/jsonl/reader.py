"""Reads clew's own export into a store: see `clew.store.jsonl.lines`."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from clew.backends import MAX_SEQ, POS, SEQ_BITS, InsertPoint, RefRow, Tx
from clew.base import codec, ids
from clew.base.messages import AnyMessage, Message, Native, Opaque
from clew.engine.append import append_chain
from clew.engine.blobs import Blobs
from clew.engine.deletion import recall_purged
from clew.engine.engine import Draft
from clew.engine.log import add_entries
from clew.engine.node import is_clean_version, node_payload, node_row
from clew.engine.session_data import MEMORY, memory_key, unpack_memory
from clew.engine.session_data import unpack as unpack_session
from clew.errors import Conflict, Invalid, NotFound
from clew.store.jsonl.lines import (
    KINDS,
    VERSION,
    BlobLine,
    EndLine,
    ExportLine,
    LogLine,
    NodeLine,
    RefLine,
    TreeLine,
    decode,
    unpack,
)
from clew.store.parts import Parts
from clew.store.session_table import SESSION, SUBAGENT
from clew.store.store import Store

BATCH = 1000
"""Messages, or log entries, stored in one transaction."""
BYTES = 4 << 20
"""Bytes of lines stored in one transaction."""


class Restored(NamedTuple):
    """What an export added to a store, and what was there already."""

    messages: int
    sessions: int
    known: int
    """Messages that were stored before."""
    complete: bool
    """False if the file was cut off: what it has was restored, and the rest is missing."""
    purged: int = 0
    """Messages that were purged here, and what follows them: they were left out."""


def restore(
    store: Store, lines: Iterable[bytes], *, again: bool = False, progress: Callable[[int], object] | None = None
) -> Restored:
    """Stores what `jsonl` wrote, under the same ids. Repeated, it adds only what is missing.

    Sessions that are here already stay as they are. What was purged here is left out, unless `again`. Invalid, with the
    number of the line, if a line cannot be read; Conflict if a message with the same id is another one. What was stored
    until then stays. `progress` is called with the bytes read.
    """
    reader = _Reader(store, again)
    done = 0
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            break
        done += len(line)
        try:
            reader.take(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, ValueError) as error:
            raise Invalid(f"line {number} cannot be read ({type(error).__name__})", hint=_HINT) from None
        if progress is not None and number % BATCH == 0:
            progress(done)
    reader.flush()
    return Restored(reader.messages, reader.sessions, reader.known, reader.ended, len(reader.left))


_HINT = "The file is damaged. The lines before it were imported; export it again."


class _Item(NamedTuple):
    line: NodeLine
    draft: Draft


class _Reader:
    def __init__(self, store: Store, again: bool) -> None:
        parts = Parts.of(store)
        self._again = again
        self._engine = parts.engine
        self._refs = parts.refs
        self._table = parts.table
        self._trees: dict[int, int] = {}
        """Numbers of trees in the file, and here."""
        self._items: list[_Item] = []
        self._size = 0
        self._blob: list[bytes] = []
        self._ref: RefRow | None = None
        """The ref whose log follows, if it was added."""
        self._entries: list[LogLine] = []
        self.left: set[str] = set()
        """Messages that are left out, because they or messages above them were purged."""
        self.messages = self.sessions = self.known = 0
        self.ended = False

    def take(self, data: bytes) -> None:
        """One line. Invalid, Conflict."""
        line = decode(data)
        if not isinstance(line, NodeLine):
            self._flush_nodes()
        if not isinstance(line, LogLine):
            self._flush_log()
        match line:
            case ExportLine():
                if line.version > VERSION:
                    raise Invalid(f"the export has version {line.version}", hint="Use a newer version of clew.")
            case TreeLine():
                self._tree(line)
            case NodeLine():
                self._node(line, len(data))
            case BlobLine():
                self._piece(line)
            case RefLine():
                self._add_ref(line)
            case LogLine():
                self._entries.append(line)
                self._size += len(data)
                if len(self._entries) >= BATCH or self._size >= BYTES:
                    self._flush_log()
            case EndLine():
                self.ended = True

    def flush(self) -> None:
        """Stores what is waiting."""
        self._flush_nodes()
        self._flush_log()

    # -- messages

    def _tree(self, line: TreeLine) -> None:
        engine = self._engine

        def work(tx: Tx) -> int:
            place = None if line.root is None else tx.node(ids.parse(line.root))
            return tx.add_tree(engine.workspace, engine.clock()) if place is None else place.tree

        self._trees[line.tree] = engine.write(work)

    def _node(self, line: NodeLine, size: int) -> None:
        self._items.append(_Item(line, self._engine.draft(_message_of(line), line.id, line.at)))
        self._size += size
        if len(self._items) >= BATCH or self._size >= BYTES:
            self._flush_nodes()

    def _flush_nodes(self) -> None:
        items, self._items = self._items, []
        if items:
            self._size = 0
            before = len(self.left)
            new = self._engine.write(lambda tx: self._store(tx, items))
            self.messages += new
            self.known += len(items) - new - (len(self.left) - before)

    def _store(self, tx: Tx, items: list[_Item]) -> int:
        new = 0
        unknown = [item for item in items if not self._is_stored(tx, item)]
        gone = self._recall(tx, [item.draft.id for item in unknown])
        for item in unknown:
            if item.draft.id in gone or not self.left.isdisjoint((item.line.parent, item.line.derived)):
                self.left.add(item.line.id)
        for chain in _chains([item for item in unknown if item.line.id not in self.left]):
            self._store_chain(tx, chain)
            new += len(chain)
        return new

    def _recall(self, tx: Tx, names: list[bytes]) -> set[bytes]:
        return set() if self._again else recall_purged(self._engine, tx, names)

    def _is_stored(self, tx: Tx, item: _Item) -> bool:
        place = tx.node(item.draft.id)
        if place is None:
            return False
        parent = None if place.parent is None else ids.text(place.parent)
        node, payload = self._engine.node(place), item.draft.encoded.payload
        same = node_payload(node) == payload or is_clean_version(node, codec.decode(payload, "a message"))
        if parent != item.line.parent or not same:
            raise Conflict(f"message {item.line.id} is stored here with other content", hint="Use another store.")
        return True

    def _store_chain(self, tx: Tx, chain: list[_Item]) -> None:
        """Stores messages that follow each other. Saved ones begin a run of their own, as `Nodes.save` has it."""
        first = chain[0].line
        point, derived = InsertPoint(self._here(first.tree)), None
        if first.parent is not None:
            point = self._point(tx, first.parent)
            above = tx.run((point.pos or 0) >> SEQ_BITS)
            if first.saved and (above is None or above.tip != (point.pos or 0) & MAX_SEQ):
                point = point._replace(open=0)
        elif first.derived is not None:
            before = self._point(tx, first.derived)
            assert before.pos is not None
            carried = (before.carried or 0) + (before.run_depth or 0) + (before.pos & MAX_SEQ) + 1
            point, derived = before._replace(pos=None, id=None, run_depth=0, carried=carried, open=0), before.pos
        nodes = append_chain(self._engine, tx, point, [item.draft for item in chain], derived=derived)
        if first.saved:
            pos = node_row(nodes[-1])[POS]
            run = tx.run(pos >> SEQ_BITS)
            assert run is not None
            tx.set_run(self._engine.change_run(tx, run, tip=max(run.tip, pos & MAX_SEQ)))

    def _point(self, tx: Tx, id: str) -> InsertPoint:
        point = tx.insert_point(ids.parse(id))
        if point is None:
            raise Invalid(f"the export names message {id}, but does not have it", hint=_HINT)
        return point

    def _here(self, tree: int) -> int:
        try:
            return self._trees[tree]
        except KeyError:
            raise Invalid(f"the export names tree {tree}, but does not have it", hint=_HINT) from None

    def _piece(self, line: BlobLine) -> None:
        self._blob.append(b64decode(line.data, validate=True))
        if line.digest is None:
            return
        pieces, self._blob = self._blob, []
        blob = Blobs(self._engine, lambda: self._here(line.tree)).put(iter(pieces))
        if blob.digest != line.digest:
            raise Invalid("an attachment is not what was exported", hint=_HINT)

    # -- refs

    def _add_ref(self, line: RefLine) -> None:
        self._ref = None
        if line.kind not in KINDS:
            raise Invalid(f"the export has a {line.kind!r}, which is not part of one", hint=_HINT)
        payload, key = unpack(line.data), ids.parse(line.id)
        look: bytes | None = None
        labels: Sequence[bytes] = ()
        if line.kind in (SESSION, SUBAGENT):
            payload, look, labels = self._table.pack(unpack_session(payload))
        elif line.kind == MEMORY:
            key = memory_key(self._engine.lookup_hash, unpack_memory(payload).project)
        with suppress(NotFound):  # its owner is not here: it was deleted since
            self._ref = self._engine.write(lambda tx: self._write_ref(tx, line, key, payload, look, labels))
            self.sessions += self._ref is not None and line.kind == SESSION

    def _write_ref(
        self, tx: Tx, line: RefLine, key: bytes, payload: bytes, look: bytes | None, labels: Iterable[bytes]
    ) -> RefRow | None:
        """The ref that was added; None if it is here already, or was purged."""
        workspace = self._engine.workspace
        if tx.ref(workspace, line.kind, key) is not None or line.head in self.left or self._recall(tx, [key]):
            return None
        if line.kind in (SESSION, SUBAGENT):
            self._table.ensure_vacant(tx, key)
        owner = None
        if line.owner is not None:
            found = tx.ref(workspace, line.owner[0], ids.parse(line.owner[1]))
            if found is None:
                raise NotFound(line.owner[0], line.owner[1])
            owner = found.ref
        point = None if line.head is None else self._point(tx, line.head)
        tree = point.tree if point is not None else None if line.tree is None else self._here(line.tree)
        row = RefRow(
            0, workspace, line.kind, key, owner, tree,
            None if point is None else point.pos, None if point is None else point.id, line.version,
            line.created_at, line.active_at, line.rank, line.trashed_at, line.expires_at, line.hold,
            look, None, b"", b"",
        )  # fmt: skip
        added = self._refs.add_row(tx, row, payload)
        tx.set_labels(added.ref, labels)
        if line.blobs and tree is not None:
            rows = [tx.blobs.blob(tree, self._engine.blob_hash(tree, digest)) for digest in line.blobs]
            tx.blobs.add_uses(-added.ref, [row.blob for row in rows if row is not None])
        return added

    def _flush_log(self) -> None:
        entries, self._entries = self._entries, []
        ref = self._ref
        if not entries or ref is None:
            return
        self._size = 0
        rows = [(ids.parse(line.id), line.at, self._engine.redacted(unpack(line.data))) for line in entries]
        self._engine.write(lambda tx: add_entries(self._engine, tx, ref, rows))


def _message_of(line: NodeLine) -> AnyMessage:
    if line.provider is not None and line.raw is not None:
        return Native(line.provider, unpack(line.raw), line.label, line.extra)
    if line.message is not None:
        return line.message
    return Message("system", (Opaque(kind="damaged", data={"why": line.damaged}),))


def _chains(items: list[_Item]) -> Iterator[list[_Item]]:
    """Messages that follow each other, and were all saved without a session, or all with one."""
    chain: list[_Item] = []
    for item in items:
        if chain and (item.line.parent != chain[-1].line.id or item.line.saved != chain[-1].line.saved):
            yield chain
            chain = []
        chain.append(item)
    if chain:
        yield chain
