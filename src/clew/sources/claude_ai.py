"""Claude.ai: the export a user can ask for, ``conversations.json``, often in a zip archive.

A message names its parent in newer exports. Where none does, the messages are one path in their order. A project, of
``projects.json``, is a conversation of one message: its instructions and its documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from clew.base.messages import Native
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id, moment, uuid_or_none
from clew.sources.documents import FRAME, frame, read_elements
from clew.sources.items import Item
from clew.sources.trees import parent_fault, parents_first

NAME = "claude-ai"
ROOT = "00000000-0000-4000-8000-000000000000"
"""What a first message names as its parent."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_any = msgspec.json.Decoder().decode


class ClaudeAI:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "Claude.ai"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        is_talk, is_project = b'"chat_messages"' in head, b'"prompt_template"' in head
        return head.lstrip()[:1] in (b"[", b"{") and b'"uuid"' in head and (is_talk or is_project)

    def read(self, item: Item) -> Iterator[Part]:
        return read_elements(item, _conversation)


def _conversation(number: int, raw: bytes) -> Iterator[Part]:
    fields = _fields(raw)
    facts = {key: _any(fields[key]) for key in _FACTS if key in fields}
    name = uuid_or_none(facts.get("uuid"))
    if name is not None and "prompt_template" in fields:
        yield About(conversation=name, title=_text(facts.get("name")))
        created = moment(facts.get("created_at"))
        yield Entry(conversation=name, raw=raw, key=name, id=name, message=Native(NAME, raw), created_at=created)
        return
    if name is None or "chat_messages" not in fields:
        yield Skip(number, "the entry is not a conversation: it has no uuid or no messages")
        return
    messages: dict[str, bytes] = {}
    parents: dict[str, str | None] = {}
    times: dict[str, datetime | None] = {}
    before: str | None = None
    for at, part in enumerate(_list(fields["chat_messages"])):
        message = _any(part)
        about: dict[str, Any] = message if isinstance(message, dict) else {}
        key = about.get("uuid")
        key = key if isinstance(key, str) and key not in messages else f"message {at}"
        above = about.get("parent_message_uuid")
        messages[key] = bytes(part)
        parents[key] = (None if above == ROOT else above) if isinstance(above, str) else before
        times[key] = moment(about.get("created_at"))
        before = key
    ids = {key: uuid_or_none(key) or derived_id(NAME, name, key) for key in messages}
    leaf = facts.get("current_leaf_message_uuid")
    yield About(
        conversation=name,
        title=_text(facts.get("name")),
        model=_text(facts.get("model")),
        head=ids.get(leaf) if isinstance(leaf, str) else None,
    )
    last = moment(facts.get("created_at"))
    given: set[str] = set()
    for key in parents_first(parents):
        last = times[key] or last
        above, body = parents[key], messages[key]
        note = parent_fault(above, given, parents)
        given.add(key)
        yield Entry(
            conversation=name,
            raw=body,
            key=key,
            id=ids[key],
            message=Native(NAME, body),
            parent=None if above is None or note is not None else ids[above],
            created_at=last,
            note=note,
        )
    yield Entry(conversation=name, raw=frame(raw, {ids[key]: body for key, body in messages.items()}), key=FRAME)


_FACTS = ("uuid", "name", "model", "created_at", "updated_at", "current_leaf_message_uuid")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
