"""Frames and messages: a frame is a stored message, and what a message cannot say stands in its free data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from clew import ids
from clew.engine import Draft, Engine
from clew.errors import Invalid, Tampered
from clew.model import RECORD, Media, Message, Modality, Native, Text
from clew.node import Node
from clew.records.shapes import (
    BLOBS,
    AttachmentRef,
    AudioArtifactRef,
    FramePrivacy,
    MessageFrame,
    time_micros,
    time_text,
    validate,
)

Type = Literal["audio", "transcript", "code", "document"]

_SHOWN: dict[str, tuple[Modality, str]] = {
    "audio": ("audio", "application/octet-stream"),
    "transcript": ("document", "text/plain"),
    "code": ("document", "text/plain"),
    "document": ("document", "application/octet-stream"),
    "pcm16": ("audio", "audio/L16"),
    "opus": ("audio", "audio/opus"),
}
"""How a message shows an attachment of each type, or a recording of each format."""
_CLEAN = FramePrivacy(contains_secrets=False, redaction_rules_applied=())
DAMAGED = "clew.damaged"
"""What a frame that cannot be read has among its `redactionRulesApplied`, in place of its content."""
_LOST = FramePrivacy(contains_secrets=False, redaction_rules_applied=(DAMAGED,))
_REDACTION = "clew.redaction"
"""Where a message's free data says what the store itself took out of it."""


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a frame says beyond its role, its words and its time, as a message's free data keeps it."""

    sequence: int = 0
    frame_id: str | None = None
    """If it is not the message's own id."""
    privacy: FramePrivacy = _CLEAN
    attachments: tuple[AttachmentRef, ...] | None = None
    audio: AudioArtifactRef | None = None


class _Note(FramePrivacy, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What the store's own note says of a frame's privacy, among other things."""


class NotOurs(Tampered):
    """It is as it was written, and not as this clew writes it."""


def session_key(engine: Engine, conversation_id: str) -> bytes:
    """The key of a conversation's session: its id if that is a UUID, else a keyed hash of it."""
    return _key(engine, "record", conversation_id)


def node_key(engine: Engine, session: bytes, frame_id: str) -> bytes:
    """The id of a frame's message; one that is no UUID means something in its conversation alone."""
    return ids.maybe(frame_id) or _key(engine, "frame", session.hex() + frame_id)


def _key(engine: Engine, domain: str, id: str) -> bytes:
    try:
        stored = ids.maybe(id)
        if stored is not None:
            return stored
        hashed = bytearray(engine.look(domain, id.encode()))
    except UnicodeEncodeError:
        raise Invalid("an id is valid Unicode") from None
    hashed[9] = hashed[9] & 0x0F | 0x80  # a UUID of version 8: one whose maker knows what it means
    hashed[7] = hashed[7] & 0x3F | 0x80
    return bytes(hashed)


def foreign(id: str, key: bytes) -> str | None:
    """`id`, if it is written in another way than its key is."""
    return None if ids.text(key) == id else id


def draft(engine: Engine, session: bytes, frame: MessageFrame) -> Draft:
    """The message of a frame, encoded. Invalid if it cannot be stored."""
    key = node_key(engine, session, frame.frame_id)
    blocks: list[Text | Media] = [Text(text=frame.content)]
    for attachment in frame.attachments or ():
        if attachment.uri != BLOBS + attachment.checksum:
            raise Invalid(
                "an attachment's uri and checksum name different content", hint="Pass it on as attach made it."
            )
        blocks.append(_media(attachment.type, attachment.checksum))
    if frame.audio is not None:
        blocks.append(_media(frame.audio.format, frame.audio.uri.removeprefix(BLOBS)))
    for token in frame.privacy.pii_tokens or ():
        if _found_in(engine, token.rpartition(":")[0]):
            raise Invalid("a token has what a redaction rule finds before its hash")
    named = foreign(frame.frame_id, key)
    said = Said(
        sequence=frame.sequence, frame_id=None if named is None or _found_in(engine, named) else named,
        privacy=frame.privacy, attachments=frame.attachments or None, audio=frame.audio,
    )  # fmt: skip
    message = Message(frame.role, tuple(blocks), extra={RECORD: msgspec.to_builtins(said)})
    return engine.draft(message, ids.text(key), time_micros(frame.created_at))


def _found_in(engine: Engine, text: str) -> bool:
    """True if a redaction rule of the store finds something in a text."""
    return engine.redacted(text.encode()) != text.encode()


def _media(kind: str, digest: str) -> Media:
    modality, mime_type = _SHOWN[kind]
    return Media(mime_type=mime_type, modality=modality, blob=digest)


def frames(nodes: Iterable[Node], damage: list[Tampered], last: int = 0) -> Iterator[MessageFrame]:
    """The frames of a path. What is neither the person's nor the assistant's is not one.

    A sequence number is as it was given, or one higher than the one before (`last`) where writers have chosen the same.
    A message that cannot be read is an empty frame that says so, and what was wrong is added to `damage`.
    """
    for node in nodes:
        role = node.role
        if role not in ("user", "assistant"):
            continue
        try:
            said, content, privacy = _read(node)
        except NotOurs:
            raise
        except Tampered as error:
            damage.append(error)
            said, content, privacy = Said(), "", _LOST
        last = max(last + 1, said.sequence)
        yield MessageFrame(
            frame_id=said.frame_id or node.id,
            sequence=last,
            role=role,
            content=content,
            created_at=time_text(node._facts.created_at),
            attachments=said.attachments,
            privacy=privacy,
            audio=said.audio,
        )


def _read(node: Node) -> tuple[Said, str, FramePrivacy]:
    said = _said(node)
    return said, node.text, _privacy(node, said.privacy)


def _privacy(node: Node, given: FramePrivacy) -> FramePrivacy:
    """What the application said of a frame, and what the store has found in it since."""
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


def _said(node: Node) -> Said:
    said: Message | Native = node.said
    kept: Any = (said.extra or {}).get(RECORD)
    try:
        return Said() if kept is None else msgspec.convert(kept, Said)
    except msgspec.ValidationError:
        raise NotOurs(f"node {node.id}", "what it says of its frame does not decode") from None


def attachment(id: str, type: Type, digest: str, size: int) -> AttachmentRef:
    """The reference to a blob."""
    given = {"attachmentId": id, "type": type, "uri": BLOBS + digest, "checksum": digest, "byteLength": size}
    return validate(AttachmentRef, given)


def attachments(frames: Iterable[MessageFrame], before: tuple[AttachmentRef, ...]) -> tuple[AttachmentRef, ...]:
    """The attachments of frames and those `before` them, each once."""
    new = {one.attachment_id: one for frame in frames for one in frame.attachments or ()}
    return tuple(({one.attachment_id: one for one in before} | new).values()) if new else before
