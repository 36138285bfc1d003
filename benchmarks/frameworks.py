"""Stores of agent frameworks through their own protocols: the framework's own, and clew's adapter for it."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
import warnings
from typing import Any, ClassVar, Literal, NamedTuple

from benchmarks import peers
from benchmarks.measure import each


class OurOpenAI(peers.OpenAI):
    """`ClewSession`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.openai_agents import ClewSession

        return ClewSession("bench", path)


class OurLangGraph(peers.LangGraph):
    """`ClewSaver`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.langgraph import ClewSaver

        return ClewSaver(path)


class _Async(peers.Peer):
    """A store whose calls are coroutines."""

    start: ClassVar[str] = ""
    store: Any

    def __init__(self, path: str) -> None:
        self._runner = asyncio.Runner()
        self.store = self._opened(path)

    def _opened(self, path: str) -> Any:
        raise NotImplementedError

    async def add(self, item: Any) -> None:
        raise NotImplementedError

    def append(self, items: list[Any]) -> list[float]:
        async def all_of_them() -> list[float]:
            took = []
            for item in items:
                begun = time.perf_counter()
                await self.add(item)
                took.append(time.perf_counter() - begun)
            return took

        return self._runner.run(all_of_them())

    def close(self) -> None:
        if hasattr(self.store, "close"):
            self.store.close()
        self._runner.close()


class PydanticInMemory(_Async):
    """`InMemoryConversationStore`: one conversation, an entry for each message."""

    label, package, module = "pydantic-ai InMemoryConversationStore", "pydantic-ai-slim", "pydantic_ai"

    def __init__(self, path: str) -> None:
        from pydantic_ai import conversation_store, messages

        self._types: Any = conversation_store
        self._messages: Any = messages
        self._head: str | None = None
        self._revision: str | None = None
        super().__init__(path)

    def _opened(self, path: str) -> Any:
        return self._types.InMemoryConversationStore()

    def say(self, text: str) -> Any:
        return self._messages.ModelRequest(parts=[self._messages.UserPromptPart(text)])

    async def add(self, item: Any) -> None:
        await self._save([item])

    def fill(self, texts: list[str]) -> None:
        self._runner.run(self._save([self.say(text) for text in texts]))

    async def _save(self, messages: list[Any]) -> None:
        entries = []
        for message in messages:
            entry = self._types.ConversationEntry(id=str(uuid.uuid4()), parent_id=self._head, message=message)
            entries.append(entry)
            self._head = entry.id
        now = str(uuid.uuid4())
        record = self._types.ConversationRecord(conversation_id="bench", head_id=self._head, revision=now)
        await self.store.write_record(record, new_entries=entries, expected_revision=self._revision)
        self._revision = now

    def load(self) -> int:
        return len(self._runner.run(self.store.read_history(self._head)))

    def last(self, count: int) -> int:
        return len(self._runner.run(self.store.read_history(self._head, limit=count)))


class OurPydantic(PydanticInMemory):
    """`ClewConversationStore`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.pydantic_ai import ClewConversationStore

        return ClewConversationStore(path)


class ClaudeInMemory(_Async):
    """`InMemorySessionStore`: one transcript, an entry for each message."""

    label, package, module = "claude-agent-sdk InMemorySessionStore", "claude-agent-sdk", "claude_agent_sdk"

    def __init__(self, path: str) -> None:
        self._key = {"project_key": "bench", "session_id": str(uuid.uuid4())}
        self._above: str | None = None
        super().__init__(path)

    def _opened(self, path: str) -> Any:
        from claude_agent_sdk import InMemorySessionStore

        return InMemorySessionStore()

    def say(self, text: str) -> Any:
        above, self._above = self._above, str(uuid.uuid4())
        return {
            "parentUuid": above, "sessionId": self._key["session_id"], "type": "user", "cwd": "/src/app",
            "message": {"role": "user", "content": text}, "uuid": self._above, "timestamp": "2026-11-01T10:00:00.000Z",
        }  # fmt: skip

    async def add(self, item: Any) -> None:
        await self.store.append(self._key, [item])

    def fill(self, texts: list[str]) -> None:
        self._runner.run(self.store.append(self._key, [self.say(text) for text in texts]))

    def load(self) -> int:
        return len(self._runner.run(self.store.load(self._key)))


class OurClaude(ClaudeInMemory):
    """`ClewSessionStore`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.claude import ClewSessionStore

        return ClewSessionStore(path)


class LangGraphWrites(peers.LangGraph):
    """`put_writes` of `SqliteSaver`: the write of one task."""

    def append(self, items: list[Any]) -> list[float]:
        if not self._said:
            self._put(items[:1])
        return [
            *each(lambda item: self._saver.put_writes(self._config, [("messages", item)], str(uuid.uuid4())), items)()
        ]


class OurLangGraphWrites(LangGraphWrites, OurLangGraph):
    """`put_writes` of `ClewSaver`."""


class OurADK(peers.ADK):
    """`ClewSessionService`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.google_adk import ClewSessionService

        return ClewSessionService(path)

    def close(self) -> None:
        self._service.close()
        super().close()


