"""Encodes messages as bytes, and decodes them. The first byte is the format of the rest.

=====  ======================================================================================
tag    what follows
=====  ======================================================================================
0x01   a neutral message as JSON
0x02   a native message: length of its frame (4 bytes, big endian), the frame as JSON (provider,
       label, extra), then the provider's JSON byte for byte
=====  ======================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from clew.base.messages import ATTACHED, ROLES, AnyMessage, Media, Message, Native, Text, ToolResult, Usage
from clew.errors import Corrupted, Invalid, clip

NEUTRAL, NATIVE = 1, 2
"""The kinds of body: the tag of the bytes, and the ``kind`` in a node's facts."""

MAX_DEPTH = 200
"""Maximum nesting of data. Whether deeper data can be read would depend on the depth of the caller's stack."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError, TypeError)
"""Errors of bytes that are not a message."""

_TOKENS = rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]+|[\]}]+'
_KNOWN = frozenset({"text", "thinking", "tool_call", "tool_result", "media", "opaque"})


class Frame(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of a native message other than the provider's bytes."""

    provider: str
    label: str | None = None
    extra: dict[str, Any] | None = None


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """A message ready to be stored: its bytes, and what is counted without reading them again."""

    kind: int
    role: int
    payload: bytes
    usage: tuple[int | None, int | None, int | None]
    """Tokens in, tokens out, cost; None where unknown."""
    blobs: frozenset[str]


_encode = msgspec.json.Encoder().encode
decode_neutral = msgspec.json.Decoder(Message).decode
"""Decodes what follows the tag `NEUTRAL`. msgspec.DecodeError, also for blocks of unknown kinds: see `decode`."""
_decode_frame = msgspec.json.Decoder(Frame).decode
_decode_any = msgspec.json.Decoder().decode
_ROLE = {role: number for number, role in enumerate(ROLES)}
_NO_USAGE = (None, None, None)
_NO_BLOBS: frozenset[str] = frozenset()


def encode(said: AnyMessage, neutral: Callable[[Native], Message], seen: Message | None = None) -> Encoded:
    """The bytes of a message. Invalid if reading them would not give the same message back.

    `neutral` makes the neutral view of a native message: see `clew.providers.neutral`, which passes its own. `seen` is
    that view, as far as role and usage go, if the caller has read the JSON already.
    """
    if isinstance(said, Message):
        payload = b"\x01" + _json(said)
        if _plain(said):
            return Encoded(NEUTRAL, _ROLE[said.role], payload, _NO_USAGE, _NO_BLOBS)
        ensure_shallow(payload)
        try:
            message = decode_neutral(memoryview(payload)[1:])
        except msgspec.ValidationError as error:
            raise Invalid(f"the message is not valid: {error}") from None
        same(message, said)
        kind, blobs = NEUTRAL, _shown_blobs(message)
    elif isinstance(said, Native):
        frame = Frame(said.provider, said.label, said.extra)
        head = _json(frame)
        try:
            if not _plain_extra(said):
                ensure_shallow(head)
                same(_decode_frame(head), frame)
            if not isinstance(said.raw, bytes):
                raise Invalid(f"a native message must be bytes, not {type(said.raw).__name__}")
            ensure_shallow(said.raw)
            if seen is None:
                message = neutral(said)
            else:
                message = seen
                if not said.raw.isascii():
                    said.raw.decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Invalid(
                f"the native message is not JSON: {clip(str(error))}", hint="Pass the bytes as the provider sent them."
            ) from None
        payload = b"\x02" + len(head).to_bytes(4, "big") + head + said.raw
        kind, blobs = NATIVE, _NO_BLOBS if said.extra is None else _attached(said.extra)
    else:
        raise Invalid(f"a message is clew.user(…), clew.assistant(…), clew.native(…), not {type(said).__name__}")
    usage = _NO_USAGE if message.usage is None else _usage(message.usage)
    return Encoded(kind, _ROLE[message.role], payload, usage, blobs)


def decode(payload: bytes | memoryview, where: str) -> AnyMessage:
    """Decodes a message. Corrupted, naming `where`, if it cannot be decoded."""
    tag = payload[0] if payload else 0
    view = payload[1:]
    try:
        if tag == NEUTRAL:
            try:
                return decode_neutral(view)
            except msgspec.ValidationError:
                return _decode_tolerant(view)
        if tag == NATIVE:
            start = 4 + int.from_bytes(view[:4], "big")
            frame = _decode_frame(view[4:start])
            return Native(frame.provider, bytes(view[start:]), frame.label, frame.extra)
    except UNREADABLE as error:
        raise Corrupted(where, f"its body does not decode ({type(error).__name__})") from None
    raise Corrupted(where, f"its body has the unknown tag {tag}")


def to_json(value: object) -> bytes:
    """`value` as JSON. Invalid if JSON cannot hold it."""
    encoded = _json(value)
    ensure_shallow(encoded)
    return encoded


