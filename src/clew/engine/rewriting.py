"""Replaces stored bytes: the body of a node, and data and log entries of a ref. The rest of their rows stays.

In a sealed store, no key of the store can read the replaced bytes any more: the run or the ref gets a new data key. It
keeps the old key only if something else that the key encrypts is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clew.backends import MAX_SEQ, POS, SEQ_BITS, LogRow, RefRow, Tx
from clew.engine import deletion
from clew.engine.engine import Engine
from clew.engine.node import Node, body_context, node_row, run_info
from clew.engine.refs import Refs
from clew.engine.sealing.envelope import MISTYPED, Box, log_context, ref_context, ref_fields, ref_owner

BATCH = 256


def rewrite_node(engine: Engine, tx: Tx, node: Node, payload: bytes) -> bool:
    """Replaces the payload of a node. False if its run keeps the old data key."""
    pos = node_row(node)[POS]
    tx.maintenance.replace_body(pos, run_info(node).box.close(payload, body_context(node)))
    run = tx.run(pos >> SEQ_BITS)
    assert run is not None
    gone = deletion.Removed()
    wrapped = deletion.new_run_key(engine, tx, run, tx.last_seq(run.run) + 1, gone)
    if wrapped != run.wrapped_key:
        tx.set_run(engine.change_run(tx, run, wrapped_key=wrapped))
    return not gone.old_keys


def rewrite_log(engine: Engine, tx: Tx, row: RefRow, entries: Mapping[int, bytes]) -> None:
    """Replaces entries of a ref's log, given by their numbers."""
    box = Refs(engine).box(row)
    rows = (one for one in _log(tx, row) if one.pos & MAX_SEQ in entries)
    bodies = [(box.close(entries[one.pos & MAX_SEQ], _context(one)), one.pos) for one in rows]
    tx.maintenance.set_bodies("log", bodies)


def renew_ref_key(engine: Engine, tx: Tx, row: RefRow) -> bool:
    """Gives a ref a new data key, if the store is sealed. False if it keeps the old one."""
    new, wrapped = engine.seal.new_box(ref_owner(row.key))
    if row.wrapped_key is None or wrapped is None:
        return True  # the store is plain or being unsealed
    refs = Refs(engine)
    old, data = refs.box(row), refs.data(row)
    if any(_payload(old, one) is None for one in _log(tx, row)):
        return False
    for one in _log(tx, row):
        tx.maintenance.set_bodies("log", [(new.close(_payload(old, one) or b"", _context(one)), one.pos)])
    mac = engine.seal.sign(ref_fields(row), wrapped)
    tx.maintenance.rekey_ref(row._replace(wrapped_key=wrapped, mac=mac, data=new.close(data, ref_context(row))))
    return True


def _log(tx: Tx, row: RefRow) -> Iterator[LogRow]:
    low, high = row.ref << SEQ_BITS, row.ref << SEQ_BITS | MAX_SEQ
    while rows := tx.log_range(low, high, BATCH):
        yield from rows
        low = rows[-1].pos + 1


def _payload(box: Box, row: LogRow) -> bytes | None:
    try:
        return box.open(row.body, _context(row))
    except MISTYPED:
        return None


def _context(row: LogRow) -> bytes:
    return log_context(row.pos, row.created_at, row.id)
