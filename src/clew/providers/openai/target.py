"""Writes messages for OpenAI's two APIs: chat completions, which many servers support, and Responses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clew.base.messages import Block, Media, Role, Text, ToolCall, ToolResult, texts
from clew.providers.json_values import PDF, Json
from clew.providers.media import IMAGES, inline, link, mime_type
from clew.providers.target import Piece, Target, Unites, is_refusal, media_part, text_arguments

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CHAT_FIELDS = ("tool_calls", "function_call", "refusal", "audio", "reasoning", "reasoning_content", "name")
_RESPONSES_PARTS = frozenset({"input_text", "input_image", "input_file", "output_text"})


class ChatTarget:
    """Chat completions: a message for each tool result, the calls of a turn in one message."""

    call_id = re.compile(r".{1,40}", re.DOTALL)
    tool_name = _TOOL_NAME
    unites: Unites = "calls"
    keeps_thinking = keeps_errors = signs_calls = False
    keeps_refusals = keeps_blank = keeps_system = True
    media_of: frozenset[Role] = frozenset({"user"})

    def owns(self, data: Json) -> bool:
        return "role" in data and data.get("type") is None and not _kinds(data) & _RESPONSES_PARTS

    def media(self, media: Media) -> Json | None:
        found, url, mime = inline(media), link(media), mime_type(media)
        if media.modality == "image" and (mime in IMAGES or found is None):
            address = url if found is None else found.url
            return None if address is None else {"type": "image_url", "image_url": {"url": address}}
        if found is not None and mime in ("audio/wav", "audio/mp3"):
            return {"type": "input_audio", "input_audio": {"data": found.data, "format": mime[6:]}}
        if found is not None and mime == PDF:
            return {"type": "file", "file": {"filename": media.name or "document.pdf", "file_data": found.url}}
        return None

    def write(self, pieces: Sequence[Piece]) -> list[Json]:
        first = pieces[0]
        if isinstance(result := first.what, ToolResult):
            return [{"role": "tool", "tool_call_id": result.call_id, "content": "\n".join(texts(result.content))}]
        if first.role != "assistant":
            return [{"role": first.role, "content": self._content(pieces)}]
        message: Json = {"role": "assistant"}
        refused = [piece for piece in pieces if is_refusal(piece.what)]
        words = [piece for piece in pieces if isinstance(piece.what, Text) and piece not in refused]
        calls = [piece.what for piece in pieces if isinstance(piece.what, ToolCall)]
        message["content"] = self._content(words) if words else None
        if refused:
            message["refusal"] = "\n".join(texts(piece.what for piece in refused))
        if calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text_arguments(call)}}
                for call in calls
            ]
        return [message]

    def _content(self, pieces: Sequence[Piece]) -> str | list[Json]:
        if len(pieces) == 1 and isinstance(only := pieces[0].what, Text):
            return only.text
        blocks = [piece.what for piece in pieces]
        return [
            {"type": "text", "text": block.text} if isinstance(block, Text) else media_part(self, block)
            for block in blocks
        ]


class ResponsesTarget:
    """The Responses API: a flat list of items."""

    call_id = re.compile(r".{1,64}", re.DOTALL)
    tool_name = _TOOL_NAME
    unites: Unites = "nothing"
    keeps_thinking = keeps_refusals = keeps_errors = signs_calls = False
    keeps_blank = keeps_system = True
    media_of: frozenset[Role] = frozenset({"user", "tool"})

    def owns(self, data: Json) -> bool:
        if "role" not in data:
            return True
        is_input = data["role"] not in ("tool", "function") and not any(data.get(name) for name in _CHAT_FIELDS)
        return is_input and _kinds(data) <= _RESPONSES_PARTS | {"refusal"}

    def media(self, media: Media) -> Json | None:
        found, url, mime = inline(media), link(media), mime_type(media)
        if media.modality == "image" and (mime in IMAGES or found is None):
            address = url if found is None else found.url
            return None if address is None else {"type": "input_image", "detail": "auto", "image_url": address}
        if found is not None and mime == PDF:
            return {"type": "input_file", "filename": media.name or "document.pdf", "file_data": found.url}
        if url is not None and mime == PDF:
            return {"type": "input_file", "file_url": url}
        return None

    def write(self, pieces: Sequence[Piece]) -> list[Json]:
        items: list[Json] = []
        spoken: list[Piece] = []
        for piece in pieces:
            block = piece.what
            if isinstance(block, Text | Media) and piece.role != "assistant":
                spoken.append(piece)
            elif isinstance(block, Text):
                items.append({"role": "assistant", "content": block.text})
            elif isinstance(block, ToolCall):
                asked = {"call_id": block.id, "name": block.name, "arguments": text_arguments(block)}
                items.append({"type": "function_call", **asked})
            elif isinstance(block, ToolResult):
                answer = {"call_id": block.call_id, "output": self._content(block.content)}
                items.append({"type": "function_call_output", **answer})
        if spoken:
            items.append({"role": spoken[0].role, "content": self._content([piece.what for piece in spoken])})
        return items

    def _content(self, blocks: Sequence[Block]) -> str | list[Json]:
        if len(blocks) < 2 and all(isinstance(block, Text) for block in blocks):
            return "".join(texts(blocks))
        return [
            {"type": "input_text", "text": block.text} if isinstance(block, Text) else media_part(self, block)
            for block in blocks
        ]


def _kinds(data: Json) -> set[str]:
    """The types of the parts of a message."""
    content = data.get("content")
    parts = content if isinstance(content, list) else []
    return {str(part.get("type")) for part in parts if isinstance(part, dict)}


def target(provider: str) -> Target:
    """The message format of a provider."""
    return ResponsesTarget() if provider == "openai-responses" else ChatTarget()
