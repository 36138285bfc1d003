"""Checks of the rows of a store: trees, runs and nodes, refs and logs, attachments."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from clew.backends import (
    BODY,
    FACTS,
    ID,
    MAX_SEQ,
    POS,
    SEQ_BITS,
    BlobRow,
    LogRow,
    QuarantineRow,
    RefRow,
    RunRow,
    creation_counter,
)
from clew.backends.problems import BROKEN, describe
from clew.backends.rows import BLOBS, FORGOTTEN, LOG, NODES, NULL, QUARANTINE, REFS, RUNS, TREES
from clew.base import codec, ids
from clew.base.messages import ROLES, AnyMessage, Message
from clew.engine import refs
from clew.engine.blob_objects import ObjectLost, open_pieces
from clew.engine.blobs import STAGED
from clew.engine.node import body_context, run_info
from clew.engine.sealing.envelope import (
    MISTYPED,
    NO_ID,
    Box,
    blob_fields,
    blob_owner,
    chunk_context,
    facts,
    log_context,
    node_place,
    quarantine_context,
    quarantine_parts,
    ref_context,
    ref_fields,
    ref_owner,
    run_fields,
    totals,
)
from clew.engine.session_data import SessionData
from clew.errors import ClewError, Unavailable
from clew.providers.neutral import neutral
from clew.upkeep.verify.findings import CHUNKS, Findings, place

CHECKSUM = "its checksum does not match"
NO_END = "no session ends there: a session was removed, or restored to an earlier state"
_Row = tuple[int, bytes, bytes, bytes, int]
"""A node as the scan reads it: a `NodeRow`, and its number in order of commit."""
_ORD: Final = 4
# Raised by code that reads damaged values. An error of clew means damage too.
ODD = (*BROKEN, struct.error, ValueError, TypeError, LookupError, AttributeError, msgspec.MsgspecError, ClewError)


def check_trees(found: Findings) -> None:
    """A tree has a run or a ref: it is deleted with the last of them."""
    used = "SELECT EXISTS (SELECT 1 FROM runs WHERE tree = ?) OR EXISTS (SELECT 1 FROM refs WHERE tree = ?)"
    for tree, row in found.scan(TREES):
        if row is not None and not found.one(used, tree, tree)[0]:
            found.add("tree", f"tree {tree}", "it is empty: its messages were removed without a deletion")


def check_runs(found: Findings) -> None:
    """A run is signed, starts at an existing node, and something needs its last node."""
    heads = _Heads(found.stream)
    for number, row in found.scan(RUNS):
        if row is None:
            continue
        run = RunRow._make(row)
        try:
            problems = list(_run_problems(found, run))
            last = found.tx.last_seq(number)
            if last < 0:
                problems.append("its messages are missing")
            elif not _end_is_needed(found, run, last, heads):
                at = number << SEQ_BITS | last
                found.add("run", place(at), NO_END, pos=at)
        except ODD as error:
            problems = [f"it cannot be checked ({type(error).__name__})"]
        for problem in problems:
            found.add("run", f"run {number}", problem, pos=number << SEQ_BITS)


def check_nodes(found: Findings) -> None:
    """A node's body opens with its row as context, and the node continues its parent without a gap."""
    run: RunRow | None = None
    number, expected = -1, 0
    above: _Parent | None = None
    for pos, row in found.scan(NODES):
        if pos >> SEQ_BITS != number:
            if row is None:
                continue  # already reported; its position may be damaged too
            number, expected = pos >> SEQ_BITS, 0
            try:
                run = found.tx.run(number)
                above = None if run is None else _parent_of(found, run)
            except ODD:
                run = above = None
            if run is None:
                found.add("run", f"run {number}", "it is missing, but its messages exist", pos=pos)
        if run is not None and pos & MAX_SEQ > expected:
            missing = (pos & MAX_SEQ) - expected
            at = number << SEQ_BITS | expected
            gone = "it is missing" if missing == 1 else f"{missing} are missing from it on"
            found.add("node", place(at), gone, pos=at)
            above = None
        expected = (pos & MAX_SEQ) + 1
        above = None if row is None or run is None else _check_node(found, run, row, above)


