"""A conversation as a file: in each form of `clew export`, and a part of it as Markdown, HTML or JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec
from starlette.responses import Response, StreamingResponse

from clew.engine.node import Node
from clew.errors import Invalid, NotFound
from clew.exports.to_files import FORMS, exportable, file_name, parts
from clew.exports.to_html import html
from clew.exports.to_markdown import markdown
from clew.exports.to_native import NativeFile, native_files
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
    store: Store, session: Session, form: str, first: int, last: int | None, head: str | None = None
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
        pieces = _part(session, form, between(session, first, last, head=head))
    else:
        pieces = parts(store, session, form, "full")  # type: ignore[arg-type]
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


def _part(session: Session, form: str, nodes: Iterable[Node]) -> Iterator[bytes]:
    if form == "json":
        yield b'{"conversation":' + msgspec.json.encode(session_value(session)) + b',"messages":['
        for number, node in enumerate(nodes):
            yield (b"," if number else b"") + msgspec.json.encode(node_value(node))
        yield b"]}\n"
        return
    lines = markdown(session, nodes) if form == "markdown" else html(session, nodes)
    yield from (f"{line}\n".encode() for line in lines)
