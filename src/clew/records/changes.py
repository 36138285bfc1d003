"""What a mutation changes of a record, and what of it is refused. Values alone; nothing is stored here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clew.backends import RefRow
from clew.engine import Draft
from clew.errors import Conflict, Invalid
from clew.records.kept import Found
from clew.records.shapes import ConversationRecordMutation, MessageFrame, PartialRetention, time_micros
from clew.session_data import record_end


class Change(NamedTuple):
    """A mutation, encoded and checked, before it has a place."""

    mutation: ConversationRecordMutation
    drafts: Sequence[Draft]
    frames: Sequence[MessageFrame]

    @property
    def fields(self) -> list[str]:
        """The fields that are set, as opposed to messages, which are added."""
        named = ("title", "summary", "retention", "metrics")
        return [name for name in named if getattr(self.mutation, name) is not None]


def refuse_stale(found: Found, fields: Sequence[str], expected: int | None) -> None:
    """Conflict if one of the fields was set after the version that the change was made for."""
    version = found.row.version
    if expected is None or expected == version:
        return
    if expected > version:
        raise Conflict(f"the record has version {version}, and never had {expected}", hint="Read it, then try again.")
    late = [name for name in fields if found.kept.changed.get(name, 0) > expected]
    if late:
        raise Conflict(
            f"someone else has set {' and '.join(late)} since version {expected}",
            hint="Read the record, then try again.",
        )


def columns(row: RefRow, retention: PartialRetention) -> dict[str, int | None]:
    """What of a row a retention changes."""
    columns: dict[str, int | None] = {}
    if retention.manual_hold is not None:
        columns["hold"] = int(retention.manual_hold)
    expires, policy = retention.retention_expires_at, retention.retention_policy
    if policy == "workspace-default":
        if expires is not None:
            raise Invalid("the workspace's policy says when a record expires", hint="Leave out retentionExpiresAt.")
        columns["expires_at"] = None
    elif expires is not None:
        columns["expires_at"] = record_end(row.active_at, time_micros(expires))
    elif policy == "custom" and row.expires_at is None:
        raise Invalid("a custom retention needs to know when", hint="Give retentionExpiresAt.")
    return columns


def deeds(row: RefRow, columns: dict[str, int | None]) -> Iterator[str]:
    """What the audit says of a change."""
    if "hold" in columns and bool(columns["hold"]) != bool(row.hold):
        yield "hold" if columns["hold"] else "release"
    if "expires_at" in columns and columns["expires_at"] != row.expires_at:
        yield "retain"
