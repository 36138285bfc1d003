"""LibreChat: the export of a conversation as JSON.

Messages name their parents, or hold their children in themselves (``recursive``). In the second form a message has no
bytes of its own: the document is kept as a whole, and the messages are made from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clew.base.messages import AnyMessage, Native
from clew.providers.json_values import Json, as_dict
from clew.providers.view import parse
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.documents import FRAME, frame, read_document
from clew.sources.items import Item
from clew.sources.trees import parent_fault, parents_first
from clew.sources.values import composed, elements, fields, nonblank, tokens, when

NAME = "librechat"
ROOT = "00000000-0000-0000-0000-000000000000"
"""What a first message names as its parent."""
_DEPTH = 10_000
"""Messages below each other at most."""


class LibreChat:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "LibreChat"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        is_export = b'"conversationId"' in head and b'"messages"' in head
        return head.lstrip()[:1] == b"{" and is_export and (b'"messageId"' in head or b'"exportAt"' in head)

    def read(self, item: Item) -> Iterator[Part]:
        return read_document(item, _conversation)


class _Message(NamedTuple):
    """A message without its children, its bytes if it has any, and its parent."""

    data: Json
    raw: bytes | None
    parent: str | None


def _conversation(raw: bytes) -> Iterator[Part]:
    chat = parse(raw)
    name, listed = nonblank(chat.get("conversationId")), chat.get("messages")
    if name is None or not isinstance(listed, list):
        yield Skip(None, "the conversation has no id or no messages")
        return
    nested = any("children" in as_dict(one) for one in listed)
    found = _nested(listed) if nested else _flat(listed, [bytes(one) for one in elements(fields(raw)["messages"])])
    parents = {key: one.parent for key, one in found.items()}
    ids = {key: derived_id(NAME, name, key) for key in found}
    head = _newest(found)
    models = [model for one in found.values() if (model := nonblank(one.data.get("model")))]
    yield About(
        conversation=name,
        title=nonblank(chat.get("title")),
        model=models[-1] if models else nonblank(as_dict(chat.get("options")).get("model")),
        head=ids.get(head or ""),
    )
    at = next((time for one in found.values() if (time := when(one.data.get("createdAt")))), when(chat.get("exportAt")))
    given: set[str] = set()
    for key in parents_first(parents, head):
        one, above = found[key], parents[key]
        at = when(one.data.get("createdAt")) or at
        yield Entry(
            conversation=name,
            raw=one.raw or b"",
            key=key,
            id=ids[key],
            message=_texts(one),
            parent=ids[above] if above in given else None,
            created_at=at,
            note=parent_fault(above, given, parents),
        )
        given.add(key)
    bodies = {ids[key]: one.raw for key, one in found.items() if one.raw is not None}
    yield Entry(conversation=name, raw=frame(raw, bodies), key=FRAME)


def _texts(one: _Message) -> AnyMessage:
    is_answer = one.data.get("isCreatedByUser") is not True
    used = tokens(output=one.data.get("tokenCount")) if is_answer else None
    if one.raw is None:
        return composed(NAME, one.data, usage=used)
    return Native(NAME, one.raw, extra=None if used is None else {"usage": used})


def _flat(listed: list[object], bodies: list[bytes]) -> dict[str, _Message]:
    """Messages that name their parents; where none does, each follows the one before it."""
    found: dict[str, _Message] = {}
    before: str | None = None
    for number, (one, raw) in enumerate(zip(listed, bodies, strict=True)):
        if isinstance(one, dict):
            key = _key(one, number, found)
            above = one.get("parentMessageId", before)
            found[key] = _Message(one, raw, above if isinstance(above, str) and above not in (ROOT, key) else None)
            before = key
    return found


def _nested(listed: list[object]) -> dict[str, _Message]:
    """Messages that hold their children, to a depth that no person reaches."""
    found: dict[str, _Message] = {}
    waiting: list[tuple[object, str | None, int]] = [(one, None, 0) for one in reversed(listed)]
    while waiting:
        one, above, depth = waiting.pop()
        if not isinstance(one, dict) or depth > _DEPTH:
            continue
        key = _key(one, len(found), found)
        below = one.get("children")
        found[key] = _Message({name: value for name, value in one.items() if name != "children"}, None, above)
        waiting += [(child, key, depth + 1) for child in reversed(below if isinstance(below, list) else [])]
    return found


def _key(one: Json, number: int, found: dict[str, _Message]) -> str:
    key = nonblank(one.get("messageId"))
    return f"message {number}" if key is None or key in found else key


def _newest(found: dict[str, _Message]) -> str | None:
    """The message where the conversation ended: LibreChat shows the branch that was written last."""
    times = {key: time for key, one in found.items() if (time := when(one.data.get("createdAt")))}
    return max(times, key=lambda key: times[key]) if times else next(reversed(found), None)
