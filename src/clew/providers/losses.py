"""The things that a conversion may lose or change."""

from __future__ import annotations

from typing import Literal

What = Literal[
    "arguments",
    "attachment",
    "blank text",
    "cache mark",
    "call id",
    "citations",
    "document",
    "encrypted reasoning",
    "error flag",
    "field",
    "file handle",
    "file name",
    "first user message",
    "free data",
    "malformed data",
    "media",
    "messages",
    "placeholder signature",
    "refusal",
    "result",
    "result without a call",
    "role",
    "server tool",
    "signature",
    "system message",
    "thinking",
    "tool name",
    "unknown block",
]
"""The kinds of data in a report."""
