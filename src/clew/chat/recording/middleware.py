"""Records a chat client in a session of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from clew.base.messages import (
    AnyMessage,
    Message,
    Native,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    user,
)
from clew.chat.protocols import Event, Reply, UsageTotal
from clew.chat.recording.clients import Arguments, record
from clew.chat.recording.resuming import resume, through_last_answer
from clew.engine.titles import title_of
from clew.errors import ClewError, Conflict, Invalid, clip
from clew.providers.registry import OFFLINE
from clew.providers.tools import Toolbox
from clew.providers.view import view
from clew.store.session import Session
from clew.store.setup import Setup, setup_of, with_setup
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.snapshots import Snapshot

INTERRUPTED = "interrupted"
"""The key in a message's free data that marks an interrupted answer or tool."""
SUBAGENT = "subagent"
Shield = Callable[[], AbstractContextManager[object]]


class Wanted(NamedTuple):
    """The arguments for a new session."""

    label: str | None = None
    parent: Session | None = None
    title: str | None = None
    cwd: str | None = None
    model: str | None = None
    labels: tuple[str, ...] = ()


class Stored(NamedTuple):
    """A message of the client, and its node."""

    message: AnyMessage
    id: str


class Keeper:
    """Stores the messages of one client. Like the client, not thread-safe."""

    def __init__(self, store: Store, session: Session | None, wanted: Wanted, shield: Shield) -> None:
        agent_of(wanted.label)
        self.session = session
        self._store = store
        self.wanted = wanted
        self._shield = shield
        self._chain: list[Stored] = []
        """The stored messages of the client, after the first `_known` ones."""
        self._known = 0
        """The number of leading messages that came from the session."""
        self._root: str | None = None
        """The node of the last of them."""
        self._head = None if session is None else session.head_id
        """The session's head after the last write: if it differs now, another writer continued the session."""
        self._seen = UsageTotal()
        self._setup = Setup() if session is None else setup_of(session)
        """The setup that is stored in the session."""

    def join(self, known: int, at: str | None, usage: UsageTotal) -> None:
        """Takes the client's first `known` messages as those of the session up to the node `at`."""
        self._known, self._root, self._chain, self._seen = known, at, [], usage

    def leave(self) -> None:
        """Starts a new session with the next message: the client has another conversation now."""
        self.session, self._head, self._setup = None, None, Setup()
        self.join(0, None, self._seen)

    def keep(
        self,
        messages: Sequence[AnyMessage],
        usage: UsageTotal,
        model: str | None,
        setup: Setup,
        *,
        interrupted: bool = False,
    ) -> bool:
        """Stores the new messages of a conversation and `setup`; False if there are none.

        Messages that the conversation dropped become a branch.
        """
        new = messages[self._known :]
        same = 0
        while same < min(len(new), len(self._chain)) and new[same] == self._chain[same].message:
            same += 1
        rest = new[same:]
        if not rest:
            return False
        described = self._describe(rest, self._cost(usage), model, interrupted)
        with self._shield():
            try:
                ids = self._append(self._chain[same - 1].id if same else self._root, described)
                self._chain[same:] = map(Stored, rest, ids)
                self._seen = usage
                self._store_setup(setup)
            except ClewError as error:
                raise explain_unsaved(error) from error
        return True

    def keep_pieces(self, events: Sequence[Event], model: str | None) -> None:
        """Stores a partial answer that the client does not have, after the last stored message."""
        blocks: list[Text | Thinking] = []
        for kind in (Thinking, Text):
            words = "".join(event.text for event in events if isinstance(event, kind))
            if words.strip():
                blocks.append(kind(text=words))
        if not blocks:
            return
        answer = assistant(*blocks, model=model, label=self.wanted.label, extra={INTERRUPTED: True})
        with self._shield():
            try:
                self._append(self._head, [answer])
            except ClewError as error:
                raise explain_unsaved(error) from error

    def _store_setup(self, setup: Setup) -> None:
        """Stores the setup in the session, if it has changed."""
        if setup == self._setup:
            return
        assert self.session is not None
        with self._store.transaction():  # other writers may have changed the free data, too
            now = self.session.refresh()
            self.session = now.update(extra=with_setup(now.extra, setup))
        self._setup = setup

    def _append(self, at: str | None, messages: list[AnyMessage]) -> list[str]:
        """Appends after the node `at`. If another writer continued the session, a fork of it continues from there."""
        if self.session is None:
            with self._store.transaction():  # a failed append leaves no empty session
                made = self._create_session(messages)
                nodes = made.append(messages)
            self.session = made
        else:
            try:
                nodes = self._append_at(self.session, at, messages)
            except Conflict:
                with self._store.transaction():
                    fork = self.session.fork(at=at) if at is not None else self._create_session(messages)
                    nodes = fork.append(messages)
                self.session = fork
        self._head = nodes[-1].id
        return [node.id for node in nodes]

    def _append_at(self, session: Session, at: str | None, messages: list[AnyMessage]) -> list[Any]:
        if at == self._head:
            return session.append(messages, expect_head=at)
        with self._store.transaction():
            if session.refresh().head_id != self._head:
                raise Conflict(f"session {session.id} has moved")
            session.rewind(to=at)
            return session.append(messages, expect_head=at)

    def _create_session(self, messages: Sequence[AnyMessage]) -> Session:
        wanted = self.wanted
        labels = wanted.labels if wanted.label is None else (*wanted.labels, wanted.label)
        agent = agent_of(wanted.label)
        extra = None
        if agent is not None and wanted.parent is not None:
            extra = {"called_at": wanted.parent.refresh().head_id}
        stored = map(self._store.redacted, messages)  # a title may end in half a secret
        return self._store.sessions.create(
            title=wanted.title or title_of(stored), cwd=wanted.cwd, model=wanted.model, labels=labels, agent=agent,
            owner=wanted.parent if agent is not None else None, extra=extra,
        )  # fmt: skip

    def _cost(self, usage: UsageTotal) -> dict[str, int] | None:
        """The tokens since the last call; None if unknown."""
        names = ("input", "output", "cached", "reasoning", "cache_write")
        spent = {name: getattr(usage, name) - getattr(self._seen, name) for name in names}
        if not any(spent.values()):
            return None
        return {name: count for name, count in spent.items() if count or name in ("input", "output")}

    def _describe(
        self, messages: Sequence[AnyMessage], cost: dict[str, int] | None, model: str | None, interrupted: bool
    ) -> list[AnyMessage]:
        """The messages with the label, the model and the token counts, which only one message gets."""
        found: list[AnyMessage] = []
        for one in reversed(messages):
            beside: dict[str, Any] = dict(one.extra or {})
            message = one if isinstance(one, Message) else view(one)
            if isinstance(one, Native) and message.role == "assistant":
                if message.model is None and model:
                    beside["model"] = model
                if message.usage is None and cost is not None:
                    beside["usage"] = cost
                    cost = dict.fromkeys(cost, 0)
            if interrupted and message.role in ("assistant", "tool"):
                beside[INTERRUPTED] = True
            label = one.label if self.wanted.label is None else self.wanted.label
            found.append(msgspec.structs.replace(one, label=label, extra=beside or None))
        return found[::-1]


def agent_of(label: str | None) -> str | None:
    """The agent in a label ``subagent:NAME:RUN``; None for any other label. Invalid if it is incomplete."""
    kind, *rest = (label or "").split(":")
    if kind != SUBAGENT:
        return None
    if len(rest) != 2 or not all(rest):
        raise Invalid(f"the label of a subagent is subagent:NAME:RUN, not {clip(label or '')}")
    return rest[0]


def explain_unsaved(error: ClewError) -> ClewError:
    """The error of the store, with the conversation in its message."""
    error.message = f"the conversation could not be saved: {error.message}"
    error.args = (f"{error.message}. {error.hint}" if error.hint else error.message,)
    return error


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
