"""The middleware, and the clients it makes."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import aclosing, closing, nullcontext
from typing import TYPE_CHECKING, Any, Self, TypeVar

from clew.chat.events import Event, Reply, UsageTotal
from clew.chat.protocols import Prompt, Tools
from clew.errors import Invalid
from clew.model import Message, Native, Said, ToolCall, ToolResult, system, user
from clew.providers import view
from clew.saving.keeper import Keeper, Shield, Wanted
from clew.saving.resuming import answered, resume
from clew.session import Session
from clew.snapshots.setup import Setup

if TYPE_CHECKING:
    from clew.convert import Report
    from clew.snapshots import Snapshot

T = TypeVar("T")
OFFLINE = "offline"
"""The provider that stands for no model: a session does not note that it was held with it."""
_STEPS = (ToolCall, ToolResult, Reply)
"""Events before which a conversation has grown."""


class SavingMiddleware:
    """Stores what one client says and hears, in one session.

    `session` is continued from its last answer, or from exactly the message `at`; without one the first question
    begins a session, with `title`, `cwd` and `labels`. `label` is put on every message, and on the session it begins;
    ``subagent:NAME:RUN`` makes that the trace of a subagent, which `latest` never finds, and which belongs to the
    session `parent` and goes when it goes. The session notes in its free data what it was held with: the provider, the
    base URL, and the tools as they are described to the model. If someone else continues the session meanwhile, this
    conversation continues in a fork of it: see `session`. If something cannot be stored, the error of the store is
    raised, and says so; a question that is not stored is not sent. `store` is a `clew.Store`, or with async clients one
    of `clew.aio`. `shield` is entered around each save, for programs that keep signals away from it.
    """

    def __init__(
        self,
        store: Any,
        *,
        session: Any = None,
        at: str | None = None,
        label: str | None = None,
        parent: Any = None,
        title: str | None = None,
        cwd: str | None = None,
        labels: Iterable[str] = (),
        shield: Shield = nullcontext,
    ) -> None:
        self._face = store
        bare = {"session": getattr(session, "_sync", session), "parent": getattr(parent, "_sync", parent)}
        for name, value in bare.items():
            if value is not None and not isinstance(value, Session):
                about = f"the {name} is a Session, not {type(value).__name__}"
                raise Invalid(about, hint="store.sessions.get finds it.")
        if parent is not None and not (label or "").startswith("subagent:"):
            raise Invalid("only a subagent's trace has a parent", hint="Give it the label subagent:NAME:RUN.")
        wanted = Wanted(label, bare["parent"], title, cwd, None, tuple(labels))
        self._wanted = wanted
        self._at = at
        self._keeper = Keeper(getattr(store, "_sync", store), bare["session"], wanted, shield)

    @property
    def session(self) -> Any:
        """The session that is talked in, with the face of the store; None before the first question of a new one."""
        session = self._keeper.session
        wrap = getattr(self._face, "_wrap", None)
        return session if wrap is None or session is None else wrap(session)

    def wrap(self, client: Any) -> Any:
        """The same client, saved. Use it in its place.

        A client that has said nothing gets what the session has said, converted if it is another provider's. What a
        client has said before is stored with its next question; or, if there is a session, is taken for what that
        says.
        """
        keeper, session = self._keeper, self._keeper.session
        awaited = inspect.iscoroutinefunction(getattr(client, "chat", None))
        if session is not None:
            nodes = answered(session.path()) if self._at is None else session.path(until=self._at)
            if nodes and hasattr(client, "restore") and not any(_role(one) != "system" for one in client.history):
                resume(client, session, until=self._at)
            keeper.join(len(_said(client)), nodes[-1].id if nodes else None, client.usage)
        keeper._wanted = self._wanted._replace(model=getattr(client, "model", None) or None)
        kind: type[_Saved] = AsyncSavedClient if awaited else SavedClient
        if hasattr(client, "restore"):
            kind = _AsyncPersistent if awaited else _Persistent
        return kind(client, keeper)


class _Saved:
    """What the saved clients have in common; whatever is not here is the client's own."""

    def __init__(self, client: Any, keeper: Keeper) -> None:
        self._client = client
        self._keeper = keeper

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._client!r}>"

    @property
    def session(self) -> Session | None:
        """The session that is talked in; None before the first question of a new one."""
        return self._keeper.session

    @property
    def usage(self) -> UsageTotal:
        """What this client's answers have cost so far."""
        return self._client.usage  # type: ignore[no-any-return]

    @property
    def history(self) -> Sequence[Said]:
        """The conversation so far, oldest first."""
        return self._client.history  # type: ignore[no-any-return]

    def add(self, prompt: Prompt) -> None:
        """Puts a message from the person into the conversation; it is stored with the next question."""
        self._client.add(prompt)

    def set_tools(self, tools: Tools) -> None:
        """Gives the model these tools, and no others."""
        self._client.set_tools(tools)

    def _question(self, prompt: Prompt) -> tuple[Prompt, Said]:
        """What to say to the client, and what to store of it. Invalid."""
        if hasattr(self._client, "message"):
            question: Native = self._client.message(prompt)
            return question, question
        return prompt, user(prompt) if isinstance(prompt, str) else prompt

    def _keep(self, *more: Said, interrupted: bool = False) -> bool:
        client = self._client
        said = [*_said(client), *(more or getattr(client, "pending", ()))]
        model = getattr(client, "model", None)
        return self._keeper.keep(said, client.usage, model, _setup(client), interrupted=interrupted)

    def _broke_off(self, pieces: Sequence[Event]) -> None:
        """Keeps what arrived of an answer that did not come to its end."""
        if not self._keep(interrupted=True):
            self._keeper.keep_pieces(pieces, getattr(self._client, "model", None))


