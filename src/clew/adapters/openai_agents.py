"""The OpenAI Agents SDK keeps its sessions in clew: ``Runner.run(agent, "…", session=ClewSession("me", "chats.db"))``.

An item is a message of the session, as the SDK writes it. `pop_item` and `clear_session` move the head of the session:
what they remove stays as a branch, so a compaction that fails halfway destroys nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from clew.adapters.foreign import Translation, Translator, parts_of, result_text
from clew.adapters.framework import framework
from clew.adapters.keyed import Adapter, Keyed, Target, check_version, unchanged
from clew.adapters.threads import in_thread
from clew.base.messages import Message, Native, ToolCall, ToolResult
from clew.engine.node import Node
from clew.engine.session_data import SessionData
from clew.errors import Conflict, NotFound
from clew.sources.importer import SOURCE
from clew.store.session import Session
from clew.store.unit import Draft, Unit

with framework("openai-agents"):
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.memory.session_settings import coerce_session_settings

if TYPE_CHECKING:
    from agents.memory.session import _CompactionSnapshot

TOOL = "openai-agents"
PROVIDER = "openai-responses"
_EXACT = "exact"
"""Where a message's free data has an item with a value that JSON does not have."""
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
        check_version("openai-agents", "0.21", "0.25")
        self.session_id: str = session_id
        self.session_settings: SessionSettings | None = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._keyed = Keyed(target, TOOL, options, forks=True)
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

    async def fork(self, session_id: str, *, at: int | None = None) -> ClewSession:
        """A new session that begins with the items of this one: all, or the first `at`; negative: without the last.

        The two share what they begin with; nothing is copied. Conflict if there is a session with this id.
        """
        await in_thread(self._fork, session_id, at)
        return ClewSession(session_id, self.store, session_settings=self.session_settings)

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
        return self._keyed.draft(_encode(item), seen=_neutral(item))

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
            found = _translator.pairs(unit.path(session, last=1))
            if found and not found[-1].values:  # a message that the SDK has no item for
                found = _translator.pairs(unit.path(session))
            last = next((one for one in reversed(found) if one.values), None)
            if last is None:
                return None
            *rest, popped = last.values
            unit.append(session, [self._draft(item) for item in rest], after=last.node.parent_id)
            return popped

        return self._keyed.write(work)

    def _fork(self, name: str, at: int | None) -> None:
        def work(unit: Unit) -> None:
            if self._keyed.session(unit, name, trashed=True) is not None:
                raise Conflict(f"there is a session {name!r}", hint="Use another id.")
            session = self._keyed.session(unit, self.session_id)
            shown = [] if session is None else _translator.pairs(unit.path(session))
            kept = [(one.node, item) for one in shown for item in one.values][:at]
            last = kept[-1][0] if kept else None
            whole = [item for one in shown if one.node is last for item in one.values]
            part = [item for node, item in kept if node is last]
            if last is not None and len(part) < len(whole):  # some of the items that are one message
                end: str | None = last.parent_id
            else:
                end, part = (None if last is None else last.id), []
            origin = {SOURCE: {"tool": TOOL, "id": name}}
            told = self._keyed.labels if session is None else session.data.labels
            above = None if session is None else session.id
            about = SessionData(labels=told, forked_from=above, forked_at=end, extra=origin)
            fork = unit.create(about, self._keyed.key(name), at=end, beside=session)
            unit.append(fork, [self._draft(item) for item in part])

        self._keyed.write(work)

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> _CompactionSnapshot | None:
        """The latest items, and a way to replace those at their end: the SDK compacts by it without reading all.

        Then also the items at the beginning that `prune_prefix` takes are left out. None for a subclass, which may
        change what it reads or adds.
        """
        from agents.memory.session import _CompactionSnapshot

        if type(self) is not ClewSession:
            return None
        session, shown = await in_thread(self._latest, limit)
        placed = [(one, item) for one in shown for item in one.values]
        complete = not shown or shown[0].node.parent_id is None
        head = shown[-1].node.id if shown else None

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            first = placed[start][0] if start < len(placed) else None
            if session is None or first is None or (start and placed[start - 1][0] is first):
                return False
            return await in_thread(self._replace_from, session, head, first.node.id, output, prune_prefix)

        return _CompactionSnapshot([item for _, item in placed], complete, replace_suffix)

    def _latest(self, limit: int) -> tuple[Session | None, list[Translation[TResponseInputItem]]]:
        found = self._keyed.find(self.session_id)
        return found, [] if found is None else _translator.pairs(found.path(last=limit))

    def _replace_from(
        self,
        session: Session,
        head: str | None,
        first: str,
        items: list[TResponseInputItem],
        prune: Callable[[TResponseInputItem], bool] | None,
    ) -> bool:
        """Stores items in place of those from a message down to the head, which become a branch.

        False if the head is another one now. If `prune` takes items at the beginning, the rest is stored again.
        """
        drafts = [self._draft(item) for item in items]

        def work(unit: Unit) -> bool:
            found = self._keyed.session(unit, self.session_id)
            if found is None or found.id != session.id or unit.head(found) != head:
                return False
            path = unit.path(found)
            kept = path[: next(at for at, node in enumerate(path) if node.id == first)]
            expired = 0
            if prune is not None:
                shown = _translator.pairs(kept)
                expired = next((at for at, one in enumerate(shown) if not all(map(prune, one.values))), len(kept))
            if not expired:
                unit.append(found, drafts, after=kept[-1].id if kept else None)
            else:
                again = [self._keyed.draft(node.said) for node in kept[expired:]]
                unit.append(found, [*again, *drafts], after=None)
            return True

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


def _encode(item: TResponseInputItem) -> Native:
    """An item as it is stored. TypeError for a value that JSON does not have, as the SDK's own sessions raise it."""
    try:
        text = _dump(item, allow_nan=False)
    except ValueError:  # not a number, which JSON does not have but the SDK keeps
        text = _dump(item, allow_nan=True)
        return Native(PROVIDER, msgspec.json.encode(json.loads(text)), extra={_EXACT: text})
    try:
        return Native(PROVIDER, text.encode())
    except UnicodeEncodeError:  # a lone surrogate, which JSON has an escape for
        return Native(PROVIDER, json.dumps(item, separators=(",", ":")).encode())


def _dump(item: TResponseInputItem, *, allow_nan: bool) -> str:
    return json.dumps(item, separators=(",", ":"), ensure_ascii=False, allow_nan=allow_nan)


def _items(session: Session, limit: int | None) -> list[TResponseInputItem]:
    """The items of a session, or the latest ones."""
    if limit is None or limit < 0:  # as SQL has it, and so the SDK's own sessions
        return _translator.values(session.path())
    if limit == 0:
        return []
    found = _translator.pairs(session.path(last=limit))
    if not all(one.values for one in found):  # some are left out
        found = _translator.pairs(session.path())
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


def _decode(node: Node, said: Native) -> TResponseInputItem:
    if said.extra and _EXACT in said.extra:
        return cast("TResponseInputItem", json.loads(said.extra[_EXACT]))
    try:
        item = _parse(said.raw)
    except (msgspec.DecodeError, UnicodeDecodeError):  # half of a character
        item = json.loads(said.raw)
    return cast("TResponseInputItem", item)


_translator = Translator(TOOL, _decode, _translate, provider=PROVIDER)
