"""The message format of a provider: the contract by which a conversion writes messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from clew.base.messages import Block, Media, Role, Text, ToolCall
from clew.errors import Invalid, clip
from clew.providers import registry
from clew.providers.json_values import Json

Unites = Literal["turns", "calls", "nothing"]


class Piece(NamedTuple):
    """One block during a conversion, and where it came from."""

    message: int
    block: int | None
    role: Role
    what: Block
    own: bool = False
    """True if its message is in the target's format already, and is to be kept as it is."""
    aside: bool = False
    """True if the target does not accept it at its place: it follows in a user message."""
    tool: str = ""
    """The tool that a result is of."""


class Target(Protocol):
    """The message format of a provider: what it can express, and how."""

    call_id: re.Pattern[str]
    """Ids of calls that it accepts."""
    tool_name: re.Pattern[str]
    unites: Unites
    """The unit that must be one message: a whole turn, with results in the user's; the calls of a turn; or nothing."""
    keeps_thinking: bool
    keeps_refusals: bool
    keeps_errors: bool
    """True if a result can say that the call failed."""
    keeps_blank: bool
    """True if text may be blank."""
    keeps_system: bool
    """True if system messages may stand amid the others."""
    signs_calls: bool
    """True if the first call of a turn must carry a signature, and a placeholder is taken for one."""
    media_of: frozenset[Role]
    """The roles that may have media; "tool" for results."""

    def owns(self, data: Json) -> bool:
        """True if a message of the same provider is in this format: OpenAI has two."""

    def media(self, media: Media) -> Json | None:
        """The part that shows it; None if the target has no way to."""

    def write(self, pieces: Sequence[Piece]) -> list[Json]:
        """Messages of these pieces, all of the same side and all of which the target can say."""


def find_target(provider: str) -> Target:
    """The message format of a provider. Invalid if clew does not know the provider."""
    row = registry.find(provider) if isinstance(provider, str) else None
    if row is None:
        shown = clip(provider) if isinstance(provider, str) else type(provider).__name__
        raise Invalid(f"clew cannot write messages of {shown}", hint=f"It knows {', '.join(registry.names())}.")
    return registry.load(row, "target").target(row.name)  # type: ignore[no-any-return]


def text_arguments(call: ToolCall) -> str:
    """A call's arguments as JSON text; text that never was JSON is as it was."""
    if list(call.arguments) == [""] and isinstance(raw := call.arguments[""], str):
        return raw
    return msgspec.json.encode(call.arguments).decode()


def media_part(target: Target, block: Block) -> Json:
    """The part that shows a piece of media which the target was found to have a way for."""
    part = target.media(block) if isinstance(block, Media) else None
    assert part is not None
    return part


def is_refusal(block: Block) -> bool:
    """True if these are the words in which the model refused to answer."""
    return isinstance(block, Text) and bool(block.extra and block.extra.get("refusal"))
