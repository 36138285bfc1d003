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
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse

from clew.adapters.chains import place
from clew.adapters.google_adk.events import (
    TOOL,
    from_node,
    labels,
    message_id,
    own_data,
    read_own_data,
    session_data,
    session_names,
    timestamp,
    to_native,
)
from clew.adapters.google_adk.service import Service
from clew.adapters.google_adk.states import ScopedStates, scoped
from clew.adapters.rows import Target
from clew.adapters.threads import in_thread
from clew.backends import HeadState, RefRow, Tx
from clew.base import ids
from clew.base.messages import Native
from clew.engine import paths
from clew.engine.append import find_existing
from clew.engine.engine import Draft
from clew.engine.node import Node
from clew.errors import Conflict, Invalid, NotFound
from clew.store.session_table import SESSION

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

    head: bytes | None
    missed: list[Node]
    """With `merge`, events of other writers that the session object does not have."""
    fork: str | None = None
    """With `fork`, the id of the new session."""
    refused: Exception | None = None
    """Why nothing was stored. It is raised after the transaction, in which a `ValueError` would mean damage."""


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
        self._rows: dict[bytes, RefRow] = {}
        """Sessions that were appended to: an append needs their numbers, which never change."""
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
        return await in_thread(self._keyed.engine.read, lambda tx: self._states.of_user(tx, app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        return await in_thread(self._append, session, event)

    # -- on a thread

    def _create(self, app: str, user: str, id: str, state: dict[str, dict[str, Any]]) -> Session:
        now = platform_time.get_time()
        data = session_data((app, user, id), state["session"], now)
        key = self._keyed.key(app, user, id)
        merged: dict[str, Any] = {}

        def work(tx: Tx) -> RefRow:
            found = self._keyed.find_row(tx, app, user, id)
            if found is not None and found.trashed_at is not None:
                raise Conflict(f"session {id} is in the trash", hint="Restore it or purge it, then try again.")
            if found is not None:
                raise AlreadyExistsError(f"Session with id {id} already exists.")
            self._states.update(tx, app, user, state)
            row = self._keyed.parts.table.add_at(tx, data, key, SESSION, at=None, owner=None)
            merged.update(self._states.merge(tx, app, user, state["session"]))
            return row

        self._keyed.refs.write_one(work)
        return _mark(Session(id=id, app_name=app, user_id=user, state=merged, last_update_time=now), None)

    def _load(self, app: str, user: str, id: str, config: GetSessionConfig) -> Session | None:
        keyed = self._keyed

        def work(tx: Tx) -> Session | None:
            row = self._keyed.row(tx, app, user, id)
            if row is None:
                return None
            state, updated = read_own_data(keyed.parts.table.data(row).extra)
            head = keyed.refs.head_state(tx, row)
            nodes = self._nodes(tx, head, config)
            if head.pos is not None:
                updated = timestamp((nodes or paths.last(keyed.engine, tx, head.pos, 1))[-1])
            since, count = config.after_timestamp, config.num_recent_events
            if since is not None:
                nodes = [node for node in nodes if timestamp(node) >= since]
            nodes = nodes if count is None else nodes[max(0, len(nodes) - count) :]
            merged = self._states.merge(tx, app, user, state)
            found = Session(id=id, app_name=app, user_id=user, state=merged, last_update_time=updated)
            found.events = [from_node(node) for node in nodes]
            return _mark(found, head.id)

        return keyed.engine.read(work)

    def _nodes(self, tx: Tx, head: HeadState, config: GetSessionConfig) -> list[Node]:
        """The messages that a call may return; all messages if it filters by time."""
        count = config.num_recent_events
        if head.pos is None or count == 0:
            return []
        if count is None or config.after_timestamp is not None:
            return paths.whole(self._keyed.engine, tx, head.pos)
        return paths.last(self._keyed.engine, tx, head.pos, count)

    def _list(self, app: str, user: str | None) -> list[Session]:
        found = []
        for one in self._keyed.labelled(labels(app, user)[-1]):
            names = session_names(one.extra)
            if names[:1] != (app,) or user not in (None, names[1]):  # other names can have the same label
                continue
            _, whose, id = names
            state, updated = read_own_data(one.extra)
            updated = next((timestamp(node) for node in one.path(last=1)), updated)
            merged = self._keyed.engine.read(partial(self._states.merge, app=app, user=whose, state=state))
            session = Session(id=id, app_name=app, user_id=whose, state=merged)
            session.last_update_time = updated
            found.append(session)
        return sorted(found, key=lambda one: (one.last_update_time, one.user_id, one.id))

    def _append(self, session: Session, event: Event) -> Event:
        key = self._keyed.key(session.app_name, session.user_id, session.id)
        with self._locks[key[0] % LOCKS]:
            written = self._write(session, event, to_native(event))
            if written is None:
                return event
            for node in written.missed:
                self._commit_event_to_session(session, from_node(node))
            if written.fork is not None:
                session.id = written.fork
            session.last_update_time = event.timestamp
            _mark(session, written.head)
            return self._commit_event_to_session(session, event)

    def _write(self, session: Session, event: Event, native: Native) -> _Written | None:
        """Stores an event with its state. None if the session object has it. Raises as `append_event`."""
        keyed = self._keyed
        app, user, id = session.app_name, session.user_id, session.id
        deltas = scoped(event.actions.state_delta or {})
        draft = keyed.engine.draft(native, message_id(keyed, _names(session), event.id))
        expected = self._head_of(session)
        if not any(deltas.values()) and self._append_alone(session, draft, expected):
            return _Written(draft.id, [])

        made: list[_Written] = []

        def work(tx: Tx) -> _Written | None:
            row = self._keyed.row(tx, app, user, id)
            if row is None:
                return _Written(None, [], refused=SessionNotFoundError(f"Session {id} not found."))
            head = keyed.refs.head_state(tx, row)
            stored = find_existing(keyed.engine, tx, [draft], head.tree)
            if stored is not None:  # sent again, perhaps because the answer was lost
                above = stored[0].parent_id
                is_next = head.id == draft.id and expected == (None if above is None else ids.parse(above))
                return _Written(draft.id, []) if is_next else None
            if expected != head.id and self._on_conflict == "reject":
                return _Written(None, [], refused=StaleSessionError(STALE))
            self._states.update(tx, app, user, deltas)
            if expected != head.id and self._on_conflict == "fork":
                made.append(self._fork(tx, row, session, deltas["session"], draft, expected))
                return made[-1]
            missed = self._missed(tx, head, expected) if expected != head.id else []
            if deltas["session"]:
                row = self._change_state(tx, row, deltas["session"])
            place(keyed, tx, row, head.id, [draft])
            made.append(_Written(draft.id, missed))
            return made[-1]

        def settle(tx: Tx) -> _Written | None:
            """After a commit that may have failed: the outcome if the event was stored."""
            return made[-1] if made and tx.node(draft.id) is not None else None

        written = keyed.engine.write(work, settle)
        if written is not None and written.refused is not None:
            raise written.refused
        return written

    # -- inside

    def _head_of(self, session: Session) -> bytes | None:
        """The message at which the session was read; by its last event if it was not read from this service."""
        marker = getattr(session, MARKER, None)
        if isinstance(marker, str) and marker.startswith(TOOL):
            return ids.maybe(marker.removeprefix(TOOL).lstrip())
        last = message_id(self._keyed, _names(session), session.events[-1].id) if session.events else None
        return None if last is None else ids.parse(last)

    def _append_alone(self, session: Session, draft: Draft, expected: bytes | None) -> bool:
        """Stores an event that changes no state, as a plain append. False if nothing was stored."""
        key = self._keyed.key(*_names(session))
        row = self._rows.get(key)
        if row is None:
            row = self._keyed.engine.read(lambda tx: self._keyed.row(tx, *_names(session)), single=True)
            if row is None:
                return False
            if len(self._rows) >= REMEMBERED:
                self._rows.clear()
            self._rows[key] = row
        try:
            return self._keyed.refs.append(row, [draft], expect=expected).move is not None
        except (Conflict, NotFound):  # the transaction that follows says why
            self._rows.pop(key, None)
            return False

    def _missed(self, tx: Tx, head: HeadState, expected: bytes | None) -> list[Node]:
        """The messages after a message; empty if it is no longer on the path."""
        path = [] if head.pos is None else paths.whole(self._keyed.engine, tx, head.pos)
        if expected is None:
            return path
        at = next((number for number, node in enumerate(path) if node.id == ids.text(expected)), None)
        return [] if at is None else path[at + 1 :]

    def _change_state(self, tx: Tx, row: RefRow, delta: dict[str, Any]) -> RefRow:
        data = self._keyed.parts.table.data(row)
        state, created = read_own_data(data.extra)
        extra = data.extra or {}
        changed = {**extra, TOOL: {**extra[TOOL], **own_data({**state, **delta}, created)}}
        return self._keyed.parts.table.change(tx, row, msgspec.structs.replace(data, extra=changed))

    def _fork(
        self, tx: Tx, row: RefRow, session: Session, delta: dict[str, Any], draft: Draft, expected: bytes | None
    ) -> _Written:
        """Stores an event as a new session that shares the events up to the one that its session was read at."""
        table = self._keyed.parts.table
        app, user, old = session.app_name, session.user_id, session.id
        id = f"{old}-{platform_uuid.new_uuid()[:8]}"
        point = None if expected is None else tx.insert_point(expected)
        if expected is not None and (point is None or point.tree != row.tree):
            raise NotFound("message", ids.text(expected), hint="It was deleted.")
        before = table.data(row)
        state = {**scoped(session.state)["session"], **delta}
        data = session_data(
            (app, user, id),
            state,
            platform_time.get_time(),
            title=before.title,
            forked_from=ids.text(row.key),
            forked_at=None if expected is None else ids.text(expected),
        )
        fork = table.add_at(tx, data, self._keyed.key(app, user, id), SESSION, at=point, owner=None)
        place(self._keyed, tx, fork, expected, [draft])
        return _Written(draft.id, [], id)


def _names(session: Session) -> tuple[str, str, str]:
    return session.app_name, session.user_id, session.id


def _mark(session: Session, head: bytes | None) -> Session:
    setattr(session, MARKER, f"{TOOL} {'' if head is None else ids.text(head)}")
    return session
