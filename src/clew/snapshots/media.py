"""Token estimates and large media in the JSON of messages.

A picture in a message is a long string of base64. It is cut out by its place in the bytes and put back at the same
place: nothing in the JSON marks it, so no text can be taken for a mark. It is only cut out if the same base64 comes out
of what it stands for.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from clew.errors import Corrupted

LARGE = 64 * 1024
"""Letters of base64 from which on a medium has a file of its own."""
TOKENS_OF_MEDIA = 1_000
"""Tokens of a picture or a page, estimated."""
_LETTERS = 4
"""Letters in a token, estimated."""
_LONG = 1024

_MEDIA = re.compile(rb'(?<=["\',])[A-Za-z0-9+/]{%d,}={0,2}(?=["\'\\])' % _LONG)
_LARGE = re.compile(rb'(?<=["\',])[A-Za-z0-9+/]{%d,}={0,2}(?=["\'\\])' % LARGE)


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A medium that was cut out of the messages: where they lack it, and the name of its content."""

    at: int
    """Its place in what is left of the messages."""
    name: str


class Cut(NamedTuple):
    """Messages without their large media."""

    rest: bytes
    spans: tuple[Span, ...]
    media: dict[str, bytes]
    """Their contents, by name."""


def count_tokens(*texts: bytes) -> int:
    """How many tokens these take, about: a quarter of the letters, and a round number for each medium."""
    letters = media = 0
    for text in texts:
        letters += len(text)
        if len(text) >= _LONG:
            for found in _MEDIA.finditer(text):
                letters -= found.end() - found.start()
                media += 1
    return -(-letters // _LETTERS) + media * TOKENS_OF_MEDIA


def cut_media(messages: bytes, name: Callable[[bytes], str]) -> Cut:
    """The messages without large media, each named by its content."""
    kept, spans, media = [], [], dict[str, bytes]()
    at = end = 0
    for found in _LARGE.finditer(messages) if len(messages) >= LARGE else ():
        content = _content(found.group())
        if content is None:
            continue
        kept.append(messages[end : found.start()])
        at, end = at + found.start() - end, found.end()
        named = name(content)
        media[named] = content
        spans.append(Span(at, named))
    return Cut(b"".join([*kept, messages[end:]]), tuple(spans), media)


def put_back(rest: bytes, spans: Iterable[Span], content: Callable[[str], bytes]) -> bytes:
    """The messages with their media again. Corrupted if there is no such place."""
    pieces, end = [], 0
    for span in spans:
        if not end <= span.at <= len(rest):
            raise Corrupted("the list of media", "it names a place that is not there")
        pieces += [rest[end : span.at], b2a_base64(content(span.name), newline=False)]
        end = span.at
    return b"".join([*pieces, rest[end:]])


def _content(base64: bytes) -> bytes | None:
    """The bytes of base64; None if they would not encode to the same text."""
    try:
        content = a2b_base64(base64, strict_mode=True)
    except ValueError:
        return None
    return content if b2a_base64(content, newline=False) == base64 else None
