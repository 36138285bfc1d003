"""Conversations and attachments as files. Attachments are sniffed, sandboxed, and served in ranges.

Nothing that a browser could run is served as itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from urllib.parse import quote
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec
from starlette.responses import Response, StreamingResponse

from clew.base.messages import Media, Message, ToolResult
from clew.engine.node import Node
from clew.errors import Invalid, NotFound
from clew.exports.images import image_type, inline_bytes
from clew.exports.to_files import FORMS, exportable, file_name, parts
from clew.exports.to_html import html
from clew.exports.to_markdown import markdown
from clew.exports.to_native import NativeFile, native_files
from clew.providers.prices import Prices
from clew.store.jsonl import jsonl
from clew.store.session import Session
from clew.store.store import Store
from clew.store.windows import between
from clew.web.views import node_value, session_value

WHOLE = {"native": "As it was imported", "jsonl": "JSONL, complete"}
"""Forms of a whole conversation, with their names on the page."""
PARTS = {"markdown": "Markdown", "html": "HTML", "json": "JSON"}
"""Forms of a conversation or of a part of it."""
CHUNK = 64 * 1024
"""Bytes that are sent at a time: each piece is a trip between threads, and many lines are a few bytes."""
_UNSAFE = re.compile(r"[^\w.-]+")


def download(
    store: Store,
    session: Session,
    form: str,
    first: int,
    last: int | None,
    head: str | None = None,
    prices: Prices | None = None,
) -> Response:
    """The conversation, or its messages from `first` to `last`, as a file that no browser runs. NotFound; Invalid."""
    exportable([session])
    partial = first > 1 or last is not None or head is not None
    if form not in WHOLE and form not in PARTS:
        raise NotFound("form", form)
    if form in WHOLE and partial:
        raise Invalid(f"a part of a conversation is {', '.join(PARTS)}, not {form}")
    pieces: Iterable[bytes]
    files = [one for one in native_files(store, [session]) if session in one.sessions] if form == "native" else []
    if len(files) > 1:
        pieces = _archive(files)
    elif form == "jsonl":
        pieces = jsonl(store, [session])
    elif form == "json" or partial:
        pieces = _part(session, form, between(session, first, last, head=head), prices)
    else:
        pieces = parts(store, session, form, "full", prices=prices)  # type: ignore[arg-type]
    end = next((end for known, end in FORMS.items() if known == form), ".json")
    name = file_name(session, ".zip" if len(files) > 1 else end)
    name = name.encode("ascii", "replace").decode().replace("?", "_")
    headers = {
        "content-disposition": f'attachment; filename="{name}"',
        "content-security-policy": "sandbox; default-src 'none'",
    }
    return StreamingResponse(_chunks(pieces), headers=headers, media_type="application/octet-stream")


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of at least `CHUNK` bytes, but for the last."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= CHUNK:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def _archive(files: Iterable[NativeFile]) -> Iterator[bytes]:
    """A zip archive of the files, written as they are read. Their names are not trusted: only the last part is used."""
    written = _Written()
    with ZipFile(written, "w", ZIP_DEFLATED) as archive:
        for number, one in enumerate(files, 1):
            name = _UNSAFE.sub("_", (one.name or "rows").replace("\\", "/").rpartition("/")[2])[-80:]
            with archive.open(f"{number}-{name}", "w") as out:
                for part in one.parts():
                    out.write(part)
                    yield written.take()
    yield written.take()


class _Written:
    """A file object that holds the written bytes until `take`."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _part(session: Session, form: str, nodes: Iterable[Node], prices: Prices | None) -> Iterator[bytes]:
    if form == "json":
        yield b'{"conversation":' + msgspec.json.encode(session_value(session)) + b',"messages":['
        for number, node in enumerate(nodes):
            yield (b"," if number else b"") + msgspec.json.encode(node_value(node))
        yield b"]}\n"
        return
    lines = markdown(session, nodes) if form == "markdown" else html(session, nodes, prices=prices)
    yield from (f"{line}\n".encode() for line in lines)