def check_quarantine(found: Findings) -> None:
    """A row in quarantine belongs to a message without a body, whose row has not changed since."""
    for pos, row in found.scan(QUARANTINE):
        if row is None:
            continue
        try:
            problem = _quarantine_problem(found, QuarantineRow._make(row))
        except ODD as error:
            problem = f"it cannot be checked ({type(error).__name__})"
        if problem is not None:
            found.add("quarantine", place(pos), problem, pos=pos)
    found.counts["quarantined"] = found.counts.pop("quarantine")


def check_forgotten(found: Findings) -> None:
    """Positions of deleted nodes are not used again. An empty range comes from a redaction, not a deletion."""
    for number, row in found.scan(FORGOTTEN):
        if row is None:
            continue
        _, low, high = row
        if low > high + 1 or low >> SEQ_BITS != high >> SEQ_BITS:
            found.add("forgotten", f"deletion {number}", "its range is empty, or in more than one run")
        elif found.one("SELECT 1 FROM nodes WHERE pos BETWEEN ? AND ?", low, high) is not None:
            found.add("forgotten", f"deletion {number}", "the messages it lists as deleted exist")


# -- runs


def _run_problems(found: Findings, run: RunRow) -> Iterator[str]:
    tip = found.one("SELECT id FROM nodes WHERE pos = ?", run.run << SEQ_BITS | run.tip) if run.tip >= 0 else None
    if run.tip >= 0 and tip is None:
        yield f"its message {run.tip} is missing"
    if not found.engine.seal.is_signed(run_fields(run, tip[0] if tip else None), run.wrapped_key, run.mac):
        yield CHECKSUM
    if found.one("SELECT 1 FROM trees WHERE tree = ?", run.tree) is None:
        yield f"its tree {run.tree} is missing"
    for name, at in (("parent", run.parent), ("origin", run.derived)):
        if at is None:
            continue
        above = found.tx.run(at >> SEQ_BITS)
        if above is None or found.one("SELECT 1 FROM nodes WHERE pos = ?", at) is None:
            yield f"its {name}, {place(at)}, is missing"
            continue
        depth = above.depth + (at & MAX_SEQ) + 1
        if name == "parent":
            fits = (run.depth, run.carried) == (depth, above.carried)
        else:  # the last messages that it replaced may have been deleted since
            fits = run.depth == 0 and run.carried >= above.carried + depth
        if creation_counter(above.run) >= creation_counter(run.run) or above.tree != run.tree or not fits:
            yield f"it does not match its {name}, {place(at)}"
    if run.parent is None and run.depth:
        yield "it is a root, but its depth is not 0"


def _end_is_needed(found: Findings, run: RunRow, last: int, heads: _Heads) -> bool:
    """True if something needs a run's last node: a ref, a save without a ref, or a run that starts there."""
    at = run.run << SEQ_BITS | last
    return (
        heads.has(at)
        or run.tip >= last
        or found.one("SELECT 1 FROM runs WHERE parent = ?", at) is not None
        or found.one("SELECT 1 FROM runs WHERE derived = ?", at) is not None
    )


class _Heads:
    """The heads of refs, for queries in ascending order: one pass, without keeping them in memory."""

    def __init__(self, stream: Callable[..., Iterator[Any]]) -> None:
        self._rows = stream("SELECT head FROM refs WHERE head IS NOT NULL ORDER BY head")
        self._at = -1
        self._blind = False

    def has(self, pos: int) -> bool:
        """True also if the heads cannot be read: check_refs reports that once, instead of every run."""
        try:
            while self._at < pos and not self._blind:
                (at,) = next(self._rows, (None,))
                self._at = at if isinstance(at, int) else 1 << 63  # damaged values sort last
        except BROKEN:
            self._blind = True
        return self._blind or self._at == pos


# -- nodes


