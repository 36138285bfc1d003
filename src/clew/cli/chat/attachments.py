"""Files attached to a question: text becomes part of it, images and documents become media blocks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import clew
from clew.base.messages import Media, Modality, Text
from clew.base.outside import open_outside
from clew.base.visible import plain
from clew.providers.registry import canonical

LARGEST = 20 * 1024 * 1024
"""Largest file in bytes; no provider accepts more in a request."""
_KINDS: dict[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": "application/pdf",
}


def question(client: Any, text: str, paths: Sequence[str]) -> str | clew.Native:
    """The question for a client, with files. Invalid if a file cannot be read, or the provider does not accept it."""
    if not paths:
        return text
    blobs: dict[str, bytes] = {}
    blocks: list[Text | Media] = []
    for path in paths:
        name, data = plain(os.path.basename(path)).replace('"', "'"), read(path)
        words = _words(data)
        if words is not None:
            blocks.append(Text(text=f'<file name="{name}">\n{words}\n</file>'))
        else:
            mime = _kind(name, data)
            blobs[str(len(blobs))] = data
            blocks.append(Media(mime_type=mime, modality=_modality(mime), blob=str(len(blobs) - 1), name=name))
    if all(isinstance(block, Text) for block in blocks):
        return "\n\n".join([*(block.text for block in blocks if isinstance(block, Text)), *([text] if text else [])])
    return _to_native(client, [*blocks, *([Text(text=text)] if text else [])], blobs)


def repeat_question(client: Any, node: clew.Node, text: str | None = None) -> str | clew.Native:
    """An earlier question with its attachments, optionally with another text."""
    native = node.native
    if text is None and native is not None and canonical(native.provider) == client.provider:
        return clew.Native(client.provider, native.raw)
    media = [block for block in node.message.blocks if isinstance(block, Media)]
    words = node.text if text is None else text
    return _to_native(client, [*media, *([Text(text=words)] if words else [])], {}) if media else words


def _to_native(client: Any, blocks: Sequence[Text | Media], blobs: Mapping[str, bytes]) -> clew.Native:
    from clew.convert import convert_messages

    found = convert_messages([clew.user(*blocks)], to=client.provider, blob=blobs.__getitem__)
    for loss in found.report.losses:
        left = blocks[loss.block] if loss.block is not None else None
        if loss.kind == "dropped" and loss.what != "file name" and isinstance(left, Media):
            about = f"{client.provider} does not accept {left.mime_type}: {left.name or 'attachment'}"
            raise clew.Invalid(about, hint="Nothing was sent. Convert it to text, an image or a PDF.")
    return found.natives()[-1]


def read(path: str) -> bytes:
    """Reads a file. Invalid if it cannot be read, or is too large."""
    try:
        with open_outside(os.path.expanduser(path)) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise clew.Invalid(f"cannot read {path}: {error.strerror}") from None
    if len(data) > LARGEST:
        raise clew.Invalid(f"{path} is larger than {LARGEST >> 20} MiB", hint="Attach a smaller file.")
    return data


def _words(data: bytes) -> str | None:
    """The content as text; None if it is binary."""
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
