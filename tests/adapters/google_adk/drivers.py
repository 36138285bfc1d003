"""Session services of ADK for `clew.testing.adapters`: ours, and ADK's own on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from clew.adapters.google_adk import ClewSessionService

WHO = {"app_name": "app", "user_id": "ada"}


class Services:
    """A service; a stale session is read again, as ADK asks its callers to do."""

    deduplicates = False
    batches = False
    _service: Any

    def __init__(self, path: str) -> None:
        self._open: dict[str, Any] = {}

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        for text in texts:
            event = Event(author="user", content=types.Content(role="user", parts=[types.Part(text=text)]))
            while True:
                try:
                    await self._service.append_event(await self._session(session), event.model_copy(deep=True))
                except StaleSessionError:
                    del self._open[session]
                    continue
                break

    async def _session(self, name: str) -> Any:
        if name not in self._open:
            try:
                self._open[name] = await self._service.create_session(**WHO, session_id=name)
            except AlreadyExistsError:
                self._open[name] = await self._service.get_session(**WHO, session_id=name)
        return self._open[name]

    async def read(self, session: str) -> list[str]:
        found = await self._service.get_session(**WHO, session_id=session)
        return [] if found is None else [event.content.parts[0].text for event in found.events]

    async def delete(self, session: str) -> None:
        self._open.pop(session, None)
        await self._service.delete_session(**WHO, session_id=session)

    def close(self) -> None:
        pass


class Ours(Services):
    """`ClewSessionService`."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._service = ClewSessionService(path)

    def close(self) -> None:
        self._service.close()


class Theirs(Services):
    """`SqliteSessionService`."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._service = SqliteSessionService(path)
