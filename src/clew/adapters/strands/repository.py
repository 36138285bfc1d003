"""The session repository of Strands: ``RepositorySessionManager("trip", ClewSessionRepository("chats.db"))``.

A session is a conversation: that of its first agent. Further agents of it are subagents. A message is stored as Strands
writes its record. Agents and orchestrators are documents that the session owns.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage

from clew.adapters.chains import place, replace
from clew.adapters.lists import raw_message
from clew.adapters.rows import DOCUMENT, Adapter, Documents, Keyed, Target, unchanged
from clew.adapters.strands.messages import TOOL, to_native
from clew.adapters.versions import check_version
from clew.backends import InsertPoint, RefRow, Tx
from clew.base import ids
from clew.base.messages import Native
from clew.engine import paths
from clew.engine.append import find_existing
from clew.engine.engine import Draft
from clew.engine.node import Node
from clew.errors import Conflict
from clew.store.session_table import SUBAGENT

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase


class ClewSessionRepository(Adapter, SessionRepository):
    """Sessions in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    If two processes append to an agent at once, both messages are kept, in the order in which they were stored.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        check_version("strands-agents", "1.50", "2")
        self._keyed = Keyed(target, TOOL, options)
        unchanged(self._keyed)
        self._documents = Documents(self._keyed)

    # -- sessions

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        found = []

        def work(tx: Tx) -> RefRow:
            known = self._keyed.row(tx, session.session_id)
            found.append(known)
            about = {**session.to_dict(), "session_type": session.session_type.value}
            return known or self._keyed.ensure(tx, session.session_id, about={TOOL: about})

        self._keyed.refs.write_one(work)
        if found[-1] is not None:
            raise SessionException(f"Session {session.session_id} already exists")
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        found = self._keyed.find(session_id)
        return None if found is None else Session.from_dict(found.extra["source"][TOOL])

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Purges a session with its agents. SessionException if it does not exist; Conflict if it is on hold."""
        if not self._keyed.purge(session_id):
            raise SessionException(f"Session {session_id} does not exist")

    # -- agents

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        self._put(session_id, "agent", session_agent.agent_id, session_agent.to_dict(), new=True)

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        found = self._get(session_id, "agent", agent_id)
        return None if found is None else SessionAgent.from_dict(found)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        before = self._get(session_id, "agent", session_agent.agent_id)
        if before is None:
            raise SessionException(f"Agent {session_agent.agent_id} in session {session_id} does not exist")
        session_agent.created_at = before["created_at"]
        self._put(session_id, "agent", session_agent.agent_id, session_agent.to_dict(), new=False)

    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        self._put(session_id, "multi-agent", multi_agent.id, multi_agent.serialize_state(), new=True)

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> dict[str, Any] | None:
        return self._get(session_id, "multi-agent", multi_agent_id)

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        if self._get(session_id, "multi-agent", multi_agent.id) is None:
            raise SessionException(f"MultiAgent state {multi_agent.id} in session {session_id} does not exist")
        self._put(session_id, "multi-agent", multi_agent.id, multi_agent.serialize_state(), new=False)

    # -- messages

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        native = to_native(session_message.to_dict())
        # For another message with this number: two processes have appended at once.
        other = self._keyed.engine.draft(native)

        def work(tx: Tx) -> bool:
            row = self._conversation(tx, session_id, agent_id)
            if row is None:
                return False
            names = ("message", session_id, agent_id, str(session_message.message_id))
            draft = self._keyed.engine.draft(native, ids.text(self._keyed.message_id(tx, *names)))
            taken = tx.node(draft.id) is not None
            if not taken or not self._is_same(tx, draft):
                place(self._keyed, tx, row, self._keyed.refs.head_state(tx, row).id, [other if taken else draft])
            return True

        if not self._keyed.engine.write(work):
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        found = self._keyed.engine.read(lambda tx: self._find(tx, session_id, agent_id, message_id))
        return None if found is None else _record(found[-1])

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        before = self.read_message(session_id, agent_id, session_message.message_id)
        if before is None:
            raise SessionException(f"Message {session_message.message_id} does not exist")
        session_message.created_at = before.created_at
        native = to_native(session_message.to_dict())
        done = self._keyed.engine.write(lambda tx: self._replace(tx, session_id, agent_id, session_message, native))
        if not done:
            raise SessionException(f"Message {session_message.message_id} does not exist")

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        def work(tx: Tx) -> list[Node] | None:
            row = self._conversation(tx, session_id, agent_id)
            return None if row is None else self._path(tx, row)

        nodes = self._keyed.engine.read(work)
        if nodes is None:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
        return [_record(node) for node in nodes[offset : None if limit is None else offset + limit]]

    # -- inside

    def _get(self, session: str, kind: str, id: str) -> dict[str, Any] | None:
        value = self._documents.value(self._documents.find(kind, session, id))
        return None if value is None else json.loads(value["state"])

    def _put(self, session: str, kind: str, id: str, state: dict[str, Any], *, new: bool) -> None:
        """Stores a state as JSON text. A new agent gets a conversation: the session's own, if it is the first."""
        text = json.dumps(state)

        def work(tx: Tx) -> RefRow | None:
            home = self._keyed.row(tx, session)
            if home is None:
                return None
            names = (kind, session, id)
            value = self._documents.value(self._documents.row(tx, *names), {"main": False})
            if kind == "agent" and new and not self._agents(tx, home):
                value["main"] = True
            elif kind == "agent" and new and not value["main"]:
                assert home.tree is not None
                self._keyed.ensure(tx, session, id, agent=id, owner=home.ref, at=InsertPoint(home.tree))
            value["state"] = text
            return self._documents.put(tx, names, value, owner=home)

        if self._keyed.engine.write(work) is None:
            raise SessionException(f"Session {session} does not exist")

    def _agents(self, tx: Tx, home: RefRow) -> bool:
        """True if an agent has the conversation of the session."""
        owned = (row for row in tx.refs_owned(home.ref) if row.kind == DOCUMENT)
        return any(self._documents.value(row).get("main") for row in owned)

    def _conversation(self, tx: Tx, session: str, agent: str) -> RefRow | None:
        """The session that has the messages of an agent."""
        found = self._documents.row(tx, "agent", session, agent)
        if found is None:
            return None
        if self._documents.value(found)["main"]:
            return self._keyed.row(tx, session)
        return self._keyed.row(tx, session, agent, kind=SUBAGENT)

    def _is_same(self, tx: Tx, draft: Draft) -> bool:
        """True if a message is stored already: a retry."""
        try:
            return find_existing(self._keyed.engine, tx, [draft], None) is not None
        except Conflict:
            return False

    def _path(self, tx: Tx, row: RefRow) -> list[Node]:
        head = self._keyed.refs.head_state(tx, row).pos
        return [] if head is None else paths.whole(self._keyed.engine, tx, head)

    def _find(self, tx: Tx, session: str, agent: str, number: int) -> list[Node] | None:
        """The path to a message; if several have its number, to the last."""
        row = self._conversation(tx, session, agent)
        nodes = [] if row is None else self._path(tx, row)
        for at in range(len(nodes) - 1, -1, -1):
            if _record(nodes[at]).message_id == number:
                return nodes[: at + 1]
        return None

    def _replace(self, tx: Tx, session: str, agent: str, message: SessionMessage, native: Native) -> bool:
        """Replaces a message, as a guardrail asks for. The messages after it are stored again, the old ones deleted."""
        row, before = self._conversation(tx, session, agent), self._find(tx, session, agent, message.message_id)
        if row is None or before is None:
            return False
        replace(self._keyed, tx, row, before[-1], [self._keyed.engine.draft(native)])
        return True


def _record(node: Node) -> SessionMessage:
    return SessionMessage.from_dict(json.loads(raw_message(node)))
