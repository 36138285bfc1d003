"""Helpers for reading a provider's JSON: fields may be missing or of another type."""

from __future__ import annotations

from typing import Any

import msgspec

from clew.base.messages import Media, Modality

Json = dict[str, Any]
UNKNOWN = "application/octet-stream"
"""The media type of data without one."""
PDF = "application/pdf"

_ENDINGS = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
    "svg": "image/svg+xml", "pdf": PDF, "txt": "text/plain", "md": "text/markdown", "csv": "text/csv",
    "html": "text/html", "json": "application/json", "mp3": "audio/mp3", "wav": "audio/wav", "mp4": "video/mp4",
}  # fmt: skip


def as_list(value: object) -> list[Json]:
    """The objects of a list; none if it is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_dict(value: object) -> Json:
    """An object; an empty one if it is not an object."""
    return value if isinstance(value, dict) else {}


def as_text(value: object) -> str | None:
    """A text; None if it is not text."""
    return value if isinstance(value, str) else None


def as_word(value: object) -> str:
    """A name or an id as text; empty if it is missing."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def as_arguments(value: object) -> Json:
    """The arguments of a call. A value that is not an object is stored under an empty name."""
    return value if isinstance(value, dict) else {} if value is None else {"": value}


def decoded(value: object) -> object:
    """A value that may have come as JSON text or bytes; text that does not parse is kept as it is."""
    if not isinstance(value, str | bytes) or not value:
        return value or None
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return value if isinstance(value, str) else None


def to_json(value: object) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode()


def inline_media(mime: str, base64: str) -> Media:
    """Media that is in the message itself."""
    return Media(mime_type=mime, modality=modality_of(mime), url=f"data:{mime};base64,{base64}")


def guess_mime(url: str, otherwise: str = UNKNOWN) -> str:
    """The media type in a data: URL, or guessed from the suffix of an address or file name."""
    if url.startswith("data:"):
        return url[5:].partition(",")[0].partition(";")[0] or "text/plain"
    ending = url.partition("?")[0].partition("#")[0].rpartition(".")[2].lower()
    return _ENDINGS.get(ending, otherwise)


def modality_of(mime: str) -> Modality:
    """The kind of media that a media type belongs to."""
    kind = mime.partition("/")[0]
    return kind if kind in ("text", "image", "audio", "video") else "document"  # type: ignore[return-value]
