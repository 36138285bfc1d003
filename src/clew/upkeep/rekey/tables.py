"""Moves the rows of each table to the new key, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable

from clew.backends import BODY, POS, SEQ_BITS, BlobRow, NodeLocation, RefRow, Tx
from clew.base import ids
from clew.engine.engine import Engine
from clew.engine.node import body_context, node_payload, run_info
from clew.engine.sealing.envelope import (
    blob_fields,
    blob_owner,
    chunk_context,
    log_context,
    quarantine_context,
    ref_context,
    ref_fields,
    ref_owner,
    run_owner,
    run_shape,
)
from clew.engine.sealing.sealed import SealedSeal
from clew.errors import Corrupted

Walk = Callable[[SealedSeal, Engine, Tx, int, int, str], tuple[int, int]]
"""Takes the number to start after, the maximum rows, and the change of their data keys: see `_next_key`. Returns the
number of rows, and the number of the last one. Corrupted."""


def _no_objects(seal: SealedSeal, engine: Engine, tx: Tx, after: int, limit: int, how: str) -> tuple[int, int]:
    """Does nothing: objects are encrypted one by one, outside a transaction, before this step."""
    return 0, after


def _runs(seal: SealedSeal, engine: Engine, tx: Tx, after: int, limit: int, how: str) -> tuple[int, int]:
    rows = tx.maintenance.runs_after(after, limit)
    changed = []
    for run, tip in rows:
        wrapped = _next_key(seal, run.wrapped_key, run_owner(run.tree, run.run), how)
        if wrapped != run.wrapped_key:
            shape = run_shape(run, tip)
            _check_signature(seal, run.mac, shape + (run.wrapped_key or b""), run.wrapped_key, f"run {run.run}")
            changed.append((wrapped, seal.sign(shape + (wrapped or b""), wrapped), run.run))
    tx.maintenance.rekey_runs(changed)
    return len(rows), rows[-1][0].run if rows else after


def _refs(seal: SealedSeal, engine: Engine, tx: Tx, after: int, limit: int, how: str) -> tuple[int, int]:
    rows = tx.refs_after(after, limit)
    for row in rows:
        owner = ref_owner(row.key)
        wrapped = _next_key(seal, row.wrapped_key, owner, how)
        if wrapped == row.wrapped_key:
            continue
        name = f"{row.kind} {ids.text(row.key)}"
        _check_signature(seal, row.mac, ref_fields(row), row.wrapped_key, name)
        data = row.data
        if how != "wrap":
            payload = seal.box(row.wrapped_key, owner).open(row.data, ref_context(row))
            if payload is None:
                raise Corrupted(name)
            data = seal.box(wrapped, owner).close(payload, ref_context(row))
        mac = seal.sign(ref_fields(row), wrapped)
        tx.maintenance.rekey_ref(row._replace(wrapped_key=wrapped, mac=mac, data=data))
    return len(rows), rows[-1].ref if rows else after


def _blobs(seal: SealedSeal, engine: Engine, tx: Tx, after: int, limit: int, how: str) -> tuple[int, int]:
    rows = tx.maintenance.blobs_after(after, limit)
    for row in rows:
        wrapped = _next_key(seal, row.wrapped_key, blob_owner(row.tree, row.blob), how)
        if wrapped != row.wrapped_key:
            mac = b""
            if row.mac:  # an unfinished blob is not signed yet
                _check_signature(seal, row.mac, blob_fields(row), row.wrapped_key, f"blob {row.blob}")
                mac = seal.sign(blob_fields(row), wrapped)
            tx.blobs.set_blob(row._replace(wrapped_key=wrapped, mac=mac))
    return len(rows), rows[-1].blob if rows else after


def _check_signature(seal: SealedSeal, mac: bytes, fields: bytes, wrapped: bytes | None, where: str) -> None:
    """Corrupted if the signature is invalid: a changed row must not get a new one."""
    if not seal.is_signed(fields, wrapped, mac):
        raise Corrupted(where)


def _next_key(seal: SealedSeal, wrapped: bytes | None, owner: bytes, how: str) -> bytes | None:
    """A row's data key after a stage: added, a new one before the old, rewrapped, without old ones, or removed."""
    if how == "take":
        return None
    if how == "add":
        return seal.new_key(owner) if wrapped is None else wrapped  # rows written since have a key
    if how == "give":
        return seal.new_key(owner) + (b"" if wrapped is None else seal.rewrap(wrapped, owner))
    if wrapped is None or seal.current(wrapped):
        return wrapped
    return seal.rewrap(wrapped, owner) if how == "wrap" else seal.newest(wrapped)


