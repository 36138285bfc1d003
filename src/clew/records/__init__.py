"""Conversation records: the service for an application that must keep conversations by policy.

>>> import clew
>>> from clew.records import RecordService
>>> service = RecordService(clew.open(":memory:"))
>>> service.initialize().purged_count
0
>>> service.list().total_count
0
>>> service.dispose()

A record is a session and its messages, seen through the shapes of one published schema. It is stored once, as the
session is: what is sealed, searched, held, purged or verified there is so here.
"""

from clew.policy import Policy
from clew.records.breaker import CircuitOpen
from clew.records.deferred import Pending
from clew.records.service import RecordService
from clew.records.shapes import (
    AttachmentRef,
    AudioArtifactRef,
    ConversationMetrics,
    ConversationRecord,
    ConversationRecordInput,
    ConversationRecordMutation,
    ConversationRecordSummary,
    ConversationSummary,
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
    validate_attachment,
    validate_audio,
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
