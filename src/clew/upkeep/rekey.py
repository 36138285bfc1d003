"""Sealing, unsealing, and rotating the key of a store in use.

Each is a walk over the rows in batches; a batch and the mark of its progress are one transaction. So any process can
resume it after a crash or an interrupt. Others read and write meanwhile: during a rotation the secrets hold both keys,
and new rows use the new key from the first batch on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from clew import keys
from clew.backends import BODY, POS, SEQ_BITS, BlobRow, NodeLocation, ObjectRow, RefRow, Tx
from clew.base import ids
from clew.engine import blob_objects, refs
from clew.engine.engine import Engine
from clew.engine.node import body_context, node_payload, run_info
from clew.engine.sealing.envelope import (
    MISTYPED,
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
from clew.engine.sealing.header import (
    MARK,
    UNSEALED,
    Secrets,
    StoreKey,
    candidates,
    drop_parameters,
    new_store_key,
    put,
    put_unsealed,
    sign_mark,
    store_parameters,
)
from clew.engine.sealing.sealed import SealedSeal
from clew.errors import Conflict, Corrupted, Invalid, Sealed
from clew.keys import SIZE, Key, key_id

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


Kind = Literal["seal", "unseal", "rotate", "deep"]
Progress = Callable[[int, int], None]
"""Called with the number of rows done, and the total."""

BATCH = 500
"""Rows in one transaction, …"""
BYTES = 4 << 20
"""… and approximate bytes of bodies: limits memory, and how long other writers wait."""
_BODIES = ("nodes", "quarantine", "refs", "log", "chunks")
_FITS = {"sealing": ("seal",), "rotating": ("rotate", "deep"), "unsealing": ("unseal",)}
"""The kinds of key change that a state may be part of."""

# Owners come first when keys are added, and last when keys are removed.
_STAGES: dict[str, tuple[str, ...]] = {
    "seal": ("runs add", "nodes", "quarantine", "refs add", "log", "blobs add", "chunks", "objects"),
    "unseal": ("nodes", "quarantine", "runs take", "log", "refs take", "chunks", "objects", "blobs take"),
    "rotate": ("runs wrap", "refs wrap", "blobs wrap"),
    "deep": (
        "runs give",
        "nodes",
        "quarantine",
        "runs drop",
        "refs give",
        "log",
        "refs drop",
        "blobs give",
        "chunks",
        "objects",
        "blobs drop",
    ),
}

_UNDER_WAY = {
    "seal": "being sealed",
    "unseal": "being unsealed",
    "rotate": "in the middle of a key rotation that is not deep",
    "deep": "in the middle of a deep key rotation",
}


class _Mark(msgspec.Struct, frozen=True):
    """The progress of a walk."""

    kind: Kind
    stage: int = 0
    after: int = -1
    rows: int = 0
    mac: str = ""
    """Signature of the others."""


class Status(NamedTuple):
    """The key state of a store."""

    state: str
    """plain, sealing, sealed, rotating or unsealing."""
    key_ids: tuple[str, ...]
    """The keys that open it, the current one first; two during a rotation."""
    passphrase: bool
    """True if a key is derived from a passphrase."""
    done: int
    """Rows that a key change in progress has finished, …"""
    total: int
    """… and rows in all."""
    unclean: bool
    """True while the files or object storage may hold traces of deleted data or of data before the key change, because
    a reader blocks the cleanup or storage cannot be reached. A later write, the close or the next open clears them."""


def status(engine: Engine) -> Status:
    """The key state of the store, and the progress of a key change."""
    return engine.read(lambda tx: _status(engine, tx))


def recovery(engine: Engine) -> str:
    """The store's key as printable letters. Invalid if the store is not sealed."""
    if engine.read(engine.renew) == "plain":  # another process may have rotated the key
        raise Invalid("the store is not sealed", hint="A plain store has no key.")
    return keys.recovery(_secrets(engine).keys[0])


def begin(engine: Engine, kind: Kind, key: Key | None = None) -> None:
    """Starts a walk, or resumes the same one. Conflict if another is in progress; Invalid if there is no need.

    Invalid inside a transaction: after a rollback this process would use keys that the store does not have.
    """
    if engine.backend.in_transaction():
        raise Invalid("keys cannot be changed inside a transaction", hint="Do it before or after the transaction.")
    new = None if key is None else new_store_key(key)
    before = engine.key
    if kind == "seal":
        engine.key = key  # first: other threads read the key state as soon as the store is sealed

    def work(tx: Tx) -> bool:
        _begin(engine, tx, kind, key, new)
        return True

    try:
        engine.write_settled(work, lambda tx, _: (mark := read_mark(engine, tx)) is not None and mark.kind == kind)
    except BaseException:
        engine.key = before
        raise
    engine.backend.refresh_epoch()
    if kind == "unseal":
        _seal(engine).write_clear()


