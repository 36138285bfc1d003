"""Sealing, unsealing, and exchanging the key of a store that is in use.

Each is a walk over the rows, in batches; a batch and the mark of how far it came are one transaction. So it goes on
where it was, after a crash or an interrupt, in whichever process asks for it; and others read and write meanwhile:
while keys are exchanged the secrets hold both, and what is written is written the new way from the first batch on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from clew import holds, keys, outside
from clew.backends import BlobRow, ObjectRow, Tx
from clew.engine import Engine
from clew.envelope import MISTYPED
from clew.errors import Conflict, Invalid, Sealed, Tampered
from clew.header import (
    MARK,
    UNSEALED,
    Made,
    Secrets,
    candidates,
    drop_parameters,
    keep,
    made,
    put,
    put_unsealed,
    sign_mark,
)
from clew.keys import SIZE, Key, key_id
from clew.rekey.tables import WALKS
from clew.sealed import SealedSeal

Kind = Literal["seal", "unseal", "rotate", "deep"]
Progress = Callable[[int, int], None]
"""Called with what is done and what there is to do."""

BATCH = 500
"""Rows in one transaction, …"""
BYTES = 4 << 20
"""… and bytes of bodies, about: neither memory nor the wait of other writers grows with what people store."""
_BODIES = ("nodes", "quarantine", "refs", "log", "chunks")
_FITS = {"sealing": ("seal",), "rotating": ("rotate", "deep"), "unsealing": ("unseal",)}
"""The kinds of key change that a state may be part of."""

# Owners first where keys are given, what they own first where keys are taken away.
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
    "rotate": "in the middle of an exchange of keys that is not deep",
    "deep": "in the middle of a deep exchange of keys",
}


class _Mark(msgspec.Struct, frozen=True):
    """How far a walk has come."""

    kind: Kind
    stage: int = 0
    after: int = -1
    rows: int = 0
    mac: str = ""
    """Signature of the others."""


class Status(NamedTuple):
    """How a store is kept."""

    state: str
    """plain, sealing, sealed, rotating or unsealing."""
    key_ids: tuple[str, ...]
    """The keys that open it: the one for new things first; two while they are being exchanged."""
    passphrase: bool
    """True if a key is derived from a passphrase."""
    done: int
    """Of a walk that is under way: rows behind it, …"""
    total: int
    """… and rows in all."""
    unclean: bool
    """True while the files or object storage may hold traces of how things were kept before, or of what was deleted:
    somebody who reads is in the way, or it cannot be reached. Then a later write, the close, or whoever opens the store
    next clears them."""


def status(engine: Engine) -> Status:
    """How the store is kept, and how far an exchange of keys has come."""
    return engine.read(lambda tx: _status(engine, tx))


def recovery(engine: Engine) -> str:
    """The store's key as letters to be printed. Invalid if the store is not sealed."""
    if engine.read(engine.renew) == "plain":  # another process may have exchanged the key since
        raise Invalid("the store is not sealed", hint="There is no key to be printed.")
    return keys.recovery(_secrets(engine).keys[0])


def begin(engine: Engine, kind: Kind, key: Key | None = None) -> None:
    """Begins a walk, or finds that this very one is under way. Conflict if another is; Invalid if there is no need.

    Invalid inside a transaction: if that were undone, this process would go on with keys that nobody has.
    """
    if engine.backend.in_transaction():
        raise Invalid("keys cannot be exchanged inside a transaction", hint="Do it before, or after.")
    new = None if key is None else made(key)
    before = engine.key
    if kind == "seal":
        engine.key = key  # first: other threads look at the store anew as soon as it is sealed

    def work(tx: Tx) -> bool:
        _begin(engine, tx, kind, key, new)
        return True

    try:
        engine.write_settled(work, lambda tx, _: (mark := read_mark(engine, tx)) is not None and mark.kind == kind)
    except BaseException:
        engine.key = before
        raise
    engine.backend.look_anew()
    if kind == "unseal":
        _seal(engine).write_clear()


