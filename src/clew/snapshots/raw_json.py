"""Splits JSON into parts, each as its original bytes, without decoding it, and joins them to the same bytes.

Some programs write escaped lone surrogates, which strict parsers refuse. They are kept like all other bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from clew.errors import Invalid

T = TypeVar("T")

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_key = re.compile(rb"(%s)[ \t\r\n]*:[ \t\r\n]*" % _STRING).match
_tokens = re.compile(_STRING + rb"|[\[{\]},]").finditer

_any = msgspec.json.Decoder(msgspec.Raw)
_array = msgspec.json.Decoder(list[msgspec.Raw])
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str).decode


def well_formed(raw: bytes) -> None:
    """Invalid if the bytes are not one JSON value in UTF-8."""
    if _read(_any, raw) is None and _read(_any, _replace_surrogates(raw)) is None:
        raise Invalid("the messages are not JSON", hint="Pass the bytes as the provider sent them.")


def elements(raw: bytes) -> list[bytes]:
    """The elements of an array. Invalid if it is not an array."""
    found = _read(_array, raw)
    if found is not None:
        return [bytes(one) for one in found]
    if _read(_array, _replace_surrogates(raw)) is None:
        raise Invalid("the messages are not a JSON array", hint="Pass all of them as one list, in the provider's JSON.")
    return _items(raw)


def members(raw: bytes) -> dict[str, bytes]:
    """The members of an object. Invalid if it is not an object."""
    found = _read(_object, raw)
    if found is not None:
        return {name: bytes(one) for name, one in found.items()}
    if _read(_object, _replace_surrogates(raw)) is None:
        raise Invalid("it is not a JSON object", hint="A snapshot's document is what Snapshot.to_json writes.")
    return dict(map(_member, _items(raw)))


def _read(decoder: msgspec.json.Decoder[T], raw: bytes) -> T | None:
    try:
        raw.decode()
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _replace_surrogates(raw: bytes) -> bytes:
    """The JSON with a letter for every escaped surrogate: if this parses, the original is well formed."""
    return _SURROGATE.sub(rb"\\u0041", raw)


def _items(raw: bytes) -> list[bytes]:
    """The parts between the commas of a well-formed array or object."""
    found, depth, start = list[bytes](), 0, 0
    for token in _tokens(raw):
        sign = raw[token.start() : token.start() + 1]
        if sign in b"[{":
            depth += 1
            start = token.end() if depth == 1 else start
        elif sign in b"]}":
            depth -= 1
        if (sign == b"," and depth == 1) or (sign in b"]}" and depth == 0):
            found.append(raw[start : token.start()].strip())
            start = token.end()
    return found


def _member(item: bytes) -> tuple[str, bytes]:
    found = _key(item)
    assert found is not None
    return _text(_replace_surrogates(found[1])), item[found.end() :]


_SPACE = rb"[ \t\r\n]*"
_gap = re.compile(_SPACE + rb"[\[,]" + _SPACE).match

Frame = tuple[str, ...]
"""The bytes before, between and after the elements; equal separators are stored once."""


def frame(array: bytes, parts: Sequence[bytes]) -> Frame | None:
    """The bytes around the `parts` of an array; None if they are only brackets and commas."""
    gaps, at = list[bytes](), 0
    for part in parts:
        found = _gap(array, at)
        assert found is not None
        gaps.append(found[0])
        at = found.end() + len(part)
    gaps.append(array[at:])
    if len(gaps) > 3 and len({*gaps[1:-1]}) == 1:
        gaps = [gaps[0], gaps[1], gaps[-1]]
    frame = tuple(gap.decode() for gap in gaps)
    return None if frame in (("[]",), ("[", "]"), ("[", ",", "]")) else frame


def join(frame: Frame | None, parts: Iterable[bytes]) -> bytes:
    """Joins the array."""
    if frame is None:
        return b"[" + b",".join(parts) + b"]"
    gaps = [gap.encode() for gap in frame]
    if len(gaps) == 3:
        return gaps[0] + gaps[1].join(parts) + gaps[2]
    return b"".join([piece for pair in zip(gaps, parts, strict=False) for piece in pair]) + gaps[-1]
