"""The record fields stored in a session, and conversion from a session to a record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from clew.base.messages import RECORD
from clew.engine.node import Node
from clew.engine.session_data import SessionData, is_record
from clew.errors import Corrupted
from clew.records.expiry import Expiry
from clew.records.frames import ForeignFormat, attachments, frames
from clew.records.schema import (
    SCHEMA,
    Amount,
    AttachmentRef,
    ConversationMetrics,
    ConversationRecord,
    ConversationRecordSummary,
    ConversationSummary,
    MessageFrame,
    PartialMetrics,
    ParticipantRef,
    PrivacyEnvelope,
    RetentionInfo,
    StorageEnvelope,
    plain,
    time_micros,
    time_text,
)
from clew.store.listing import Stated, stored_size
from clew.store.session import Session


class RecordFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The session's `extra` data under ``"clew.record"``; absent if no service has written to the session."""

    schema: int = SCHEMA
    conversation_id: str | None = None
    """None if it equals the session id."""
    created_at: str | None = None
    """None unless the application set it."""
    participants: tuple[ParticipantRef, ...] = ()
    summary: ConversationSummary | None = None
    user_utterances: int = 0
    assistant_utterances: int = 0
    said_at: str | None = None
    """Time of the last message."""
    duration_ms: Amount | None = None
    """None unless the application set it; the default is the time from creation to the last message."""
    average_latency_ms: Amount = 0
    exportable: bool | None = None
    """None if it was never set: see `clew.store.jsonl`."""
    consent_capture: str | None = None
    changed_at: str | None = None
    changed: dict[str, int] = {}
    """For each field, the version in which it was last changed."""
    begun: bool = False
    """True while the conversation has snapshots but no record was created."""
    size: int = 0
    """Stored bytes of the message bodies, from the first message to `sized`."""
    sized: str | None = None
    """Id of the last message that `size` counts. If it is not the session's head, `size` is out of date."""

    def count(self, frames: Sequence[MessageFrame]) -> RecordFields:
        """Adds these messages to the counts."""
        users = sum(frame.role == "user" for frame in frames)
        return msgspec.structs.replace(
            self,
            user_utterances=self.user_utterances + users,
            assistant_utterances=self.assistant_utterances + len(frames) - users,
            said_at=frames[-1].created_at,
        )

    def weigh(self, head: str, size: int) -> RecordFields:
        """Sets the size of the messages down to this head."""
        return msgspec.structs.replace(self, size=size, sized=head)

    def measure(self, metrics: PartialMetrics | None) -> RecordFields:
        """Sets the given metrics."""
        if metrics is None:
            return self
        given = {
            "user_utterances": metrics.user_utterance_count,
            "assistant_utterances": metrics.assistant_utterance_count,
            "duration_ms": metrics.duration_ms,
            "average_latency_ms": metrics.average_latency_ms,
        }
        return msgspec.structs.replace(self, **{name: value for name, value in given.items() if value is not None})

    def into(self, data: SessionData) -> SessionData:
        """The session's data with these fields in it."""
        return msgspec.structs.replace(data, extra={**(data.extra or {}), RECORD: plain(self)})


def record_fields(data: SessionData, where: str) -> RecordFields:
    """The record fields of a session's data. Raises Corrupted if they cannot be read."""
    stored: Any = (data.extra or {}).get(RECORD)
    try:
        return RecordFields() if stored is None else msgspec.convert(stored, RecordFields)
    except msgspec.ValidationError:
        raise ForeignFormat(where, "its record data does not decode") from None