def _quarantine_problem(found: Findings, row: QuarantineRow) -> str | None:
    at = found.tx.node_at(row.pos)
    if at is None:
        return "its message is missing"
    if at.row[BODY] != b"":
        return "its message has a body"
    node = found.engine.node(at)
    payload = run_info(node).box.open(row.body, quarantine_context(row))
    if payload is None:
        return CHECKSUM
    return None if quarantine_parts(payload)[0] == body_context(node) else "the row of its message was changed since"


_Totals = tuple[int, int, int, int, int]
"""Turns, tokens in and out, cost, gaps."""


class _Parent(NamedTuple):
    """The parent of a node. `totals` is None if they are unknown or damaged."""

    id: bytes | None
    ord: int
    totals: _Totals | None


_ROOT = _Parent(None, 0, (0, 0, 0, 0, 0))


def _parent_of(found: Findings, run: RunRow) -> _Parent | None:
    """The parent of a run's first node; None if it is missing."""
    origin = run.derived if run.parent is None else run.parent
    if origin is None:
        return (
            _Parent(None, 0, None) if run.carried else _ROOT
        )  # the messages it replaced may be deleted; the totals stay
    row = found.one("SELECT id, ord, facts FROM nodes WHERE pos = ?", origin)
    if row is None or not isinstance(row[1], int):
        return None if run.parent is not None else _Parent(None, 0, None)
    if run.parent is not None:
        return _Parent(row[0], row[1], _totals(row[2]))
    above = found.tx.run(origin >> SEQ_BITS)
    whole = above is not None and run.carried == above.carried + above.depth + (origin & MAX_SEQ) + 1
    return _Parent(None, row[1], _totals(row[2]) if whole else None)


def _totals(stored: bytes) -> _Totals | None:
    """The totals in a node's facts; None if they are damaged, which the check of that node reports."""
    try:
        return totals(stored)
    except MISTYPED:
        return None


def _check_node(found: Findings, run: RunRow, row: _Row, above: _Parent | None) -> _Parent:
    """Adds the problems of a node, and returns it as the parent of the next one."""
    problems: list[str] = []
    counted: _Totals | None = None
    if row[BODY] == b"" and found.tx.maintenance.quarantine_row(row[POS]) is not None:
        return _Parent(row[ID], row[_ORD], None)
    try:
        if len(row[ID]) != 16:
            problems.append("its id has the wrong length")
        payload = _open(found, run, row, above)
        if payload is None:
            if above is not None:
                problems.append(CHECKSUM)
        else:
            said = codec.decode(payload, "")
            message = neutral(said)
            stated = facts(row[FACTS])
            if stated.kind != payload[0] or stated.role != ROLES.index(message.role):
                problems.append("its row does not match its body")
            if above is not None:
                counted = _totals(row[FACTS])
                if above.totals is not None and counted != _add(above.totals, message):
                    problems.append("its totals do not continue those of its parent")
            problems += _missing_blobs(found, run, row, said)
    except ODD as error:
        problems.append(f"its body does not decode ({type(error).__name__})")
    if above is not None and row[_ORD] <= above.ord:
        problems.append("its order is not after that of its parent")
    if found.indexes_doubted:
        problems += _index_problems(found, row)
    for problem in problems:
        found.add("node", f"node {ids.text(row[ID])}", problem, pos=row[POS])
    return _Parent(row[ID], row[_ORD], counted)


def _open(found: Findings, run: RunRow, row: _Row, above: _Parent | None) -> bytes | None:
    """The body's payload; None if it does not open. After a gap the context is unknown."""
    pos, facts, id, body, _ = row
    if above is None:
        return body[5:] if run.wrapped_key is None else None
    context = node_place(run.tree, id, above.id or NO_ID, run.depth + (pos & MAX_SEQ)) + facts
    return found.engine.run_info(run).box.open(body, context)


def _add(totals: _Totals, message: Message) -> _Totals:
    """Totals with one more message."""
    turns, tokens_in, tokens_out, cost, gaps = totals
    used = message.usage
    counts = (None, None, None) if used is None else (used.input, used.output, used.cost)
    if message.role == "assistant":
        gaps |= (counts[0] is None or counts[1] is None) | (counts[2] is None) << 1
    return (
        turns + (message.role == "user"),
        tokens_in + (counts[0] or 0),
        tokens_out + (counts[1] or 0),
        cost + (counts[2] or 0),
        gaps,
    )


