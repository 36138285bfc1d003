"""Records a chat client in a session of the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from clew.base.messages import AnyMessage, Message, ToolCall, ToolResult, system, user
from clew.chat.events import Event, Reply
from clew.chat.recording.clients import Arguments, record
from clew.chat.recording.keeper import Keeper, Shield, Wanted
from clew.chat.recording.resuming import resume, through_last_answer
from clew.errors import Invalid
from clew.providers.registry import OFFLINE
from clew.providers.tools import Toolbox
from clew.providers.view import view
from clew.store.session import Session
from clew.store.snapshot_setup import Setup

if TYPE_CHECKING:
    from clew.snapshots import Snapshot


class SavingMiddleware:
    """Stores the messages of one client in one session.

    Continues `session` from its last answer, or from exactly the message `at`. Without `session`, the first question
    creates one with `title`, `cwd` and `labels`. `label` is added to every message and to a new session;
    ``subagent:NAME:RUN`` makes the session the trace of a subagent, which `latest` never returns; `parent` owns it, and
    it is deleted with its owner. The session stores the provider, the base URL and the descriptions of the tools in its
    free data. If another writer continues the session, this conversation continues in a fork: see `session`. If a
    message cannot be stored, the error of the store is raised; a question that is not stored is not sent. `store` is a
    `clew.Store`, or with async clients one of `clew.aio`. `shield` is a context manager entered around each save, for
    example to block signals.
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
        """The session, sync or async like the store; None before the first question of a new one."""
        session = self._keeper.session
        wrap = getattr(self._face, "_wrap", None)
        return session if wrap is None or session is None else wrap(session)

    def wrap(self, client: Any) -> Any:
        """Returns a client that records the given one. Use it in its place.

        A client without messages gets those of the session, converted if they are of another provider; it keeps its
        tools. If the client has messages, they are taken as those of the session, or without one stored with its next
        question.
        """
        keeper, session = self._keeper, self._keeper.session
        if session is not None:
            nodes = through_last_answer(session.path()) if self._at is None else session.path(until=self._at)
            if nodes and hasattr(client, "restore") and not any(_role(one) != "system" for one in client.history):
                given = getattr(client, "functions", ())
                resume(client, session, until=self._at)
                if given:
                    client.set_tools(Toolbox(given).merge(client.tools).tools.values())
            keeper.join(len(_messages(client)), nodes[-1].id if nodes else None, client.usage)
        keeper.wanted = self._wanted._replace(model=getattr(client, "model", None) or None)
        return record(client, SessionRecorder(client, keeper))


class SessionRecorder:
    """Records a chat client in a session: each question before it is sent, each step before the caller gets it."""

    chats_by_stream = True

    def __init__(self, client: Any, keeper: Keeper) -> None:
        self._client = client
        self._keeper = keeper

    @property
    def session(self) -> Session | None:
        """The session of the conversation; None before the first question of a new one."""
        return self._keeper.session

    def begin(self, arguments: Arguments) -> Arguments:
        """Stores the question. Invalid if it is not a prompt."""
        args, options = arguments
        name = next((name for name in ("prompt", "question") if name in options), "")
        prompt = options[name] if name else args[0]
        if hasattr(self._client, "message"):
            prompt = question = self._client.message(prompt)
        else:
            question = user(prompt) if isinstance(prompt, str) else prompt
        self._keep(question)
        return (args, {**options, name: prompt}) if name else ((prompt, *args[1:]), options)

    def is_step(self, event: object) -> bool:
        """True if the conversation has grown before this event."""
        return isinstance(event, ToolCall | ToolResult | Reply)

    def is_last(self, event: object) -> bool:
        """True for the answer."""
        return isinstance(event, Reply)

    def keep(self) -> None:
        """Stores the new messages of the conversation."""
        self._keep()

    keep_after_error = keep

    def keep_partial(self, pieces: Sequence[Event]) -> None:
        """Stores a partial answer."""
        if not self._keep(interrupted=True):
            self._keeper.keep_pieces(pieces, getattr(self._client, "model", None))

    finish = keep_partial

    def follow(self, snapshot: Snapshot) -> None:
        """Starts a new session with the next question."""
        self._keeper.leave()

    def close(self) -> None:
        """Does nothing: everything is stored already."""

    def _keep(self, *more: AnyMessage, interrupted: bool = False) -> bool:
        client = self._client
        messages = [*_messages(client), *(more or getattr(client, "pending", ()))]
        model = getattr(client, "model", None)
        return self._keeper.keep(messages, client.usage, model, _setup(client), interrupted=interrupted)


def _setup(client: Any) -> Setup:
    """The provider, base URL and tools of a client; empty if it has none."""
    provider = getattr(client, "provider", "")
    address, tools = getattr(client, "base_url", ""), tuple(getattr(client, "tools", ()))
    # `offline` is not a model, so a session does not store it as its provider.
    return Setup(provider="" if provider == OFFLINE else provider, base_url=address, tools=tools)


def _messages(client: Any) -> list[AnyMessage]:
    """The conversation of a client. A system prompt that is not one of its messages comes first, in neutral form."""
    history: list[AnyMessage] = list(client.history)
    prompt = getattr(client, "system", "")
    if prompt and not (history and _role(history[0]) == "system"):
        history.insert(0, system(prompt))
    return history


def _role(message: AnyMessage) -> str:
    return message.role if isinstance(message, Message) else view(message).role
