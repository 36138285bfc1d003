"""The file format of snapshots, plain and sealed, and that of the original program.

A plain file is the snapshot's document with one more field in front::

    {
      "clew": {"form":1,"crc32":"89abcdef","id":…,"provider":…,"model":…,"created_at":…,"message_count":…,…},
      "id": …

A list reads only this beginning, and compares the size of the file with it. The checksum covers every byte after it. If
large media are stored in files of their own, the field of the messages is ``messages_without_media``.

=======  ========================================================================================================
bytes    a sealed file
=======  ========================================================================================================
0 to 7   ``CLEWSNAP``
8        how it was sealed: 0x01
9 to 16  id of the key
17 to 20 length of the sealed head, big endian
…        the head: nonce (12 bytes), ciphertext, tag (16 bytes); bound to ``head``, the bytes before it, and the id
…        the document: the same; bound to ``body``, all the bytes before it, and the id
=======  ========================================================================================================

The original program writes only the document, plain, or as nonce and ciphertext that are not bound to an id. clew reads
both, and writes them with `compatible`. Their first bytes differ from those of clew's files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cached_property
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import msgspec

from clew.base.loading import loading
from clew.errors import ClewError, Corrupted, Invalid, MissingPackage, NotFound, SchemaTooNew, Sealed, WrongKey
from clew.snapshots.media import Cut, Span, count_tokens, cut_media, put_back
from clew.snapshots.raw_json import members
from clew.snapshots.types import KEY_SIZE, Snapshot, SnapshotSummary

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HEAD = 4096
"""Bytes to read for the head of a file; a head with many media is longer."""

_MAGIC = b"CLEWSNAP"
_FORM = 1
_PREFIX = len(_MAGIC) + 1 + 8 + 4
_NONCE, _TAG = 12, 16
_OURS = b'{\n  "clew": '
CHECKED = _OURS + b'{"form":1,"crc32":"'
_CUT = "messages_without_media"
"""The field name of messages without their media, so that no reader takes them as complete."""


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The beginning of a file: the fields for a list, and the media in files of their own."""

    form: int = _FORM
    id: str
    provider: str
    model: str
    created_at: datetime
    message_count: int
    token_count: int
    media: tuple[Span, ...] = ()
    body: int | None = None
    """Bytes of the document; None in files of earlier versions."""

    @property
    def summary(self) -> SnapshotSummary:
        """The entry in a list."""
        return SnapshotSummary(
            id=self.id, provider=self.provider, model=self.model, created_at=self.created_at,
            message_count=self.message_count, token_count=self.token_count,
        )  # fmt: skip


class Damaged(Corrupted):
    """The file is damaged, but was sealed with the given key, so the key is right."""


class Packed(NamedTuple):
    """The bytes of a snapshot, and of the media to store next to it."""

    data: bytes
    media: dict[str, bytes]


_LEAST = _NONCE + _TAG + 128
"""Size of the shortest encrypted snapshot of the original program."""

_encode = msgspec.json.Encoder().encode
_head = msgspec.json.Decoder(Head).decode


def summarise(snapshot: Snapshot, media: tuple[Span, ...] = (), body: int | None = None) -> Head:
    """The head of a snapshot."""
    around = (snapshot.system_prompt.encode(), _encode(snapshot.tools) if snapshot.tools else b"")
    return Head(
        id=snapshot.id, provider=snapshot.provider, model=snapshot.model, created_at=snapshot.created_at,
        message_count=snapshot.message_count, token_count=count_tokens(snapshot.messages, *around), media=media,
        body=body,
    )  # fmt: skip