def go_on(engine: Engine, progress: Progress | None = None) -> None:
    """Walks to the end of what was begun. Tampered, and both keys stay good, if something cannot be read."""
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
    """Retires the old key, or the last one. To be called once everything was found to be sound.

    `note` is called in the same transaction, before the state changes. Tampered, and both keys stay good, if there is a
    data key that nobody could open any more.
    """

    def work(tx: Tx) -> bool:
        if read_mark(engine, tx) is not None:  # else another process was first
            note(tx)
            _finish(engine, tx)
        return True

    engine.read(lambda tx: _check(engine, tx))
    engine.write_settled(work, lambda tx, _: read_mark(engine, tx) is None)
    engine.backend.look_anew()


# -- beginning and ending


def _begin(engine: Engine, tx: Tx, kind: Kind, key: Key | None, new: Made | None) -> None:
    mark, state = read_mark(engine, tx), tx.state().state
    if kind != "rotate" and tx.objects_after(-1, 1):
        outside.bucket(engine)
    if mark is not None:
        if mark.kind != kind:
            raise Conflict(f"the store is {_UNDER_WAY[mark.kind]}", hint="Finish that first: ask for the same again.")
        if key is not None and tx.state().key_id not in [key_id(one) for one in candidates(tx, key)]:
            raise Conflict("the store is in the middle of an exchange for another key", hint="Finish that first.")
        return
    if (state == "plain") != (kind == "seal"):
        raise Invalid("the store is sealed already" if kind == "seal" else "the store is not sealed")
    if kind == "seal":
        lookup = tx.header("lookup_key")
        if new is None or lookup is None:
            raise Invalid("sealing needs a key", hint="Make one with clew.keys.generate().")
        keep(tx, new)
        tx.set_header("lookup_key", None)
        tx.set_header(UNSEALED, None)
        secrets = put(tx, engine.store_id, Secrets(lookup, [os.urandom(SIZE)], [new.key], "sealing", None, []))
    else:
        now = engine.secrets(tx)
        if kind == "unseal":
            changed = msgspec.structs.replace(now, state="unsealing")
        else:
            if new is None:
                raise Invalid("an exchange needs a new key", hint="Make one with clew.keys.generate().")
            if new.key in now.keys:
                raise Invalid("this is the store's key already")
            keep(tx, new)
            macs = [os.urandom(SIZE), *now.macs]  # rows signed before are not believed once the change is finished
            changed = msgspec.structs.replace(now, keys=[new.key, *now.keys], macs=macs, state="rotating")
        secrets = put(tx, engine.store_id, changed)
    _set_mark(secrets, tx, _Mark(kind))


def _finish(engine: Engine, tx: Tx) -> None:
    mark = read_mark(engine, tx)
    if mark is None:
        return
    if mark.stage < len(_STAGES[mark.kind]):
        raise Conflict("the store is still in the middle of it")
    now = engine.secrets(tx)
    tx.set_header(MARK, None)
    if mark.kind == "unseal":
        tx.set_header("lookup_key", now.lookup)
        drop_parameters(tx, keep=())
        put_unsealed(tx, now)
        return
    held = holds.found(engine, tx) if mark.kind == "seal" or now.held is None else now.held
    left = msgspec.structs.replace(now, keys=now.keys[:1], macs=now.macs[:1], state="sealed", held=held)
    drop_parameters(tx, keep=left.keys)
    put(tx, engine.store_id, left)


def _check(engine: Engine, tx: Tx) -> None:
    """Looks at every data key before the old store key goes: one put back behind the walk would be lost with it."""
    mark = read_mark(engine, tx)
    if mark is None or mark.stage < len(_STAGES[mark.kind]):
        return
    head, size = _seal(engine).current_head()
    if tx.keys_otherwise(None if mark.kind == "unseal" else head, size):
        raise Tampered(engine.backend.path, "a data key in it is not kept the new way")


def _secrets(engine: Engine) -> Secrets:
    return _seal(engine).secrets


def _seal(engine: Engine) -> SealedSeal:
    if not isinstance(engine.seal, SealedSeal):  # another process has sealed the store since it was opened
        raise Sealed(engine.backend.path, ())
    return engine.seal


