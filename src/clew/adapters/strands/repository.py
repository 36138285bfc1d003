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

from clew.adapters.documents import DOCUMENT, Documents
from clew.adapters.foreign import NoForm, Translator, parts_of, result_text
from clew.adapters.keyed import Adapter, Keyed, Target, check_version, unchanged
from clew.base.messages import Message, Native, ToolCall, ToolResult
from clew.engine.node import Node
from clew.errors import Conflict
from clew.store.session import Session as Conversation
from clew.store.unit import Unit

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase

TOOL = "strands"


def to_native(data: dict[str, Any]) -> Native:
    """A message, or a record with one, as it is stored. With its token counts."""
    message = data.get("message", data)
    metadata = message.get("metadata") if isinstance(message, dict) else None
    used = metadata.get("usage") if isinstance(metadata, dict) else None
    extra = None
    if isinstance(used, dict):
        extra = {"usage": {"input": used.get("inputTokens"), "output": used.get("outputTokens")}}
    return Native(TOOL, json.dumps(data, ensure_ascii=False).encode(), extra=extra)


class ClewSessionRepository(Adapter, SessionRepository):
    """Sessions in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    If two processes append to an agent at once, both messages are kept, in the order in which they were stored.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        check_version("strands-agents", "1.51", "2")
        self._keyed = Keyed(target, TOOL, options)
        unchanged(self._keyed)
        self._documents = Documents(self._keyed)

    # -- sessions

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        about = {**session.to_dict(), "session_type": session.session_type.value}

        def work(unit: Unit) -> bool:
            if self._keyed.session(unit, session.session_id) is not None:
                return False
            self._keyed.ensure(unit, session.session_id, about={TOOL: about})
            return True

        if not self._keyed.write(work):
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
        other = self._keyed.draft(native)

        def work(unit: Unit) -> bool:
            found = self._conversation(unit, session_id, agent_id)
            if found is None:
                return False
            names = ("message", session_id, agent_id, str(session_message.message_id))
            draft = self._keyed.draft(native, id=self._keyed.message_id(unit, *names))
            try:
                is_stored = unit.stored(draft) is not None  # a retry
            except Conflict:
                is_stored, draft = False, other
            if not is_stored:
                unit.append(found, [draft])
            return True

        if not self._keyed.write(work):
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        found = self._keyed.read(lambda unit: self._find(unit, session_id, agent_id, message_id))
        return None if found is None else found[1]

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        before = self.read_message(session_id, agent_id, session_message.message_id)
        if before is None:
            raise SessionException(f"Message {session_message.message_id} does not exist")
        session_message.created_at = before.created_at
        native = to_native(session_message.to_dict())
        done = self._keyed.write(lambda unit: self._replace(unit, session_id, agent_id, session_message, native))
        if not done:
            raise SessionException(f"Message {session_message.message_id} does not exist")

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        def work(unit: Unit) -> list[Node] | None:
            found = self._conversation(unit, session_id, agent_id)
            return None if found is None else unit.path(found)

        nodes = self._keyed.read(work)
        if nodes is None:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
        return _translator.values(nodes)[offset : None if limit is None else offset + limit]

    # -- inside

    def _get(self, session: str, kind: str, id: str) -> dict[str, Any] | None:
        value = self._documents.value(self._documents.find(kind, session, id))
        return None if value is None else json.loads(value["state"])

    def _put(self, session: str, kind: str, id: str, state: dict[str, Any], *, new: bool) -> None:
        """Stores a state as JSON text. A new agent gets a conversation: the session's own, if it is the first."""
        text = json.dumps(state)

        def work(unit: Unit) -> bool:
            home = self._keyed.session(unit, session)
            if home is None:
                return False
            names = (kind, session, id)
            before = self._documents.get(unit, *names)
            value = self._documents.value(before, {"main": False})
            if kind == "agent" and new and not self._has_main(unit, home):
                value["main"] = True
            elif kind == "agent" and new and not value["main"]:
                self._keyed.ensure(unit, session, id, agent=id, owner=home, beside=home)
            value["state"] = text
            self._documents.put(unit, names, value, owner=home, before=before)
            return True

        if not self._keyed.write(work):
            raise SessionException(f"Session {session} does not exist")

    def _has_main(self, unit: Unit, home: Conversation) -> bool:
        """True if an agent has the conversation of the session."""
        return any(self._documents.value(one).get("main") for one in unit.documents(DOCUMENT, owner=home))

    def _conversation(self, unit: Unit, session: str, agent: str) -> Conversation | None:
        """The session that has the messages of an agent."""
        found = self._documents.get(unit, "agent", session, agent)
        if found is None:
            return None
        if self._documents.value(found)["main"]:
            return self._keyed.session(unit, session)
        return self._keyed.session(unit, session, agent, subagent=True)

    def _find(self, unit: Unit, session: str, agent: str, number: int) -> tuple[Node, SessionMessage] | None:
        """A message by its number; if several have it, the last one."""
        found = self._conversation(unit, session, agent)
        shown = [] if found is None else _translator.pairs(unit.path(found))
        for one in reversed(shown):
            for record in one.values:
                if record.message_id == number:
                    return one.node, record
        return None

    def _replace(self, unit: Unit, session: str, agent: str, message: SessionMessage, native: Native) -> bool:
        """Replaces a message, as a guardrail asks for. The messages after it are stored again, the old ones deleted."""
        found, before = self._conversation(unit, session, agent), self._find(unit, session, agent, message.message_id)
        if found is None or before is None:
            return False
        unit.replace(found, before[0], [self._keyed.draft(native)])
        return True


def _decode(node: Node, said: Native) -> SessionMessage:
    return SessionMessage.from_dict(json.loads(said.raw))


def _translate(node: Node, message: Message, before: SessionMessage | None) -> list[SessionMessage]:
    """The record of a message that Strands did not write. Its number follows the one before it."""
    if message.role == "system":
        raise NoForm("a system message")
    content: list[Any] = []
    for part in parts_of(message):
        if isinstance(part, ToolCall):
            content.append({"toolUse": {"toolUseId": part.id, "name": part.name, "input": part.arguments}})
        elif isinstance(part, ToolResult):
            status, text = "error" if part.is_error else "success", {"text": result_text(part)}
            content.append({"toolResult": {"toolUseId": part.call_id, "status": status, "content": [text]}})
        else:
            content.append({"text": part.text})
    role, now = "assistant" if message.role == "assistant" else "user", node.created_at.isoformat()
    number = 0 if before is None else before.message_id + 1
    data = {"message": {"role": role, "content": content}, "message_id": number, "created_at": now, "updated_at": now}
    return [SessionMessage.from_dict(data)]


_translator = Translator(TOOL, _decode, _translate)
