"""Checks messages strictly against the types of each provider's SDK."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import TypeAdapter


def check(provider: str, raw: bytes) -> None:
    """Fails unless the SDK's types take the message whole, with no field they do not know."""
    data = json.loads(raw)
    _CHECKS[provider](data)


def _typed(name: str) -> Callable[[Any], None]:
    def check(data: Any) -> None:
        read = _whole(_adapter(name).validate_python(data))
        assert read == data  # a field the type does not have would be gone

    return check


@functools.cache
def _adapter(name: str) -> TypeAdapter[Any]:
    if name == "anthropic":
        from anthropic.types import MessageParam

        return TypeAdapter(MessageParam)
    if name == "openai":
        from openai.types.chat import ChatCompletionMessageParam

        return TypeAdapter(ChatCompletionMessageParam)
    from openai.types.responses import ResponseInputItemParam

    return TypeAdapter(ResponseInputItemParam)


def _gemini(data: Any) -> None:
    from google.genai.types import Content

    read = Content.model_validate_json(json.dumps(data))  # the model forbids fields it does not know
    for part in read.parts or []:
        assert len(part.model_fields_set - {"thought", "thought_signature"}) == 1


def _whole(value: Any) -> Any:
    """A validated value with its lazy parts read: only then are they checked."""
    if isinstance(value, dict):
        return {name: _whole(inner) for name, inner in value.items()}
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return value
    return [_whole(inner) for inner in value]


_CHECKS: dict[str, Callable[[Any], None]] = {
    "anthropic": _typed("anthropic"),
    "openai": _typed("openai"),
    "openai-responses": _typed("openai-responses"),
    "gemini": _gemini,
}
PROVIDERS = tuple(_CHECKS)