def _missing_blobs(found: Findings, run: RunRow, row: _Row, said: AnyMessage) -> Iterator[str]:
    """Problems of the blobs that a message uses: missing, or without a row for this use."""
    for digest in codec.blobs_of(said):
        blob = found.tx.blobs.blob(run.tree, found.engine.blob_hash(run.tree, digest))
        if blob is None:
            yield f"the blob {digest[:12]}… that it uses is missing"
        elif found.one('SELECT 1 FROM uses WHERE blob = ? AND "user" = ?', blob.blob, row[POS]) is None:
            yield f"the blob {digest[:12]}… has no record of this use"


def _index_problems(found: Findings, row: _Row) -> Iterator[str]:
    for name, column, value in (("nodes_id", "id", row[ID]), ("nodes_ord", "ord", row[_ORD])):
        try:
            at = found.one(f"SELECT pos FROM nodes INDEXED BY {name} WHERE {column} = ?", value)
        except BROKEN:
            continue  # SQLite's own check reported the index
        if at is None or at[0] != row[POS]:
            yield f"it is not found by its {column}"


_HEAD = "SELECT n.id, u.tree FROM nodes n LEFT JOIN runs u ON u.run = n.pos >> 24 WHERE n.pos = ?"
_SESSIONS, _CHECKPOINT = ("session", "subagent"), "checkpoint"
_session = msgspec.json.Decoder(SessionData).decode
_any = msgspec.json.Decoder().decode


def check_refs(found: Findings) -> None:
    """Checks every ref with its labels, and that every label has a ref."""
    sessions = 0
    for number, row in found.scan(REFS):
        if row is None:
            continue
        ref = RefRow._make(row)
        sessions += ref.kind == "session"
        try:
            problems = list(_problems(found, ref))
        except ODD as error:
            problems = [(f"it cannot be checked ({type(error).__name__})", None)]
        name = ids.text(ref.key) if len(ref.key) == 16 else str(number)
        for problem, pos in problems:
            found.add(ref.kind if ref.kind.isidentifier() else "ref", name, problem, pos=pos, ref=number)
    found.counts["sessions"] = sessions
    orphans = "SELECT DISTINCT ref FROM labels WHERE ref NOT IN (SELECT ref FROM refs) LIMIT 100"
    for (number,) in list(found.reader.execute(orphans)):
        found.add("label", f"labels of ref {number}", "there is no such ref")


def _problems(found: Findings, ref: RefRow) -> Iterator[tuple[str, int | None]]:
    """Problems, each with the position it concerns, if there is one."""
    if not found.engine.seal.is_signed(ref_fields(ref), ref.wrapped_key, ref.mac):
        yield CHECKSUM, None
    yield from _data_problems(found, ref)
    if not ref.hold and refs.is_hold_listed(found.engine, found.tx, ref):
        yield "its row says that it is not held, but it is", None
    if ref.owner is not None and found.one("SELECT 1 FROM refs WHERE ref = ? AND ref != ?", ref.owner, ref.ref) is None:
        yield f"its owner, ref {ref.owner}, is missing", None
    workspace = None if ref.tree is None else found.tx.tree_workspace(ref.tree)
    if ref.tree is not None and workspace != ref.workspace:
        yield "its tree is missing" if workspace is None else "its tree belongs to another workspace", None
    if ref.head is None:
        if ref.head_id is not None:
            yield "its head has an id but no position", None
        return
    head = found.one(_HEAD, ref.head)
    if head is None:
        yield f"its head, {place(ref.head)}, is missing", ref.head
    elif head != (ref.head_id, ref.tree):
        yield f"its head is not the message it names: {place(ref.head)} is another", ref.head


