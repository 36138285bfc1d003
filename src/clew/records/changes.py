"""Computes how a mutation changes a record and refuses invalid changes. Stores nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

from clew.engine.session_data import record_end
from clew.errors import Conflict, Invalid
from clew.records.record_data import StoredRecord
from clew.records.schema import ConversationRecordMutation, MessageFrame, PartialRetention, time_micros
from clew.store.unit import Draft


class RecordChange(NamedTuple):
    """A mutation, encoded and checked."""

    mutation: ConversationRecordMutation
    drafts: Sequence[Draft]
    frames: Sequence[MessageFrame]

    @property
    def fields(self) -> list[str]:
        """The names of the fields that are set. Messages are not fields: they are appended."""
        named = ("title", "summary", "retention", "metrics")
        return [name for name in named if getattr(self.mutation, name) is not None]


def refuse_stale(found: StoredRecord, fields: Sequence[str], expected: int | None) -> None:
    """Raises Conflict if one of the fields was set after version `expected`."""
    version = found.stated.version
    if expected is None or expected == version:
        return
    if expected > version:
        raise Conflict(f"the record has version {version}, not {expected}", hint="Read the record and try again.")
    late = [name for name in fields if found.fields.changed.get(name, 0) > expected]
    if late:
        raise Conflict(
            f"another writer set {' and '.join(late)} since version {expected}",
            hint="Read the record and try again.",
        )


class Columns(TypedDict, total=False):
    """What a retention changes of a session: see `Unit.save`."""

    hold: bool
    expires_at: int | None


def columns(found: StoredRecord, retention: PartialRetention) -> Columns:
    """What a retention changes of a session. Raises Invalid."""
    columns = Columns()
    if retention.manual_hold is not None:
        columns["hold"] = retention.manual_hold
    expires, policy = retention.retention_expires_at, retention.retention_policy
    if policy == "workspace-default":
        if expires is not None:
            raise Invalid("the workspace's policy sets when a record expires", hint="Omit retentionExpiresAt.")
        columns["expires_at"] = None
    elif expires is not None:
        columns["expires_at"] = record_end(found.stated.active_at, time_micros(expires))
    elif policy == "custom" and found.session.expires_at is None:
        raise Invalid("a custom retention needs retentionExpiresAt", hint="Set retentionExpiresAt.")
    return columns
