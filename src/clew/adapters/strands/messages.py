"""Messages of Strands as messages of a session."""

from __future__ import annotations

import json
from typing import Any

from clew.base.messages import Native

TOOL = "strands"


def to_native(data: dict[str, Any]) -> Native:
    """A message, or a record with one, as it is stored. With its token counts."""
    message = data.get("message", data)
    metadata = message.get("metadata") if isinstance(message, dict) else None
    used = metadata.get("usage") if isinstance(metadata, dict) else None
    extra = None
    if isinstance(used, dict):
        extra = {"usage": {"input": used.get("inputTokens"), "output": used.get("outputTokens")}}
    return Native(TOOL, json.dumps(data, ensure_ascii=False).encode(), extra=extra)
