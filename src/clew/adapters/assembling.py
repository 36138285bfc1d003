"""Conversations put together from the model calls of a program that has no sessions.

A request repeats the conversation so far. Each message is stored once, under an id that is a keyed hash of its content
and of the messages before it, so the longest stored path that a request extends is found by ids alone. A call that
continues the last message of a session extends that session. One that begins elsewhere is a fork of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from clew.adapters.keyed import Keyed
from clew.base.messages import Block, Media, Native, Text, Thinking, ToolCall, ToolResult
from clew.engine.titles import title_of
from clew.providers.neutral import neutral
from clew.store.session import Session
from clew.store.store import Store
from clew.store.unit import Unit


class ModelCall(NamedTuple):
    """The input and the output of one call of a model."""

    input: Sequence[Native]
    """The messages of the request, in their order."""
    choices: Sequence[Sequence[Native]]
    """The answers, each of one or more messages. Usually there is one; none if the call failed."""
    started_at: int | None = None
    """Microseconds since 1970."""
    ended_at: int | None = None
    model: str | None = None
    conversation: str | None = None
    """The program's name for the conversation, if it has one."""
    continues: bool = False
    """True if the request has only new messages, which follow the last message of the named conversation."""


class _Link(NamedTuple):
    """A message and its id."""

    id: str
    message: Native
    time: int | None


class Assembler:
    """Stores calls as conversations of one tool."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed
        self._encode = msgspec.json.Encoder(order="sorted").encode

    def store(self, call: ModelCall) -> None:
        """Stores the new messages of a call in one transaction. Storing a call again changes nothing.

        Answers after the first one are branches. Conflict if the named conversation is in the trash.
        """
        if call.input or call.choices:
            self._keyed.write(lambda unit: self._store(unit, call))

    def _store(self, unit: Unit, call: ModelCall) -> None:
        session, start = None, None
        if call.conversation is not None:
            session = self._keyed.session(unit, "conversation", call.conversation)
            if session is not None and call.continues:
                start = session.head_id
        asked = list(self._links(call, call.input, start, call.started_at))
        after = asked[-1].id if asked else start
        answers = [list(self._links(call, choice, after, call.ended_at)) for choice in call.choices]
        for answer in [*answers[1:], *answers[:1]] or [[]]:  # the first one last: the session continues there
            session = self._extend(unit, call, session, start, [*asked, *answer]) or session

    def _links(
        self, call: ModelCall, messages: Sequence[Native], above: str | None, time: int | None
    ) -> Iterator[_Link]:
        """Messages with their ids: hashes of the content and of the id before, or of the conversation's name."""
        workspace = self._keyed.store.workspace
        for message in messages:
            before = f"{workspace}\0{call.conversation or ''}" if above is None else _hex(above)
            above = self._keyed.id("message", before, self._encode(_content(message)).decode())
            yield _Link(above, message, time)

    def _extend(
        self, unit: Unit, call: ModelCall, session: Session | None, start: str | None, chain: list[_Link]
    ) -> Session | None:
        """Stores the end of a chain that is new. Returns the session; None if nothing is new."""
        keyed = self._keyed
        known = unit.known([link.id for link in chain])
        count = next((at for at, link in enumerate(chain) if link.id not in known), len(chain))
        new = chain[count:]
        if not new:
            return None
        above = chain[count - 1].id if count else start
        if session is None and call.conversation is None and above is not None:
            session = next((one for one in unit.sessions_at(above) if keyed.owns(one)), None)
        if session is None:
            names = ("call", _hex(new[0].id)) if call.conversation is None else ("conversation", call.conversation)
            session = keyed.ensure(unit, *names, title=_title(keyed.store, chain), model=call.model, at=above)
        unit.append(session, [keyed.draft(one.message, id=one.id, created_at=one.time) for one in new], after=above)
        return session


def _hex(id: str) -> str:
    return id.replace("-", "")


def _content(message: Native) -> list[Any]:
    """The fields that identify a message when a later request repeats it: role, texts, calls, results and media."""
    seen = neutral(message)
    content = list(_parts(seen.blocks))
    return [seen.role, content]


def _parts(blocks: Sequence[Block]) -> Iterator[Any]:
    text = ""
    for block in blocks:
        if isinstance(block, Text):
            text += block.text
            continue
        if isinstance(block, Thinking):  # programs leave it out of the next request
            continue
        if text:
            yield text
            text = ""
        if isinstance(block, ToolCall):
            yield ["call", block.id, block.name, block.arguments]
        elif isinstance(block, ToolResult):
            yield ["result", block.call_id, list(_parts(block.content))]
        elif isinstance(block, Media):
            yield ["media", msgspec.to_builtins(block)]
        else:
            yield ["other", msgspec.to_builtins(block)]
    if text:
        yield text


def _title(store: Store, chain: Sequence[_Link]) -> str | None:
    return title_of(neutral(store.redacted(link.message)) for link in chain)