def read_mark(engine: Engine, tx: Tx) -> _Mark | None:
    """How far a key change has come; None if none is under way. Tampered if it was not written so."""
    stored, state = tx.header(MARK), tx.state().state
    if stored is None:
        return None
    try:
        mark = msgspec.json.decode(stored, type=_Mark)
    except msgspec.MsgspecError:
        raise Tampered("the mark of a key change") from None
    if mark.kind not in _FITS.get(state, ()):
        raise Tampered("the mark of a key change", f"the store is {state}")
    secrets = engine.secrets(tx)
    if secrets.change is not None and mark.mac != _signature(secrets, mark):
        raise Tampered("the mark of a key change")
    return mark


def _set_mark(secrets: Secrets, tx: Tx, mark: _Mark) -> None:
    signed = msgspec.structs.replace(mark, mac=_signature(secrets, mark))
    tx.set_header(MARK, msgspec.json.encode(signed))


def _signature(secrets: Secrets, mark: _Mark) -> str:
    return sign_mark(secrets, msgspec.json.encode(msgspec.structs.replace(mark, mac=""))).hex()


def _status(engine: Engine, tx: Tx) -> Status:
    state, mark = engine.renew(tx), read_mark(engine, tx)
    sizes = {} if mark is None else tx.sizes()
    names = () if state == "plain" else tuple(key_id(key).hex() for key in _secrets(engine).keys)
    total = 0 if mark is None else sum(sizes[stage.split()[0]] for stage in _STAGES[mark.kind])
    done = 0 if mark is None else min(mark.rows, total)
    unclean = engine.unclean or bool(tx.objects_left(1))
    return Status(state, names, bool(tx.headers("kdf ")), done, total, unclean)


# -- walking


def _step(engine: Engine, tx: Tx) -> int | None:
    """One batch. How many rows it was; None if there is nothing left to do."""
    mark = read_mark(engine, tx)
    if mark is None or mark.stage >= len(_STAGES[mark.kind]):
        return None
    table, _, how = _STAGES[mark.kind][mark.stage].partition(" ")
    limit = _fitting(tx, table, mark.after)
    try:
        rows, last = WALKS[table](_seal(engine), engine, tx, mark.after, limit, how)
    except MISTYPED:
        raise Tampered(f"table {table}", "a column has a value of the wrong kind") from None
    # What is written from now on is written the new way: waiting for a batch without rows could take for ever.
    more, done = rows >= limit, mark.rows + rows
    next_mark = _Mark(mark.kind, mark.stage, last, done) if more else _Mark(mark.kind, mark.stage + 1, rows=done)
    _set_mark(engine.secrets(tx), tx, next_mark)
    return rows


def _fitting(tx: Tx, table: str, after: int) -> int:
    """How many of the next rows make a batch: `BATCH`, or as many as have `BYTES`."""
    size = 0
    for count, length in enumerate(tx.lengths_after(table, after, BATCH) if table in _BODIES else (), 1):
        size += length
        if size >= BYTES:
            return count
    return BATCH


def _next_object(engine: Engine, tx: Tx) -> tuple[_Mark, BlobRow, ObjectRow] | None:
    """The object that comes next in a walk, if one does, with its blob and the mark of how far the walk has come."""
    mark = read_mark(engine, tx)
    if mark is None or _STAGES[mark.kind][mark.stage : mark.stage + 1] != ("objects",):
        return None
    for kept in tx.objects_after(mark.after, 1):
        row = tx.blob_by_number(kept.blob or 0)
        if row is None:
            raise Tampered(f"an object of blob {kept.blob}", "there is no such blob")
        return mark, row, kept
    return None


def _object(engine: Engine, mark: _Mark, row: BlobRow, kept: ObjectRow) -> int:
    """Closes one object anew. Not in a transaction: nobody should wait for a network meanwhile."""
    try:
        if not outside.reclose(engine, row, kept):
            return 0
    except outside.Lost as lost:
        raise Tampered(f"blob {row.blob}", lost.why) from None

    def go_on(tx: Tx) -> None:
        if read_mark(engine, tx) == mark:  # else another process walks, too
            _set_mark(engine.secrets(tx), tx, _Mark(mark.kind, mark.stage, row.blob, mark.rows + 1))

    engine.write(go_on)
    return 1
