"""The contract for message formats that a conversion can write, and the media in them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from clew.base.messages import Block, Media, Role, Text, ToolCall
from clew.errors import Invalid, clip
from clew.providers import registry
from clew.providers.json_values import Json

IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Image types that every provider accepts."""
_SAME = {
    "image/jpg": "image/jpeg", "audio/mpeg": "audio/mp3", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav", "application/x-pdf": "application/pdf",
}  # fmt: skip
"""Aliases of media types, and the names used here."""
_TEXTUAL = frozenset({"application/json", "application/xml", "application/yaml"})


class Inline(NamedTuple):
    """Media that is in the message itself."""

    mime: str
    data: str
    """Base64, in the standard alphabet."""

    @property
    def url(self) -> str:
        """The data: URL."""
        return f"data:{self.mime};base64,{self.data}"


def inline(media: Media) -> Inline | None:
    """The media in the message itself; None if it is elsewhere, or is not base64."""
    head, comma, rest = (media.url or "").partition(",")
    if not comma or not head.startswith("data:"):
        return None
    mime = mime_type(media)
    if not head.endswith(";base64"):
        from urllib.parse import unquote_to_bytes  # most data URLs are base64

        return Inline(mime, base64.b64encode(unquote_to_bytes(rest)).decode())
    try:
        base64.b64decode(rest, validate=True)
    except (binascii.Error, ValueError):
        return None
    return Inline(mime, rest)


def link(media: Media) -> str | None:
    """Its public address; None if there is none."""
    url = media.url or ""
    storage = tuple(row.storage for row in registry.PROVIDERS.values() if row.storage)
    return url if url.startswith(("https://", "http://")) and not url.startswith(storage) else None


def mime_type(media: Media) -> str:
    """Its media type without aliases."""
    return _SAME.get(media.mime_type.lower(), media.mime_type.lower())


def words(media: Media) -> str | None:
    """The text of a plain-text document; None for anything else."""
    found, mime = inline(media), mime_type(media)
    if found is None or not (mime.startswith("text/") or mime in _TEXTUAL):
        return None
    try:
        return base64.b64decode(found.data).decode()
    except UnicodeDecodeError:
        return None


Unites = Literal["turns", "calls", "nothing"]


class Piece(NamedTuple):
    """One block during a conversion, and where it came from."""

    message: int
    block: int | None
    role: Role
    what: Block
    own: bool = False
    """True if its message is in the target's format already and stays unchanged."""
    aside: bool = False
    """True if the target does not accept it at its place, so that it follows in a user message."""
    tool: str = ""
    """The name of a result's tool."""


class Target(Protocol):
    """The message format of a provider: what it can express, and how."""

    call_id: re.Pattern[str]
    """A regular expression for ids of calls that it accepts."""
    tool_name: re.Pattern[str]
    unites: Unites
    """What must be one message: a whole turn, with results in the user's message; the calls of a turn; or nothing."""
    keeps_thinking: bool
    keeps_refusals: bool
    keeps_errors: bool
    """True if a result has a flag for a failed call."""
    keeps_blank: bool
    """True if text may be blank."""
    keeps_system: bool
    """True if system messages may come after others."""
    signs_calls: bool
    """True if the first call of a turn needs a signature, for which a placeholder is accepted."""
    media_of: frozenset[Role]
    """The roles that may contain media; "tool" for results."""

    def owns(self, data: Json) -> bool:
        """True if a message of the same provider is in this format: OpenAI has two."""

    def media(self, media: Media) -> Json | None:
        """The part for this media; None if the target cannot express it."""

    def write(self, pieces: Sequence[Piece]) -> list[Json]:
        """Messages with these pieces, which are of the same side and which the target can express."""


def find_target(provider: str) -> Target:
    """The message format of a provider. Invalid if clew does not know the provider."""
    row = registry.find(provider) if isinstance(provider, str) else None
    if row is None:
        shown = clip(provider) if isinstance(provider, str) else type(provider).__name__
        raise Invalid(f"clew cannot write messages of {shown}", hint=f"It knows {', '.join(registry.names())}.")
    return registry.load(row, "messages").target(row.name)  # type: ignore[no-any-return]


def text_arguments(call: ToolCall) -> str:
    """A call's arguments as JSON text; invalid JSON stays unchanged."""
    if list(call.arguments) == [""] and isinstance(raw := call.arguments[""], str):
        return raw
    return msgspec.json.encode(call.arguments).decode()


def media_part(target: Target, block: Block) -> Json:
    """The part for a piece of media that the target can express."""
    part = target.media(block) if isinstance(block, Media) else None
    assert part is not None
    return part


def is_refusal(block: Block) -> bool:
    """True if this text is the model's refusal to answer."""
    return isinstance(block, Text) and bool(block.extra and block.extra.get("refusal"))
