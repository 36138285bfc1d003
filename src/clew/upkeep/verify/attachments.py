"""What lies beside the tree: log entries, blobs and their pieces, and who shows a blob."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from clew.backends import BODY, ID, MAX_SEQ, SEQ_BITS, BlobRow, LogRow
from clew.backends.problems import BROKEN, describe
from clew.backends.tables import BLOBS, LOG, NULL
from clew.base import codec, ids
from clew.engine.blob_objects import Lost, opened
from clew.engine.blobs import STAGED
from clew.engine.sealing.envelope import MISTYPED, Box, blob_fields, blob_owner, chunk_context, log_context, ref_owner
from clew.errors import Unavailable
from clew.upkeep.verify.findings import CHUNKS, Findings
from clew.upkeep.verify.tree import CHECKSUM, ODD

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
                box = None  # the ref is told
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
    """Every blob is signed, all its pieces are there, and together they are the content it is found by."""
    for number, row in found.scan(BLOBS):
        if row is None:
            continue
        try:
            problems = list(_blob_problems(found, BlobRow._make(row)))
        except Unavailable:
            raise  # a network that fails is not damage
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
            found.add("blob", f"blob {blob}", "it has more pieces than it says", pos=_shown_at(found, blob))
            chunks = -1


def check_uses(found: Findings) -> None:
    """Who is said to show a blob does."""
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
    """An object is that of a blob, or of none; a blob has one at most, and then no pieces in the store."""
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
                problem = "its blob has another"
            elif found.tx.blobs.chunk(blob << SEQ_BITS) is not None:
                problem = "its blob has pieces in the store"
            last = blob
        if problem is not None:
            found.add("object", f"object {name[16:].hex()} of blob {blob}", problem)
    found.counts["objects"] = count


def _blob_problems(found: Findings, blob: BlobRow) -> Iterator[str]:
    if found.one("SELECT 1 FROM trees WHERE tree = ?", blob.tree) is None:
        yield f"its tree {blob.tree} is missing"
    if _unfinished(blob.look):  # its upload goes on, or was cut short: it is shown nowhere, and cleared away later
        if blob.mac:
            yield "it is unfinished and signed"
        return
    if not found.engine.seal.signed(blob_fields(blob), blob.wrapped_key, blob.mac):
        yield CHECKSUM
    digest, size = sha256(), 0
    kept = found.tx.blobs.object(blob.blob)
    if kept is not None and found.engine.bucket is None:
        found.counts["unread"] = found.counts.get("unread", 0) + 1
        return
    try:
        for payload in _pieces(found, blob) if kept is None else opened(found.engine, blob, kept, blob.chunks):
            digest.update(payload)
            size += len(payload)
    except Lost as lost:
        # What is read is one moment; the object may have gone since, with its blob or for another.
        if kept is None or found.engine.read(lambda tx: tx.blobs.object(blob.blob)) == kept:
            yield lost.why
        return
    if size != blob.size or found.engine.blob_look(blob.tree, digest.hexdigest()) != blob.look:
        yield "its content is not what it is found by"


def _pieces(found: Findings, blob: BlobRow) -> Iterator[bytes]:
    """The pieces of a blob that are in the store. Lost."""
    box = found.engine.seal.box(blob.wrapped_key, blob_owner(blob.tree, blob.blob))
    for number in range(min(blob.chunks, MAX_SEQ)):
        pos = blob.blob << SEQ_BITS | number
        body = found.tx.blobs.chunk(pos)
        payload = None if body is None else box.open(body, chunk_context(pos))
        if payload is None:
            raise Lost(f"its piece {number} is {'missing' if body is None else 'damaged'}")
        yield payload


def _use_problem(found: Findings, blob: int, user: int) -> str | None:
    row = found.one("SELECT tree, look FROM blobs WHERE blob = ?", blob)
    if row is None:
        return "there is no such blob"
    if user <= 0:
        known = found.one("SELECT 1 FROM refs WHERE ref = ?", -user) is not None
        return None if known else f"ref {-user}, which shows it, is missing"
    at = found.tx.node_at(user)
    if at is None:
        return "the message that shows it is missing"
    if at.row[BODY] == b"":
        return None  # in quarantine: what it showed cannot be told, and comes back with it
    shown = codec.blobs_of(found.engine.node(at).said)
    if at.tree != row[0] or row[1] not in {found.engine.blob_look(at.tree, digest) for digest in shown}:
        return f"node {ids.text(at.row[ID])} does not show it"
    return None


def _unfinished(look: bytes) -> bool:
    return look.startswith(STAGED) and len(look) == len(STAGED) + 16


def _shown_at(found: Findings, blob: int) -> int | None:
    """The position of a message that shows a blob."""
    try:
        row = found.one('SELECT "user" FROM uses WHERE blob = ? AND "user" > 0 LIMIT 1', blob)
    except BROKEN:
        return None
    return None if row is None else row[0]
