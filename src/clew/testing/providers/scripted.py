"""The responses that can be queued on the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ToolUse(NamedTuple):
    """A call of a tool, as the model makes it."""

    name: str
    arguments: Mapping[str, Any] = {}
    id: str = ""
    """Empty: one is made, or, in Gemini's protocol, none is sent."""
    written: str | None = None
    """The JSON of the arguments as text, if it should be another, or none."""


class Say(NamedTuple):
    """An answer: thinking, words, calls of tools, in this order."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolUse, ...] = ()
    tokens: tuple[int, int] | None = (10, 5)
    """Tokens in and out; None says nothing of them."""
    stop: str | None = None
    """Why it stopped, in the provider's word; None is what is usual."""
    cut: int | None = None
    """The connection is cut after this many events of a stream; None sends all."""
    ends: int | None = None
    """The stream ends after this many events, as if that were all; None sends all."""
    stalls: int | None = None
    """The stream goes silent after this many events, until the server is left; None sends all."""


class Fail(NamedTuple):
    """An error."""

    status: int
    message: str = "it was told to fail"
    retry_after: float | None = None
    kind: str = "api_error"


class Send(NamedTuple):
    """A body as it is: a whole response, or the text of a stream."""

    body: bytes
    content_type: str = "application/json"


class Redirect(NamedTuple):
    """A redirect to another address."""

    location: str
    status: int = 307


Told = Say | Fail | Send | Redirect
