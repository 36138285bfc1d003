"""clew's own export: one JSON object a line, without loss.

| ``type`` | what it is |
|---|---|
| ``export`` | the first line: the version of the format, and when it was written |
| ``tree`` | a session and everything forked from it: its number in this file, and its first message |
| ``node`` | a message: its tree, id, parent, time, and the message or the provider's own JSON |
| ``blob`` | a piece of an attachment of a tree |
| ``ref`` | a session, a branch, a checkpoint …: where it points, its times, its data, the attachments it uses |
| ``log`` | an entry of the log of the ref before it |
| ``end`` | the last line, with counts: a file without it was cut off |

A parent comes before its children, an owner before what it owns, and everything of a tree before its refs.

Also: `refuse_export`, which every form of export calls, and `record_export`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from clew.backends import ID, MAX_SEQ, POS, SEQ_BITS, InsertPoint, RefRow, RunRow, Tx, creation_counter
from clew.base import codec, ids
from clew.base.messages import RECORD, AnyMessage, Message, Native, Opaque
from clew.engine import paths
from clew.engine.append import append_chain
from clew.engine.audit import record_event
from clew.engine.blobs import Blobs
from clew.engine.deletion import recall_purged
from clew.engine.engine import Draft
from clew.engine.log import Log, add_entries
from clew.engine.node import Node, is_clean_version, microseconds, node_payload, node_row
from clew.engine.session_data import MEMORY, SessionData, memory_key, unpack, unpack_memory
from clew.errors import Conflict, Corrupted, Invalid, NotFound
from clew.store.parts import Parts
from clew.store.session import Session, row_of
from clew.store.session_table import SESSION, SUBAGENT
from clew.store.store import Store

VERSION = 1
KINDS = frozenset({"session", "subagent", "branch", "snapshot", "checkpoint", "worktree", "rewind", "memory"})
"""Kinds of refs that an export has. The others say what was done to the store itself: audit, receipts, retention,
mirrors, imports, recovery marks."""
FIRST = b'{"type":"export"'
"""How a file of this format begins."""


class ExportLine(msgspec.Struct, frozen=True, tag="export", omit_defaults=True):
    """The first line."""

    version: int
    at: int


class TreeLine(msgspec.Struct, frozen=True, tag="tree", omit_defaults=True):
    """A tree, before everything that is in it."""

    tree: int
    root: str | None = None


class NodeLine(msgspec.Struct, frozen=True, tag="node", omit_defaults=True):
    """A message."""

    tree: int
    id: str
    at: int
    parent: str | None = None
    derived: str | None = None
    """For the root of a compaction: the last message that it replaces."""
    message: Message | None = None
    provider: str | None = None
    raw: str | dict[str, str] | None = None
    label: str | None = None
    extra: dict[str, Any] | None = None
    saved: bool = False
    """True for a message that was saved without a session, and for those before it."""
    damaged: str | None = None
    """Why the message cannot be read."""


class BlobLine(msgspec.Struct, frozen=True, tag="blob", omit_defaults=True):
    """A piece of an attachment."""

    tree: int
    data: str
    digest: str | None = None
    """With the last piece: the SHA-256 of the whole."""


class RefLine(msgspec.Struct, frozen=True, tag="ref", omit_defaults=True):
    """A ref, without what belongs to the store it comes from."""

    kind: str
    id: str
    version: int
    created_at: int
    active_at: int
    rank: int
    data: str | dict[str, str]
    tree: int | None = None
    head: str | None = None
    owner: tuple[str, str] | None = None
    trashed_at: int | None = None
    expires_at: int | None = None
    hold: int = 0
    blobs: tuple[str, ...] = ()


class LogLine(msgspec.Struct, frozen=True, tag="log"):
    """An entry of the log of the ref before it."""

    id: str
    at: int
    data: str | dict[str, str]


class EndLine(msgspec.Struct, frozen=True, tag="end"):
    """The last line."""

    nodes: int
    refs: int
    entries: int


Line = ExportLine | TreeLine | NodeLine | BlobLine | RefLine | LogLine | EndLine

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Line).decode


def pack_bytes(data: bytes) -> str | dict[str, str]:
    """Bytes as JSON: text where they are text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def unpack_bytes(value: str | dict[str, str]) -> bytes:
    """The bytes that `pack_bytes` was given. ValueError, KeyError."""
    return value.encode() if isinstance(value, str) else b64decode(value["base64"], validate=True)


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
            refuse_export(ids.text(row.key), unpack(self._refs.data(row)))
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
                line, provider=message.provider, raw=pack_bytes(message.raw), label=message.label, extra=message.extra
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
            row.kind, ids.text(row.key), row.version, row.created_at, row.active_at, row.rank, pack_bytes(data),
            tree=row.tree, head=None if head.id is None else ids.text(head.id),
            owner=None if owner is None else (owner.kind, ids.text(owner.key)),
            trashed_at=row.trashed_at, expires_at=row.expires_at, hold=row.hold,
            blobs=tuple(sorted(self._digests[blob] for blob in used if blob in self._digests)),
        )  # fmt: skip
        try:
            for entry in Log(self._engine, lambda: row).read():
                self._entries += 1
                yield LogLine(entry.id, microseconds(entry.created_at), pack_bytes(entry.data))
        except NotFound:
            return
        except Corrupted:
            self._damaged.append(f"the log of {row.kind} {ids.text(row.key)}")


