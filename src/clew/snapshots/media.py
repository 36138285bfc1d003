"""Token estimates and large media in the JSON of messages.

An image in a message is a long base64 string. It is removed by its position in the bytes and inserted again at the same
position. The JSON contains no marker, so no text can be mistaken for one. A string is removed only if encoding its
decoded bytes gives the same string.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from clew.errors import Corrupted

LARGE = 64 * 1024
"""Minimum length of the base64 of a medium that gets a file of its own."""
TOKENS_OF_MEDIA = 1_000
"""Estimated tokens of an image or a page."""
_LETTERS = 4
"""Estimated characters per token."""
_LONG = 1024

_MEDIA = re.compile(rb'(?<=["\',])[A-Za-z0-9+/]{%d,}={0,2}(?=["\'\\])' % _LONG)
_LARGE = re.compile(rb'(?<=["\',])[A-Za-z0-9+/]{%d,}={0,2}(?=["\'\\])' % LARGE)


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A medium that was removed from the messages: its position, and the name of its content."""

    at: int
    """Its position in the remaining bytes of the messages."""
    name: str


class Cut(NamedTuple):
    """Messages without their large media."""

    rest: bytes
    spans: tuple[Span, ...]
    media: dict[str, bytes]
    """Their contents, by name."""


def count_tokens(*texts: bytes) -> int:
    """An estimate of the tokens: a quarter of the characters, and a fixed number for each medium."""
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
    remaining, spans, media = [], [], dict[str, bytes]()
    at = end = 0
    for found in _LARGE.finditer(messages) if len(messages) >= LARGE else ():
        content = _content(found.group())
        if content is None:
            continue
        remaining.append(messages[end : found.start()])
        at, end = at + found.start() - end, found.end()
        named = name(content)
        media[named] = content
        spans.append(Span(at, named))
    return Cut(b"".join([*remaining, messages[end:]]), tuple(spans), media)


def put_back(rest: bytes, spans: Iterable[Span], content: Callable[[str], bytes]) -> bytes:
    """The messages with their media. Corrupted if a position is outside the messages."""
    pieces, end = [], 0
    for span in spans:
        if not end <= span.at <= len(rest):
            raise Corrupted("the list of media", "it has a position outside the messages")
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
