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

from clew.adapters.keyed import Adapter, Keyed, Target, check_version, native_message, unchanged
from clew.adapters.threads import in_thread
from clew.base.messages import Message, Native
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
        last = None if limit is None else max(0, limit)
        if (known := self._session) is not None:
            try:
                return [_decode(node) for node in known.path(last=last)]
            except NotFound:  # deleted since this object found it
                self._session = None
        found = self._keyed.find(self.session_id)
        return [] if found is None else [_decode(node) for node in found.path(last=last)]

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
        def work(unit: Unit) -> Node | None:
            session = self._keyed.session(unit, self.session_id)
            if session is None:
                return None
            for last in unit.path(session, last=1):
                unit.move(session, last.parent_id)
                return last
            return None

        popped = self._keyed.write(work)
        return None if popped is None else _decode(popped)

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


def _decode(node: Node) -> TResponseInputItem:
    raw = native_message(node).raw
    try:
        item = _parse(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):  # half of a character, or a number that is not in JSON
        item = json.loads(raw)
    return cast("TResponseInputItem", item)
