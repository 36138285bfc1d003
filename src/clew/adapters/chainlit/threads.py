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

from clew.adapters.documents import DOCUMENT, Documents
from clew.adapters.foreign import NoForm, Translator, parts_of
from clew.adapters.keyed import Keyed
from clew.adapters.lists import raw_message
from clew.base.messages import ATTACHED, Message, Native, Text
from clew.engine.blobs import Blob
from clew.engine.node import Node, moment
from clew.engine.session_data import SessionData, label_set
from clew.engine.titles import title_line
from clew.errors import Conflict, Invalid, NotFound
from clew.providers.neutral import neutral
from clew.sources.importer import SOURCE
from clew.store.session import Session
from clew.store.unit import Draft, Unit

TOOL = "chainlit"
"""Also where a session's free data has the thread."""
Record = dict[str, Any]


class Thread(msgspec.Struct, frozen=True):
    """The fields of a thread, without its steps and elements."""

    name: str | None = None
    user: str | None = None
    tags: list[str] | None = None
    metadata: str = "{}"
    """JSON text, which keeps every value."""
    favorites: tuple[str, ...] = ()
    """The ids of its favorite steps."""


def read_thread(data: SessionData) -> Thread:
    """The thread in a session's data. Its name is the session's title, if that was changed since."""
    found = msgspec.convert((data.extra or {}).get(TOOL) or {}, Thread)
    return found if data.title == title_line(found.name) else msgspec.structs.replace(found, name=data.title)


def write_thread(data: SessionData, thread: Thread) -> SessionData:
    """A session's data with a thread."""
    extra = {**(data.extra or {}), TOOL: msgspec.to_builtins(thread)}
    labels = [label for label in data.labels if not label.startswith(f"{TOOL}:")]
    labels += [] if thread.user is None else [user_label(thread.user)]
    title = title_line(thread.name)
    return msgspec.structs.replace(data, title=title, labels=label_set(labels), extra=extra)


def user_label(user: str) -> str:
    """The label of a user's threads."""
    return f"{TOOL}:{user}"


def is_message(step: Record) -> bool:
    """True if a step is part of the conversation: a message, or a call that has ended. A run repeats others."""
    kind = str(step.get("type"))
    return kind.endswith("_message") or (kind != "run" and step.get("end") is not None)


def step_message(step: Record) -> Native:
    """A step as a message, with its model and token counts."""
    about = step.get("generation") or {}
    used = {"input": about.get("inputTokenCount"), "output": about.get("outputTokenCount")}
    extra: Record = {"usage": used} if any(type(count) is int for count in used.values()) else {}
    if isinstance(about.get("model"), str):
        extra["model"] = about["model"]
    return Native(TOOL, _encode({"step": step}), extra=extra or None)


def element_message(element: Record, role: str, blob: Blob | None) -> Native:
    """An element as a message; `blob` has its content."""
    extra = None
    if blob is not None:
        about = {"blob": blob.digest, "mime_type": element.get("mime"), "name": element.get("name")}
        extra = {ATTACHED: {element["id"]: {name: value for name, value in about.items() if value}}}
    return Native(TOOL, _encode({"element": element, "role": role}), extra=extra)


def content_of(message: Native) -> str | None:
    """The digest of the blob that has the content of an element."""
    for about in ((message.extra or {}).get(ATTACHED) or {}).values():
        digest: str = about["blob"]
        return digest
    return None