def _data_problems(found: Findings, ref: RefRow) -> Iterator[tuple[str, None]]:
    payload = found.engine.seal.box(ref.wrapped_key, ref_owner(ref.key)).open(ref.data, ref_context(ref))
    if payload is None:
        yield "the checksum of its data does not match", None
        return
    if not payload or payload[0] not in ((1, 2) if ref.kind == _CHECKPOINT else (1,)):
        yield f"its data has the unknown tag {payload[0] if payload else 0}", None
        return
    if ref.kind not in _SESSIONS:
        _any(payload[1:])
        return
    data = _session(payload[1:])
    look = found.engine.lookup_hash
    if ref.look != (None if data.cwd is None else look("cwd", data.cwd.encode())):
        yield "its lookup hash does not match its directory", None
    if found.tx.maintenance.labels(ref.ref) != sorted(look("label", label.encode()) for label in data.labels):
        yield "its lookup hashes do not match its labels", None


_NAME = 32
_OBJECT: tuple[Any, ...] = (bytes, (int, NULL), int, int)


def check_log(found: Findings) -> None:
    """Entries open, belong to a ref, and have no gap between them."""
    ref, expected = -1, 0
    box: Box | None = None
    for pos, row in found.scan(LOG):
        if pos >> SEQ_BITS != ref:
            ref, expected = pos >> SEQ_BITS, 0
            owner = found.one("SELECT wrapped_key, key FROM refs WHERE ref = ?", ref)
            try:
                box = None if owner is None else found.engine.seal.box(owner[0], ref_owner(owner[1]))
            except MISTYPED:
                box = None  # check_refs reports the ref
            if owner is None:
                found.add("log", f"log of ref {ref}", "there is no such ref")
        if pos & MAX_SEQ > expected:
            found.add("log", f"entry {expected} of ref {ref}", "it is missing", ref=ref)
        expected = (pos & MAX_SEQ) + 1
        if row is None or box is None:
            continue
        entry = LogRow._make(row)
        if box.open(entry.body, log_context(entry.pos, entry.created_at, entry.id)) is None:
            found.add("log", f"entry {pos & MAX_SEQ} of ref {ref}", CHECKSUM, ref=ref)


def check_blobs(found: Findings) -> None:
    """Every blob is signed, has all its pieces, and their content matches its lookup hash."""
    for number, row in found.scan(BLOBS):
        if row is None:
            continue
        try:
            problems = list(_blob_problems(found, BlobRow._make(row)))
        except Unavailable:
            raise  # a network error is not damage
        except ODD as error:
            odd = f"it cannot be checked ({type(error).__name__})"
            problems = [describe(error) if isinstance(error, BROKEN) else odd]
        for problem in problems:
            found.add("blob", f"blob {number}", problem, pos=_shown_at(found, number))
    blob, chunks = -1, 0
    for pos, _ in found.scan(CHUNKS):
        if pos >> SEQ_BITS != blob:
            blob = pos >> SEQ_BITS
            whole = found.one("SELECT chunks, look FROM blobs WHERE blob = ?", blob)
            strange = whole is None or not isinstance(whole[0], int) or not isinstance(whole[1], bytes)
            chunks = -1 if strange else MAX_SEQ if _unfinished(whole[1]) else whole[0]
            if whole is None:
                found.add("blob", f"piece of blob {blob}", "there is no such blob")
        if 0 <= chunks <= pos & MAX_SEQ:
            found.add("blob", f"blob {blob}", "it has more pieces than its row states", pos=_shown_at(found, blob))
            chunks = -1


def check_uses(found: Findings) -> None:
    """Every use of a blob is by a message or ref that refers to it."""
    count = 0
    for blob, user in found.stream('SELECT blob, "user" FROM uses'):
        count += 1
        try:
            problem = _use_problem(found, blob, user)
        except ODD as error:
            problem = f"it cannot be checked ({type(error).__name__})"
        if problem is not None:
            known = isinstance(user, int)
            pos, ref = user if known and user > 0 else None, -user if known and user <= 0 else None
            found.add("use", f"use of blob {blob}", problem, pos=pos, ref=ref)
    found.counts["uses"] = count


