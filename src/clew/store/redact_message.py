"""Removes secrets from a stored message: replaces it with a new version, and purges the old one.

The new version has the same id and the same place in the tree. So every conversation, branch, fork, compaction,
snapshot and checkpoint that has the message has the new version, and an import or a repeated append knows it.

In a sealed store, no key of the store can read the replaced bytes any more: the run or the ref gets a new data key. It
keeps the old key only if something else that the key encrypts is damaged.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from clew import redaction
from clew.backends import MAX_POS, MAX_SEQ, POS, SEQ_BITS, LogRow, RefRow, Tx
from clew.base import ids
from clew.engine import deletion, titles
from clew.engine.deletion import SESSION_KINDS, RunCut
from clew.engine.engine import Engine
from clew.engine.log import Log
from clew.engine.node import Node, body_context, node_payload, node_row, run_info
from clew.engine.receipts import Failure, Receipt
from clew.engine.refs import Refs
from clew.engine.sealing.envelope import MISTYPED, Box, log_context, ref_context, ref_fields, ref_owner
from clew.engine.session_data import SOURCE, SessionData, label_set, pack, unpack
from clew.errors import Conflict, Corrupted, Invalid, NotFound
from clew.redaction import Finding, Rules
from clew.store.parts import Parts
from clew.store.store import Store
from clew.upkeep.purge import DestroyedBodies

TRIES = 5
"""How often a redaction is prepared, if other programs change the same conversations at the same time."""
_COPIES = ("snapshot", "recovery")
"""Kinds of refs whose data may repeat a message of their tree."""
_DOCUMENT, _STATE = "document", "state"
"""Kinds of refs in which adapters keep JSON, and states of agents as their frameworks write them."""
_IN_STATE = "a state that its agent framework keeps still has it; prune the states, or purge the conversation"
_OLD_KEY = "a data key stays, because something else that it encrypts is damaged"


class RedactedMessage(NamedTuple):
    """What `redact_message` did."""

    id: str
    findings: tuple[Finding, ...]
    """The findings that were removed; empty if the rules found nothing. Then nothing was changed."""
    sessions: tuple[str, ...]
    """The sessions that have the message, and now its new version, including those in the trash."""
    copies: int
    """Titles, data and log entries of these sessions that repeated a removed value, and were redacted, too."""
    receipt: Receipt | None
    """The receipt of the old version's purge; None if nothing was found."""


def redact_message(store: Store, node: Node, rules: Rules, *, dry_run: bool = False) -> RedactedMessage:
    """Replaces a message with a version without the matches of the rules, and purges the old one.

    The removed values are also removed from titles, free data and logs of the sessions that have the message. All or
    nothing, up to the clearing of files, which the receipt reports. Other messages and attachments do not change.
    With `dry_run` nothing changes, and the result says what would. NotFound; Corrupted if the message cannot be read;
    Conflict if a hold covers it; Invalid if `node` is not a node.
    """
    if not isinstance(node, Node):
        raise Invalid(f"node must be a Node, not {type(node).__name__}", hint="Read it with store.nodes.get(id).")
    for _ in range(TRIES - 1):
        try:
            return _Redaction(store, node, rules).run(dry_run=dry_run)
        except _ChangedMeanwhile:
            (node,) = store.nodes.get(node.id)
    return _Redaction(store, node, rules).run(dry_run=dry_run)


class _ChangedMeanwhile(Conflict):
    """The message, or a conversation that has it, was changed after the redaction was prepared."""