def _encode(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode()


STEP, ELEMENT, FEEDBACK, USER = "step", "element", "feedback", "user"


class Threads:
    """The threads of a store. Each method is one unit of work, but the content of an element is stored before it."""

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

        def work(unit: Unit) -> Record:
            before = self._documents.value(self._documents.get(unit, USER, id), {})
            now = before.get("createdAt") or _iso(moment(self._keyed.store.clock()))
            found = {**user, "id": id, "createdAt": now}
            self._documents.put(unit, (USER, id), found)
            return found

        return self._keyed.write(work)

    def _user(self, id: str) -> Record | None:
        found: Record | None = self._documents.value(self._documents.find(USER, id))
        return found

    def _user_id(self, identifier: str) -> str:
        return str(uuid.UUID(bytes=self._keyed.key(USER, identifier), version=4))

    # -- threads

    def update(self, id: str, name: str | None, user: str | None, metadata: Record | None, tags: Any) -> None:
        """Changes the fields that are given; creates the thread if necessary. None in `metadata` removes a key."""

        def work(unit: Unit) -> None:
            session = self._keyed.ensure(unit, id)
            old = read_thread(session.data)
            values = {**json.loads(old.metadata), **(metadata or {})}
            values = {key: value for key, value in values.items() if value is not None}
            told = {"name": name or (metadata or {}).get("name"), "user": user, "tags": tags}
            changed = {key: value for key, value in told.items() if value is not None}
            self._change(unit, session, msgspec.structs.replace(old, metadata=json.dumps(values), **changed))

        self._keyed.write(work)

    def read(self, id: str) -> Record | None:
        """A thread with its steps and elements; None if there is none."""

        def work(unit: Unit) -> tuple[Session, Record, dict[str, str]] | None:
            session = self._keyed.session(unit, id)
            if session is None:
                return None
            steps, elements, feedback, contents = {}, [], {}, {}
            for node, record in self._records(unit, session):
                if ELEMENT in record:
                    elements.append(record[ELEMENT])
                    if isinstance(node.said, Native) and (digest := content_of(node.said)):
                        contents[record[ELEMENT]["id"]] = digest
                else:
                    steps[record[STEP]["id"]] = record[STEP]
            for one in reversed(unit.documents(DOCUMENT, owner=session)):
                value = self._documents.value(one)
                if STEP in value:
                    steps[value[STEP]["id"]] = value[STEP]
                else:
                    feedback[value[FEEDBACK]["forId"]] = value[FEEDBACK]
            shown = [{**step, "feedback": feedback.get(key)} for key, step in steps.items()]
            shown.sort(key=lambda step: step.get("createdAt") or "")
            return session, {"steps": shown, "elements": elements}, contents

        found = self._keyed.read(work)
        if found is None:
            return None
        session, shown, contents = found
        for element in shown["elements"]:
            if element["id"] in contents:
                element["url"] = _data_url(element, session.blobs.get(contents[element["id"]]))
        return {**self._about(session), **shown}

    def about(self, id: str) -> Record | None:
        """A thread without its steps and elements; None if there is none."""
        found = self._keyed.find(id)
        return None if found is None else self._about(found)

    def recent(self, user: str, after: str | None) -> Iterator[Record]:
        """The threads of a user, last active first, without steps; with `after`, those after that thread."""
        skips = after is not None
        for one in self._of_user(user):
            found = self._about(one)
            if not skips:
                yield found
            elif found["id"] == after:
                skips = False

    def favorites(self, user: str) -> list[Record]:
        """The favorite steps of a user, the newest first."""
        found = []
        for one in self._of_user(user):
            for id in msgspec.convert(one.extra[TOOL], Thread).favorites:
                step = self._keyed.read(partial(self._step, id=id))
                # A step that was removed may be one of another thread now.
                found += [step] if step is not None and step["threadId"] == one.extra[SOURCE]["id"] else []
        return sorted(found, key=lambda step: step.get("createdAt") or "", reverse=True)

    def _of_user(self, user: str) -> Iterator[Session]:
        """The sessions of a user's threads, last active first. Other programs may have set the label on others."""
        for one in self._keyed.labelled(user_label(user)):
            if self._keyed.owns(one) and read_thread(one.data).user == user:
                yield one

    def purge(self, id: str) -> None:
        """Deletes a thread with its contents, and clears every trace of it. Conflict if it is on hold."""
        self._keyed.purge(id)

    def _about(self, session: Session) -> Record:
        thread = read_thread(session.data)
        user = None if thread.user is None else self._user(thread.user)
        return {
            "id": session.extra[SOURCE]["id"],
            "createdAt": _iso(session.created_at),
            "name": thread.name,
            "userId": thread.user,
            "userIdentifier": None if user is None else user["identifier"],
            "tags": thread.tags,
            "metadata": json.loads(thread.metadata),
        }

    def _change(self, unit: Unit, session: Session, thread: Thread) -> None:
        new = write_thread(session.data, thread)
        if new != session.data:
            unit.save(session, new)

    # -- steps

    def put_step(self, step: Record) -> None:
        """Stores a step, or a new version of it; fields that are None in a new version stay as they were. Invalid."""

        def work(unit: Unit) -> None:
            old = self._step(unit, step["id"]) or {}
            _ensure_same_thread(old, step.get("threadId"))
            new = {**old, **{key: value for key, value in step.items() if value is not None or key not in old}}
            if not new.get("threadId"):
                raise Invalid(f"step {new['id']} belongs to no thread")
            session = self._keyed.ensure(unit, new["threadId"])
            if not self._put_message(unit, session, new):
                self._documents.put(unit, (STEP, new["id"]), {STEP: new}, owner=session)
            self._note_favorite(unit, session, new)

        self._keyed.write(work)

    def _put_message(self, unit: Unit, session: Session, step: Record) -> bool:
        """Stores a step as a message. False if it must be a document."""
        node = self._node(unit, session, STEP, step["id"])
        try:
            draft = self._draft(unit, STEP, step["id"], step_message(step)) if is_message(step) else None
        except Invalid:  # not JSON: it has NaN or an infinity
            draft = None
        if draft is None or (node is not None and _shows_the_same(node, step)):
            return False
        _put_draft(unit, session, node, draft)
        if session.held:  # its messages cannot be deleted
            return False
        self._drop(unit, STEP, step["id"])
        return True

    def delete_step(self, id: str) -> None:
        """Removes a step with its elements and feedback."""

        def work(unit: Unit) -> None:
            session = self._home(unit, STEP, id)
            if session is None:
                return
            self._drop(unit, STEP, id)
            for node, record in reversed(self._records(unit, session)):
                if record.get(STEP, {}).get("id") == id or record.get(ELEMENT, {}).get("forId") == id:
                    unit.replace(session, node, [])
            for one in unit.documents(DOCUMENT, owner=session):
                if self._documents.value(one).get(FEEDBACK, {}).get("forId") == id:
                    unit.delete(one)

        self._keyed.write(work)

    def _note_favorite(self, unit: Unit, session: Session, step: Record) -> None:
        thread = read_thread(session.data)
        favorites = {*thread.favorites} - {step["id"]}
        if (step.get("metadata") or {}).get("favorite"):
            favorites.add(step["id"])
        self._change(unit, session, msgspec.structs.replace(thread, favorites=tuple(sorted(favorites))))

    # -- elements and feedback

    def put_element(self, element: Record, content: bytes | IO[bytes] | None) -> None:
        """Stores an element after the last message, or in place of its earlier version."""
        session = self._keyed.ensured(element["threadId"])
        blob = None if content is None else session.blobs.put(content)

        def work(unit: Unit) -> None:
            step = self._step(unit, element["forId"]) or {}
            for one in (step, self._record(unit, ELEMENT, element["id"])):
                _ensure_same_thread(one, element["threadId"])
            role = "user" if step.get("type") == "user_message" else "assistant"
            draft = self._draft(unit, ELEMENT, element["id"], element_message(element, role, blob))
            _put_draft(unit, session, self._node(unit, session, ELEMENT, element["id"]), draft)

        self._keyed.write(work)

    def delete_element(self, id: str, thread: str | None = None) -> None:
        """Removes an element and its content. Conflict if it belongs to another thread."""

        def work(unit: Unit) -> None:
            _ensure_same_thread(self._record(unit, ELEMENT, id), thread)
            session = self._home(unit, ELEMENT, id)
            node = None if session is None else self._node(unit, session, ELEMENT, id)
            if session is not None and node is not None:
                unit.replace(session, node, [])

        self._keyed.write(work)

    def put_feedback(self, feedback: Record, thread: str | None) -> None:
        """Stores feedback for a step, or replaces it. NotFound if neither its step nor its thread is known.

        Conflict if the step belongs to another thread, or the feedback that it replaces to another step.
        """

        def work(unit: Unit) -> None:
            _ensure_same_thread(self._step(unit, feedback["forId"]), thread)
            before = self._documents.value(self._documents.get(unit, FEEDBACK, feedback["id"]), {FEEDBACK: feedback})
            if before[FEEDBACK]["forId"] != feedback["forId"]:
                raise Conflict(f"feedback {feedback['id']} belongs to another step", hint="Use a new id.")
            session = self._home(unit, STEP, feedback["forId"]) or (
                self._keyed.ensure(unit, thread) if thread else None
            )
            if session is None:
                raise NotFound("step", feedback["forId"])
            self._documents.put(unit, (FEEDBACK, feedback["id"]), {FEEDBACK: feedback}, owner=session)

        self._keyed.write(work)

    def delete_feedback(self, id: str) -> None:
        """Deletes feedback, and clears every trace of it."""
        self._documents.purge(FEEDBACK, id)

    # -- inside

    def _draft(self, unit: Unit, kind: str, id: str, message: Native) -> Draft:
        return self._keyed.draft(message, id=self._keyed.message_id(unit, kind, id))

    def _node(self, unit: Unit, session: Session, kind: str, id: str) -> Node | None:
        """The message of a step or an element in a conversation."""
        node = unit.node(self._keyed.message_id(unit, kind, id))
        if node is None:
            return None
        head = unit.head(session)
        if head is not None and unit.is_above(node.id, head):
            return node
        # Another session has the message with this id, such as a fork.
        found = (one for one, record in self._records(unit, session) if record.get(kind, {}).get("id") == id)
        return next(found, None)

    def _home(self, unit: Unit, kind: str, id: str) -> Session | None:
        """The session of a step or an element."""
        record = self._record(unit, kind, id)
        return None if record is None else self._keyed.session(unit, record["threadId"])

    def _step(self, unit: Unit, id: str) -> Record | None:
        """The latest version of a step."""
        return self._record(unit, STEP, id)

    def _record(self, unit: Unit, kind: str, id: str) -> Record | None:
        document = self._documents.get(unit, kind, id)
        if document is not None:
            return dict(self._documents.value(document)[kind])
        stored = unit.node(self._keyed.message_id(unit, kind, id))
        if stored is None:
            return None
        home = self._keyed.session(unit, json.loads(raw_message(stored))[kind]["threadId"])
        node = None if home is None else self._node(unit, home, kind, id)
        return None if node is None else dict(json.loads(raw_message(node))[kind])

    def _records(self, unit: Unit, session: Session) -> list[tuple[Node, Record]]:
        """The messages of a thread with their records."""
        shown = _translator.pairs(unit.path(session))
        found = [(one.node, value) for one in shown for value in one.values]
        for _, record in found:
            if record.get(STEP, {}).get("threadId") == "":  # of another program
                record[STEP]["threadId"] = session.extra[SOURCE]["id"]
        return found

    def _drop(self, unit: Unit, *names: str) -> None:
        document = self._documents.get(unit, *names)
        if document is not None:
            unit.delete(document)


def _decode(node: Node, said: Native) -> Record:
    found: Record = json.loads(said.raw)
    return found


def _translate(node: Node, message: Message, before: Record | None) -> list[Record]:
    """The step of a message that Chainlit did not write. The thread is known to the caller."""
    texts = [part.text for part in parts_of(message) if isinstance(part, Text)]
    if not texts:
        raise NoForm("tool calls and results alone")
    kind, at = f"{message.role}_message", _iso(node.created_at)
    names = {"id": node.id, "threadId": "", "parentId": None, "name": message.role, "type": kind}
    times = {"createdAt": at, "start": at, "end": at}
    more: Record = {"input": "", "metadata": {}, "tags": None, "isError": False, "streaming": False}
    return [{STEP: {**names, **times, **more, "output": "\n".join(texts)}}]


_translator = Translator(TOOL, _decode, _translate)


def _put_draft(unit: Unit, session: Session, node: Node | None, draft: Draft) -> None:
    """Stores a message after the last one, or in place of its earlier version."""
    if node is None:
        unit.append(session, [draft])
    else:
        unit.replace(session, node, [draft])


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
