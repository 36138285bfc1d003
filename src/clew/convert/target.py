"""What a provider must tell for messages to be written in its tongue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from clew.model import Block, Media, Role, Text, ToolCall
from clew.providers import Json

Unites = Literal["turns", "calls", "nothing"]


class Piece(NamedTuple):
    """One block on its way, and where it came from."""

    message: int
    block: int | None
    role: Role
    what: Block
    own: bool = False
    """True if its message is in the target's tongue already, and is to be kept as it is."""
    aside: bool = False
    """True for what the target does not let stand where it stood: it follows as the user's."""
    tool: str = ""
    """The tool that a result is of."""


class Target(Protocol):
    """A provider's tongue: what can be said in it, and how."""

    name: str
    call_id: re.Pattern[str]
    """Ids of calls that it accepts."""
    tool_name: re.Pattern[str]
    unites: Unites
    """What has to be one message: a whole turn, with results in the user's; the calls of a turn; or nothing."""
    keeps_thinking: bool
    keeps_refusals: bool
    keeps_errors: bool
    """True if a result can say that the call failed."""
    keeps_blank: bool
    """True if text may be blank."""
    keeps_system: bool
    """True if system messages may stand amid the others."""
    system_first: bool
    """True if the system prompt is the first message, and not a parameter beside them."""
    signs_calls: bool
    """True if the first call of a turn must carry a signature, and a placeholder is taken for one."""
    media_of: frozenset[Role]
    """Who may show media; "tool" for results."""

    def owns(self, data: Json) -> bool:
        """True if a message of the same provider is in this tongue: OpenAI has two."""

    def media(self, media: Media) -> Json | None:
        """The part that shows it; None if the target has no way to."""

    def write(self, pieces: Sequence[Piece]) -> list[Json]:
        """Messages of these pieces, all of the same side and all of which the target can say."""


def text_arguments(call: ToolCall) -> str:
    """A call's arguments as JSON text; text that never was JSON is as it was."""
    if list(call.arguments) == [""] and isinstance(raw := call.arguments[""], str):
        return raw
    return msgspec.json.encode(call.arguments).decode()


def shown(target: Target, block: Block) -> Json:
    """The part that shows a piece of media which the target was found to have a way for."""
    part = target.media(block) if isinstance(block, Media) else None
    assert part is not None
    return part


def is_refusal(block: Block) -> bool:
    """True if these are the words in which the model refused to answer."""
    return isinstance(block, Text) and bool(block.extra and block.extra.get("refusal"))
