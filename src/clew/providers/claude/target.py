"""Writes messages for Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clew.base.messages import Block, Media, Role, Text, ToolCall, ToolResult
from clew.providers.json_values import PDF, Json
from clew.providers.media import IMAGES, inline, link, mime_type
from clew.providers.target import Piece, Target, Unites, media_part


class ClaudeTarget:
    """Messages of blocks. Tool results are in the user's message."""

    call_id = re.compile(r"[A-Za-z0-9_-]+")
    tool_name = re.compile(r"[A-Za-z0-9_-]{1,128}")
    unites: Unites = "turns"
    keeps_thinking = keeps_refusals = keeps_blank = keeps_system = signs_calls = False
    keeps_errors = True
    media_of: frozenset[Role] = frozenset({"user", "tool"})

    def owns(self, data: Json) -> bool:
        return True

    def media(self, media: Media) -> Json | None:
        found, url, mime = inline(media), link(media), mime_type(media)
        if found is not None and mime in IMAGES:
            return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": found.data}}
        if url is not None and media.modality == "image":
            return {"type": "image", "source": {"type": "url", "url": url}}
        title = {} if media.name is None else {"title": media.name}
        if found is not None and mime == PDF:
            return {"type": "document", "source": {"type": "base64", "media_type": PDF, "data": found.data}, **title}
        if url is not None and mime == PDF:
            return {"type": "document", "source": {"type": "url", "url": url}, **title}
        return None

    def write(self, pieces: Sequence[Piece]) -> list[Json]:
        role = "assistant" if pieces[0].role == "assistant" else "user"
        return [{"role": role, "content": [self._block(piece.what) for piece in pieces]}]

    def _block(self, block: Block) -> Json:
        if isinstance(block, ToolCall):
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}
        if isinstance(block, ToolResult):
            failed = {"is_error": True} if block.is_error else {}
            content = [self._block(inner) for inner in block.content]
            return {"type": "tool_result", "tool_use_id": block.call_id, "content": content, **failed}
        if isinstance(block, Media):
            return media_part(self, block)
        assert isinstance(block, Text)
        return {"type": "text", "text": block.text}


def target(provider: str) -> Target:
    """The message format of a provider."""
    return ClaudeTarget()
