"""The session service of ADK: ``Runner(…, session_service=ClewSessionService("chats.db"))``.

A session is a conversation, and an event is a message of it, as ADK's own services write it. An event and the state it
changes are stored in one transaction. State of an app and of a user are documents; temporary state is not stored.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import msgspec
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import Session, State
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from pydantic_core import to_jsonable_python

from clew.adapters.documents import Documents
from clew.adapters.google_adk.service import (
    TOOL,
    Service,
    dump_state,
    events,
    imported_state,
    labels,
    load_state,
    message_id,
    own_data,
    read_own_data,
    session_data,
    timestamp,
    to_native,
)
from clew.adapters.keyed import Keyed, Target
from clew.adapters.threads import in_thread
from clew.base import ids
from clew.base.messages import Native
from clew.engine.node import Node
from clew.errors import Conflict, Invalid, NotFound
from clew.store.session import Session as Conversation
from clew.store.unit import Draft, Unit


def scoped(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A state by scope, without prefixes, as JSON values. Temporary values are left out; objects become their repr."""
    found: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}}
    for name, value in state.items():
        if name.startswith(State.TEMP_PREFIX):
            continue
        if name.startswith(State.APP_PREFIX):
            found["app"][name.removeprefix(State.APP_PREFIX)] = value
        elif name.startswith(State.USER_PREFIX):
            found["user"][name.removeprefix(State.USER_PREFIX)] = value
        else:
            found["session"][name] = value
    plain: dict[str, dict[str, Any]] = to_jsonable_python(found, serialize_unknown=True)
    return plain


class ScopedStates:
    """The states of apps and users. Methods are steps of the caller's unit of work."""

    def __init__(self, keyed: Keyed, documents: Documents) -> None:
        self._keyed = keyed
        self._documents = documents

    def of_user(self, unit: Unit, app: str, user: str) -> dict[str, Any]:
        """A user's state, without prefixes."""
        return self._read(unit, "user", app, user)

    def merge(self, unit: Unit, app: str, user: str, state: dict[str, Any]) -> dict[str, Any]:
        """The state that a session sees: its own, the app's and the user's."""
        of_app, of_user = self._read(unit, "app", app), self.of_user(unit, app, user)
        return {
            **state,
            **{State.APP_PREFIX + name: value for name, value in of_app.items()},
            **{State.USER_PREFIX + name: value for name, value in of_user.items()},
        }

    def update(self, unit: Unit, app: str, user: str, deltas: dict[str, dict[str, Any]]) -> None:
        """Changes the states of an app and a user. States that were imported become documents."""
        for scope, names in (("app", (app,)), ("user", (app, user))):
            state = {**self._read(unit, scope, *names), **deltas[scope]}
            if deltas[scope] or (state and self._documents.get(unit, scope, *names) is None):
                told = labels(*names)[-1:] if scope == "user" else ()
                self._documents.put(unit, (scope, *names), dump_state(state), labels=told)

    def _read(self, unit: Unit, scope: str, *names: str) -> dict[str, Any]:
        document = self._documents.get(unit, scope, *names)
        if document is not None:
            return load_state(self._documents.value(document))
        label, after = labels(*names)[-1], None
        while found := unit.labelled(label, after=after):
            for one in found:
                if self._keyed.names(one)[: len(names)] == names:  # other names can have the same label
                    return imported_state(one.extra, scope)
            after = found[-1]
        return {}


OnConflict = Literal["reject", "merge", "fork"]
MARKER = "_storage_update_marker"
"""Attribute of ADK's sessions with the revision at which they were read: here the id of the last event's message."""
STALE = (
    "Another writer has added events since this session was read. Read it again, or choose what happens to such events:"
    " ClewSessionService(…, on_conflict='merge') or 'fork'."
)
REMEMBERED = 1024
LOCKS = 64
"""Serializes appends through one session object, so that its own events do not conflict."""


class _Written(NamedTuple):
    """The outcome of an append."""

    head: str
    missed: list[Node]
    """With `merge`, events of other writers that the session object does not have."""
    fork: str | None = None
    """With `fork`, the id of the new session."""


