"""Session repositories of Strands for `clew.testing.adapters`: ours, and Strands' own in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from clew.adapters.strands import ClewSessionRepository


class Repositories:
    """A repository; messages are numbered as its session manager numbers them."""

    deduplicates = False
    batches = False
    _repository: Any

    def __init__(self, path: str) -> None:
        self._next: dict[str, int] = {}

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        if session not in self._next:
            try:
                self._repository.create_session(Session(session_id=session, session_type=SessionType.AGENT))
            except SessionException:
                pass
            if self._repository.read_agent(session, "a") is None:
                agent = SessionAgent(agent_id="a", state={}, conversation_manager_state={})
                self._repository.create_agent(session, agent)
            self._next[session] = len(self._repository.list_messages(session, "a"))
        for text in texts:
            message: Any = {"role": "user", "content": [{"text": text}]}
            self._repository.create_message(session, "a", SessionMessage(message, self._next[session]))
            self._next[session] += 1

    async def read(self, session: str) -> list[str]:
        if self._repository.read_agent(session, "a") is None:
            return []
        return [one.message["content"][0]["text"] for one in self._repository.list_messages(session, "a")]

    async def delete(self, session: str) -> None:
        self._next.pop(session, None)
        self._repository.delete_session(session)

    def close(self) -> None:
        pass


class Ours(Repositories):
    """`ClewSessionRepository`."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._repository = ClewSessionRepository(path)

    def close(self) -> None:
        self._repository.close()


class Theirs(Repositories):
    """`FileSessionManager`, in the folder of the file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._repository = FileSessionManager("unused", storage_dir=str(Path(path).parent))