def _nodes(seal: SealedSeal, engine: Engine, tx: Tx, after: int, limit: int, how: str) -> tuple[int, int]:
    rows = tx.maintenance.places_after(after, limit)
    tx.maintenance.set_bodies("nodes", [_reencrypt_node(engine, place) for place in rows if place.row[BODY] != b""])
    return len(rows), rows[-1].row[POS] if rows else after


def _reencrypt_node(engine: Engine, place: NodeLocation) -> tuple[bytes, int]:
    node = engine.node(place)
    return run_info(node).box.close(node_payload(node), body_context(node)), place.row[POS]


def _quarantine(seal: SealedSeal, engine: Engine, tx: Tx, after: int, limit: int, how: str) -> tuple[int, int]:
    rows = tx.maintenance.quarantined_after(after, limit)
    bodies = []
    for row in rows:
        run = tx.run(row.pos >> SEQ_BITS)
        if run is None:
            raise Corrupted(f"run {row.pos >> SEQ_BITS}", "it is missing")
        owner = run_owner(run.tree, run.run)
        bodies.append(
            (_reencrypt(seal, run.wrapped_key, owner, row.body, quarantine_context(row), "the quarantine"), row.pos)
        )
    tx.maintenance.set_bodies("quarantine", bodies)
    return len(rows), rows[-1].pos if rows else after


def _log(seal: SealedSeal, engine: Engine, tx: Tx, after: int, limit: int, how: str) -> tuple[int, int]:
    rows = tx.maintenance.log_after(after, limit)
    bodies = []
    ref: RefRow | None = None
    for row in rows:
        number = row.pos >> SEQ_BITS
        if ref is None or ref.ref != number:
            ref = next(iter(tx.refs_after(number - 1, 1)), None)
            if ref is None or ref.ref != number:
                raise Corrupted(f"the log of ref {number}", "there is no such ref")
        context = log_context(row.pos, row.created_at, row.id)
        bodies.append(
            (_reencrypt(seal, ref.wrapped_key, ref_owner(ref.key), row.body, context, "a log entry"), row.pos)
        )
    tx.maintenance.set_bodies("log", bodies)
    return len(rows), rows[-1].pos if rows else after


def _chunks(seal: SealedSeal, engine: Engine, tx: Tx, after: int, limit: int, how: str) -> tuple[int, int]:
    rows = tx.maintenance.chunks_after(after, limit)
    bodies = []
    blob: BlobRow | None = None
    for pos, body in rows:
        number = pos >> SEQ_BITS
        if blob is None or blob.blob != number:
            blob = tx.blobs.blob_by_number(number)
            if blob is None:
                raise Corrupted(f"a piece of blob {number}", "there is no such blob")
        owner = blob_owner(blob.tree, blob.blob)
        bodies.append((_reencrypt(seal, blob.wrapped_key, owner, body, chunk_context(pos), f"blob {number}"), pos))
    tx.maintenance.set_bodies("chunks", bodies)
    return len(rows), rows[-1][0] if rows else after


def _reencrypt(seal: SealedSeal, wrapped: bytes | None, owner: bytes, body: bytes, context: bytes, where: str) -> bytes:
    """A body encrypted again, with the newest key of its owner. Corrupted."""
    box = seal.box(wrapped, owner)
    payload = box.open(body, context)
    if payload is None:
        raise Corrupted(where)
    return box.close(payload, context)


WALKS: dict[str, Walk] = {
    "runs": _runs,
    "nodes": _nodes,
    "quarantine": _quarantine,
    "refs": _refs,
    "log": _log,
    "blobs": _blobs,
    "chunks": _chunks,
    "objects": _no_objects,
}