class Form:
    """Encodes and decodes snapshot files, plain or with a key of 32 bytes."""

    def __init__(self, key: bytes | None = None, *, compatible: bool = False) -> None:
        if key is not None and not isinstance(key, bytes):
            raise Invalid(f"a key is {KEY_SIZE} bytes, not {type(key).__name__}", hint="Create one with generate_key.")
        if key is not None and len(key) != KEY_SIZE:
            hint = "Create one with generate_key; a passphrase is not a key."
            raise Invalid(f"a key has {KEY_SIZE} bytes, this one has {len(key)}", hint=hint)
        self._key = key
        self._compatible = compatible
        if key is not None:
            _ = self._cipher  # raise now if the library is missing

    # -- writing

    def pack(self, snapshot: Snapshot, *, split: bool = False) -> Packed:
        """The bytes of a snapshot; with `split`, large media are separate. Invalid as in `Snapshot.check`."""
        snapshot.check()
        if self._compatible:
            data = _write_document(snapshot, snapshot.messages)
            return Packed(data if self._key is None else self._encrypt(data, None), {})
        cut = cut_media(snapshot.messages, self.name) if split else Cut(snapshot.messages, (), {})
        document = _write_document(snapshot, cut.rest, _CUT if cut.spans else "messages")
        head = summarise(snapshot, cut.spans, len(document))
        media = {name: self._close_medium(name, content) for name, content in cut.media.items()}
        if self._key is None:
            rest = b'",' + _encode(head)[1:] + b"," + document[1:]
            return Packed(b"%s%08x%s" % (CHECKED, crc32(rest), rest), media)
        return Packed(self._seal(snapshot.id, _encode(head), document), media)

    def name(self, content: bytes) -> str:
        """The name of a medium. Equal contents have equal names; with a key, the name is a keyed hash."""
        if self._key is None:
            return sha256(content).hexdigest()
        return blake2b(content, key=self._naming, digest_size=32).hexdigest()

    # -- reading

    def head(self, id: str, data: bytes) -> Head | None:
        """The head at the beginning of a file; None if more of the file is needed.

        Corrupted, WrongKey, Sealed, and Invalid if it is not a snapshot.
        """
        length = _PREFIX + int.from_bytes(data[_PREFIX - 4 : _PREFIX], "big")
        if self._key is not None and self._opens_but_for_prefix(id, data[:length], length):
            raise Damaged(f"snapshot {id}", "its first bytes were changed")
        if data.startswith(_MAGIC):
            if len(data) < _PREFIX or len(data) < length:
                return None
            raw = self._open(f"snapshot {id}", data[_PREFIX:length], _bound(b"head", data[:_PREFIX], id), data)
        elif self._key is None and data.startswith(_OURS):
            end = data.find(b"\n", len(_OURS))
            if end < 0:
                return None
            raw = data[len(_OURS) : end - 1]
        elif self._key is None and data.lstrip()[:1] not in (b"{", b""):
            raise Corrupted(f"snapshot {id}", "it is not a JSON object")
        else:
            return None
        try:
            head = _head(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise Corrupted(f"snapshot {id}", "its head cannot be read") from None
        if head.form > _FORM:
            raise SchemaTooNew(f"snapshot {id}", head.form, _FORM)
        _is(id, head.id)
        return head

    def has_size(self, head: Head, data: bytes, size: int) -> bool:
        """False if a file of this size, which begins with `data`, cannot have the document that its head describes."""
        if head.body is None:
            return True
        if data.startswith(_MAGIC):
            return size == _PREFIX + int.from_bytes(data[_PREFIX - 4 : _PREFIX], "big") + _NONCE + head.body + _TAG
        return size == data.find(b"\n", len(_OURS)) + head.body - 1

    def whole_head(self, id: str, data: bytes) -> Head:
        """The head of a complete file. Corrupted if the file has the wrong size."""
        head = self.head(id, data)
        if head is None:
            return summarise(self.unpack(id, data, _no_media))
        if not self.has_size(head, data, len(data)):
            raise Damaged(f"snapshot {id}", "it has the wrong size")
        return head

    def unpack(self, id: str, data: bytes, medium: Callable[[str], bytes]) -> Snapshot:
        """The snapshot in a file. `medium` reads media stored next to it.

        Corrupted if it is not what was written, or if its id is not its name; WrongKey, Sealed, SchemaTooNew.
        """
        try:
            document, spans = self._document(id, data)
            fields = members(document)
            fields.pop("clew", None)
            if spans:
                fields["messages"] = put_back(fields.pop(_CUT, b""), spans, self._media_reader(medium))
            snapshot = Snapshot.from_fields(fields)
        except Invalid as error:
            raise Corrupted(f"snapshot {id}", error.message) from None
        _is(id, snapshot.id)
        return snapshot

    def _document(self, id: str, data: bytes) -> tuple[bytes, tuple[Span, ...]]:
        """The document in a file, and the media stored outside it."""
        head = self.head(id, data)
        if data.startswith(_MAGIC):
            if head is None:
                raise Corrupted(f"snapshot {id}", "it is cut short")
            end = _PREFIX + int.from_bytes(data[_PREFIX - 4 : _PREFIX], "big")
            return self._open(f"snapshot {id}", data[end:], _bound(b"body", data[:end], id), data), head.media
        if self._key is not None:
            return self._open(f"snapshot {id}", data, None, data), ()
        if head is None:
            return data, ()
        checked = len(CHECKED)
        if not data.startswith(CHECKED) or data[checked : checked + 8] != b"%08x" % crc32(data[checked + 8 :]):
            raise Corrupted(f"snapshot {id}")
        return data, head.media

    # -- sealing

    @cached_property
    def _cipher(self) -> AESGCM:
        try:
            with loading:
                from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ModuleNotFoundError:
            raise MissingPackage("encryption needs the cryptography package", "cryptography") from None
        assert self._key is not None
        return AESGCM(self._key)

    @cached_property
    def _invalid(self) -> type[Exception]:
        with loading:
            from cryptography.exceptions import InvalidTag

        return InvalidTag

    @cached_property
    def _key_id(self) -> bytes:
        with loading:
            from clew.keys import key_id

        assert self._key is not None
        return key_id(self._key)

    @cached_property
    def _naming(self) -> bytes:
        """The key for names of media; it differs from the one that encrypts them."""
        return blake2b(key=self._key or b"", person=b"clew media").digest()

    def _seal(self, id: str, head: bytes, document: bytes) -> bytes:
        prefix = _MAGIC + bytes([_FORM]) + self._key_id + (_NONCE + len(head) + _TAG).to_bytes(4, "big")
        start = prefix + self._encrypt(head, _bound(b"head", prefix, id))
        return start + self._encrypt(document, _bound(b"body", start, id))

    def _encrypt(self, payload: bytes, bound: bytes | None) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, payload, bound)

    def _open(self, where: str, sealed: bytes, bound: bytes | None, data: bytes) -> bytes:
        """The plaintext. The file `data` contains the id of its key, unless the original program wrote it."""
        if bound is None:
            return self._open_original(where, sealed)
        form, theirs = data[len(_MAGIC)], data[len(_MAGIC) + 1 : _PREFIX - 4]
        if self._key is None:
            raise Sealed(where, [theirs])
        if form != _FORM:
            raise SchemaTooNew(where, form, _FORM)
        if theirs != self._key_id:
            raise WrongKey(where, [theirs], self._key_id)
        opened = self._decrypt(sealed, bound)
        if opened is None:
            raise Damaged(where, "it was changed, truncated, or moved from another id")
        return opened

    def _opens_but_for_prefix(self, id: str, data: bytes, length: int) -> bool:
        """True if the bytes before the head were changed, so that the key and the form are unknown."""
        prefix = _MAGIC + bytes([_FORM]) + self._key_id + data[_PREFIX - 4 : _PREFIX]
        if len(data) != length or data.startswith(prefix):
            return False
        return self._decrypt(data[_PREFIX:], _bound(b"head", prefix, id)) is not None

    def _open_original(self, where: str, sealed: bytes) -> bytes:
        opened = self._decrypt(sealed, None)
        if opened is None:
            if is_document(sealed):
                raise Invalid("it is not encrypted, and the store has a key")
            if len(sealed) < _LEAST or sealed.isascii():
                raise Corrupted(where, "it is not an encrypted snapshot")
            hint = "It was encrypted with another key, or it is damaged: the file does not say which key it was."
            raise WrongKey(where, [], self._key_id, hint=hint)
        return opened

    def _decrypt(self, sealed: bytes, bound: bytes | None) -> bytes | None:
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], bound)
        except (self._invalid, ValueError):  # ValueError: too short for a nonce
            return None

    # -- media

    def _close_medium(self, name: str, content: bytes) -> bytes:
        if self._key is None:
            return content
        prefix = _MAGIC + bytes([_FORM]) + self._key_id + bytes(4)
        return prefix + self._encrypt(content, _bound(b"media", prefix, name))

    def _media_reader(self, medium: Callable[[str], bytes]) -> Callable[[str], bytes]:
        def content(name: str) -> bytes:
            data, where = medium(name), f"medium {name[:8]}"
            if self._key is not None and not data.startswith(_MAGIC):
                raise Corrupted(where)
            if self._key is not None:
                return self._open(where, data[_PREFIX:], _bound(b"media", data[:_PREFIX], name), data)
            if self.name(data) != name:
                raise Corrupted(where)
            return data

        return content