class ClewSessionService(Service, BaseSessionService):
    """Sessions in a store. See `Service` for the arguments.

    `on_conflict` says what happens to an event if another writer has added events since its session was read:
    ``reject`` raises `StaleSessionError`, as ADK's own services do; ``merge`` adds the event after the others, and the
    session object gets them; ``fork`` adds it to a new session that begins where this one was read, and the session
    object becomes that one. Deleting a session purges it, with its artifacts.
    """

    def __init__(
        self,
        target: Target | None = None,
        *,
        uri: str | None = None,
        agents_dir: str | None = None,
        on_conflict: OnConflict = "reject",
        **options: Any,
    ) -> None:
        if on_conflict not in get_args(OnConflict):
            raise Invalid(f"on_conflict must be one of {', '.join(get_args(OnConflict))}")
        super().__init__(target, uri=uri, agents_dir=agents_dir, **options)
        self._on_conflict = on_conflict
        self._states = ScopedStates(self._keyed, self._documents)
        self._known: dict[bytes, Conversation] = {}
        """Conversations that were appended to, so that an append need not look them up."""
        self._locks = [threading.Lock() for _ in range(LOCKS)]

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        id = (session_id or "").strip() or platform_uuid.new_uuid()
        return await in_thread(self._create, app_name, user_id, id, scoped(state or {}))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        return await in_thread(self._load, app_name, user_id, session_id.strip(), config or GetSessionConfig())

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        found = await in_thread(self._list, app_name, user_id)
        return ListSessionsResponse(sessions=found)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        await in_thread(self._keyed.purge, app_name, user_id, session_id.strip())

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return await in_thread(self._keyed.read, lambda unit: self._states.of_user(unit, app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        return await in_thread(self._append, session, event)

    # -- on a thread

    def _create(self, app: str, user: str, id: str, state: dict[str, dict[str, Any]]) -> Session:
        now = platform_time.get_time()
        data = session_data((app, user, id), state["session"], now, self._keyed.labels)

        def work(unit: Unit) -> dict[str, Any]:
            found = self._keyed.session(unit, app, user, id, trashed=True)
            if found is not None and found.trashed_at is not None:
                raise Conflict(f"session {id} is in the trash", hint="Restore it or purge it, then try again.")
            if found is not None:
                raise AlreadyExistsError(f"Session with id {id} already exists.")
            self._states.update(unit, app, user, state)
            unit.create(data, self._keyed.key(app, user, id))
            return self._states.merge(unit, app, user, state["session"])

        merged = self._keyed.write(work)
        return _mark(Session(id=id, app_name=app, user_id=user, state=merged, last_update_time=now), None)

    def _load(self, app: str, user: str, id: str, config: GetSessionConfig) -> Session | None:
        def work(unit: Unit) -> Session | None:
            session = self._keyed.session(unit, app, user, id)
            if session is None:
                return None
            state, updated = read_own_data(session.extra)
            since, count = config.after_timestamp, config.num_recent_events
            nodes = unit.path(session, last=None if count is None or since is not None else max(1, count))
            head = None
            if nodes:
                head, updated = nodes[-1].id, timestamp(nodes[-1])
            if since is not None:
                nodes = [node for node in nodes if timestamp(node) >= since]
            nodes = nodes if count is None else nodes[max(0, len(nodes) - count) :]
            merged = self._states.merge(unit, app, user, state)
            found = Session(id=id, app_name=app, user_id=user, state=merged, last_update_time=updated)
            found.events = events.values(nodes)
            return _mark(found, head)

        return self._keyed.read(work)

    def _list(self, app: str, user: str | None) -> list[Session]:
        found = []
        for one in self._keyed.labelled(labels(app, user)[-1]):
            names = self._keyed.names(one)
            if names[:1] != (app,) or user not in (None, names[1]):  # other names can have the same label
                continue
            _, whose, id = names
            state, updated = read_own_data(one.extra)
            updated = next((timestamp(node) for node in one.path(last=1)), updated)
            merged = self._keyed.read(partial(self._states.merge, app=app, user=whose, state=state))
            session = Session(id=id, app_name=app, user_id=whose, state=merged)
            session.last_update_time = updated
            found.append(session)
        return sorted(found, key=lambda one: (one.last_update_time, one.user_id, one.id))

    def _append(self, session: Session, event: Event) -> Event:
        key = self._keyed.key(*_names(session))
        with self._locks[key[0] % LOCKS]:
            written = self._write(session, event, to_native(event))
            if written is None:
                return event
            for missed in events.values(written.missed):
                self._commit_event_to_session(session, missed)
            if written.fork is not None:
                session.id = written.fork
            session.last_update_time = event.timestamp
            _mark(session, written.head)
            return self._commit_event_to_session(session, event)

    def _write(self, session: Session, event: Event, native: Native) -> _Written | None:
        """Stores an event with its state. None if the session object has it. Raises as `append_event`."""
        keyed, names = self._keyed, _names(session)
        deltas = scoped(event.actions.state_delta or {})
        draft = keyed.draft(native, id=message_id(keyed, names, event.id))
        id, expected = ids.text(draft.id), self._head_of(session)
        if not any(deltas.values()) and self._append_alone(session, draft, expected):
            return _Written(id, [])

        def work(unit: Unit) -> _Written | None:
            found = keyed.session(unit, *names)
            if found is None:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            head, stored = unit.head(found), unit.stored(draft, found)
            if stored is not None:  # sent again, perhaps because the answer was lost
                return _Written(id, []) if head == id and expected == stored.parent_id else None
            if expected != head and self._on_conflict == "reject":
                raise StaleSessionError(STALE)
            self._states.update(unit, *names[:2], deltas)
            if expected != head and self._on_conflict == "fork":
                return self._fork(unit, found, session, deltas["session"], draft, expected)
            missed = self._missed(unit, found, expected) if expected != head else []
            if deltas["session"]:
                found = self._change_state(unit, found, deltas["session"])
            unit.append(found, [draft])
            return _Written(id, missed)

        return keyed.write(work)

    # -- inside

    def _head_of(self, session: Session) -> str | None:
        """The message at which the session was read; by its last event if it was not read from this service."""
        marker = getattr(session, MARKER, None)
        if isinstance(marker, str) and marker.startswith(TOOL):
            head = ids.maybe(marker.removeprefix(TOOL).lstrip())
            return None if head is None else ids.text(head)
        return message_id(self._keyed, _names(session), session.events[-1].id) if session.events else None

    def _append_alone(self, session: Session, draft: Draft, expected: str | None) -> bool:
        """Stores an event that changes no state, as a plain append. False if nothing was stored."""
        key, id = self._keyed.key(*_names(session)), ids.text(draft.id)
        found = self._known.get(key) or self._keyed.find(*_names(session))
        if found is None or expected == id:
            return False
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[key] = found
        try:
            found.append(draft, expect_head=expected)
        except (Conflict, NotFound):  # the unit that follows says why
            self._known.pop(key, None)
            return False
        return found.head_id == id  # otherwise it was there before, and nothing has moved

    def _missed(self, unit: Unit, found: Conversation, expected: str | None) -> list[Node]:
        """The messages after a message; empty if it is no longer on the path."""
        path = unit.path(found)
        if expected is None:
            return path
        at = next((number for number, node in enumerate(path) if node.id == expected), None)
        return [] if at is None else path[at + 1 :]

    def _change_state(self, unit: Unit, found: Conversation, delta: dict[str, Any]) -> Conversation:
        state, created = read_own_data(found.extra)
        extra = found.extra
        changed = {**extra, TOOL: {**extra[TOOL], **own_data({**state, **delta}, created)}}
        return unit.save(found, msgspec.structs.replace(found.data, extra=changed))

    def _fork(
        self,
        unit: Unit,
        found: Conversation,
        session: Session,
        delta: dict[str, Any],
        draft: Draft,
        expected: str | None,
    ) -> _Written:
        """Stores an event as a new session that shares the events up to the one that its session was read at."""
        id = f"{session.id}-{platform_uuid.new_uuid()[:8]}"
        if expected is not None and not unit.shares(found, expected):
            raise NotFound("message", expected, hint="It was deleted.")
        names = (session.app_name, session.user_id, id)
        state = {**scoped(session.state)["session"], **delta}
        data = session_data(
            names,
            state,
            platform_time.get_time(),
            self._keyed.labels,
            title=found.title,
            forked_from=found.id,
            forked_at=expected,
        )
        fork = unit.create(data, self._keyed.key(*names), at=expected)
        unit.append(fork, [draft], after=expected)
        return _Written(ids.text(draft.id), [], id)


def _names(session: Session) -> tuple[str, str, str]:
    return session.app_name, session.user_id, session.id


def _mark(session: Session, head: str | None) -> Session:
    setattr(session, MARKER, f"{TOOL} {head or ''}")
    return session
