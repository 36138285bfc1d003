"""Images of a conversation, stored as attachments or in a message as base64: what a browser shows, up to a size."""

from __future__ import annotations

import binascii
from typing import NamedTuple

from clew.base.messages import Media
from clew.errors import ClewError
from clew.store.session import Session

LARGEST = 10 << 20
"""Bytes of an image that is shown."""
_SIGNS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
"""The endings of the files of images, by their types."""


class ShownImage(NamedTuple):
    """The bytes of an image and the type that they begin with, whatever the message says."""

    mime_type: str
    data: bytes


def is_inline(block: Media) -> bool:
    """True for media whose bytes are in the message itself."""
    return block.url is not None and block.url.startswith("data:")


def read_image(session: Session | None, block: Media, most: int = LARGEST) -> ShownImage | None:
    """The image of a block; None if it is none, is larger than `most`, is elsewhere or cannot be read."""
    if block.modality != "image":
        return None
    data = inline_bytes(block, most) if is_inline(block) else _stored_bytes(session, block, most)
    kind = None if data is None else image_type(data)
    return None if kind is None or data is None else ShownImage(kind, data)


def inline_bytes(block: Media, most: int = LARGEST) -> bytes | None:
    """The bytes of media that are in the message as base64; None if there are none, or more than `most`."""
    head, _, body = (block.url or "").partition(",")
    if not head.endswith(";base64") or len(body) > most * 4 // 3 + 4:
        return None
    try:
        return binascii.a2b_base64(body)
    except (binascii.Error, ValueError):
        return None


def image_type(data: bytes) -> str | None:
    """The type of an image by its first bytes; None for everything that a browser does not show as an image."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for sign, kind in _SIGNS if data.startswith(sign)), None)


def _stored_bytes(session: Session | None, block: Media, most: int) -> bytes | None:
    if session is None or block.blob is None:
        return None
    try:
        if session.blobs.stat(block.blob).size > most:
            return None
        return b"".join(session.blobs.open(block.blob))
    except ClewError:
        return None