class SavedClient(_Saved):
    """A client whose every question is stored before it is sent, and every answer before it is handed over."""

    def chat(self, prompt: Prompt) -> str:
        """Says `prompt` and gives back the answer; each step on the way to it is stored. ProviderError."""
        for event in self.stream(prompt):
            if isinstance(event, Reply):
                return event.text
        raise AssertionError("a stream ends with its reply")

    def ask(self, question: Prompt, into: type[T]) -> T:
        """The answer as a value of type `into`. ProviderError if it does not fit; it is stored all the same."""
        prompt, said = self._question(question)
        self._keep(said)
        try:
            return self._client.ask(prompt, into)  # type: ignore[no-any-return]
        finally:
            self._keep()

    def stream(self, prompt: Prompt) -> Generator[Event, None, None]:
        """The answer in pieces. Whoever stops early keeps, in the store too, what arrived, marked as interrupted."""
        prompt, said = self._question(prompt)
        self._keep(said)
        pieces: list[Event] = []
        ended = False
        try:
            with closing(self._client.stream(prompt)) as events:
                for event in events:
                    if isinstance(event, _STEPS):
                        self._keep()
                        pieces.clear()
                        ended = isinstance(event, Reply)
                    else:
                        pieces.append(event)
                    yield event
        finally:
            if not ended:
                self._broke_off(pieces)

    def close(self) -> None:
        """Ends the connections to the provider."""
        if hasattr(self._client, "close"):
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncSavedClient(_Saved):
    """`SavedClient`, awaited. Saves are made on a thread, and a cancelled task does not leave one unfinished."""

    async def chat(self, prompt: Prompt) -> str:
        """Says `prompt` and gives back the answer; each step on the way to it is stored. ProviderError."""
        async with self.stream(prompt) as events:
            async for event in events:
                if isinstance(event, Reply):
                    return event.text
        raise AssertionError("a stream ends with its reply")

    async def ask(self, question: Prompt, into: type[T]) -> T:
        """The answer as a value of type `into`. ProviderError if it does not fit; it is stored all the same."""
        prompt, said = self._question(question)
        await _aside(lambda: self._keep(said))
        try:
            return await self._client.ask(prompt, into)  # type: ignore[no-any-return]
        finally:
            await _aside(self._keep)

    def stream(self, prompt: Prompt) -> SavedStream:
        """The answer in pieces. A task that is cancelled keeps, in the store too, what arrived."""
        return SavedStream(self._events(prompt))

    async def _events(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        prompt, said = self._question(prompt)
        await _aside(lambda: self._keep(said))
        pieces: list[Event] = []
        ended = False
        try:
            async with aclosing(self._client.stream(prompt)) as events:
                async for event in events:
                    if isinstance(event, _STEPS):
                        await _aside(self._keep)
                        pieces.clear()
                        ended = isinstance(event, Reply)
                    else:
                        pieces.append(event)
                    yield event
        finally:
            if not ended:
                await _aside(lambda: self._broke_off(pieces))

    async def close(self) -> None:
        """Ends the connections to the provider."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class SavedStream(AsyncIterator[Event]):
    """An answer as it comes. With ``async with`` it is stored, however it ends, when the block is left."""

    def __init__(self, events: AsyncGenerator[Event, None]) -> None:
        self._events = events

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Ends the answer here."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Restores(_Saved):
    def save(self) -> Snapshot:
        """The conversation as it is now."""
        return self._client.save()  # type: ignore[no-any-return]

    def restore(self, snapshot: Snapshot, *, convert: bool = False) -> Report | None:
        """Puts the conversation of a snapshot in place of this one; the next question begins a session with it."""
        report: Report | None = self._client.restore(snapshot, convert=convert)
        self._keeper.leave()
        return report


class _Persistent(_Restores, SavedClient):
    pass


class _AsyncPersistent(_Restores, AsyncSavedClient):
    pass


async def _aside(work: Callable[[], T]) -> T:
    """Runs work that waits for a disk on a thread, to its end."""
    import anyio
    from anyio.to_thread import run_sync

    done: list[T] = []
    with anyio.CancelScope(shield=True):
        done.append(await run_sync(work))
    return done[0]


def _setup(client: Any) -> Setup:
    """What a client holds its conversation with; empty for what it does not say."""
    provider = getattr(client, "provider", "")
    address, tools = getattr(client, "base_url", ""), tuple(getattr(client, "tools", ()))
    return Setup(provider="" if provider == OFFLINE else provider, base_url=address, tools=tools)


def _said(client: Any) -> list[Said]:
    """A client's conversation; a system prompt that is no message of its provider comes first, in neutral form."""
    history: list[Said] = list(client.history)
    prompt = getattr(client, "system", "")
    if prompt and not (history and _role(history[0]) == "system"):
        history.insert(0, system(prompt))
    return history


def _role(said: Said) -> str:
    return said.role if isinstance(said, Message) else view(said).role
