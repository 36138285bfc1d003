"""The audit: who did what and when, as entries of a log of the store's own. They hold no content.

Deletions, holds and key changes are always recorded, in the same transaction: purge, hold, release, retain, retention,
sweep, seal, unseal, rotate. Other events are recorded if the store was opened with ``audit=True``: create, trash,
restore, delete, export, and the opening of a sealed store. Appends are never recorded: the messages show them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec

from clew.backends import Tx
from clew.engine.engine import Engine, whole_number
from clew.engine.log import Entry, Log, append_in
from clew.engine.node import microseconds
from clew.engine.refs import Refs
from clew.errors import Corrupted, Invalid

AUDIT = "audit"
"""Kind of the one ref whose log is the audit."""

_WORD = re.compile(r"[a-z][a-z0-9.-]{0,63}")
_NAME = re.compile(r"[!-~]{1,128}")
_ACTOR = 128


class AuditEvent(NamedTuple):
    """One entry of the audit."""

    at: datetime
    kind: str
    """What was done: ``purge``, ``hold``, …"""
    subject: str
    """To what: the id of a session, of a receipt, of a key."""
    actor: str | None
    """By whom, if that was said."""
    reason: str | None
    """Why, as one word."""
    amount: int
    """How many: messages of a purge, sessions of a sweep."""
    id: str


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """A event as the log keeps it."""

    kind: str
    subject: str
    actor: str | None = None
    reason: str | None = None
    amount: int = 1


class Audit:
    """The audit of a store."""

    def __init__(self, engine: Engine, refs: Refs) -> None:
        self._engine = engine
        self._refs = refs

    def record(
        self, kind: str, subject: str, actor: str | None = None, *, reason: str | None = None, amount: int = 1
    ) -> None:
        """Notes a event of your own, durable when this returns. Invalid if it does not look free of content.

        `kind` and `reason` are words of small letters, `subject` an id or a name without blanks; `actor` is the one the
        store was opened for, unless another is named.
        """
        for given in (subject, actor):
            text = given.encode() if isinstance(given, str) and given.isprintable() else b""
            if self._engine.redacted(text) != text:
                raise Invalid("a redaction rule finds something in this event", hint="Name an id instead.")
        record_event(self._engine, self._refs, kind, subject, actor, reason=reason, amount=amount)

    def read(
        self, *, since: datetime | None = None, until: datetime | None = None, kind: str | None = None
    ) -> Iterator[AuditEvent]:
        """What was done, oldest first: from `since` up to and without `until`, of one kind or of all."""
        for moment in (since, until):
            if moment is not None:
                microseconds(moment)
        if kind is not None:
            _word("kind", kind)
        row = self._engine.read(lambda tx: self._refs.own(tx, AUDIT))
        entries = iter(()) if row is None else Log(self._engine, lambda: row).read()
        return (
            event
            for event in map(_event, entries)
            if (since is None or event.at >= since)
            and (until is None or event.at < until)
            and (kind is None or event.kind == kind)
        )

    def jsonl(
        self, *, since: datetime | None = None, until: datetime | None = None, kind: str | None = None
    ) -> Iterator[str]:
        """What `read` gives, each as one line of JSON, to be kept elsewhere."""
        return (
            msgspec.json.encode(event._asdict()).decode() for event in self.read(since=since, until=until, kind=kind)
        )


def record_event(
    engine: Engine,
    refs: Refs,
    kind: str,
    subject: str,
    actor: str | None = None,
    *,
    reason: str | None = None,
    amount: int = 1,
) -> None:
    """`Audit.record` for clew's own events: their subjects are ids, which no rule is to redact."""
    engine.write(lambda tx: note(engine, refs, tx, kind, subject, actor=actor, reason=reason, amount=amount))


def note(
    engine: Engine,
    refs: Refs,
    tx: Tx,
    kind: str,
    subject: str,
    *,
    actor: str | None = None,
    reason: str | None = None,
    amount: int = 1,
) -> None:
    """Notes a event as a step of the transaction that does it. Invalid as in `Audit.record`."""
    _word("kind", kind)
    if reason is not None:
        _word("reason", reason)
    if not isinstance(subject, str) or not _NAME.fullmatch(subject):
        raise Invalid("the subject of a event is an id, or a name without blanks")
    who = engine.actor if actor is None else actor_name(actor)
    stored = _Stored(kind, subject, who, reason, whole_number("amount", amount, 0))
    row = refs.add_own(tx, AUDIT)
    append_in(Log(engine, lambda: row), tx, row, [(engine.new_id(), msgspec.json.encode(stored))])


def note_if_enabled(engine: Engine, refs: Refs, tx: Tx, kind: str, subject: str, *, amount: int = 1) -> None:
    """Notes a event if the store was opened with ``audit=True``."""
    if engine.audits:
        note(engine, refs, tx, kind, subject, amount=amount)


def actor_name(actor: str | None) -> str | None:
    """`actor`, if it is a name or None. Invalid."""
    if actor is not None and not (isinstance(actor, str) and 0 < len(actor) <= _ACTOR and actor.isprintable()):
        raise Invalid(f"an actor is a name of up to {_ACTOR} letters")
    return actor


def _word(name: str, value: str) -> None:
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise Invalid(f"the {name} of a event is a word of small letters")


def _event(entry: Entry) -> AuditEvent:
    try:
        stored = msgspec.json.decode(entry.data, type=_Stored)
    except msgspec.DecodeError:
        raise Corrupted(f"entry {entry.number} of the audit", "it does not decode") from None
    return AuditEvent(
        entry.created_at, stored.kind, stored.subject, stored.actor, stored.reason, stored.amount, entry.id
    )