class RecordMessages(NamedTuple):
    """All messages of a record, with values computed from them."""

    head: str | None
    """Id of the last message."""
    depth: int
    size: int
    """Stored bytes of the message bodies."""
    frames: tuple[MessageFrame, ...]
    attachments: tuple[AttachmentRef, ...]
    """The attachments of all frames, without duplicates."""
    digest: Any
    """SHA-256 of the frames as JSON, without the closing bracket."""
    damage: tuple[Corrupted, ...]
    """The errors of unreadable messages."""

    @classmethod
    def none(cls) -> RecordMessages:
        """No messages."""
        from hashlib import sha256

        return cls(None, -1, 0, (), (), sha256(b"["), ())

    def plus(self, nodes: Sequence[Node]) -> RecordMessages:
        """Appends messages. Raises Corrupted if a newer version of clew wrote one of them."""
        if not nodes:
            return self
        damage: list[Corrupted] = []
        new = tuple(frames(nodes, damage, self.frames[-1].sequence if self.frames else 0))
        digest = self.digest.copy()
        if new:
            digest.update(b"," * bool(self.frames) + msgspec.json.encode(new)[1:-1])
        last = nodes[-1]
        return RecordMessages(
            last.id, last.depth, self.size + size_of(nodes), self.frames + new,
            attachments(new, self.attachments), digest, (*self.damage, *damage),
        )  # fmt: skip

    @property
    def checksum(self) -> str:
        """SHA-256 of the frames as JSON."""
        digest = self.digest.copy()
        digest.update(b"]")
        return str(digest.hexdigest())


def size_of(nodes: Iterable[Node]) -> int:
    """Stored bytes of the bodies of messages."""
    return sum(node.size for node in nodes)


class StoredRecord(NamedTuple):
    """A session as read in one transaction."""

    session: Session
    stated: Stated
    data: SessionData
    fields: RecordFields

    @property
    def conversation_id(self) -> str:
        """The conversation id as the application wrote it."""
        return self.fields.conversation_id or self.session.id

    @property
    def created_at(self) -> str:
        """The time that the application gave, or else the time the session was created."""
        return self.fields.created_at or time_text(self.stated.created_at)

    @property
    def last_interaction_at(self) -> str:
        """When its last message was stored."""
        return time_text(self.stated.active_at)

    @property
    def words(self) -> int:
        """Bytes of the title, summary and participants."""
        return len(msgspec.json.encode((self.data.title, self.fields.summary, self.fields.participants)))

    def summary(self, expiry: Expiry) -> ConversationRecordSummary:
        """The session as an item of a list."""
        return ConversationRecordSummary(
            conversation_id=self.conversation_id, title=self.data.title or "", created_at=self.created_at,
            last_interaction_at=self.last_interaction_at, summary=self.fields.summary,
            participants=self.fields.participants, metrics=self._metrics(), retention=self._retention(expiry),
            privacy=self._privacy(),
        )  # fmt: skip

    def record(self, expiry: Expiry, messages: RecordMessages) -> ConversationRecord:
        """The session as a record with these messages."""
        storage = StorageEnvelope(
            blob_uri=f"sessions/{self.session.id}", blob_version=self.stated.version,
            size_bytes=messages.size + stored_size(self.session), checksum=messages.checksum,
            last_compacted_at=self.fields.changed_at,
        )  # fmt: skip
        return ConversationRecord(
            conversation_id=self.conversation_id, version=SCHEMA, title=self.data.title or "",
            created_at=self.created_at, last_interaction_at=self.last_interaction_at, summary=self.fields.summary,
            participants=self.fields.participants, messages=messages.frames, attachments=messages.attachments or None,
            metrics=self._metrics(), retention=self._retention(expiry), privacy=self._privacy(), storage=storage,
        )  # fmt: skip

    def _retention(self, expiry: Expiry) -> RetentionInfo:
        return expiry.info(self.session, is_record(self.data))

    def _metrics(self) -> ConversationMetrics:
        fields = self.fields
        until = self.created_at if fields.said_at is None else fields.said_at
        lasted = max(0, time_micros(until) - time_micros(self.created_at)) // 1000
        return ConversationMetrics(
            user_utterance_count=fields.user_utterances,
            assistant_utterance_count=fields.assistant_utterances,
            duration_ms=lasted if fields.duration_ms is None else fields.duration_ms,
            average_latency_ms=fields.average_latency_ms,
        )

    def _privacy(self) -> PrivacyEnvelope:
        fields = self.fields
        exportable = fields.exportable is not False
        return PrivacyEnvelope(
            classification="Confidential", exportable=exportable, consent_capture=fields.consent_capture
        )
