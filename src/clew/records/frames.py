"""Converts frames of the schema to messages and back. Frame fields that a message lacks go into its `extra` data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from clew.base import ids
from clew.base.messages import RECORD, Media, Message, Modality, Native, Text
from clew.engine.node import Node, node_facts
from clew.errors import Corrupted, Invalid
from clew.records.redactor import Redactor
from clew.records.schema import (
    BLOBS,
    AttachmentRef,
    AudioArtifactRef,
    FramePrivacy,
    MessageFrame,
    plain,
    time_micros,
    time_text,
)
from clew.records.validation import validate
from clew.store.store import Store
from clew.store.unit import Draft

Type = Literal["audio", "transcript", "code", "document"]

_SHOWN: dict[str, tuple[Modality, str]] = {
    "audio": ("audio", "application/octet-stream"),
    "transcript": ("document", "text/plain"),
    "code": ("document", "text/plain"),
    "document": ("document", "application/octet-stream"),
    "pcm16": ("audio", "audio/L16"),
    "opus": ("audio", "audio/opus"),
}
"""The modality and MIME type for each attachment type and recording format."""
_CLEAN = FramePrivacy(contains_secrets=False, redaction_rules_applied=())
DAMAGED = "clew.damaged"
"""An unreadable frame has this in `redactionRulesApplied`, and no content."""
_LOST = FramePrivacy(contains_secrets=False, redaction_rules_applied=(DAMAGED,))
_REDACTION = "clew.redaction"
"""Key in a message's `extra` where the store notes its own redactions."""


class StoredFrame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a frame other than role, content and time, as stored in a message's `extra`."""

    sequence: int = 0
    frame_id: str | None = None
    """None if it equals the message id."""
    privacy: FramePrivacy = _CLEAN
    attachments: tuple[AttachmentRef, ...] | None = None
    audio: AudioArtifactRef | None = None


