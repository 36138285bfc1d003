"""Attachments: sniffed, sandboxed, in ranges. Nothing that a browser could run is served as itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from clew.store.session import Session

SANDBOX = "sandbox; default-src 'none'; frame-ancestors 'none'"
"""Forbids scripts, loading and sending. Browsers cannot show PDFs and recordings under it, so these are downloaded."""
_SIGNS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
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
_UNSAFE = re.compile(r"[^\w.\- ]+")


def attachment(session: Session, digest: str, name: str, range_header: str | None) -> Response:
    """The blob as an answer. NotFound if the session's tree does not have it."""
    size = session.blobs.stat(digest).size
    pieces = session.blobs.open(digest)
    head = next(pieces, b"")
    kind = sniff(head)
    how = "inline" if kind.startswith("image/") else "attachment"
    headers = {
        "content-security-policy": SANDBOX,
        "content-disposition": f"{how}; {_file_name(name or digest[:12])}",
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
    for sign, kind in _SIGNS:
        if head.startswith(sign):
            return kind
    if head[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(head[8:12], "application/octet-stream")
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
    simple = _UNSAFE.sub("_", name.rpartition("/")[2]).strip(" .")[:80] or "attachment"
    ascii_name = simple.encode("ascii", "replace").decode().replace("?", "_")
    return f"filename=\"{ascii_name}\"; filename*=UTF-8''{quote(simple)}"
