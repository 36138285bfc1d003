"""Media during a conversion: its bytes, or its address."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from clew.base.messages import Media
from clew.providers import registry

IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Image types that every provider accepts."""
_SAME = {
    "image/jpg": "image/jpeg", "audio/mpeg": "audio/mp3", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav", "application/x-pdf": "application/pdf",
}  # fmt: skip
"""Aliases of media types, and the names used here."""
_TEXTUAL = frozenset({"application/json", "application/xml", "application/yaml"})


class Inline(NamedTuple):
    """Media that is in the message itself."""

    mime: str
    data: str
    """Base64, in the standard alphabet."""

    @property
    def url(self) -> str:
        """The data: URL."""
        return f"data:{self.mime};base64,{self.data}"


def inline(media: Media) -> Inline | None:
    """The media in the message itself; None if it is elsewhere, or is not base64."""
    head, comma, rest = (media.url or "").partition(",")
    if not comma or not head.startswith("data:"):
        return None
    mime = mime_type(media)
    if not head.endswith(";base64"):
        return Inline(mime, base64.b64encode(unquote_to_bytes(rest)).decode())
    try:
        base64.b64decode(rest, validate=True)
    except (binascii.Error, ValueError):
        return None
    return Inline(mime, rest)


def link(media: Media) -> str | None:
    """Its public address; None if there is none."""
    url = media.url or ""
    storage = tuple(row.storage for row in registry.PROVIDERS.values() if row.storage)
    return url if url.startswith(("https://", "http://")) and not url.startswith(storage) else None


def mime_type(media: Media) -> str:
    """Its media type without aliases."""
    return _SAME.get(media.mime_type.lower(), media.mime_type.lower())


def words(media: Media) -> str | None:
    """The text of a plain-text document; None for anything else."""
    found, mime = inline(media), mime_type(media)
    if found is None or not (mime.startswith("text/") or mime in _TEXTUAL):
        return None
    try:
        return base64.b64decode(found.data).decode()
    except UnicodeDecodeError:
        return None