def check_objects(found: Findings) -> None:
    """An object belongs to one blob or to none; a blob has at most one object, and then no pieces in the store."""
    count, last = 0, None
    for row in found.stream("SELECT name, blob, size, created_at FROM objects ORDER BY blob"):
        count += 1
        if not all(map(isinstance, row, _OBJECT)) or len(row[0]) != _NAME:
            found.add("object", f"object {count}", "a column has a value of the wrong kind")
            continue
        name, blob, size, _ = row
        problem = None
        if blob is not None and found.one("SELECT 1 FROM blobs WHERE blob = ?", blob) is None:
            problem = "there is no such blob"
        elif blob is not None and size:
            if blob == last:
                problem = "its blob has another object"
            elif found.tx.blobs.chunk(blob << SEQ_BITS) is not None:
                problem = "its blob has pieces in the store"
            last = blob
        if problem is not None:
            found.add("object", f"object {name[16:].hex()} of blob {blob}", problem)
    found.counts["objects"] = count


def _blob_problems(found: Findings, blob: BlobRow) -> Iterator[str]:
    if found.one("SELECT 1 FROM trees WHERE tree = ?", blob.tree) is None:
        yield f"its tree {blob.tree} is missing"
    if _unfinished(blob.look):  # uploading, or interrupted: no message uses it, and it is removed later
        if blob.mac:
            yield "it is unfinished, but signed"
        return
    if not found.engine.seal.is_signed(blob_fields(blob), blob.wrapped_key, blob.mac):
        yield CHECKSUM
    digest, size = sha256(), 0
    kept = found.tx.blobs.object(blob.blob)
    if kept is not None and found.engine.bucket is None:
        found.counts["unread"] = found.counts.get("unread", 0) + 1
        return
    try:
        for payload in _pieces(found, blob) if kept is None else open_pieces(found.engine, blob, kept, blob.chunks):
            digest.update(payload)
            size += len(payload)
    except ObjectLost as lost:
        # Objects are not part of the snapshot: it may have been deleted or replaced since.
        if kept is None or found.engine.read(lambda tx: tx.blobs.object(blob.blob)) == kept:
            yield lost.why
        return
    if size != blob.size or found.engine.blob_hash(blob.tree, digest.hexdigest()) != blob.look:
        yield "its content does not match its lookup hash"


def _pieces(found: Findings, blob: BlobRow) -> Iterator[bytes]:
    """The pieces of a blob that are in the store. ObjectLost."""
    box = found.engine.seal.box(blob.wrapped_key, blob_owner(blob.tree, blob.blob))
    for number in range(min(blob.chunks, MAX_SEQ)):
        pos = blob.blob << SEQ_BITS | number
        body = found.tx.blobs.chunk(pos)
        payload = None if body is None else box.open(body, chunk_context(pos))
        if payload is None:
            raise ObjectLost(f"its piece {number} is {'missing' if body is None else 'damaged'}")
        yield payload


def _use_problem(found: Findings, blob: int, user: int) -> str | None:
    row = found.one("SELECT tree, look FROM blobs WHERE blob = ?", blob)
    if row is None:
        return "there is no such blob"
    if user <= 0:
        known = found.one("SELECT 1 FROM refs WHERE ref = ?", -user) is not None
        return None if known else f"ref {-user}, which uses it, is missing"
    at = found.tx.node_at(user)
    if at is None:
        return "the message that uses it is missing"
    if at.row[BODY] == b"":
        return None  # in quarantine: its uses are unknown until it is restored
    shown = codec.blobs_of(found.engine.node(at).said)
    if at.tree != row[0] or row[1] not in {found.engine.blob_hash(at.tree, digest) for digest in shown}:
        return f"node {ids.text(at.row[ID])} does not use it"
    return None


def _unfinished(look: bytes) -> bool:
    return look.startswith(STAGED) and len(look) == len(STAGED) + 16


def _shown_at(found: Findings, blob: int) -> int | None:
    """The position of a message that uses a blob."""
    try:
        row = found.one('SELECT "user" FROM uses WHERE blob = ? AND "user" > 0 LIMIT 1', blob)
    except BROKEN:
        return None
    return None if row is None else row[0]