def summaries(
    heads: Iterable[tuple[str, Head | ClewError]], warn: Callable[[str, str, str], object]
) -> list[SnapshotSummary]:
    """The summaries for a list, newest first, from the heads of files or the errors of reading them.

    Skips a file that cannot be opened, and calls `warn`. If none can be opened and none is known to have the given key,
    the key may be wrong: raises Sealed or WrongKey, so that the store does not look empty.
    """
    found, locked, right_key = list[SnapshotSummary](), list[Sealed](), False
    for id, head in heads:
        if isinstance(head, Head):
            found.append(head.summary)
        elif not isinstance(head, NotFound):  # else it was deleted meanwhile
            warn("snapshot %s is skipped: %s", id, head.message)
            right_key = right_key or isinstance(head, Damaged)
            locked += [head] if isinstance(head, Sealed) else []
    if locked and not found and not right_key:
        raise locked[0]
    return sorted(found, key=lambda one: (one.created_at, one.id), reverse=True)


def errors_of(load: Callable[[str], object], ids: Iterable[str]) -> list[ClewError]:
    """The errors of loading these snapshots."""
    found = list[ClewError]()
    for id in ids:
        try:
            load(id)
        except NotFound:  # it was deleted meanwhile
            continue
        except ClewError as error:
            found.append(error)
    return found


def _write_document(snapshot: Snapshot, messages: bytes, name: str = "messages") -> bytes:
    """A snapshot's document, one field per line; the last field has this name and these bytes."""
    lines = [b'  "%s": %s' % (field.encode(), _encode(value)) for field, value in snapshot.fields().items()]
    return b"{\n" + b",\n".join([*lines, b'  "%s": %s' % (name.encode(), messages)]) + b"\n}\n"


def is_document(data: bytes) -> bool:
    """True if these bytes are a JSON object."""
    try:
        return bool(members(data))
    except Invalid:
        return False


def _bound(what: bytes, before: bytes, name: str) -> bytes:
    """The data that a ciphertext is bound to."""
    return what + len(before).to_bytes(4, "big") + before + name.encode()


def _is(id: str, found: str) -> None:
    if found != id:
        raise Corrupted(f"snapshot {id}", "it contains a snapshot with another id")


def _no_media(name: str) -> bytes:
    raise Corrupted(f"medium {name[:8]}", "it is not here")
