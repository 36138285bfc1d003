"""ChatGPT: the export a user can ask for, ``conversations.json`` or ``conversations-NNN.json``, often in a zip archive.

A conversation is a tree: ``mapping`` has each node with its parent, and ``current_node`` is where it ended. All of the
tree is kept. Nodes without a message are passed over; hidden ones (system texts, weight 0) are messages like others.
Pictures, recordings and documents are looked for in the archive, or beside the file.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from clew.base.messages import Native
from clew.base.outside import names_in
from clew.errors import ClewError
from clew.providers.histories.apps import chatgpt_media
from clew.providers.json_values import as_dict, as_list, as_text
from clew.sources.contract import About, Attachment, Entry, Home, Part, Skip, derived_id, moment, uuid_or_none
from clew.sources.documents import FRAME, frame, read_elements
from clew.sources.items import Item, items
from clew.sources.trees import Nearest, parent_fault, parents_first
from clew.turns.model import ShowRules

NAME = "chatgpt"

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_any = msgspec.json.Decoder().decode


_ID = re.compile(r"file[-_][A-Za-z0-9]{6,}")
MOST = 200_000
"""Names that are read in each folder of an export."""


class ChatGPT:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "ChatGPT"
    rules = ShowRules(joins=True)
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        is_tree = b'"mapping"' in head and (b'"current_node"' in head or b'"content_type"' in head)
        return head.lstrip()[:1] in (b"[", b"{") and is_tree

    def read(self, item: Item) -> Iterator[Part]:
        return read_elements(item, partial(_conversation, ExportFiles(item)))


def _conversation(files: ExportFiles, number: int, raw: bytes) -> Iterator[Part]:
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
    above_of: dict[str, str] = {}
    """The parents of nodes that name none, by the children that others name."""
    for key, node in nodes.items():
        one = _fields(node)
        above = _any(one["parent"]) if "parent" in one else None
        parents[key] = above if isinstance(above, str) else None
        below = _any(one["children"]) if "children" in one else None
        if isinstance(below, list):
            above_of.update((name, key) for name in below if isinstance(name, str) and name != key)
        body = bytes(one.get("message", b"null"))
        if body != b"null":
            bodies[key] = body
    for key, above in parents.items():
        parents[key] = above_of.get(key) if above is None else above
    ids = {key: derived_id(NAME, name, key) for key in bodies}
    current = facts.get("current_node")
    nearest = Nearest(parents, bodies)
    order = [key for key in parents_first(parents) if key in bodies]
    yield About(
        conversation=name,
        title=_text(facts.get("title")),
        model=_text(facts.get("default_model_slug")),
        head=ids.get(nearest(current) or "") if isinstance(current, str) else None,
    )
    started = moment(facts.get("create_time"))
    given: set[str] = set()
    for key in order:
        above = nearest(parents[key])
        # skips nodes without a message: a root may name one of them
        note = parent_fault(parents[key], parents, parents) if above is None else parent_fault(above, given, parents)
        given.add(key)
        said = _object(bodies[key])
        started = moment(said.get("create_time")) or started
        yield Entry(
            conversation=name,
            raw=bodies[key],
            key=key,
            id=ids[key],
            message=Native(NAME, bodies[key]),
            parent=None if above is None or note is not None else ids[above],
            created_at=started,
            note=note,
            attachments=tuple(_attachments(files, said)),
        )
    yield Entry(conversation=name, raw=frame(raw, {ids[key]: body for key, body in bodies.items()}), key=FRAME)


_FACTS = ("conversation_id", "id", "title", "create_time", "update_time", "current_node", "default_model_slug")


def _attachments(files: ExportFiles, message: dict[str, Any]) -> Iterator[Attachment]:
    """The files of a message: those that its content points at, and those that were attached."""
    about = {str(one.get("id")): one for one in as_list(as_dict(message.get("metadata")).get("attachments"))}
    for block in chatgpt_media(message):
        id = file_id(block.url or "")
        one = about.pop(id or "", {})
        found = files.attachment(block.url or "", as_text(one.get("name")), as_text(one.get("mime_type")))
        if found is not None:
            yield found
    for id, one in about.items():
        found = files.attachment(id, as_text(one.get("name")), as_text(one.get("mime_type")))
        if found is not None:
            yield found


def _object(body: bytes) -> dict[str, Any]:
    found = _any(body)
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def file_id(reference: str) -> str | None:
    """The id of a file in a reference to it, or in its name: ``file-service://file-abc`` and ``file-abc-cat.png``."""
    found = _ID.search(os.path.basename(reference))
    return None if found is None else found[0]


class ExportFiles:
    """The files of one export, by their ids. Looked up when the first is asked for."""

    def __init__(self, item: Item) -> None:
        self._item = item
        self._found: dict[str, Item] | None = None

    def attachment(self, reference: str, name: str | None, mime_type: str | None) -> Attachment | None:
        """The file that a message refers to; None if the export does not have it."""
        id = file_id(reference)
        if id is None:
            return None
        if self._found is None:
            self._found = {}
            with suppress(ClewError, OSError, zipfile.BadZipFile):
                for one in self._items():
                    if (named := _ID.match(os.path.basename(one.member or one.path))) is not None:
                        self._found.setdefault(named[0], one)
        found = self._found.get(id)
        return None if found is None else Attachment(reference, name, mime_type, found.open)

    def _items(self) -> Iterator[Item]:
        if self._item.member is not None:
            yield from items(self._item.path, self._item.root)
            return
        folder = os.path.dirname(self._item.path)
        root = self._item.root or folder
        for place in (folder, *(os.path.join(folder, name) for name in self._folders(folder, root))):
            with suppress(OSError):
                for name in islice(names_in(place, root), MOST):
                    if _ID.match(name):
                        yield Item(os.path.join(place, name), 0, 0, root=root)

    def _folders(self, folder: str, root: str) -> Iterator[str]:
        """The folders in which an export has files."""
        for name in islice(names_in(folder, root), MOST):
            if name == "dalle-generations" or name.startswith("user-"):
                yield name
            elif uuid_or_none(name) is not None:
                yield os.path.join(name, "audio")
