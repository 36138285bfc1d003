"""The neutral view of messages in a provider's own JSON, for search, display and counting.

A view is never stored; the provider gets its own JSON back. Each provider's ``messages`` module makes the blocks. A
message of an unknown provider becomes one opaque block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from clew.base.messages import (
    ATTACHED,
    Block,
    Media,
    Message,
    Modality,
    Native,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from clew.errors import Invalid
from clew.providers import registry
from clew.providers.json_values import Json, as_text

_DIGITS = 4000
"""Python's limit for the conversion of text to integers, which protects against slow hostile input."""

_decode = msgspec.json.Decoder().decode


def view(message: Native) -> Message:
    """The neutral view of a native message. Raises msgspec.DecodeError if it is not JSON, Invalid if not an object.

    If the JSON names no model or no token counts, ``model`` and ``usage`` of the free data are used; ``usage`` has the
    field names of `Usage`. ``counted`` wins over both: it is the part of an answer's tokens that this message counts.
    ``failed`` makes its tool results errors, where only a record beside the message says so.
    """
    data = parse(message.raw)
    extra = message.extra or {}
    reader = registry.reader(message.provider)
    blocks = tuple(_unknown_blocks(data) if reader is None else reader.blocks(data))
    if ATTACHED in extra:
        blocks = tuple(_with_attachments(blocks, extra[ATTACHED]))
    if extra.get("failed") is True:
        blocks = tuple(_mark_failed(block) for block in blocks)
    model = as_text(data.get("model")) or as_text(extra.get("model"))
    usage = _usage_in_extra(extra.get("counted")) or reported_usage(data) or _usage_in_extra(extra.get("usage"))
    if reader is not None and reader.role is not None:
        data = {**data, "role": reader.role(data)}
    return Message(_role(data, blocks), blocks, model, usage, message.label, message.extra)


def _with_attachments(blocks: Iterable[Block], attached: object) -> Iterator[Block]:
    """Blocks in which media that are stored name their blob; those that no block refers to come last."""
    left = dict(attached) if isinstance(attached, dict) else {}

    def stored(media: Media) -> Media:
        found = left.pop(media.url, None) if media.url is not None else None
        return media if found is None else _stored_media(found, media)

    for block in blocks:
        if isinstance(block, Media):
            yield stored(block)
        elif isinstance(block, ToolResult):
            inner = tuple(stored(one) if isinstance(one, Media) else one for one in block.content)
            yield msgspec.structs.replace(block, content=inner)
        else:
            yield block
    for found in left.values():
        yield _stored_media(found, None)


def _stored_media(found: Json, media: Media | None) -> Media:
    mime_type = as_text(found.get("mime_type")) or (media.mime_type if media else "application/octet-stream")
    kind = mime_type.partition("/")[0]
    modality: Modality = media.modality if media else _MODALITIES.get(kind, "document")
    name = as_text(found.get("name")) or (media.name if media else None)
    return Media(mime_type=mime_type, modality=modality, blob=as_text(found.get("blob")), name=name)


_MODALITIES: dict[str, Modality] = {"image": "image", "audio": "audio", "video": "video"}


def _mark_failed(block: Block) -> Block:
    return msgspec.structs.replace(block, is_error=True) if isinstance(block, ToolResult) else block


def parse(raw: bytes) -> Json:
    """The JSON object of a native message, as `view` reads it. Raises as `view` does."""
    try:
        data = _decode(raw)
    except msgspec.MsgspecError:
        data = _lenient(raw)
    if not isinstance(data, dict):
        raise Invalid(f"a native message is a JSON object, not {type(data).__name__}")
    return data


def _lenient(raw: bytes) -> Any:
    """Reads JSON that strict readers refuse: escaped lone surrogates, numbers out of range.

    In the view, a lone surrogate is a question mark and such a number is its text. The stored bytes stay the same.
    """
    import json

    def refuse(word: str) -> None:
        raise msgspec.DecodeError(f"JSON has no {word}")

    try:
        data = json.loads(raw.decode(), parse_int=integer, parse_float=_finite, parse_constant=refuse)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    return json.loads(json.dumps(data, ensure_ascii=False).encode(errors="replace"))


def integer(number: str) -> int | str:
    """A whole number in JSON; its text if it has more digits than Python converts."""
    return int(number) if len(number) <= _DIGITS else number


def _finite(number: str) -> float | str:
    value = float(number)
    return value if math.isfinite(value) else number


def _role(data: Json, blocks: tuple[Block, ...]) -> Role:
    """The neutral role: tool for a message that has only tool results, whatever the provider's role."""
    if blocks and all(isinstance(block, ToolResult) for block in blocks):
        return "tool"
    role = data.get("role")
    if isinstance(role, str):
        return _ROLES.get(role, "user")
    if any(isinstance(block, Thinking | ToolCall) for block in blocks):
        return "assistant"
    # Other items without a role come from tools of the provider: searches, pictures, code.
    return "user" if data.get("type") is None else "assistant"


_ROLES: dict[str, Role] = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant", "model": "assistant",
    "tool": "tool", "function": "tool",
}  # fmt: skip


def _unknown_blocks(data: Json) -> Iterator[Block]:
    """The blocks for an unknown provider: the content if it is text, else one opaque block."""
    content = data.get("content")
    yield Text(text=content) if isinstance(content, str) else Opaque(kind="message", data=data)


def reported_usage(data: Json) -> Usage | None:
    """The tokens that a message says it took; None if it says none."""
    used = data.get("usage") or data.get("usageMetadata")
    if not isinstance(used, dict):
        return None

    def count(*names: str) -> int | None:
        for name in names:
            value = used.get(name)
            if type(value) is int and value >= 0:
                return value
        return None

    def part(name: str, *details: str) -> int | None:
        for one in details:
            value = inner.get(name) if isinstance(inner := used.get(one), dict) else None
            if type(value) is int and value >= 0:
                return value
        return None

    cached, reasoning = count("cache_read_input_tokens", "cachedContentTokenCount"), count("thoughtsTokenCount")
    if cached is None:
        cached = part("cached_tokens", "prompt_tokens_details", "input_tokens_details")
    if reasoning is None:
        reasoning = part("reasoning_tokens", "completion_tokens_details", "output_tokens_details")
    return Usage(
        input=count("input_tokens", "prompt_tokens", "promptTokenCount"),
        output=count("output_tokens", "completion_tokens", "candidatesTokenCount"),
        cached=cached,
        reasoning=reasoning,
        cache_write=count("cache_creation_input_tokens"),
    )


def _usage_in_extra(used: object) -> Usage | None:
    if not isinstance(used, dict):
        return None
    counts = {name: used.get(name) for name in Usage.__struct_fields__}
    known = {name: count for name, count in counts.items() if type(count) is int and 0 <= count < 1 << 50}
    return Usage(**known) if known else None
