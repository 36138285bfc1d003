"""The history provider of Agent Framework: ``Agent(…, context_providers=[ClewHistoryProvider("chats.db")])``.

A conversation is named by a provider's `source_id` and a session's id. Callers may send messages that are stored
already, up to the whole transcript. Only messages after the longest overlap with the end of the conversation are new.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from agent_framework import Content, HistoryProvider, Message

from clew.adapters.foreign import Translator, parts_of, result_text
from clew.adapters.keyed import Adapter, Keyed, Target, check_version, unchanged
from clew.adapters.threads import in_thread
from clew.base.messages import Message as Neutral
from clew.base.messages import Native, ToolCall, ToolResult
from clew.engine.node import Node
from clew.store.unit import Unit

TOOL = "agent-framework"
Identity = tuple[str, ...]


class ClewHistoryProvider(Adapter, HistoryProvider):
    """Histories in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    `skip_excluded` leaves out messages that a compaction has excluded. The other arguments are those of
    `HistoryProvider`. A write that has begun is stored, also if its task is cancelled.
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "clew_history"

    def __init__(
        self,
        target: Target,
        source_id: str = DEFAULT_SOURCE_ID,
        *,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
        **options: Any,
    ) -> None:
        check_version("agent-framework-core", "1.20", "2")
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded
        self._keyed = Keyed(target, TOOL, options, arity=2, forks=True)
        unchanged(self._keyed)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """The stored messages of a session, in their order."""
        found = [Message.from_dict(one) for one in await in_thread(self._load, session_id)]
        if self.skip_excluded:
            found = [one for one in found if not one.additional_properties.get("_excluded", False)]
        return found

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Adds the messages that are new, all or none."""
        if messages:
            await in_thread(self._save, session_id, [message.to_dict() for message in messages])

    async def purge(self, session_id: str | None) -> None:
        """Deletes a session, and clears every trace of it. Conflict if it is on hold."""
        await in_thread(self._keyed.purge, *self._names(session_id))

    # -- on a thread

    def _names(self, session: str | None) -> tuple[str, ...]:
        return (self.source_id,) if session is None else (self.source_id, session)

    def _load(self, session: str | None) -> list[dict[str, Any]]:
        found = self._keyed.find(*self._names(session))
        return [] if found is None else _translator.values(found.path())

    def _save(self, session: str | None, messages: list[dict[str, Any]]) -> None:
        keyed, sent = self._keyed, [_identity(message) for message in messages]
        drafts = [keyed.draft(_native(message)) for message in messages]

        def work(unit: Unit) -> None:
            found = keyed.ensure(unit, *self._names(session))
            # An overlap cannot be longer than the list that was sent.
            end = unit.path(found, last=len(messages))
            stored = [_identity(message) for message in _translator.values(end)]
            new = drafts[_count_stored(stored, sent) :]
            if new:
                unit.append(found, new)

        keyed.write(work)


def _native(message: dict[str, Any]) -> Native:
    try:
        return Native(TOOL, msgspec.json.encode(message))
    except (UnicodeEncodeError, msgspec.EncodeError):  # a lone surrogate: JSON can escape it
        return Native(TOOL, json.dumps(message, separators=(",", ":")).encode())


def _decode(node: Node, said: Native) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said.raw)
    return found


def _translate(node: Node, message: Neutral, before: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The message of the framework for one that it did not write."""
    contents = []
    for part in parts_of(message):
        if isinstance(part, ToolCall):
            contents.append(Content.from_function_call(part.id, part.name, arguments=part.arguments))
        elif isinstance(part, ToolResult):
            contents.append(Content.from_function_result(part.call_id, result=result_text(part)))
        else:
            contents.append(Content.from_text(part.text))
    return [Message(role=message.role, contents=contents).to_dict()]


_translator = Translator(TOOL, _decode, _translate)


def _identity(message: dict[str, Any]) -> Identity:
    """The identity of a message: its id, or its role and contents if it has none."""
    id = message.get("message_id")
    if id is not None:
        return ("id", str(id))
    return ("content", str(message.get("role")), json.dumps(message.get("contents") or [], sort_keys=True))


def _count_stored(stored: Sequence[Identity], sent: Sequence[Identity]) -> int:
    """The number of sent messages that are stored already: up to the longest overlap with the end of the conversation.

    A single user message that repeats the last one, without an id, is a new turn. `stored` is not longer than `sent`.
    """
    for start in range(len(sent) - len(stored) + 1 if stored else 0):
        if list(sent[start : start + len(stored)]) == list(stored):
            if start == 0 and _is_repeat(stored):
                break
            return start + len(stored)
    for overlap in range(min(len(stored), len(sent)), 0, -1):
        if list(stored[-overlap:]) == list(sent[:overlap]) and not (overlap == 1 and _is_repeat(stored[-1:])):
            return overlap
    return 0


def _is_repeat(stored: Sequence[Identity]) -> bool:
    return len(stored) == 1 and stored[0][:2] == ("content", "user")