class _Note(FramePrivacy, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The privacy fields of the store's redaction note."""


class ForeignFormat(Corrupted):
    """The data is intact, but this version of clew cannot decode it."""


def session_keys(store: Store, conversation_id: str) -> tuple[str, ...]:
    """The ids that a conversation's session may have; a new session gets the first.

    An id is stored as a keyed hash. In a plain store, a UUID is stored as it is. A session has the other one of the two
    if the store was sealed or unsealed since, if another program created it, or if an earlier version of clew did.
    """
    return _keys(store, "record", conversation_id)


def frame_keys(store: Store, session: str, frame_id: str) -> tuple[str, ...]:
    """The ids that a frame's message may have: see `session_keys`.

    A frame id that is not a UUID is unique only within its conversation.
    """
    return _keys(store, "frame", frame_id, within=ids.parse(session).hex())


def _keys(store: Store, domain: str, id: str, within: str = "") -> tuple[str, ...]:
    stored = ids.maybe(id)
    try:
        named = (within + id if stored is None else ids.text(stored)).encode()
    except UnicodeEncodeError:
        raise Invalid("an id must be valid Unicode") from None
    hashed = bytearray(store.lookup_hash(domain, named))
    hashed[9] = hashed[9] & 0x0F | 0x80  # UUID version 8: application-defined
    hashed[7] = hashed[7] & 0x3F | 0x80
    private = ids.text(bytes(hashed))
    if stored is None:
        return (private,)
    return (private, ids.text(stored)) if store.sealed else (ids.text(stored), private)


def foreign(id: str, key: str) -> str | None:
    """`id`, if it differs from the id under which it is stored."""
    return None if key == id else id


def draft(store: Store, redactor: Redactor, key: str, frame: MessageFrame) -> Draft:
    """The redacted and encoded message of a frame, with this id. Raises Invalid if it cannot be stored."""
    blocks: list[Text | Media] = [Text(text=frame.content)]
    for attachment in frame.attachments or ():
        if attachment.uri != BLOBS + attachment.checksum:
            raise Invalid(
                "an attachment's uri and checksum name different content",
                hint="Use the AttachmentRef that attach() returned.",
            )
        blocks.append(_media(attachment.type, attachment.checksum))
    if frame.audio is not None:
        blocks.append(_media(frame.audio.format, frame.audio.uri.removeprefix(BLOBS)))
    for token in frame.privacy.pii_tokens or ():
        if redactor.finds(token.rpartition(":")[0]):
            raise Invalid("a redaction rule matches the text before a token's hash")
    named = foreign(frame.frame_id, key)
    stored = StoredFrame(
        sequence=frame.sequence, frame_id=None if named is None or redactor.finds(named) else named,
        privacy=frame.privacy, attachments=frame.attachments or None, audio=frame.audio,
    )  # fmt: skip
    message = Message(frame.role, tuple(blocks), extra={RECORD: plain(stored)})
    return store.draft(redactor.message(message), id=key, created_at=time_micros(frame.created_at))


def _media(kind: str, digest: str) -> Media:
    modality, mime_type = _SHOWN[kind]
    return Media(mime_type=mime_type, modality=modality, blob=digest)


def frames(nodes: Iterable[Node], damage: list[Corrupted], last: int = 0) -> Iterator[MessageFrame]:
    """The frames of a path. Only messages of the user and the assistant are frames.

    A frame keeps its sequence number, unless it does not exceed the previous one (`last`); then it gets the next
    number. An unreadable message becomes an empty frame marked as damaged, and its error is added to `damage`.
    """
    for node in nodes:
        role = node.role
        if role not in ("user", "assistant"):
            continue
        try:
            stored, content, privacy = _read(node)
        except ForeignFormat:
            raise
        except Corrupted as error:
            damage.append(error)
            stored, content, privacy = StoredFrame(), "", _LOST
        last = max(last + 1, stored.sequence)
        yield MessageFrame(
            frame_id=stored.frame_id or node.id,
            sequence=last,
            role=role,
            content=content,
            created_at=time_text(node_facts(node).created_at),
            attachments=stored.attachments,
            privacy=privacy,
            audio=stored.audio,
        )


def _read(node: Node) -> tuple[StoredFrame, str, FramePrivacy]:
    stored = _decode_frame(node)
    return stored, node.text, _privacy(node, stored.privacy)


def _privacy(node: Node, given: FramePrivacy) -> FramePrivacy:
    """A frame's privacy from the application, merged with the store's own redactions."""
    try:
        note = msgspec.convert((node.said.extra or {})[_REDACTION], _Note)
    except (KeyError, msgspec.ValidationError):
        return given
    rules = dict.fromkeys((*given.redaction_rules_applied, *note.redaction_rules_applied))
    tokens = dict.fromkeys((*(given.pii_tokens or ()), *(note.pii_tokens or ())))
    return FramePrivacy(
        contains_secrets=given.contains_secrets or note.contains_secrets,
        redaction_rules_applied=tuple(rules),
        pii_tokens=tuple(tokens) or None,
    )


def _decode_frame(node: Node) -> StoredFrame:
    message: Message | Native = node.said
    stored: Any = (message.extra or {}).get(RECORD)
    try:
        return StoredFrame() if stored is None else msgspec.convert(stored, StoredFrame)
    except msgspec.ValidationError:
        raise ForeignFormat(f"node {node.id}", "its frame data does not decode") from None


def attachment(id: str, type: Type, digest: str, size: int) -> AttachmentRef:
    """The reference to a blob."""
    given = {"attachmentId": id, "type": type, "uri": BLOBS + digest, "checksum": digest, "byteLength": size}
    return validate(AttachmentRef, given)


def attachments(frames: Iterable[MessageFrame], before: tuple[AttachmentRef, ...]) -> tuple[AttachmentRef, ...]:
    """The attachments of `before` and of the frames, without duplicates."""
    new = {one.attachment_id: one for frame in frames for one in frame.attachments or ()}
    return tuple(({one.attachment_id: one for one in before} | new).values()) if new else before
