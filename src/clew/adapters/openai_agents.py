"""The OpenAI Agents SDK keeps its sessions in clew: ``Runner.run(agent, "…", session=ClewSession("me", "chats.db"))``.

An item is a message of the session, as the SDK writes it. `pop_item` and `clear_session` move the head of the session:
what they remove stays as a branch, so a compaction that fails halfway destroys nothing.
"""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
from agents.items import TResponseInputItem
from agents.memory import SessionSettings
from agents.memory.session_settings import coerce_session_settings

from clew.adapters.foreign import Translator, parts_of, result_text
from clew.adapters.keyed import Adapter, Keyed, Target, check_version, unchanged
from clew.adapters.threads import in_thread
from clew.base.messages import Message, Native, ToolCall, ToolResult
from clew.engine.node import Node
from clew.errors import NotFound
from clew.store.session import Session
from clew.store.unit import Draft, Unit

TOOL = "openai-agents"
PROVIDER = "openai-responses"
_SEEN = {role: Message(role) for role in ("user", "assistant", "system")}
_parse = msgspec.json.Decoder().decode


class ClewSession(Adapter):
    """A session in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    The conversation is created by the first items. A write that has begun is stored, also if its task is cancelled.
    """

    def __init__(
        self,
        session_id: str,
        target: Target = ":memory:",
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        check_version("openai-agents", "0.20", "0.25")
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._keyed = Keyed(target, TOOL, options)
        unchanged(self._keyed)
        self._session: Session | None = None

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, or the latest ones, in the order they were added."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return await in_thread(self._get, limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Adds items, all or none."""
        if items:
            await in_thread(self._add, [self._draft(item) for item in items])

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the latest item and returns it; None if there is none. It stays as a branch."""
        return await in_thread(self._pop)

    async def clear_session(self) -> None:
        """Removes all items. They stay as a branch; `purge` deletes them for good."""
        await in_thread(self._clear)

    async def purge(self) -> None:
        """Deletes the session and its branches, and clears every trace of them. Conflict if it is on hold."""
        self._session = None
        await in_thread(self._keyed.purge, self.session_id)

    # -- on a thread

    def _get(self, limit: int | None) -> list[TResponseInputItem]:
        if (known := self._session) is not None:
            try:
                return _items(known, limit)
            except NotFound:  # deleted since this object found it
                self._session = None
        found = self._keyed.find(self.session_id)
        return [] if found is None else _items(found, limit)

    def _add(self, drafts: list[Draft]) -> None:
        try:
            self._ensure().append(drafts)
        except NotFound:  # deleted since this object found it
            self._session = None
            self._ensure().append(drafts)

    def _draft(self, item: TResponseInputItem) -> Draft:
        return self._keyed.draft(Native(PROVIDER, _encode(item)), seen=_neutral(item))

    def _ensure(self) -> Session:
        found = self._session
        if found is None:
            found = self._session = self._keyed.ensured(self.session_id)
        return found

    def _pop(self) -> TResponseInputItem | None:
        def work(unit: Unit) -> TResponseInputItem | None:
            session = self._keyed.session(unit, self.session_id)
            if session is None:
                return None
            found = _translator.shown(unit.path(session, last=1))
            if found and not found[-1].values:  # a message that the SDK has no item for
                found = _translator.shown(unit.path(session))
            last = next((one for one in reversed(found) if one.values), None)
            if last is None:
                return None
            *rest, popped = last.values
            unit.append(session, [self._draft(item) for item in rest], after=last.node.parent_id)
            return popped

        return self._keyed.write(work)

    def _clear(self) -> None:
        def work(unit: Unit) -> None:
            session = self._keyed.session(unit, self.session_id)
            if session is not None:
                unit.move(session, None)

        self._keyed.write(work)


def _neutral(item: Any) -> Message | None:
    """The role of a plain message, as its neutral view has it; None for other items."""
    if type(item.get("content")) is not str or "usage" in item or item.get("type", "message") != "message":
        return None
    role = item.get("role")
    return _SEEN.get(role) if isinstance(role, str) else None


def _encode(item: TResponseInputItem) -> bytes:
    try:
        return msgspec.json.encode(item)
    except (UnicodeEncodeError, msgspec.EncodeError):  # a lone surrogate, which JSON has an escape for
        return json.dumps(item, separators=(",", ":")).encode()


def _items(session: Session, limit: int | None) -> list[TResponseInputItem]:
    """The items of a session, or the latest ones."""
    if limit is None:
        return _translator.values(session.path())
    if limit <= 0:
        return []
    found = _translator.shown(session.path(last=limit))
    if not all(one.values for one in found):  # some are left out
        found = _translator.shown(session.path())
    return [item for one in found for item in one.values][-limit:]


def _translate(node: Node, message: Message, before: TResponseInputItem | None) -> list[TResponseInputItem]:
    """The items of a message that the SDK did not write."""
    items: list[Any] = []
    for part in parts_of(message):
        if isinstance(part, ToolCall):
            arguments = msgspec.json.encode(part.arguments).decode()
            items.append({"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments})
        elif isinstance(part, ToolResult):
            items.append({"type": "function_call_output", "call_id": part.call_id, "output": result_text(part)})
        elif items and "role" in items[-1]:
            items[-1]["content"] += f"\n{part.text}"
        else:
            items.append({"role": "user" if message.role == "tool" else message.role, "content": part.text})
    return items


def _decode(node: Node, raw: bytes) -> TResponseInputItem:
    try:
        item = _parse(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):  # half of a character, or a number that is not in JSON
        item = json.loads(raw)
    return cast("TResponseInputItem", item)


_translator = Translator(TOOL, _decode, _translate, provider=PROVIDER)