def _json(value: object) -> bytes:
    try:
        encoded = _encode(value)
    except UnicodeEncodeError:
        raise Invalid(
            "the text has a lone surrogate", hint="Decode it with errors='replace', or keep the bytes as a blob."
        ) from None
    except RecursionError:
        raise Invalid("the data is nested too deeply, or contains itself") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise Invalid(f"this cannot be written as JSON: {error}") from None
    if b"\\u0000" in encoded and b"\\u0000" in encoded.replace(b"\\\\", b""):
        raise Invalid("the text has a NUL character", hint="Remove it, or keep the bytes as a blob.")
    return encoded


def _plain(said: Message) -> bool:
    """True for a message of one text block and nothing else. This common case needs no decoding to be checked."""
    blocks = said.blocks
    return (
        type(blocks) is tuple
        and len(blocks) == 1
        and type(block := blocks[0]) is Text
        and type(block.text) is str
        and block.extra is None
        and said.extra is None
        and said.usage is None
        and said.model is None
        and said.label is None
        and said.role in ROLES
    )


def _plain_extra(said: Native) -> bool:
    """True if the free data is text and lists of text: seen to be right without reading it."""
    if type(said.provider) is not str or not (said.label is None or type(said.label) is str):
        return False
    if said.extra is None:
        return True
    if type(said.extra) is not dict:
        return False
    for name, value in said.extra.items():
        if type(name) is not str:
            return False
        if type(value) is list:
            for one in value:
                if type(one) is not str:
                    return False
        elif type(value) is not str:
            return False
    return True


def same(read: object, given: object) -> None:
    """Invalid if `read`, the decoded JSON, differs from `given`: encoding turns NaN into null and bytes into text."""
    # Lists given as tuples are equal: nothing is lost.
    if read == given or _tuples_to_lists(read) == _tuples_to_lists(given):
        return
    raise Invalid(
        "the message cannot be stored without changes",
        hint="Free data may hold text, finite numbers, true, false, null, lists, and objects with text keys.",
    )


def _tuples_to_lists(value: object) -> object:
    """`value` with every tuple as a list."""
    if isinstance(value, list | tuple):
        return [_tuples_to_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _tuples_to_lists(item) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        return type(value), [_tuples_to_lists(getattr(value, name)) for name in value.__struct_fields__]
    return value


def ensure_shallow(encoded: bytes) -> None:
    """Invalid if the JSON is nested deeper than `MAX_DEPTH`."""
    if encoded.count(b"{") + encoded.count(b"[") <= MAX_DEPTH:
        return  # fast path
    depth = 0
    for token in re.finditer(_TOKENS, encoded):
        first = encoded[token.start()]
        if first in b"{[":
            depth += token.end() - token.start()
            if depth > MAX_DEPTH:
                raise Invalid(f"the data is nested more than {MAX_DEPTH} levels deep")
        elif first != 0x22:
            depth -= token.end() - token.start()


def _usage(used: Usage) -> tuple[int | None, int | None, int | None]:
    counts = (used.input, used.output, used.cost)
    if any(count is not None and not 0 <= count < 1 << 50 for count in counts):
        raise Invalid("a usage count is negative or 2**50 or more")
    return counts


def _decode_tolerant(view: bytes | memoryview) -> Message:
    """Decodes a message with blocks of unknown kinds, which become opaque."""
    raw = _decode_any(view)
    raw["blocks"] = [_known_fields(block) for block in raw.get("blocks", ())]
    return msgspec.convert(raw, Message)


def _known_fields(block: dict[str, Any]) -> dict[str, Any]:
    kind = block.get("type")
    if kind not in _KNOWN:
        data = {name: value for name, value in block.items() if name != "type"}
        return {"type": "opaque", "kind": str(kind), "data": data}
    if kind == "tool_result":
        block["content"] = [_known_fields(inner) for inner in block.get("content", ())]
    return block


def blobs_of(said: AnyMessage) -> frozenset[str]:
    """The blobs that a message shows. Invalid if it names them wrongly."""
    if isinstance(said, Message):
        return _shown_blobs(said)
    return _NO_BLOBS if said.extra is None else _attached(said.extra)


def _shown_blobs(message: Message) -> frozenset[str]:
    found = _NO_BLOBS
    for block in message.blocks:
        if isinstance(block, ToolResult):
            for inner in block.content:
                if isinstance(inner, Media):
                    found |= _blob(inner)
        elif isinstance(block, Media):
            found |= _blob(block)
    return found


def _attached(extra: dict[str, Any]) -> frozenset[str]:
    """The blobs of a native message. Invalid if they are not named by their digests."""
    found = extra.get(ATTACHED)
    if found is None:
        return _NO_BLOBS
    try:
        blobs = frozenset(one["blob"] for one in found.values())
    except (AttributeError, TypeError, KeyError):
        blobs = frozenset((None,))
    if not all(isinstance(blob, str) for blob in blobs):
        raise Invalid(f"{ATTACHED!r} in the free data must name a blob for each attachment")
    return blobs


def _blob(media: Media) -> frozenset[str]:
    if (media.blob is None) == (media.url is None):
        raise Invalid("a media block must have either a blob or a url")
    return _NO_BLOBS if media.blob is None else frozenset((media.blob,))
