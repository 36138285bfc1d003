"""Encrypts a record as an `EncryptedBlob`, and back: AES-256-GCM over its JSON, bound to the fields in clear."""

from __future__ import annotations

from typing import Any

import msgspec

from clew import keys
from clew.base.loading import loading
from clew.errors import Corrupted, Invalid, MissingPackage, clip
from clew.records.schema import SCHEMA, ConversationRecord, ConversationRecordInput, EncryptedBlob, PartialMetrics
from clew.records.validation import validate_record

IV = 12
"""Bytes of `iv`."""
TAG = 16
"""Bytes of `authTag`."""
_AGAIN = "Use the key it was exported with, or export the record again."


def encrypt(conversation_id: str, record: bytes, key: bytes, created_at: str, iv: bytes) -> EncryptedBlob:
    """A record's JSON as a blob. `iv` must never have been used with this key. Invalid if the key is not 32 bytes."""
    checksum = _checksum(record)
    sealed = _cipher(key).encrypt(iv, record, _additional_data(conversation_id, SCHEMA, created_at, checksum))
    return EncryptedBlob(
        conversation_id=conversation_id, schema_version=SCHEMA, cipher_text=sealed[:-TAG], iv=iv,
        auth_tag=sealed[-TAG:], created_at=created_at, checksum=checksum,
    )  # fmt: skip


def decrypt(blob: EncryptedBlob, key: bytes) -> ConversationRecord:
    """The record in a blob. Corrupted if a field was changed, or if it was encrypted with another key."""
    where = f"the blob of record {clip(blob.conversation_id)}"
    if blob.schema_version != SCHEMA:
        raise Invalid(f"{where} has version {blob.schema_version} of the schema; this clew reads {SCHEMA}")
    cipher = _cipher(key)
    with loading:
        from cryptography.exceptions import InvalidTag
    additional = _additional_data(blob.conversation_id, blob.schema_version, blob.created_at, blob.checksum)
    try:
        plain = cipher.decrypt(blob.iv, blob.cipher_text + blob.auth_tag, additional)
    except InvalidTag:
        raise Corrupted(where, "it was changed, or encrypted with another key", hint=_AGAIN) from None
    try:
        record = validate_record(plain)
    except Invalid as error:
        raise Corrupted(where, error.message, hint=_AGAIN) from None
    if (record.conversation_id, _checksum(plain)) != (blob.conversation_id, blob.checksum):
        raise Corrupted(where, "its conversationId or checksum does not match its content", hint=_AGAIN)
    return record


def _additional_data(*clear: str | int) -> bytes:
    return msgspec.json.encode(clear)


def _checksum(plain: bytes) -> str:
    with loading:
        from hashlib import sha256
    return sha256(plain).hexdigest()


def _cipher(key: bytes) -> Any:
    try:
        with loading:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError:
        raise MissingPackage("encryption needs the cryptography package", "cryptography") from None
    return AESGCM(keys.check(key))


def record_in(blob: EncryptedBlob, key: bytes) -> ConversationRecordInput:
    """The record to create from a blob: see `RecordService.import_blob`."""
    record = decrypt(blob, key)
    if record.attachments or any(frame.audio for frame in record.messages):
        raise Invalid(
            "the record has attachments, and a blob does not contain them",
            hint="Move the conversation with clew.exports.",
        )
    return ConversationRecordInput(
        conversation_id=record.conversation_id, title=record.title, created_at=record.created_at,
        participants=record.participants, messages=record.messages, summary=record.summary,
        metrics=PartialMetrics(**msgspec.structs.asdict(record.metrics)),
    )  # fmt: skip
