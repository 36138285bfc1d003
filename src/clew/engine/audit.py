"""The audit log: who did what and when. Its entries hold no content.

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
from clew.base.values import whole_number
from clew.engine.engine import Engine
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
    """The action: ``purge``, ``hold``, …"""
    subject: str
    """The id of the session, receipt or key."""
    actor: str | None
    """Who did it, if known."""
    reason: str | None
    """Why, as one word."""
    amount: int
    """Number of messages of a purge, or of sessions of a sweep."""
    id: str


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event as it is stored in the log."""

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
        """Records an event of your own, durable when this returns. Invalid if an argument may be content.

        `kind` and `reason` are lowercase words, `subject` is an id or a name without spaces. `actor` defaults to the
        actor that the store was opened for.
        """
        for given in (subject, actor):
            text = given.encode() if isinstance(given, str) and given.isprintable() else b""
            if self._engine.redacted(text) != text:
                raise Invalid("a redaction rule matches the subject or actor of this event", hint="Use an id instead.")
        record_event(self._engine, self._refs, kind, subject, actor, reason=reason, amount=amount)

    def read(
        self, *, since: datetime | None = None, until: datetime | None = None, kind: str | None = None
    ) -> Iterator[AuditEvent]:
        """The events, oldest first: from `since`, before `until`, of one kind or of all."""
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
        """The events of `read`, each as one line of JSON, for storing elsewhere."""
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
    """`Audit.record` for clew's own events: their subjects are ids, which are not redacted."""
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
    """Records an event in the transaction of the action. Invalid as in `Audit.record`."""
    _word("kind", kind)
    if reason is not None:
        _word("reason", reason)
    if not isinstance(subject, str) or not _NAME.fullmatch(subject):
        raise Invalid("the subject of an event must be an id, or a name without spaces")
    who = engine.actor if actor is None else actor_name(actor)
    stored = _Stored(kind, subject, who, reason, whole_number("amount", amount, 0))
    row = refs.add_own(tx, AUDIT)
    append_in(engine, tx, row, [(engine.new_id(), msgspec.json.encode(stored))])


def note_if_enabled(engine: Engine, refs: Refs, tx: Tx, kind: str, subject: str, *, amount: int = 1) -> None:
    """`note`, if the store was opened with ``audit=True``."""
    if engine.audits:
        note(engine, refs, tx, kind, subject, amount=amount)


def actor_name(actor: str | None) -> str | None:
    """`actor`, if it is a name or None. Invalid."""
    if actor is not None and not (isinstance(actor, str) and 0 < len(actor) <= _ACTOR and actor.isprintable()):
        raise Invalid(f"an actor must be a name of up to {_ACTOR} characters")
    return actor


def _word(name: str, value: str) -> None:
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise Invalid(f"the {name} of an event must be a lowercase word")


def _event(entry: Entry) -> AuditEvent:
    try:
        stored = msgspec.json.decode(entry.data, type=_Stored)
    except msgspec.DecodeError:
        raise Corrupted(f"entry {entry.number} of the audit", "it does not decode") from None
    return AuditEvent(
        entry.created_at, stored.kind, stored.subject, stored.actor, stored.reason, stored.amount, entry.id
    )
