"""Conversation records: a service for applications that must keep conversations according to a policy.

>>> import clew
>>> from clew.records import RecordService
>>> service = RecordService(clew.open(":memory:"))
>>> service.initialize().purged_count
0
>>> service.list().total_count
0
>>> service.dispose()

A record is a session and its messages in the form of a published schema. The store keeps it only once, as a session, so
sealing, search, holds, purge and verify apply to records too.
"""

from clew.records.deferred import Pending
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
    FramePrivacy,
    ListResult,
    MessageFrame,
    PartialMetrics,
    PartialRetention,
    ParticipantRef,
    PrivacyEnvelope,
    PurgeFailure,
    PurgeReason,
    PurgeReport,
    RecoverySnapshot,
    RetentionInfo,
    StorageEnvelope,
    to_json,
)
from clew.records.service import RecordService
from clew.records.validation import (
    validate_attachment,
    validate_audio,
    validate_blob,
    validate_frame,
    validate_input,
    validate_metrics,
    validate_mutation,
    validate_participant,
    validate_privacy,
    validate_record,
    validate_record_summary,
    validate_report,
    validate_retention,
    validate_snapshot,
    validate_storage,
    validate_summary,
)
from clew.records.writes import CircuitOpen
from clew.retention.policy import Policy

__all__ = [
    "AttachmentRef",
    "AudioArtifactRef",
    "CircuitOpen",
    "ConversationMetrics",
    "ConversationRecord",
    "ConversationRecordInput",
    "ConversationRecordMutation",
    "ConversationRecordSummary",
    "ConversationSummary",
    "EncryptedBlob",
    "FramePrivacy",
    "ListResult",
    "MessageFrame",
    "PartialMetrics",
    "PartialRetention",
    "ParticipantRef",
    "Pending",
    "Policy",
    "PrivacyEnvelope",
    "PurgeFailure",
    "PurgeReason",
    "PurgeReport",
    "RecordService",
    "RecoverySnapshot",
    "RetentionInfo",
    "StorageEnvelope",
    "to_json",
    "validate_attachment",
    "validate_audio",
    "validate_blob",
    "validate_frame",
    "validate_input",
    "validate_metrics",
    "validate_mutation",
    "validate_participant",
    "validate_privacy",
    "validate_record",
    "validate_record_summary",
    "validate_report",
    "validate_retention",
    "validate_snapshot",
    "validate_storage",
    "validate_summary",
]
