"""The types of a conversation record, as programs in other languages read and write them.

Fields have Python names here and the schema's names in JSON (``conversationId``). An optional field is None here and
absent in JSON; all other fields are always written. Times are text as JavaScript writes it, in UTC with milliseconds;
any ISO 8601 time with a time zone is accepted and converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from clew.engine.node import microseconds, moment
from clew.engine.receipts import Reason
from clew.errors import Invalid, clip

SCHEMA = 1
"""The value of `ConversationRecord.version`."""
BLOBS = "blobs/"
"""Prefix of an attachment's `uri`. A path to a file would lead out of the store."""

MOST = 2**53 - 1
"""The largest integer that every JSON reader reads exactly."""

Id = Annotated[str, Meta(min_length=1, max_length=512)]
_decode = msgspec.json.Decoder().decode
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)\Z")]
Count = Annotated[int, Meta(ge=0, le=MOST)]
Amount = Annotated[int, Meta(ge=0, le=MOST)] | Annotated[float, Meta(ge=0, le=MOST)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
BlobUri = Annotated[str, Meta(pattern=rf"^{BLOBS}[0-9a-f]{{64}}\Z")]
Token = Annotated[str, Meta(pattern=r"^([a-z0-9._-]{1,64}:)?[0-9a-f]{32,128}\Z")]
"""A keyed hash in hex, optionally after the name of its rule. Shorter text could be the secret itself."""

PurgeReason = Reason
JsonInput = Mapping[str, Any] | bytes | str
"""A value of the schema as JSON text or decoded JSON."""


class RecordStruct(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """Base class of the schema's types. Only optional fields have a default."""

    _times: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self._times:
            given = getattr(self, name)
            if given is not None and not _is_time_text(given):
                msgspec.structs.force_setattr(self, name, time_text(time_micros(given)))


class ParticipantRef(RecordStruct, frozen=True, kw_only=True):
    """A participant of the conversation."""

    id: Id
    role: Literal["user", "assistant", "system"]
    display_name: str | None = None


class AttachmentRef(RecordStruct, frozen=True, kw_only=True):
    """A file that belongs to a message; `RecordService.attach` creates it."""

    attachment_id: Id
    type: Literal["audio", "transcript", "code", "document"]
    uri: BlobUri
    checksum: Digest
    byte_length: Count


class AudioArtifactRef(RecordStruct, frozen=True, kw_only=True):
    """An audio recording of a message; its bytes are stored as an attachment."""

    uri: BlobUri
    format: Literal["pcm16", "opus"]
    duration_ms: Amount


class FramePrivacy(RecordStruct, frozen=True, kw_only=True):
    """What was redacted from a message before it was stored."""

    contains_secrets: bool
    redaction_rules_applied: tuple[str, ...]
    pii_tokens: tuple[Token, ...] | None = None


class MessageFrame(RecordStruct, frozen=True, kw_only=True):
    """One message."""

    _times = ("created_at",)

    frame_id: Id
    sequence: Count
    role: Literal["user", "assistant"]
    content: str
    created_at: Time
    attachments: tuple[AttachmentRef, ...] | None = None
    privacy: FramePrivacy
    audio: AudioArtifactRef | None = None


class ConversationSummary(RecordStruct, frozen=True, kw_only=True):
    """A summary of the conversation."""

    _times = ("last_updated_at",)

    synopsis: str
    last_updated_at: Time
    keywords: tuple[str, ...]
    action_items: tuple[str, ...] | None = None


class ConversationMetrics(RecordStruct, frozen=True, kw_only=True):
    """Message counts, duration and latency."""

    user_utterance_count: Count
    assistant_utterance_count: Count
    duration_ms: Amount
    average_latency_ms: Amount


class PartialMetrics(RecordStruct, frozen=True, kw_only=True):
    """Some of the metrics. Fields that are absent keep their values."""

    user_utterance_count: Count | None = None
    assistant_utterance_count: Count | None = None
    duration_ms: Amount | None = None
    average_latency_ms: Amount | None = None


class RetentionInfo(RecordStruct, frozen=True, kw_only=True):
    """How long a record is kept."""

    _times = ("retention_expires_at",)

    retention_expires_at: Time
    retention_policy: Literal["workspace-default", "custom"]
    manual_hold: bool | None = None


class PartialRetention(RecordStruct, frozen=True, kw_only=True):
    """Some of the retention fields. Fields that are absent keep their values."""

    _times = ("retention_expires_at",)

    retention_expires_at: Time | None = None
    retention_policy: Literal["workspace-default", "custom"] | None = None
    manual_hold: bool | None = None


class PrivacyEnvelope(RecordStruct, frozen=True, kw_only=True):
    """The classification of a record, and whether it may be exported."""

    classification: Literal["Confidential"]
    exportable: bool
    consent_capture: str | None = None


class StorageEnvelope(RecordStruct, frozen=True, kw_only=True):
    """Where a record is stored. Computed on each read."""

    _times = ("last_compacted_at",)

    blob_uri: str
    blob_version: Count
    """The session's version; `expected_version` is compared with it."""
    size_bytes: Count
    """Stored bytes of the messages and of the session's data."""
    checksum: Digest
    """SHA-256 of `messages` as JSON."""
    last_compacted_at: Time | None = None
    """When the record was last changed, which is also when the previous revision was removed."""


class ConversationRecord(RecordStruct, frozen=True, kw_only=True):
    """A complete conversation."""

    _times = ("created_at", "last_interaction_at")

    conversation_id: Id
    version: Count
    title: str
    created_at: Time
    last_interaction_at: Time
    summary: ConversationSummary | None = None
    participants: tuple[ParticipantRef, ...]
    messages: tuple[MessageFrame, ...]
    attachments: tuple[AttachmentRef, ...] | None = None
    metrics: ConversationMetrics
    retention: RetentionInfo
    privacy: PrivacyEnvelope
    storage: StorageEnvelope


class ConversationRecordSummary(RecordStruct, frozen=True, kw_only=True):
    """A conversation in a list: a record without its messages."""

    _times = ("created_at", "last_interaction_at")

    conversation_id: Id
    title: str
    created_at: Time
    last_interaction_at: Time
    summary: ConversationSummary | None = None
    participants: tuple[ParticipantRef, ...]
    metrics: ConversationMetrics
    retention: RetentionInfo
    privacy: PrivacyEnvelope


class ConversationRecordInput(RecordStruct, frozen=True, kw_only=True):
    """A record to be created."""

    _times = ("created_at",)

    conversation_id: Id
    title: str
    created_at: Time
    participants: tuple[ParticipantRef, ...]
    messages: tuple[MessageFrame, ...]
    summary: ConversationSummary | None = None
    metrics: PartialMetrics | None = None


class ConversationRecordMutation(RecordStruct, frozen=True, kw_only=True):
    """A change to a record. Fields that are absent keep their values."""

    title: str | None = None
    append_messages: tuple[MessageFrame, ...] | None = None
    summary: ConversationSummary | None = None
    retention: PartialRetention | None = None
    metrics: PartialMetrics | None = None


class RecoverySnapshot(RecordStruct, frozen=True, kw_only=True):
    """The uncommitted part of an active conversation."""

    _times = ("last_interaction_at", "updated_at")

    conversation_id: Id
    session_id: Id
    last_interaction_at: Time
    pending_messages: tuple[MessageFrame, ...]
    updated_at: Time
    summary: ConversationSummary | None = None
    metrics: PartialMetrics | None = None


class EncryptedBlob(RecordStruct, frozen=True, kw_only=True):
    """An exported record, encrypted with AES-256-GCM. In JSON, bytes are base64."""

    _times = ("created_at",)

    conversation_id: Id
    schema_version: Count
    cipher_text: bytes
    iv: Annotated[bytes, Meta(min_length=12, max_length=12)]
    auth_tag: Annotated[bytes, Meta(min_length=16, max_length=16)]
    created_at: Time
    """When the blob was made."""
    checksum: Digest
    """SHA-256 of the record's JSON."""


class ListResult(RecordStruct, frozen=True, kw_only=True):
    """A page of records, last interaction first, with a cursor for the next page."""

    items: tuple[ConversationRecordSummary, ...]
    next_cursor: str | None = None
    total_count: Count


class PurgeFailure(RecordStruct, frozen=True, kw_only=True):
    """A record that was not purged, and why."""

    conversation_id: Id
    error: str


class PurgeReport(RecordStruct, frozen=True, kw_only=True):
    """The result of a purge."""

    _times = ("started_at", "completed_at")

    reason: PurgeReason
    started_at: Time
    completed_at: Time
    purged_count: Count
    failures: tuple[PurgeFailure, ...]


# -- times


def time_text(micros: int) -> str:
    """A stored time as text, in JavaScript's format."""
    return f"{moment(micros).isoformat(timespec='milliseconds')[:23]}Z"


def _is_time_text(given: object) -> bool:
    """True for a time in the format of `time_text`, which needs no conversion."""
    if type(given) is not str or len(given) != 24 or given[10] + given[19] + given[23] != "T.Z":
        return False
    try:
        datetime.fromisoformat(given)
    except ValueError:
        return False
    return True


def time_micros(text: object) -> int:
    """A time text as microseconds. Raises Invalid."""
    try:
        if not isinstance(text, str):
            raise ValueError
        return microseconds(datetime.fromisoformat(text))
    except (ValueError, Invalid):
        raise Invalid(
            f"{clip(str(text))} is not a time", hint="Use ISO 8601 with a time zone: 2025-10-21T12:00:00.000Z."
        ) from None


# -- JSON


def to_json(value: msgspec.Struct) -> bytes:
    """Encodes a value as JSON in the form of the schema. Raises Invalid if its text is not valid Unicode."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise Invalid("the text has a lone surrogate", hint="Decode it with errors='replace'.") from None


def plain(value: msgspec.Struct) -> Any:
    """`value` as decoded JSON, with lists for tuples: the store compares what it reads with that. Raises Invalid."""
    return _decode(to_json(value))
