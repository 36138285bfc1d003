"""The shapes of a conversation record, as a program in another language reads and writes them.

In Python the fields have Python's names; written as JSON they have those of the schema (``conversationId``). What the
schema calls optional is None here and left out there; everything else is always written. Times are text as JavaScript
writes it, in UTC with milliseconds: any ISO 8601 time with its zone is taken and brought into that form.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Meta

from clew.errors import Invalid, clip
from clew.node import microseconds, moment
from clew.receipts import Reason

SCHEMA = 1
"""What `ConversationRecord.version` says."""
BLOBS = "blobs/"
"""What the `uri` of an attachment begins with: a path below it would have to leave the store."""

MOST = 2**53 - 1
"""The highest whole number that every reader of JSON reads exactly."""

Id = Annotated[str, Meta(min_length=1, max_length=512)]
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)\Z")]
Count = Annotated[int, Meta(ge=0, le=MOST)]
Amount = Annotated[int, Meta(ge=0, le=MOST)] | Annotated[float, Meta(ge=0, le=MOST)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
BlobUri = Annotated[str, Meta(pattern=rf"^{BLOBS}[0-9a-f]{{64}}\Z")]
Token = Annotated[str, Meta(pattern=r"^([a-z0-9._-]{1,64}:)?[0-9a-f]{32,128}\Z")]
"""A keyed hash in hex, with or without its rule's name before it: what is shorter could be the thing itself."""

PurgeReason = Reason
Given = Mapping[str, Any] | bytes | str
"""A shape as JSON, or as what JSON decodes to."""
T = TypeVar("T")


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What the shapes have in common. Only what is optional has a default."""

    _times: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self._times:
            given = getattr(self, name)
            if given is not None:
                micros = time_micros(given)
                if len(given) != 24 or given[10] + given[19] + given[23] != "T.Z":  # it is not in that form yet
                    msgspec.structs.force_setattr(self, name, time_text(micros))


class ParticipantRef(Shape, frozen=True, kw_only=True):
    """Someone who takes part."""

    id: Id
    role: Literal["user", "assistant", "system"]
    display_name: str | None = None


class AttachmentRef(Shape, frozen=True, kw_only=True):
    """A file that belongs to a message; `RecordService.attach` makes it."""

    attachment_id: Id
    type: Literal["audio", "transcript", "code", "document"]
    uri: BlobUri
    checksum: Digest
    byte_length: Count


class AudioArtifactRef(Shape, frozen=True, kw_only=True):
    """A recording of a message; its bytes are an attachment."""

    uri: BlobUri
    format: Literal["pcm16", "opus"]
    duration_ms: Amount


class FramePrivacy(Shape, frozen=True, kw_only=True):
    """What was taken out of a message before it was stored."""

    contains_secrets: bool
    redaction_rules_applied: tuple[str, ...]
    pii_tokens: tuple[Token, ...] | None = None


class MessageFrame(Shape, frozen=True, kw_only=True):
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


class ConversationSummary(Shape, frozen=True, kw_only=True):
    """What a conversation is about."""

    _times = ("last_updated_at",)

    synopsis: str
    last_updated_at: Time
    keywords: tuple[str, ...]
    action_items: tuple[str, ...] | None = None


class ConversationMetrics(Shape, frozen=True, kw_only=True):
    """How much was said, and how fast."""

    user_utterance_count: Count
    assistant_utterance_count: Count
    duration_ms: Amount
    average_latency_ms: Amount


class PartialMetrics(Shape, frozen=True, kw_only=True):
    """Some of the metrics: what is left out stays as it is."""

    user_utterance_count: Count | None = None
    assistant_utterance_count: Count | None = None
    duration_ms: Amount | None = None
    average_latency_ms: Amount | None = None


class RetentionInfo(Shape, frozen=True, kw_only=True):
    """How long a record is kept."""

    _times = ("retention_expires_at",)

    retention_expires_at: Time
    retention_policy: Literal["workspace-default", "custom"]
    manual_hold: bool | None = None


class PartialRetention(Shape, frozen=True, kw_only=True):
    """Some of the retention: what is left out stays as it is."""

    _times = ("retention_expires_at",)

    retention_expires_at: Time | None = None
    retention_policy: Literal["workspace-default", "custom"] | None = None
    manual_hold: bool | None = None


class PrivacyEnvelope(Shape, frozen=True, kw_only=True):
    """Who may see a record, and whether it may leave the store."""

    classification: Literal["Confidential"]
    exportable: bool
    consent_capture: str | None = None


class StorageEnvelope(Shape, frozen=True, kw_only=True):
    """Where a record lies. It is computed whenever a record is read."""

    _times = ("last_compacted_at",)

    blob_uri: str
    blob_version: Count
    """The session's version: what `expected_version` is compared with."""
    size_bytes: Count
    """Of its messages and of what the session says of itself, as they are stored."""
    checksum: Digest
    """SHA-256 of `messages` as JSON."""
    last_compacted_at: Time | None = None
    """When the record was last changed. Earlier revisions are never stored, so that is when the last one went."""


class ConversationRecord(Shape, frozen=True, kw_only=True):
    """A conversation, whole."""

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


class ConversationRecordSummary(Shape, frozen=True, kw_only=True):
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


class ConversationRecordInput(Shape, frozen=True, kw_only=True):
    """A record to be created."""

    _times = ("created_at",)

    conversation_id: Id
    title: str
    created_at: Time
    participants: tuple[ParticipantRef, ...]
    messages: tuple[MessageFrame, ...]
    summary: ConversationSummary | None = None
    metrics: PartialMetrics | None = None


