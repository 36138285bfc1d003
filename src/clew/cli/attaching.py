"""Files that go with a question: words are put into it, pictures and documents beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import clew
from clew.cli.text import plain
from clew.model import Media, Modality, Text
from clew.provider_names import canonical

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
    return _told(client, [*blocks, *([Text(text=text)] if text else [])], blobs)


def again(client: Any, node: clew.Node, text: str | None = None) -> str | clew.Native:
    """A question that was asked before, to be asked as it was, or in other words; what went with it goes with it."""
    native = node.native
    if text is None and native is not None and canonical(native.provider) == client.provider:
        return clew.Native(client.provider, native.raw)
    beside = [block for block in node.message.blocks if isinstance(block, Media)]
    words = node.text if text is None else text
    return _told(client, [*beside, *([Text(text=words)] if words else [])], {}) if beside else words


def _told(client: Any, blocks: Sequence[Text | Media], blobs: Mapping[str, bytes]) -> clew.Native:
    from clew.convert import convert_messages

    found = convert_messages([clew.user(*blocks)], to=client.provider, blob=blobs.__getitem__)
    for loss in found.report.losses:
        left = blocks[loss.block] if loss.block is not None else None
        if loss.kind == "dropped" and loss.what != "file name" and isinstance(left, Media):
            about = f"{client.provider} takes no {left.mime_type}: {left.name or 'what goes with it'}"
            raise clew.Invalid(about, hint="Nothing was sent. Make it a text, a picture or a PDF.")
    return found.natives()[-1]


def read(path: str) -> bytes:
    """The content of a file. Invalid if it cannot be read, or is too large."""
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
