"""Checks values against the types of `schema` and converts them."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from clew.errors import Invalid, clip
from clew.records.schema import (
    AttachmentRef,
    AudioArtifactRef,
    ConversationMetrics,
    ConversationRecord,
    ConversationRecordInput,
    ConversationRecordMutation,
    ConversationRecordSummary,
    ConversationSummary,
    EncryptedBlob,
    MessageFrame,
    ParticipantRef,
    PrivacyEnvelope,
    PurgeReport,
    RecoverySnapshot,
    RetentionInfo,
    StorageEnvelope,
)

T = TypeVar("T")


def validate(kind: type[T], value: object) -> T:
    """Converts an object, JSON text or decoded JSON to this type. Raises Invalid with the place of the error."""
    try:
        if isinstance(value, bytes | bytearray | str):
            return msgspec.json.decode(value, type=kind)
        return msgspec.convert(msgspec.to_builtins(value, builtin_types=(bytes, bytearray)), kind)
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError) as error:
        raise Invalid(f"this is not a valid {kind.__name__}: {clip(str(error), 200)}") from None


def validate_record(value: object) -> ConversationRecord:
    """`value` as a record. Raises Invalid."""
    return validate(ConversationRecord, value)


def validate_record_summary(value: object) -> ConversationRecordSummary:
    """`value` as a record summary. Raises Invalid."""
    return validate(ConversationRecordSummary, value)


def validate_input(value: object) -> ConversationRecordInput:
    """`value` as the input for a new record. Raises Invalid."""
    record = validate(ConversationRecordInput, value)
    in_order(record.messages)
    return record


def validate_mutation(value: object) -> ConversationRecordMutation:
    """`value` as a change to a record. Raises Invalid."""
    mutation = validate(ConversationRecordMutation, value)
    in_order(mutation.append_messages or ())
    return mutation


def validate_frame(value: object) -> MessageFrame:
    """`value` as a message. Raises Invalid."""
    return validate(MessageFrame, value)


def validate_attachment(value: object) -> AttachmentRef:
    """`value` as a reference to a stored attachment. Raises Invalid."""
    return validate(AttachmentRef, value)


def validate_audio(value: object) -> AudioArtifactRef:
    """`value` as a reference to a stored recording. Raises Invalid."""
    return validate(AudioArtifactRef, value)


def validate_participant(value: object) -> ParticipantRef:
    """`value` as a participant. Raises Invalid."""
    return validate(ParticipantRef, value)


def validate_summary(value: object) -> ConversationSummary:
    """`value` as a summary. Raises Invalid."""
    return validate(ConversationSummary, value)


def validate_metrics(value: object) -> ConversationMetrics:
    """`value` as the complete metrics. Raises Invalid."""
    return validate(ConversationMetrics, value)


def validate_retention(value: object) -> RetentionInfo:
    """`value` as retention information. Raises Invalid."""
    return validate(RetentionInfo, value)


def validate_privacy(value: object) -> PrivacyEnvelope:
    """`value` as a privacy envelope. Raises Invalid."""
    return validate(PrivacyEnvelope, value)


def validate_storage(value: object) -> StorageEnvelope:
    """`value` as a storage envelope. Raises Invalid."""
    return validate(StorageEnvelope, value)


def validate_snapshot(value: object) -> RecoverySnapshot:
    """`value` as a recovery snapshot. Raises Invalid."""
    snapshot = validate(RecoverySnapshot, value)
    in_order(snapshot.pending_messages)
    return snapshot


def validate_blob(value: object) -> EncryptedBlob:
    """`value` as an encrypted blob; this does not decrypt it. Raises Invalid."""
    return validate(EncryptedBlob, value)


def validate_report(value: object) -> PurgeReport:
    """`value` as a purge report. Raises Invalid."""
    return validate(PurgeReport, value)


def in_order(frames: tuple[MessageFrame, ...]) -> None:
    """Raises Invalid unless the sequence numbers increase and all frame ids differ."""
    last: Any = -1
    for frame in frames:
        if frame.sequence <= last:
            raise Invalid("the sequence numbers of messages must increase", hint="Number the messages in order.")
        last = frame.sequence
    if len({frame.frame_id for frame in frames}) != len(frames):
        raise Invalid("two messages of one call have the same frameId")
