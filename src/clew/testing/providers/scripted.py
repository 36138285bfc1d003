"""The responses that can be queued on the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ToolUse(NamedTuple):
    """A tool call of the model."""

    name: str
    arguments: Mapping[str, Any] = {}
    id: str = ""
    """If empty, the server creates one; in Gemini's protocol it sends none."""
    written: str | None = None
    """Text to send instead of the JSON of `arguments`, for example malformed JSON."""


class Say(NamedTuple):
    """An answer: thinking, text and tool calls, in this order."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolUse, ...] = ()
    tokens: tuple[int, int] | None = (10, 5)
    """Input and output tokens; None to omit them."""
    stop: str | None = None
    """The provider's stop reason; None for the usual one."""
    cut: int | None = None
    """Cuts the connection after this many events of a stream; None sends all."""
    ends: int | None = None
    """Ends the stream normally after this many events; None sends all."""
    stalls: int | None = None
    """Sends nothing after this many events, until the server stops; None sends all."""


class Fail(NamedTuple):
    """An error."""

    status: int
    message: str = "it was told to fail"
    retry_after: float | None = None
    kind: str = "api_error"


class Send(NamedTuple):
    """A raw body: a whole response, or the text of a stream."""

    body: bytes
    content_type: str = "application/json"


class Redirect(NamedTuple):
    """A redirect to another address."""

    location: str
    status: int = 307


QueuedResponse = Say | Fail | Send | Redirect