class _Values:
    """Collects the values that rules find. They never leave this module."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.found: set[str] = set()

    def token(self, rule: str, value: str) -> str:
        self.found.add(value)
        return self._parts.engine.token(rule, value)


class _Copies(NamedTuple):
    """The parts of one ref that repeat a value."""

    payload: bytes | None
    """Its redacted data; None if that does not change."""
    entries: dict[int, bytes]
    """Redacted entries of its log, by their numbers."""
    length: int
    version: int
    stays: bool = False
    """True if it repeats a value, and cannot be changed."""


class _Redaction:
    """One redaction: prepared by reads alone, then written in one transaction."""

    def __init__(self, store: Store, node: Node, rules: Rules) -> None:
        self._parts = Parts.of(store)
        self._engine = self._parts.engine
        self._node, self._rules = node, rules
        self._values = _Values(self._parts)
        self._old = node_payload(node)
        self._clean = redaction.redact(node.said, rules, token=self._values.token)
        self._copies: dict[int, _Copies] = {}
        self._shown: tuple[str, ...] = ()

    def run(self, *, dry_run: bool) -> RedactedMessage:
        if not self._clean.findings:
            return RedactedMessage(self._node.id, (), (), 0, None)
        for row in self._engine.read(self._concerned):
            self._copies[row.ref] = self._copies_in(row)
        receipt = self._parts.purger.destroy(self._write, reason="user-requested", dry_run=dry_run)
        count = sum(len(one.entries) + (one.payload is not None) for one in self._copies.values())
        return RedactedMessage(self._node.id, self._clean.findings, self._shown, count, receipt)

    # -- preparing

    def _concerned(self, tx: Tx) -> list[RefRow]:
        """The sessions that have the message, what they own, and the snapshots of its tree. NotFound."""
        cut = self._cut(tx)
        found = deletion.sessions_at(tx, [cut])
        for one in found:
            owned = (*SESSION_KINDS, *_COPIES, _DOCUMENT, _STATE)
            found += [below for below in tx.refs_owned(one.ref) if below.kind in owned]
        found += [one for one in tx.refs_in_tree(cut.run.tree, 0, MAX_POS) if one.kind in _COPIES]
        return list({one.ref: one for one in found}.values())

    def _cut(self, tx: Tx) -> RunCut:
        pos = self._pos(tx)
        run = tx.run(pos >> SEQ_BITS)
        assert run is not None
        return RunCut(run, pos & MAX_SEQ)

    def _pos(self, tx: Tx) -> int:
        place = tx.node(ids.parse(self._node.id))
        if place is None or tx.tree_workspace(place.tree) != self._engine.workspace:
            raise NotFound("message", self._node.id)
        return place.row[POS]

    def _copies_in(self, row: RefRow) -> _Copies:
        payload = self._parts.refs.data(self._parts.refs.verify(row))
        if row.kind == _STATE:
            logged = [entry.data for entry in Log(self._engine, lambda: row).read()]
            stays = any(self._is_in(data) for data in (*_encoded(payload[1:]), *logged))
            return _Copies(None, {}, len(logged), row.version, stays)
        titled = self._retitled(payload) if row.kind in SESSION_KINDS else payload
        data = titled[:1] + self._without(titled[1:], own=True)
        entries, length = dict[int, bytes](), 0
        for entry in Log(self._engine, lambda: row).read():
            length = entry.number + 1
            clean = self._without(entry.data)
            if clean != entry.data:
                entries[entry.number] = clean
        return _Copies(None if data == payload else data, entries, length, row.version)

    def _retitled(self, payload: bytes) -> bytes:
        """The data of a session without titles that were made from the message: a cut title may end in a secret."""
        data, old, new = unpack(payload), self._node.said, self._clean.said
        extra, title = dict(data.extra or {}), titles.renewed(data.title, old, new)
        origin = extra.get(SOURCE)
        if isinstance(origin, dict) and isinstance(told := origin.get("title"), str):
            extra[SOURCE] = {**origin, "title": titles.renewed(told, old, new)}
        if (title, extra) == (data.title, data.extra or {}):
            return payload
        return pack(msgspec.structs.replace(data, title=title, extra=extra))

    def _without(self, data: bytes, *, own: bool = False) -> bytes:
        """`data` after redaction, if it repeats a value that was found in the message; else unchanged."""
        here = _Values(self._parts)
        clean = redaction.redact_bytes(data, self._rules, own=own, token=here.token)
        return clean if here.found & self._values.found else data

    def _is_in(self, data: bytes) -> bool:
        """True if bytes of another program repeat a value that was found in the message."""
        return any(value.encode(errors="replace") in data for value in self._values.found)

    # -- writing

    def _write(self, tx: Tx) -> DestroyedBodies:
        place = tx.node_at(self._pos(tx))
        assert place is not None
        node, rows = self._engine.node(place), self._concerned(tx)
        now = {row.ref: (tx.log_next(row.ref) & MAX_SEQ, row.version) for row in rows}
        if node_payload(node) != self._old or now != {
            ref: (one.length, one.version) for ref, one in self._copies.items()
        }:
            raise _ChangedMeanwhile("the message was changed meanwhile", hint="Try again.")
        holder = deletion.held_by(self._engine, tx, node_row(node)[POS])
        if holder is not None and not holder.hold:
            raise Corrupted(f"{holder.kind} {ids.text(holder.key)}", "its row does not show whether it is held")
        if holder is not None:
            raise Conflict(f"{holder.kind} {ids.text(holder.key)} is held", hint="Release it first.")
        draft = self._engine.draft(self._clean.said, self._node.id, stored=True)
        renewed = rewrite_node(self._engine, tx, node, draft.encoded.payload)
        failures = [] if renewed else [Failure(self._node.id, _OLD_KEY)]
        with_it = {row.ref for row in deletion.sessions_at(tx, [self._cut(tx)])}
        kept = [row for row in rows if not self._rewrite(tx, row, self._copies[row.ref], noted=row.ref in with_it)]
        failures += [Failure(ids.text(row.key), _OLD_KEY) for row in kept]
        failures += [Failure(self._node.id, _IN_STATE)] * any(one.stays for one in self._copies.values())
        self._shown = tuple(deletion.shown_by(tx, node_row(node)[POS]))
        return DestroyedBodies(1, len(node_row(node)[-1]), tuple(failures), self._shown, self._shown)

    def _rewrite(self, tx: Tx, row: RefRow, copies: _Copies, *, noted: bool) -> bool:
        """Redacts the data and the log of a ref. False if it keeps its data key.

        A session that has the message is `noted` as redacted even if nothing else of it repeats a value: what its
        source adds later may.
        """
        data = self._parts.refs.data(row) if copies.payload is None and noted else copies.payload
        if data is not None:
            if row.kind in SESSION_KINDS:
                row = self._parts.table.change(tx, row, self._annotated(unpack(data)))
            else:
                row = self._parts.refs.change(tx, row, data, look=row.look)
        if copies.payload is None and not copies.entries:
            return True
        if copies.entries:
            rewrite_log(self._engine, tx, row, copies.entries)
        return renew_ref_key(self._engine, tx, row)

    def _annotated(self, data: SessionData) -> SessionData:
        """The data of a session, with the note that it was redacted: imports do not change its title."""
        applied = sorted({one.rule for one in self._clean.findings})
        note = {"containsSecrets": True, "redactionRulesApplied": applied}
        extra = {**(data.extra or {}), redaction.NOTE: note}
        return msgspec.structs.replace(data, labels=label_set(data.labels), extra=extra)


def _encoded(payload: bytes) -> Iterator[bytes]:
    """The texts in the JSON of a state, and the bytes that are in it as base64."""
    left = [msgspec.json.decode(payload)]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str):
            yield value.encode()
            with suppress(ValueError):
                yield base64.b64decode(value, validate=True)


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