class ConversationRecordMutation(Shape, frozen=True, kw_only=True):
    """What is to change of a record: what is left out stays as it is."""

    title: str | None = None
    append_messages: tuple[MessageFrame, ...] | None = None
    summary: ConversationSummary | None = None
    retention: PartialRetention | None = None
    metrics: PartialMetrics | None = None


class RecoverySnapshot(Shape, frozen=True, kw_only=True):
    """A conversation that goes on: what of it was not committed yet."""

    _times = ("last_interaction_at", "updated_at")

    conversation_id: Id
    session_id: Id
    last_interaction_at: Time
    pending_messages: tuple[MessageFrame, ...]
    updated_at: Time
    summary: ConversationSummary | None = None
    metrics: PartialMetrics | None = None


class ListResult(Shape, frozen=True, kw_only=True):
    """Some records, last interaction first, and where the rest begins."""

    items: tuple[ConversationRecordSummary, ...]
    next_cursor: str | None = None
    total_count: Count


class PurgeFailure(Shape, frozen=True, kw_only=True):
    """A record that was not purged, and why."""

    conversation_id: Id
    error: str


class PurgeReport(Shape, frozen=True, kw_only=True):
    """What a purge did."""

    _times = ("started_at", "completed_at")

    reason: PurgeReason
    started_at: Time
    completed_at: Time
    purged_count: Count
    failures: tuple[PurgeFailure, ...]


# -- times


def time_text(micros: int) -> str:
    """A stored time as JavaScript writes it."""
    return f"{moment(micros).isoformat(timespec='milliseconds')[:23]}Z"


def time_micros(text: object) -> int:
    """A time of a shape as it is stored. Invalid."""
    try:
        if not isinstance(text, str):
            raise ValueError
        return microseconds(datetime.fromisoformat(text))
    except (ValueError, Invalid):
        raise Invalid(
            f"{clip(str(text))} is not a time", hint="A time is ISO 8601 with its zone: 2025-10-21T12:00:00.000Z."
        ) from None


# -- JSON, and what is wrong with it


def to_json(value: Shape) -> bytes:
    """A shape as a consumer of the schema expects it. Invalid if its text is not valid Unicode."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise Invalid("the text has a lone surrogate", hint="Decode it with errors='replace'.") from None


def validate(kind: type[T], value: object) -> T:
    """`value` as that shape: given as one, as JSON, or as what JSON decodes to. Invalid says where it is wrong."""
    try:
        if isinstance(value, bytes | bytearray | str):
            return msgspec.json.decode(value, type=kind)
        return msgspec.convert(msgspec.to_builtins(value, builtin_types=(bytes, bytearray)), kind)
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError) as error:
        raise Invalid(f"this is no {kind.__name__}: {clip(str(error), 200)}") from None


def validate_record(value: object) -> ConversationRecord:
    """`value`, if it is a record. Invalid."""
    return validate(ConversationRecord, value)


def validate_record_summary(value: object) -> ConversationRecordSummary:
    """`value`, if it is a record of a list. Invalid."""
    return validate(ConversationRecordSummary, value)


def validate_input(value: object) -> ConversationRecordInput:
    """`value`, if a record can be created of it. Invalid."""
    record = validate(ConversationRecordInput, value)
    in_order(record.messages)
    return record


def validate_mutation(value: object) -> ConversationRecordMutation:
    """`value`, if a record can be changed by it. Invalid."""
    mutation = validate(ConversationRecordMutation, value)
    in_order(mutation.append_messages or ())
    return mutation


def validate_frame(value: object) -> MessageFrame:
    """`value`, if it is a message. Invalid."""
    return validate(MessageFrame, value)


def validate_attachment(value: object) -> AttachmentRef:
    """`value`, if it is an attachment in the store. Invalid."""
    return validate(AttachmentRef, value)


def validate_audio(value: object) -> AudioArtifactRef:
    """`value`, if it is a recording in the store. Invalid."""
    return validate(AudioArtifactRef, value)


def validate_participant(value: object) -> ParticipantRef:
    """`value`, if it is a participant. Invalid."""
    return validate(ParticipantRef, value)


def validate_summary(value: object) -> ConversationSummary:
    """`value`, if it is a summary. Invalid."""
    return validate(ConversationSummary, value)


def validate_metrics(value: object) -> ConversationMetrics:
    """`value`, if these are all the metrics. Invalid."""
    return validate(ConversationMetrics, value)


def validate_retention(value: object) -> RetentionInfo:
    """`value`, if it says how long something is kept. Invalid."""
    return validate(RetentionInfo, value)


def validate_privacy(value: object) -> PrivacyEnvelope:
    """`value`, if it is a privacy envelope. Invalid."""
    return validate(PrivacyEnvelope, value)


def validate_storage(value: object) -> StorageEnvelope:
    """`value`, if it is a storage envelope. Invalid."""
    return validate(StorageEnvelope, value)


def validate_snapshot(value: object) -> RecoverySnapshot:
    """`value`, if it is a recovery snapshot. Invalid."""
    snapshot = validate(RecoverySnapshot, value)
    in_order(snapshot.pending_messages)
    return snapshot


def validate_report(value: object) -> PurgeReport:
    """`value`, if it is the report of a purge. Invalid."""
    return validate(PurgeReport, value)


def in_order(frames: tuple[MessageFrame, ...]) -> None:
    """Invalid unless the sequence numbers grow, and no frame comes twice."""
    last: Any = -1
    for frame in frames:
        if frame.sequence <= last:
            raise Invalid("the sequence numbers of messages must grow", hint="Number them in the order they were said.")
        last = frame.sequence
    if len({frame.frame_id for frame in frames}) != len(frames):
        raise Invalid("two messages of one call have the same frameId")