def _refs_after(tx: Tx, after: int) -> list[RefRow]:
    return tx.refs_after(after, PAGE)


def _head(row: RefRow) -> _Head:
    return _Head(row.rank, row.ref, row.head, row.head_id)


IMPORT_BATCH = 1000
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
            raise Invalid(f"line {number} cannot be read ({type(error).__name__})", hint=_DAMAGED) from None
        if progress is not None and number % IMPORT_BATCH == 0:
            progress(done)
    reader.flush()
    return Restored(reader.messages, reader.sessions, reader.known, reader.ended, len(reader.left))


_DAMAGED = "The file is damaged. The lines before it were imported; export it again."


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
                if len(self._entries) >= IMPORT_BATCH or self._size >= BYTES:
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
        if len(self._items) >= IMPORT_BATCH or self._size >= BYTES:
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
            raise Invalid(f"the export names message {id}, but does not have it", hint=_DAMAGED)
        return point

    def _here(self, tree: int) -> int:
        try:
            return self._trees[tree]
        except KeyError:
            raise Invalid(f"the export names tree {tree}, but does not have it", hint=_DAMAGED) from None

    def _piece(self, line: BlobLine) -> None:
        self._blob.append(b64decode(line.data, validate=True))
        if line.digest is None:
            return
        pieces, self._blob = self._blob, []
        blob = Blobs(self._engine, lambda: self._here(line.tree)).put(iter(pieces))
        if blob.digest != line.digest:
            raise Invalid("an attachment is not what was exported", hint=_DAMAGED)

    # -- refs

    def _add_ref(self, line: RefLine) -> None:
        self._ref = None
        if line.kind not in KINDS:
            raise Invalid(f"the export has a {line.kind!r}, which is not part of one", hint=_DAMAGED)
        payload, key = unpack_bytes(line.data), ids.parse(line.id)
        look: bytes | None = None
        labels: Sequence[bytes] = ()
        if line.kind in (SESSION, SUBAGENT):
            payload, look, labels = self._table.pack(unpack(payload))
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
        rows = [(ids.parse(line.id), line.at, self._engine.redacted(unpack_bytes(line.data))) for line in entries]
        self._engine.write(lambda tx: add_entries(self._engine, tx, ref, rows))


def _message_of(line: NodeLine) -> AnyMessage:
    if line.provider is not None and line.raw is not None:
        return Native(line.provider, unpack_bytes(line.raw), line.label, line.extra)
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


def refuse_export(session_id: str, data: SessionData) -> None:
    """Conflict if the session's privacy settings forbid export. Without settings, export is allowed."""
    record = (data.extra or {}).get(RECORD)
    if isinstance(record, dict) and record.get("exportable") is False:
        raise Conflict(
            f"session {session_id} is not to be exported", hint="To allow it, call set_privacy(exportable=True)."
        )


def record_export(store: Store, session_id: str) -> None:
    """Records an export of a session in the audit log, if the store was opened with ``audit=True``."""
    parts = Parts.of(store)
    if parts.engine.audits:
        record_event(parts.engine, parts.refs, "export", session_id)
