"""ChatGPT: the export a user can ask for, ``conversations.json`` or ``conversations-NNN.json``, often in a zip archive.

A conversation is a tree: ``mapping`` has each node with its parent, and ``current_node`` is where it ended. All of the
tree is kept. Nodes without a message are passed over; hidden ones (system texts, weight 0) are messages like others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from clew.base.messages import Native
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id, frame, moment
from clew.sources.items import Item
from clew.sources.json_array import read_elements

NAME = "chatgpt"

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_any = msgspec.json.Decoder().decode


class ChatGPT:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "ChatGPT"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        return head.lstrip()[:1] == b"[" and b'"mapping"' in head and b'"current_node"' in head

    def read(self, item: Item) -> Iterator[Part]:
        return read_elements(item, _conversation)


def _conversation(number: int, raw: bytes) -> Iterator[Part]:
    fields = _fields(raw)
    facts = {name: _any(fields[name]) for name in _FACTS if name in fields}
    name = facts.get("conversation_id") or facts.get("id")
    if "mapping" not in fields:
        yield Skip(number, "an entry without messages: a folder or a project")
        return
    if not isinstance(name, str) or not name:
        yield Skip(number, "the conversation has no id")
        return
    nodes = _fields(fields["mapping"])
    parents: dict[str, str | None] = {}
    bodies: dict[str, bytes] = {}
    for key, node in nodes.items():
        one = _fields(node)
        above = _any(one["parent"]) if "parent" in one else None
        parents[key] = above if isinstance(above, str) else None
        body = bytes(one.get("message", b"null"))
        if body != b"null":
            bodies[key] = body
    ids = {key: derived_id(NAME, name, key) for key in bodies}
    current = facts.get("current_node")
    yield About(
        conversation=name,
        title=_text(facts.get("title")),
        model=_text(facts.get("default_model_slug")),
        head=ids.get(_above(current, parents, bodies) or "") if isinstance(current, str) else None,
    )
    started = moment(facts.get("create_time"))
    for key in _parents_first(parents):
        if key not in bodies:
            continue
        above = _above(parents[key], parents, bodies)
        message = _any(bodies[key])
        started = (moment(message.get("create_time")) if isinstance(message, dict) else None) or started
        yield Entry(
            conversation=name,
            raw=bodies[key],
            key=key,
            id=ids[key],
            message=Native(NAME, bodies[key]),
            parent=None if above is None else ids[above],
            created_at=started,
            note="its parent is missing" if parents[key] not in (None, *parents) else None,
        )
    yield Entry(conversation=name, raw=frame(raw, bodies), key="frame")


_FACTS = ("conversation_id", "id", "title", "create_time", "update_time", "current_node", "default_model_slug")


def _above(key: str | None, parents: dict[str, str | None], bodies: dict[str, bytes]) -> str | None:
    """The nearest node with a message, from `key` upwards."""
    seen: set[str] = set()
    while key is not None and key not in bodies:
        if key in seen or key not in parents:
            return None
        seen.add(key)
        key = parents[key]
    return key


def _parents_first(parents: dict[str, str | None]) -> Iterator[str]:
    """Each node after its parent; a cycle is cut where it is first met."""
    placed: set[str] = set()
    for key in parents:
        way: list[str] = []
        at: str | None = key
        while at is not None and at in parents and at not in placed:
            placed.add(at)
            way.append(at)
            at = parents[at]
        yield from reversed(way)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