SANDBOX = "sandbox; default-src 'none'; frame-ancestors 'none'"
"""Forbids scripts, loading and sending. Browsers cannot show PDFs and recordings under it, so these are downloaded."""
_SIGNS = (
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")
_NOT_IN_NAMES = re.compile(r"[^\w.\- ]+")


def attachment(session: Session, digest: str, name: str, range_header: str | None) -> Response:
    """The blob as an answer. NotFound if the session's tree does not have it."""
    size, pieces = session.blobs.stat(digest).size, session.blobs.open(digest)
    return _sandboxed(pieces, size, name or digest[:12], range_header)


def inline_attachment(node: Node, place: int, range_header: str | None) -> Response:
    """The file that is in a message as base64, by its place among the media. NotFound if there is none."""
    found = media_in(node.message)
    data = inline_bytes(found[place]) if place < len(found) else None
    if data is None:
        raise NotFound("attachment", str(place))
    return _sandboxed(iter([data]), len(data), found[place].name or str(place), range_header)


def media_in(message: Message) -> list[Media]:
    """The media of a message in their order, those in results of tools included."""
    inside = (block.content if isinstance(block, ToolResult) else (block,) for block in message.blocks)
    return [block for block in chain.from_iterable(inside) if isinstance(block, Media)]


def _sandboxed(pieces: Iterator[bytes], size: int, name: str, range_header: str | None) -> Response:
    """Bytes that no browser runs, in a range if one is asked for."""
    head = next(pieces, b"")
    kind = sniff(head)
    how = "inline" if kind.startswith("image/") else "attachment"
    headers = {
        "content-security-policy": SANDBOX,
        "content-disposition": f"{how}; {_file_name(name)}",
        "accept-ranges": "bytes",
        "cache-control": "private, no-store",
    }
    span = _span(range_header, size)
    if span is None:
        headers["content-length"] = str(size)
        return StreamingResponse(chain([head], pieces), headers=headers, media_type=kind)
    first, last = span
    if first > last or first >= size:
        return Response(status_code=416, headers={**headers, "content-range": f"bytes */{size}"})
    headers |= {"content-range": f"bytes {first}-{last}/{size}", "content-length": str(last - first + 1)}
    body = _slice(chain([head], pieces), first, last)
    return StreamingResponse(body, status_code=206, headers=headers, media_type=kind)


def sniff(head: bytes) -> str:
    """The type by the first bytes. Text of any kind, SVG and HTML included, is plain text."""
    if image := image_type(head):
        return image
    for sign, kind in _SIGNS:
        if head.startswith(sign):
            return kind
    if head[:4] == b"RIFF":
        return "audio/wav" if head[8:12] == b"WAVE" else "application/octet-stream"
    if head[4:8] == b"ftyp":
        return "audio/mp4" if head[8:11] == b"M4A" else "video/mp4"
    if b"\0" in head[:4096]:
        return "application/octet-stream"
    return "text/plain; charset=utf-8"


def _span(header: str | None, size: int) -> tuple[int, int] | None:
    """The one range that is asked for; None for everything. Several ranges are answered with everything."""
    found = _RANGE.fullmatch(header.strip()) if header is not None and len(header) < 100 else None
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        return max(0, size - int(found[2])), size - 1
    return int(found[1]), min(int(found[2]), size - 1) if found[2] else size - 1


def _slice(pieces: Iterator[bytes], first: int, last: int) -> Iterator[bytes]:
    at = 0
    for piece in pieces:
        if at > last:
            return
        part = piece[max(0, first - at) : last - at + 1]
        at += len(piece)
        if part:
            yield part


def _file_name(name: str) -> str:
    simple = _NOT_IN_NAMES.sub("_", name.rpartition("/")[2]).strip(" .")[:80] or "attachment"
    ascii_name = simple.encode("ascii", "replace").decode().replace("?", "_")
    return f"filename=\"{ascii_name}\"; filename*=UTF-8''{quote(simple)}"
