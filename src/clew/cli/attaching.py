"""Files that go with a question: words are put into it, pictures and documents beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import clew
from clew.cli.text import warn
from clew.model import Media, Modality, Text

LARGEST = 20 * 1024 * 1024
"""Bytes of a file at most; no provider takes more in a request."""
_KINDS: dict[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": "application/pdf",
}


def question(client: Any, text: str, paths: Sequence[str]) -> str | clew.Native:
    """What to say to a client: the text, and the files. Invalid if one cannot be read, or the provider takes none."""
    if not paths:
        return text
    blobs: dict[str, bytes] = {}
    blocks: list[Text | Media] = []
    for path in paths:
        name, data = os.path.basename(path), _read(path)
        words = _words(data)
        if words is not None:
            blocks.append(Text(text=f'<file name="{name}">\n{words}\n</file>'))
        else:
            mime = _kind(name, data)
            blobs[str(len(blobs))] = data
            blocks.append(Media(mime_type=mime, modality=_modality(mime), blob=str(len(blobs) - 1), name=name))
    if all(isinstance(block, Text) for block in blocks):
        return "\n\n".join([*(block.text for block in blocks if isinstance(block, Text)), *([text] if text else [])])
    from clew.convert import convert_messages

    said = clew.user(*blocks, *([Text(text=text)] if text else []))
    found = convert_messages([said], to=client.provider, blob=blobs.__getitem__)
    for loss in found.report.losses:
        warn(f"clew: {loss}")
    return found.natives()[-1]


def _read(path: str) -> bytes:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise clew.Invalid(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise clew.Invalid(f"{path} is larger than {LARGEST >> 20} MiB")
    return data


def _words(data: bytes) -> str | None:
    """The file as text, if it is some."""
    if b"\0" in data or data.startswith(b"%PDF-"):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _kind(name: str, data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    from mimetypes import guess_type

    seen = next((kind for begin, kind in _KINDS.items() if data.startswith(begin)), None)
    return seen or guess_type(name)[0] or "application/octet-stream"


def _modality(mime: str) -> Modality:
    kind = mime.partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"  # type: ignore[return-value]