def run(engine: Engine, progress: Progress | None = None) -> None:
    """Completes the walk. Corrupted, and both keys stay valid, if something cannot be read."""
    now = status(engine)
    seen, total = now.done, max(1, now.total)
    while True:
        next_one = engine.read(lambda tx: _next_object(engine, tx))
        rows = engine.write(lambda tx: _step(engine, tx)) if next_one is None else _object(engine, *next_one)
        if rows is None:
            return
        seen += rows
        if progress is not None:
            progress(min(seen, total), total)


def finish(engine: Engine, note: Callable[[Tx], object] = lambda _: None) -> None:
    """Retires the old key, or when unsealing the only one. Call it after `verify` found no damage.

    `note` is called in the same transaction, before the state changes. Corrupted, and both keys stay valid,
    if a data key could not be opened any more.
    """

    def work(tx: Tx) -> bool:
        if read_mark(engine, tx) is not None:  # else another process was first
            note(tx)
            _finish(engine, tx)
        return True

    engine.read(lambda tx: _check(engine, tx))
    engine.write_settled(work, lambda tx, _: read_mark(engine, tx) is None)
    engine.backend.refresh_epoch()


# -- beginning and ending


def _begin(engine: Engine, tx: Tx, kind: Kind, key: Key | None, new: StoreKey | None) -> None:
    mark, state = read_mark(engine, tx), tx.state().state
    if kind != "rotate" and tx.blobs.objects_after(-1, 1):
        blob_objects.bucket(engine)
    if mark is not None:
        if mark.kind != kind:
            raise Conflict(f"the store is {_UNDER_WAY[mark.kind]}", hint="Finish that first: make the same call again.")
        if key is not None and tx.state().key_id not in [key_id(one) for one in candidates(tx, key)]:
            raise Conflict("the store is in the middle of a rotation to another key", hint="Finish that first.")
        return
    if (state == "plain") != (kind == "seal"):
        raise Invalid("the store is sealed already" if kind == "seal" else "the store is not sealed")
    if kind == "seal":
        lookup = tx.header("lookup_key")
        if new is None or lookup is None:
            raise Invalid("sealing needs a key", hint="Make one with clew.keys.generate().")
        store_parameters(tx, new)
        tx.set_header("lookup_key", None)
        tx.set_header(UNSEALED, None)
        secrets = put(tx, engine.store_id, Secrets(lookup, [os.urandom(SIZE)], [new.key], "sealing", 0, []))
    else:
        now = engine.secrets(tx)
        if kind == "unseal":
            changed = msgspec.structs.replace(now, state="unsealing")
        else:
            if new is None:
                raise Invalid("a rotation needs a new key", hint="Make one with clew.keys.generate().")
            if new.key in now.keys:
                raise Invalid("this is already the store's key", hint="Pass a new key.")
            store_parameters(tx, new)
            macs = [os.urandom(SIZE), *now.macs]  # rows signed before are not believed once the change is finished
            changed = msgspec.structs.replace(now, keys=[new.key, *now.keys], macs=macs, state="rotating")
        secrets = put(tx, engine.store_id, changed)
    _set_mark(secrets, tx, _Mark(kind))


def _finish(engine: Engine, tx: Tx) -> None:
    mark = read_mark(engine, tx)
    if mark is None:
        return
    if mark.stage < len(_STAGES[mark.kind]):
        raise Conflict("the key change is not complete", hint="Run it again, then finish it.")
    now = engine.secrets(tx)
    tx.set_header(MARK, None)
    if mark.kind == "unseal":
        tx.set_header("lookup_key", now.lookup)
        drop_parameters(tx, keep=())
        put_unsealed(tx, now)
        return
    held = refs.collect_held(engine, tx) if mark.kind == "seal" else now.held
    left = msgspec.structs.replace(now, keys=now.keys[:1], macs=now.macs[:1], state="sealed", held=held)
    drop_parameters(tx, keep=left.keys)
    put(tx, engine.store_id, left)


def _check(engine: Engine, tx: Tx) -> None:
    """Checks every data key before the old store key is removed: one restored behind the walk would be lost."""
    mark = read_mark(engine, tx)
    if mark is None or mark.stage < len(_STAGES[mark.kind]):
        return
    head, size = _seal(engine).current_head()
    if tx.maintenance.keys_otherwise(None if mark.kind == "unseal" else head, size):
        raise Corrupted(engine.backend.path, "a data key is not under the new store key")


