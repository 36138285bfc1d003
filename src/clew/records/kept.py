"""What a session carries of its record, and a record made of a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from clew import ids
from clew.backends import BODY, ID, RefRow
from clew.errors import Tampered
from clew.model import RECORD
from clew.node import Node
from clew.policy import Policy
from clew.records import keeping
from clew.records.frames import NotOurs, attachments, frames
from clew.records.shapes import (
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
    time_micros,
    time_text,
)
from clew.session_data import SessionData, is_record


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the session's free data keeps under ``clew.record``; one that no service has written to has none."""

    schema: int = SCHEMA
    conversation_id: str | None = None
    """If it is not the session's own id."""
    created_at: str | None = None
    """If the application said so."""
    participants: tuple[ParticipantRef, ...] = ()
    summary: ConversationSummary | None = None
    user_utterances: int = 0
    assistant_utterances: int = 0
    said_at: str | None = None
    """When the last message was said."""
    duration_ms: Amount | None = None
    """If the application said so; else it is counted from the beginning to the last message."""
    average_latency_ms: Amount = 0
    exportable: bool | None = None
    """None where nobody has said so: see `clew.exporting`."""
    consent_capture: str | None = None
    changed_at: str | None = None
    changed: dict[str, int] = {}
    """Fields, each with the version in which it was last changed."""
    begun: bool = False
    """True while there are snapshots alone, and no record was created."""
    size: int = 0
    """Bytes of the messages' bodies, as they were stored, from the first to the one that `sized` names."""
    sized: str | None = None
    """Id of the last message that `size` counts. If the session's head is another one, `size` says nothing."""

    def count(self, frames: Sequence[MessageFrame]) -> Kept:
        """With these messages added."""
        users = sum(frame.role == "user" for frame in frames)
        return msgspec.structs.replace(
            self,
            user_utterances=self.user_utterances + users,
            assistant_utterances=self.assistant_utterances + len(frames) - users,
            said_at=frames[-1].created_at,
        )

    def weigh(self, head: bytes, size: int) -> Kept:
        """With the size of its messages down to this head."""
        return msgspec.structs.replace(self, size=size, sized=ids.text(head))

    def measure(self, metrics: PartialMetrics | None) -> Kept:
        """With the metrics that were given."""
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
        """The session's data with this in it."""
        return msgspec.structs.replace(data, extra={**(data.extra or {}), RECORD: msgspec.to_builtins(self)})


def kept(data: SessionData, where: str) -> Kept:
    """What a session's data keeps of its record. Tampered if it cannot be read."""
    said: Any = (data.extra or {}).get(RECORD)
    try:
        return Kept() if said is None else msgspec.convert(said, Kept)
    except msgspec.ValidationError:
        raise NotOurs(where, "what it says of its record does not decode") from None


class Messages(NamedTuple):
    """The messages of a record from the first on, and what is told of them."""

    head: bytes | None
    """Id of the last message, and its depth."""
    depth: int
    size: int
    """Bytes of their bodies, as they are stored."""
    frames: tuple[MessageFrame, ...]
    attachments: tuple[AttachmentRef, ...]
    """Those of all frames, each once."""
    digest: Any
    """SHA-256 of the frames as JSON, but for the end of the list."""
    damage: tuple[Tampered, ...]
    """What is wrong with those that cannot be read."""

    @classmethod
    def none(cls) -> Messages:
        """Before the first message."""
        from hashlib import sha256

        return cls(None, -1, 0, (), (), sha256(b"["), ())

    def plus(self, nodes: Sequence[Node]) -> Messages:
        """With the messages that follow. Tampered if one was written by a newer clew."""
        if not nodes:
            return self
        damage: list[Tampered] = []
        new = tuple(frames(nodes, damage, self.frames[-1].sequence if self.frames else 0))
        digest = self.digest.copy()
        if new:
            digest.update(b"," * bool(self.frames) + msgspec.json.encode(new)[1:-1])
        last = nodes[-1]
        return Messages(
            last._row[ID], last.depth, self.size + size_of(nodes), self.frames + new,
            attachments(new, self.attachments), digest, (*self.damage, *damage),
        )  # fmt: skip

    @property
    def checksum(self) -> str:
        """SHA-256 of the frames as JSON."""
        digest = self.digest.copy()
        digest.update(b"]")
        return str(digest.hexdigest())


def size_of(nodes: Iterable[Node]) -> int:
    """Bytes of the bodies of messages, as they are stored."""
    return sum(len(body) for node in nodes if isinstance(body := node._row[BODY], bytes))


class Found(NamedTuple):
    """A session as it was read in one moment."""

    row: RefRow
    data: SessionData
    kept: Kept

    @property
    def conversation_id(self) -> str:
        """As the application writes it."""
        return self.kept.conversation_id or ids.text(self.row.key)

    @property
    def created_at(self) -> str:
        """As the application said it, or when the session was created."""
        return self.kept.created_at or time_text(self.row.created_at)

    @property
    def words(self) -> int:
        """Bytes of what is said of it beside its messages."""
        return len(msgspec.json.encode((self.data.title, self.kept.summary, self.kept.participants)))

    def summary(self, policy: Policy | None) -> ConversationRecordSummary:
        """The session as a list has it."""
        return ConversationRecordSummary(
            conversation_id=self.conversation_id, title=self.data.title or "", created_at=self.created_at,
            last_interaction_at=time_text(self.row.active_at), summary=self.kept.summary,
            participants=self.kept.participants, metrics=self._metrics(), retention=self._retention(policy),
            privacy=self._privacy(),
        )  # fmt: skip

    def record(self, policy: Policy | None, said: Messages) -> ConversationRecord:
        """The session as a record with these messages."""
        storage = StorageEnvelope(
            blob_uri=f"sessions/{ids.text(self.row.key)}", blob_version=self.row.version,
            size_bytes=said.size + len(self.row.data), checksum=said.checksum,
            last_compacted_at=self.kept.changed_at,
        )  # fmt: skip
        return ConversationRecord(
            conversation_id=self.conversation_id, version=SCHEMA, title=self.data.title or "",
            created_at=self.created_at, last_interaction_at=time_text(self.row.active_at), summary=self.kept.summary,
            participants=self.kept.participants, messages=said.frames, attachments=said.attachments or None,
            metrics=self._metrics(), retention=self._retention(policy), privacy=self._privacy(), storage=storage,
        )  # fmt: skip

    def _retention(self, policy: Policy | None) -> RetentionInfo:
        return keeping.info(policy, self.row, is_record(self.data))

    def _metrics(self) -> ConversationMetrics:
        kept = self.kept
        until = self.created_at if kept.said_at is None else kept.said_at
        lasted = max(0, time_micros(until) - time_micros(self.created_at)) // 1000
        return ConversationMetrics(
            user_utterance_count=kept.user_utterances,
            assistant_utterance_count=kept.assistant_utterances,
            duration_ms=lasted if kept.duration_ms is None else kept.duration_ms,
            average_latency_ms=kept.average_latency_ms,
        )

    def _privacy(self) -> PrivacyEnvelope:
        kept = self.kept
        exportable = kept.exportable is not False
        return PrivacyEnvelope(
            classification="Confidential", exportable=exportable, consent_capture=kept.consent_capture
        )
