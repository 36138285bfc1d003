"""The data layer of Chainlit: ``@cl.data_layer`` on a function that returns ``ClewDataLayer("chats.db")``."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chainlit.data.base import BaseDataLayer
from chainlit.data.utils import queue_until_user_message
from chainlit.types import Feedback, PageInfo, PaginatedResponse, Pagination, ThreadDict, ThreadFilter
from chainlit.user import PersistedUser, User

from clew.adapters.chainlit.threads import TOOL, Record, Threads
from clew.adapters.keyed import Keyed, Target, check_version, unchanged
from clew.adapters.threads import in_thread
from clew.base.outside import open_outside
from clew.store.store import Store

if TYPE_CHECKING:
    from chainlit.element import Element, ElementDict
    from chainlit.step import StepDict


class ClewDataLayer(BaseDataLayer):
    """Threads in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    A step may come before its thread. A write that has begun is stored, also if its task is cancelled. Deleting a
    thread purges it.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        check_version("chainlit", "2.9.6", "3")
        self._keyed = Keyed(target, TOOL, options)
        unchanged(self._keyed)
        self._threads = Threads(self._keyed)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = asyncio.Lock()

    @property
    def store(self) -> Store:
        """The store that has the threads."""
        return self._keyed.store

    async def close(self) -> None:
        """Closes the store, unless the data layer was made with an open one."""
        await in_thread(self._keyed.close)

    async def build_debug_url(self) -> str:
        return ""

    # -- users

    async def get_user(self, identifier: str) -> PersistedUser | None:
        found = await in_thread(self._threads.user, identifier)
        return None if found is None else PersistedUser(**found)

    async def create_user(self, user: User) -> PersistedUser | None:
        told = {"identifier": user.identifier, "display_name": user.display_name, "metadata": user.metadata}
        return PersistedUser(**await in_thread(self._threads.put_user, told))

    # -- threads

    async def get_thread_author(self, thread_id: str) -> str:
        found = await in_thread(self._threads.about, thread_id)
        author: str | None = None if found is None else found["userIdentifier"]
        if author is None:
            raise ValueError(f"Author not found for thread_id {thread_id}")
        return author

    async def get_thread(self, thread_id: str) -> ThreadDict | None:
        found: ThreadDict | None = await in_thread(self._threads.read, thread_id)
        return found

    async def update_thread(
        self,
        thread_id: str,
        name: str | None = None,
        user_id: str | None = None,
        metadata: Record | None = None,
        tags: list[str] | None = None,
    ) -> None:
        await in_thread(self._threads.update, thread_id, name, user_id, metadata, tags)

    async def delete_thread(self, thread_id: str) -> None:
        """Purges a thread with its steps, elements and feedback. Conflict if it is on hold."""
        await in_thread(self._threads.purge, thread_id)

    async def list_threads(self, pagination: Pagination, filters: ThreadFilter) -> PaginatedResponse[ThreadDict]:
        """A page of a user's threads, last active first, without steps and elements."""
        if not filters.userId:
            raise ValueError("userId is required")
        found = await in_thread(self._list, pagination, filters)
        page = found[: pagination.first]
        first, last = (page[0]["id"], page[-1]["id"]) if page else (None, None)
        return PaginatedResponse(PageInfo(len(found) > pagination.first, first, last), page)

    def _list(self, pagination: Pagination, filters: ThreadFilter) -> list[Record]:
        """The threads of a page, and one more if there are more."""
        found: list[Record] = []
        for thread in self._threads.recent(filters.userId, pagination.cursor):
            if self._matches(thread, filters):
                found.append({**thread, "steps": [], "elements": []})
            if len(found) > pagination.first:
                break
        return found

    def _matches(self, thread: Record, filters: ThreadFilter) -> bool:
        word, value = (filters.search or "").casefold(), filters.feedback
        if not word and value is None:
            return True
        steps = (self._threads.read(thread["id"]) or {"steps": []})["steps"]
        texts = [thread["name"], *(step.get("output") for step in steps)]
        is_found = any(word in str(text or "").casefold() for text in texts)
        return is_found and (value is None or any((step["feedback"] or {}).get("value") == value for step in steps))

    # -- steps

    @queue_until_user_message()
    async def create_step(self, step_dict: StepDict) -> None:
        await self._in_order(self._threads.put_step, dict(step_dict))

    @queue_until_user_message()
    async def update_step(self, step_dict: StepDict) -> None:
        await self._in_order(self._threads.put_step, dict(step_dict))

    @queue_until_user_message()
    async def delete_step(self, step_id: str) -> None:
        await self._in_order(self._threads.delete_step, step_id)

    async def get_favorite_steps(self, user_id: str) -> list[StepDict]:
        found: list[StepDict] = await in_thread(self._threads.favorites, user_id)
        return found

    # -- elements and feedback

    @queue_until_user_message()
    async def create_element(self, element: Element) -> None:
        """Stores an element that belongs to a step, with its content; one with a URL is not downloaded."""
        if element.for_id:
            await self._in_order(self._put_element, dict(element.to_dict()), element.path, element.content)

    async def get_element(self, thread_id: str, element_id: str) -> ElementDict | None:
        """An element; the URL of one with content is a ``data:`` URL."""
        thread = await in_thread(self._threads.read, thread_id) or {"elements": []}
        found: ElementDict | None = next((one for one in thread["elements"] if one["id"] == element_id), None)
        return found

    @queue_until_user_message()
    async def delete_element(self, element_id: str, thread_id: str | None = None) -> None:
        await self._in_order(self._threads.delete_element, element_id, thread_id)

    async def upsert_feedback(self, feedback: Feedback) -> str:
        feedback.id = id = feedback.id or str(uuid.uuid4())
        told = {"forId": feedback.forId, "id": id, "value": feedback.value, "comment": feedback.comment}
        await in_thread(self._threads.put_feedback, told, feedback.threadId)
        return id

    async def delete_feedback(self, feedback_id: str) -> bool:
        await in_thread(self._threads.delete_feedback, feedback_id)
        return True

    async def _in_order(self, function: Callable[..., None], *args: Any) -> None:
        """Runs a call on a thread, after all earlier calls: Chainlit stores each step in a task of its own."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._turns = loop, asyncio.Lock()
        async with self._turns:
            await in_thread(function, *args)

    def _put_element(self, element: Record, path: str | None, content: bytes | str | None) -> None:
        if path is None:
            self._threads.put_element(element, content.encode() if isinstance(content, str) else content)
            return
        with open_outside(path) as file:
            self._threads.put_element(element, file)
