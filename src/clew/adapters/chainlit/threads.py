"""Threads of Chainlit as conversations, by thread id.

A step that is a message, or a call that has ended, is a message of the conversation, as Chainlit writes it; so is an
element, whose content is a blob. Other steps are documents of the session, and so are later versions of a step that
show nothing new, such as a mark as favorite. Feedback and users are documents, too.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import IO, Any

import msgspec

from clew.adapters.chainlit.records import (
    TOOL,
    Record,
    Thread,
    content_of,
    element_message,
    is_message,
    read_thread,
    step_message,
    user_label,
    write_thread,
)
from clew.adapters.chains import place, replace
from clew.adapters.lists import raw_message
from clew.adapters.rows import DOCUMENT, Documents, Keyed
from clew.backends import POS, RefRow, Tx
from clew.base import ids
from clew.base.messages import Native
from clew.engine import deletion, paths
from clew.engine.engine import Draft
from clew.engine.node import Node, moment, node_row
from clew.errors import Conflict, Invalid, NotFound
from clew.providers.neutral import neutral
from clew.sources.importer import SOURCE
from clew.store.session import Session, row_of

STEP, ELEMENT, FEEDBACK, USER = "step", "element", "feedback", "user"


class Threads:
    """The threads of a store. Each method is one transaction, except that the content of an element is stored first."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed
        self._documents = Documents(keyed)

    # -- users

    def user(self, identifier: str) -> Record | None:
        """The user with this name."""
        return self._user(self._user_id(identifier))

    def put_user(self, user: Record) -> Record:
        """Stores a user, or replaces the one with the same name, whose id and time of creation stay."""
        id = self._user_id(user["identifier"])
        found: Record = {}

        def work(tx: Tx) -> RefRow:
            before = self._documents.value(self._documents.row(tx, USER, id), {})
            now = before.get("createdAt") or _iso(moment(self._keyed.engine.clock()))
            found.update({**user, "id": id, "createdAt": now})
            return self._documents.put(tx, (USER, id), found)

        self._keyed.refs.write_one(work)
        return found

    def _user(self, id: str) -> Record | None:
        found: Record | None = self._documents.value(self._documents.find(USER, id))
        return found

    def _user_id(self, identifier: str) -> str:
        return str(uuid.UUID(bytes=self._keyed.key(USER, identifier), version=4))

    # -- threads

    def update(self, id: str, name: str | None, user: str | None, metadata: Record | None, tags: Any) -> None:
        """Changes the fields that are given; creates the thread if necessary. None in `metadata` removes a key."""

        def work(tx: Tx) -> RefRow:
            row = self._keyed.ensure(tx, id)
            old = self._thread(row)
            values = {**json.loads(old.metadata), **(metadata or {})}
            values = {key: value for key, value in values.items() if value is not None}
            told = {"name": name or (metadata or {}).get("name"), "user": user, "tags": tags}
            changed = {key: value for key, value in told.items() if value is not None}
            return self._change(tx, row, msgspec.structs.replace(old, metadata=json.dumps(values), **changed))

        self._keyed.refs.write_one(work)

    def read(self, id: str) -> Record | None:
        """A thread with its steps and elements; None if there is none."""
        contents: dict[str, str] = {}

        def work(tx: Tx) -> tuple[RefRow, Record] | None:
            row = self._keyed.row(tx, id)
            if row is None:
                return None
            steps, elements, feedback = {}, [], {}
            for node in self._path(tx, row):
                record = json.loads(raw_message(node))
                if ELEMENT in record:
                    elements.append(record[ELEMENT])
                    if isinstance(node.said, Native) and (digest := content_of(node.said)):
                        contents[record[ELEMENT]["id"]] = digest
                else:
                    steps[record[STEP]["id"]] = record[STEP]
            for one in reversed([one for one in tx.refs_owned(row.ref) if one.kind == DOCUMENT]):
                value = self._documents.value(one)
                if STEP in value:
                    steps[value[STEP]["id"]] = value[STEP]
                else:
                    feedback[value[FEEDBACK]["forId"]] = value[FEEDBACK]
            shown = [{**step, "feedback": feedback.get(key)} for key, step in steps.items()]
            shown.sort(key=lambda step: step.get("createdAt") or "")
            return row, {"steps": shown, "elements": elements}

        found = self._keyed.engine.read(work)
        if found is None:
            return None
        row, shown = found
        session = Session(self._keyed.parts, row)
        for element in shown["elements"]:
            if element["id"] in contents:
                element["url"] = _data_url(element, session.blobs.get(contents[element["id"]]))
        return {**self._about(row), **shown}

    def about(self, id: str) -> Record | None:
        """A thread without its steps and elements; None if there is none."""
        row = self._keyed.engine.read(lambda tx: self._keyed.row(tx, id), single=True)
        return None if row is None else self._about(row)

    def recent(self, user: str, after: str | None) -> Iterator[Record]:
        """The threads of a user, last active first, without steps; with `after`, those after that thread."""
        skips = after is not None
        for one in self._keyed.labelled(user_label(user)):
            found = self._about(row_of(one))
            if found["userId"] != user:  # another program has set this label
                continue
            if not skips:
                yield found
            elif found["id"] == after:
                skips = False

    def favorites(self, user: str) -> list[Record]:
        """The favorite steps of a user, the newest first."""
        found = []
        for one in self._keyed.labelled(user_label(user)):
            for id in msgspec.convert(one.extra.get(TOOL) or {}, Thread).favorites:
                step = self._keyed.engine.read(partial(self._step, id=id))
                found += [] if step is None else [step]
        return sorted(found, key=lambda step: step.get("createdAt") or "", reverse=True)

    def purge(self, id: str) -> None:
        """Deletes a thread with its contents, and clears every trace of it. Conflict if it is on hold."""
        self._keyed.purge(id)

    def _about(self, row: RefRow) -> Record:
        data = self._keyed.parts.table.data(row)
        thread = read_thread(data)
        user = None if thread.user is None else self._user(thread.user)
        return {
            "id": (data.extra or {})[SOURCE]["id"],
            "createdAt": _iso(moment(row.created_at)),
            "name": thread.name,
            "userId": thread.user,
            "userIdentifier": None if user is None else user["identifier"],
            "tags": thread.tags,
            "metadata": json.loads(thread.metadata),
        }

    def _thread(self, row: RefRow) -> Thread:
        return read_thread(self._keyed.parts.table.data(row))

    def _change(self, tx: Tx, row: RefRow, thread: Thread) -> RefRow:
        data = self._keyed.parts.table.data(row)
        new = write_thread(data, thread)
        return row if new == data else self._keyed.parts.table.change(tx, row, new)

    # -- steps

    def put_step(self, step: Record) -> None:
        """Stores a step, or a new version of it; fields that are None in a new version stay as they were. Invalid."""

        def work(tx: Tx) -> None:
            old = self._step(tx, step["id"]) or {}
            _ensure_same_thread(old, step.get("threadId"))
            new = {**old, **{key: value for key, value in step.items() if value is not None or key not in old}}
            if not new.get("threadId"):
                raise Invalid(f"step {new['id']} belongs to no thread")
            row = self._keyed.ensure(tx, new["threadId"])
            if not self._put_message(tx, row, new):
                self._documents.put(tx, (STEP, new["id"]), {STEP: new}, owner=row)
            self._note_favorite(tx, row, new)

        self._keyed.engine.write(work)

    def _put_message(self, tx: Tx, row: RefRow, step: Record) -> bool:
        """Stores a step as a message. False if it must be a document."""
        node = self._node(tx, row, STEP, step["id"])
        try:
            draft = self._draft(tx, STEP, step["id"], step_message(step)) if is_message(step) else None
        except Invalid:  # not JSON: it has NaN or an infinity
            draft = None
        if draft is None or (node is not None and _shows_the_same(node, step)):
            return False
        if node is None:
            place(self._keyed, tx, row, self._keyed.refs.head_state(tx, row).id, [draft])
        else:
            replace(self._keyed, tx, row, node, [draft])
        if row.hold:  # its messages cannot be deleted
            return False
        self._drop(tx, STEP, step["id"])
        return True

    def delete_step(self, id: str) -> None:
        """Removes a step with its elements and feedback."""

        def work(tx: Tx) -> None:
            row = self._home(tx, STEP, id)
            if row is None:
                return
            self._drop(tx, STEP, id)
            for node in reversed(self._path(tx, row)):
                record = json.loads(raw_message(node))
                if record.get(STEP, {}).get("id") == id or record.get(ELEMENT, {}).get("forId") == id:
                    replace(self._keyed, tx, row, node, [])
            for one in tx.refs_owned(row.ref):
                if one.kind == DOCUMENT and self._documents.value(one).get(FEEDBACK, {}).get("forId") == id:
                    deletion.delete_ref(self._keyed.engine, tx, one)

        self._keyed.engine.write(work)

    def _note_favorite(self, tx: Tx, row: RefRow, step: Record) -> None:
        row = self._keyed.refs.get(tx, row.kind, row.key)
        thread = self._thread(row)
        favorites = {*thread.favorites} - {step["id"]}
        if (step.get("metadata") or {}).get("favorite"):
            favorites.add(step["id"])
        self._change(tx, row, msgspec.structs.replace(thread, favorites=tuple(sorted(favorites))))

    # -- elements and feedback

    def put_element(self, element: Record, content: bytes | IO[bytes] | None) -> None:
        """Stores an element after the last message, or in place of its earlier version."""
        row = self._keyed.refs.write_one(lambda tx: self._keyed.ensure(tx, element["threadId"]))
        blob = None if content is None else Session(self._keyed.parts, row).blobs.put(content)

        def work(tx: Tx) -> None:
            step = self._step(tx, element["forId"]) or {}
            for one in (step, self._record(tx, ELEMENT, element["id"])):
                _ensure_same_thread(one, element["threadId"])
            role = "user" if step.get("type") == "user_message" else "assistant"
            draft = self._draft(tx, ELEMENT, element["id"], element_message(element, role, blob))
            node = self._node(tx, row, ELEMENT, element["id"])
            if node is None:
                place(self._keyed, tx, row, self._keyed.refs.head_state(tx, row).id, [draft])
            else:
                replace(self._keyed, tx, row, node, [draft])

        self._keyed.engine.write(work)

    def delete_element(self, id: str, thread: str | None = None) -> None:
        """Removes an element and its content. Conflict if it belongs to another thread."""

        def work(tx: Tx) -> None:
            _ensure_same_thread(self._record(tx, ELEMENT, id), thread)
            row = self._home(tx, ELEMENT, id)
            node = None if row is None else self._node(tx, row, ELEMENT, id)
            if row is not None and node is not None:
                replace(self._keyed, tx, row, node, [])

        self._keyed.engine.write(work)

    def put_feedback(self, feedback: Record, thread: str | None) -> None:
        """Stores feedback for a step, or replaces it. NotFound if neither its step nor its thread is known.

        Conflict if the step belongs to another thread, or the feedback that it replaces to another step.
        """

        def work(tx: Tx) -> RefRow:
            _ensure_same_thread(self._step(tx, feedback["forId"]), thread)
            before = self._documents.value(self._documents.row(tx, FEEDBACK, feedback["id"]), {FEEDBACK: feedback})
            if before[FEEDBACK]["forId"] != feedback["forId"]:
                raise Conflict(f"feedback {feedback['id']} belongs to another step", hint="Use a new id.")
            row = self._home(tx, STEP, feedback["forId"]) or (self._keyed.ensure(tx, thread) if thread else None)
            if row is None:
                raise NotFound("step", feedback["forId"])
            return self._documents.put(tx, (FEEDBACK, feedback["id"]), {FEEDBACK: feedback}, owner=row)

        self._keyed.refs.write_one(work)

    def delete_feedback(self, id: str) -> None:
        """Deletes feedback, and clears every trace of it."""
        self._documents.purge(FEEDBACK, id)

    # -- inside

    def _draft(self, tx: Tx, kind: str, id: str, message: Native) -> Draft:
        return self._keyed.engine.draft(message, ids.text(self._keyed.message_id(tx, kind, id)))

    def _path(self, tx: Tx, row: RefRow) -> list[Node]:
        head = self._keyed.refs.head_state(tx, row).pos
        return [] if head is None else paths.whole(self._keyed.engine, tx, head)

    def _node(self, tx: Tx, row: RefRow, kind: str, id: str) -> Node | None:
        """The message of a step or an element in a conversation."""
        location = tx.node(self._keyed.message_id(tx, kind, id))
        if location is None:
            return None
        node, head = self._keyed.engine.node(location), self._keyed.refs.head_state(tx, row).pos
        if head is not None and paths.on_path(tx, head, node_row(node)[POS]):
            return node
        # Another session has the message with this id, such as a fork.
        found = (one for one in self._path(tx, row) if json.loads(raw_message(one)).get(kind, {}).get("id") == id)
        return next(found, None)

    def _home(self, tx: Tx, kind: str, id: str) -> RefRow | None:
        """The session of a step or an element."""
        record = self._record(tx, kind, id)
        return None if record is None else self._keyed.row(tx, record["threadId"])

    def _step(self, tx: Tx, id: str) -> Record | None:
        """The latest version of a step."""
        return self._record(tx, STEP, id)

    def _record(self, tx: Tx, kind: str, id: str) -> Record | None:
        row = self._documents.row(tx, kind, id)
        if row is not None:
            return dict(self._documents.value(row)[kind])
        location = self._keyed.location(tx, self._keyed.message_id(tx, kind, id))
        if location is None:
            return None
        thread = json.loads(raw_message(self._keyed.engine.node(location)))[kind]["threadId"]
        home = self._keyed.row(tx, thread)
        node = None if home is None else self._node(tx, home, kind, id)
        return None if node is None else dict(json.loads(raw_message(node))[kind])

    def _drop(self, tx: Tx, *names: str) -> None:
        row = self._documents.row(tx, *names)
        if row is not None:
            deletion.delete_ref(self._keyed.engine, tx, row)


def _ensure_same_thread(record: Record | None, thread: str | None) -> None:
    """Conflict if a stored record belongs to another thread. Without a thread, its own is meant."""
    if record and thread and record["threadId"] != thread:
        raise Conflict(f"{record['id']} belongs to another thread", hint="Use a new id.")


def _shows_the_same(node: Node, step: Record) -> bool:
    old, new = node.message, neutral(step_message(step))
    return (old.role, old.blocks, old.model, old.usage) == (new.role, new.blocks, new.model, new.usage)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _data_url(element: Record, content: bytes) -> str:
    return f"data:{element.get('mime') or 'application/octet-stream'};base64,{base64.b64encode(content).decode()}"