def _secrets(engine: Engine) -> Secrets:
    return _seal(engine).secrets


def _seal(engine: Engine) -> SealedSeal:
    if not isinstance(engine.seal, SealedSeal):  # another process has sealed the store since it was opened
        raise Sealed(engine.backend.path, ())
    return engine.seal


def read_mark(engine: Engine, tx: Tx) -> _Mark | None:
    """The progress of a key change; None if none is in progress. Corrupted if the mark is not authentic."""
    stored, state = tx.header(MARK), tx.state().state
    if stored is None:
        return None
    try:
        mark = msgspec.json.decode(stored, type=_Mark)
    except msgspec.MsgspecError:
        raise Corrupted("the mark of a key change") from None
    if mark.kind not in _FITS.get(state, ()):
        raise Corrupted("the mark of a key change", f"the store is {state}")
    if mark.mac != _signature(engine.secrets(tx), mark):
        raise Corrupted("the mark of a key change")
    return mark


def _set_mark(secrets: Secrets, tx: Tx, mark: _Mark) -> None:
    signed = msgspec.structs.replace(mark, mac=_signature(secrets, mark))
    tx.set_header(MARK, msgspec.json.encode(signed))


def _signature(secrets: Secrets, mark: _Mark) -> str:
    return sign_mark(secrets, msgspec.json.encode(msgspec.structs.replace(mark, mac=""))).hex()


def _status(engine: Engine, tx: Tx) -> Status:
    state, mark = engine.renew(tx), read_mark(engine, tx)
    sizes = {} if mark is None else tx.maintenance.sizes()
    names = () if state == "plain" else tuple(key_id(key).hex() for key in _secrets(engine).keys)
    total = 0 if mark is None else sum(sizes[stage.split()[0]] for stage in _STAGES[mark.kind])
    done = 0 if mark is None else min(mark.rows, total)
    unclean = engine.cleanup.marked or bool(tx.blobs.objects_left(1))
    return Status(state, names, bool(tx.maintenance.headers("kdf ")), done, total, unclean)


# -- walking


def _step(engine: Engine, tx: Tx) -> int | None:
    """Processes one batch. Returns its number of rows; None if nothing is left."""
    mark = read_mark(engine, tx)
    if mark is None or mark.stage >= len(_STAGES[mark.kind]):
        return None
    table, _, how = _STAGES[mark.kind][mark.stage].partition(" ")
    limit = _fitting(tx, table, mark.after)
    try:
        rows, last = WALKS[table](_seal(engine), engine, tx, mark.after, limit, how)
    except MISTYPED:
        raise Corrupted(f"table {table}", "a column has a value of the wrong kind") from None
    # New rows use the new key, so a short batch is the last. Waiting for an empty one could take forever.
    more, done = rows >= limit, mark.rows + rows
    next_mark = _Mark(mark.kind, mark.stage, last, done) if more else _Mark(mark.kind, mark.stage + 1, rows=done)
    _set_mark(engine.secrets(tx), tx, next_mark)
    return rows


def _fitting(tx: Tx, table: str, after: int) -> int:
    """The size of the next batch: `BATCH` rows, or as many as have `BYTES`."""
    size = 0
    for count, length in enumerate(tx.maintenance.lengths_after(table, after, BATCH) if table in _BODIES else (), 1):
        size += length
        if size >= BYTES:
            return count
    return BATCH


def _next_object(engine: Engine, tx: Tx) -> tuple[_Mark, BlobRow, ObjectRow] | None:
    """The next object of a walk, if there is one, with the mark of the walk and its blob."""
    mark = read_mark(engine, tx)
    if mark is None or _STAGES[mark.kind][mark.stage : mark.stage + 1] != ("objects",):
        return None
    for kept in tx.blobs.objects_after(mark.after, 1):
        row = tx.blobs.blob_by_number(kept.blob or 0)
        if row is None:
            raise Corrupted(f"an object of blob {kept.blob}", "there is no such blob")
        return mark, row, kept
    return None


def _object(engine: Engine, mark: _Mark, row: BlobRow, kept: ObjectRow) -> int:
    """Encrypts one object with the new key. Not in a transaction: other writers must not wait for a network."""
    try:
        if not blob_objects.reencrypt(engine, row, kept):
            return 0
    except blob_objects.ObjectLost as lost:
        raise Corrupted(f"blob {row.blob}", lost.why) from None

    def advance(tx: Tx) -> None:
        if read_mark(engine, tx) == mark:  # else another process is walking too
            _set_mark(engine.secrets(tx), tx, _Mark(mark.kind, mark.stage, row.blob, mark.rows + 1))

    engine.write(advance)
    return 1
