"""Writes contents for Gemini."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from clew.base.messages import Media, Role, Text, Thinking, ToolCall, ToolResult, texts
from clew.providers.json_values import UNKNOWN, Json
from clew.providers.media import inline
from clew.providers.target import Piece, Target, Unites, media_part

PLACEHOLDER = base64.b64encode(b"skip_thought_signature_validator").decode()
"""The signature that Google documents for calls that another model made."""


class GeminiTarget:
    """Contents of parts. Tool results are in the user's content and name their function."""

    call_id = re.compile(r".+", re.DOTALL)
    tool_name = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
    unites: Unites = "turns"
    keeps_refusals = keeps_system = False
    keeps_thinking = keeps_errors = keeps_blank = signs_calls = True
    media_of: frozenset[Role] = frozenset({"user", "assistant"})

    def owns(self, data: Json) -> bool:
        return True

    def media(self, media: Media) -> Json | None:
        if (found := inline(media)) is not None:
            return {"inlineData": {"mimeType": found.mime, "data": found.data}}
        url = media.url or ""
        if not url.startswith(("https://", "http://", "gs://")):
            return None
        mime = {} if media.mime_type == UNKNOWN else {"mimeType": media.mime_type}
        return {"fileData": {"fileUri": url, **mime}}

    def write(self, pieces: Sequence[Piece]) -> list[Json]:
        parts: list[Json] = []
        signed = False
        for piece in pieces:
            part = self._part(piece)
            if "functionCall" in part and not signed:
                part["thoughtSignature"] = PLACEHOLDER
                signed = True
            parts.append(part)
        return [{"role": "model" if pieces[0].role == "assistant" else "user", "parts": parts}]

    def _part(self, piece: Piece) -> Json:
        block = piece.what
        if isinstance(block, ToolCall):
            return {"functionCall": {**_id(block.id, block.name), "name": block.name, "args": block.arguments}}
        if isinstance(block, ToolResult):
            response = {"error" if block.is_error else "output": "\n".join(texts(block.content))}
            return {"functionResponse": {**_id(block.call_id, piece.tool), "name": piece.tool, "response": response}}
        if isinstance(block, Media):
            return media_part(self, block)
        assert isinstance(block, Text | Thinking)
        return {"text": block.text, **({"thought": True} if isinstance(block, Thinking) else {})}


def _id(ident: str, name: str) -> Json:
    """The id of a call; empty if it is only the name of the function."""
    return {} if ident == name else {"id": ident}


def target(provider: str) -> Target:
    """The message format of a provider."""
    return GeminiTarget()