class StrandsFiles(peers.Peer):
    """`FileSessionManager`: one agent of one session, a file for each message."""

    label, package, module = "strands FileSessionManager", "strands-agents", "strands"
    start = ""

    def __init__(self, path: str) -> None:
        from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

        self._message: Any = SessionMessage
        self._repository = self._opened(path)
        self._repository.create_session(Session(session_id="bench", session_type=SessionType.AGENT))
        agent = SessionAgent(agent_id="a", state={}, conversation_manager_state={})
        self._repository.create_agent("bench", agent)
        self._next = 0

    def _opened(self, path: str) -> Any:
        from strands.session.file_session_manager import FileSessionManager

        return FileSessionManager("unused", storage_dir=f"{path}.d")

    def say(self, text: str) -> Any:
        return {"role": "user", "content": [{"text": text}]}

    def append(self, items: list[Any]) -> list[float]:
        return [*each(self._add, items)()]

    def _add(self, item: Any) -> None:
        self._repository.create_message("bench", "a", self._message(item, self._next))
        self._next += 1

    def load(self) -> int:
        return len(self._repository.list_messages("bench", "a"))

    def last(self, count: int) -> int:
        return len(self._repository.list_messages("bench", "a", limit=count, offset=self._next - count))

    def close(self) -> None:
        pass


class OurStrands(StrandsFiles):
    """`ClewSessionRepository`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.strands import ClewSessionRepository

        return ClewSessionRepository(path)

    def close(self) -> None:
        self._repository.close()


class AgentFrameworkFiles(_Async):
    """`FileHistoryProvider`: one session, a line for each message."""

    label, package, module = "agent-framework FileHistoryProvider", "agent-framework-core", "agent_framework"

    def _opened(self, path: str) -> Any:
        from agent_framework import FileHistoryProvider

        os.mkdir(f"{path}.d")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is experimental
            return FileHistoryProvider(f"{path}.d")

    def say(self, text: str) -> Any:
        from agent_framework import Content, Message

        return Message("user", [Content.from_text(text)], message_id=str(uuid.uuid4()))

    async def add(self, item: Any) -> None:
        await self.store.save_messages("bench", [item])

    def fill(self, texts: list[str]) -> None:
        self._runner.run(self.store.save_messages("bench", [self.say(text) for text in texts]))

    def load(self) -> int:
        return len(self._runner.run(self.store.get_messages("bench")))


class OurAgentFramework(AgentFrameworkFiles):
    """`ClewHistoryProvider`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.agent_framework import ClewHistoryProvider

        return ClewHistoryProvider(path)


class LlamaIndexSQL(_Async):
    """`SQLAlchemyChatStore` on SQLite: one chat."""

    label, package, module = "llama-index SQLAlchemyChatStore", "llama-index-core", "llama_index.core"

    def _opened(self, path: str) -> Any:
        from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

        return SQLAlchemyChatStore("chats", f"sqlite+aiosqlite:///{path}")

    def say(self, text: str) -> Any:
        from llama_index.core.llms import ChatMessage

        return ChatMessage(content=text)

    async def add(self, item: Any) -> None:
        await self.store.add_messages("bench", [item])

    def fill(self, texts: list[str]) -> None:
        self._runner.run(self.store.add_messages("bench", [self.say(text) for text in texts]))

    def load(self) -> int:
        return len(self._runner.run(self.store.get_messages("bench")))

    def last(self, count: int) -> int:
        known = self._runner.run(self.store.count_messages("bench"))
        return len(self._runner.run(self.store.get_messages("bench", limit=count, offset=known - count)))

    def close(self) -> None:
        if (engine := getattr(self.store, "_async_engine", None)) is not None:
            self._runner.run(engine.dispose())  # or its thread keeps the program from ending
        super().close()


class OurLlamaIndex(LlamaIndexSQL):
    """`ClewDBChatStore`."""

    def _opened(self, path: str) -> Any:
        from clew.adapters.llama_index import ClewDBChatStore

        return ClewDBChatStore(path)


class Pair(NamedTuple):
    """A framework: our store and its own, and the module that it needs."""

    name: str
    ours: type[peers.Peer]
    theirs: type[peers.Peer]
    module: str
    adapter: str
    """The module that calls `in_thread`."""
    kind: Literal["synced", "files", "memory"] = "synced"
    """Where its own store is: on disk after each write, in files that are written later, or in memory."""
    only_append: bool = False
    grows: bool = False
    """True if its own store writes the whole conversation each time."""


PAIRS = [
    Pair("langgraph", OurLangGraph, peers.LangGraph, "langgraph.checkpoint.sqlite", "langgraph.saver", grows=True),
    Pair(
        "langgraph put_writes", OurLangGraphWrites, LangGraphWrites, "langgraph.checkpoint.sqlite", "langgraph.saver",
        only_append=True,
    ),
    Pair("openai-agents", OurOpenAI, peers.OpenAI, "agents", "openai_agents"),
    Pair("google-adk", OurADK, peers.ADK, "google.adk", "google_adk.sessions"),
    Pair("llama-index", OurLlamaIndex, LlamaIndexSQL, "llama_index.core", "llama_index.stores"),
    Pair("strands", OurStrands, StrandsFiles, "strands", "strands.storage", "files"),
    Pair(
        "agent-framework", OurAgentFramework, AgentFrameworkFiles, "agent_framework", "agent_framework.history", "files"
    ),
    Pair("pydantic-ai", OurPydantic, PydanticInMemory, "pydantic_ai", "pydantic_ai", "memory"),
    Pair("claude-agent-sdk", OurClaude, ClaudeInMemory, "claude_agent_sdk", "claude", "memory"),
]  # fmt: skip
