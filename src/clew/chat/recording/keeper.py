"""Stores the new messages of a conversation, and tracks which are stored already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec

from clew.base.messages import AnyMessage, Message, Native, Text, Thinking, assistant
from clew.chat.events import Event, UsageTotal
from clew.engine.titles import title_of
from clew.errors import ClewError, Conflict, Invalid, clip
from clew.providers.view import view
from clew.store.session import Session
from clew.store.snapshot_setup import Setup, setup_of, with_setup
from clew.store.store import Store

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
        names = ("input", "output", "cached", "reasoning")
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
