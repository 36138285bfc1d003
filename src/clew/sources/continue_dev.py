"""Continue: ``~/.continue/sessions/<id>.json``, with an index beside the sessions.

A session is one JSON object with a line of messages, without ids and times: a message is known by its place, its words
and the message before it. The index has the time at which a session began. A fork is a copy without a pointer, and
stays a conversation of its own. Calls and their results are in the item of the message that made them; the last item
is a message once they have ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime

from clew.base.messages import Native
from clew.providers.histories.editors import continue_dev_has_ended
from clew.providers.json_values import Json, as_dict, as_text
from clew.providers.view import parse
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.documents import FRAME, frame, read_document
from clew.sources.items import Item, read_beside
from clew.sources.values import digest, element_bytes, field_bytes, folder_of, nonblank, object_or_empty, tokens, when

NAME = "continue"
FORMAT = "continue-dev"
_NO_TITLE = ("Untitled Session", "New Session")


class Continue:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "Continue"
    deletes_after = None

    def discover(self, home: Home) -> Iterator[str]:
        root = home.env.get("CONTINUE_GLOBAL_DIR") or os.path.join(home.path, ".continue")
        yield os.path.join(root, "sessions")

    def resume(self, conversation: str) -> str | None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        names = (b'"sessionId"', b'"workspaceDirectory"', b'"history"')
        return head.lstrip()[:1] == b"{" and all(name in head for name in names)

    def read(self, item: Item) -> Iterator[Part]:
        return read_document(item, lambda raw: _session(raw, read_beside(item, "sessions.json")))


def _session(raw: bytes, index: bytes) -> Iterator[Part]:
    fields = parse(raw)
    name = as_text(fields.get("sessionId"))
    if not name:
        yield Skip(None, "the session has no id")
        return
    title, folder = nonblank(fields.get("title")), as_text(fields.get("workspaceDirectory"))
    yield About(
        conversation=name,
        title=None if title in _NO_TITLE else title,
        cwd=folder_of(folder) or folder or None,
        model=as_text(fields.get("chatModelTitle")),
    )
    began = next((when(one.get("dateCreated")) for one in _index(index) if one.get("sessionId") == name), None)
    yield from _messages(name, raw, began)


def _index(index: bytes) -> list[Json]:
    return [object_or_empty(one) for one in element_bytes(index)]


def _messages(name: str, raw: bytes, began: datetime | None) -> Iterator[Part]:
    above: str | None = None
    kept: dict[str, bytes] = {}
    bodies = element_bytes(field_bytes(raw, "history"))
    for number, body in enumerate(bodies):
        item = object_or_empty(body)
        message = as_dict(item.get("message"))
        if not isinstance(message.get("role"), str) or (number + 1 == len(bodies) and not continue_dev_has_ended(item)):
            continue
        usage = as_dict(message.get("usage"))
        used = tokens(input=usage.get("prompt_tokens"), output=usage.get("completion_tokens"))
        model = as_text(usage.get("model"))
        if model:
            yield About(conversation=name, model=model)
        said = digest(field_bytes(body, "message", "content"), field_bytes(body, "message", "toolCalls"))
        id = derived_id(NAME, name, f"{above} {number} {message['role']} {said}")
        extra = ({"usage": used} if used else {}) | ({"model": model} if model else {})
        yield Entry(
            conversation=name,
            raw=body,
            key=f"message {number}",
            id=id,
            message=Native(FORMAT, body, extra=extra or None),
            parent=above,
            created_at=began,
        )
        kept[id] = body
        above = id
    yield About(conversation=name, head=above)
    yield Entry(conversation=name, raw=frame(raw, kept), key=FRAME)
