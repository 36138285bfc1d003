"""The conversation of a client, sync or async."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from clew.base.loading import loading
from clew.base.messages import Native
from clew.chat.events import Reply, UsageTotal
from clew.chat.protocols import Prompt, Tools
from clew.chat.turn import Turn
from clew.errors import Conflict, Invalid, clip
from clew.providers.json_values import Json
from clew.providers.registry import canonical
from clew.providers.tools import Schema, Tool, Toolbox
from clew.providers.wire import CallOrder, OutOfRange, WireFormat, load
from clew.snapshots import Messages, Snapshot, ToolSnapshot, new_snapshot
from clew.snapshots.types import a_snapshot

if TYPE_CHECKING:
    from clew.convert import Report

MAX_STEPS = 20
"""Default maximum of requests for one question, including those after tool calls."""


class Conversation:
    """A conversation with one provider's model, in that provider's own messages."""

    def __init__(
        self,
        wire: WireFormat,
        *,
        model: str,
        system: str = "",
        tools: Tools = (),
        max_tokens: int | None = None,
        max_steps: int = MAX_STEPS,
        options: Mapping[str, Any] | None = None,
        base_url: str = "",
    ) -> None:
        if "\0" in system:
            raise Invalid("the system prompt has a NUL character, which no snapshot can contain")
        self._wire = wire
        self.provider = wire.provider
        self.model = model
        self.base_url = base_url
        """The base URL of its requests; empty if they stay in this process."""
        self.system = system
        """The system prompt."""
        self.max_tokens = max_tokens
        self.max_steps = max_steps
        self.id = str(uuid.uuid4())
        """The id of its snapshots; after a restore, that of the restored snapshot."""
        self.reply: Reply | None = None
        """The last answer of this client."""
        self._options = dict(options or {})
        self._metadata: dict[str, str] = {}
        self._tools = Toolbox(tools)
        self._usage = UsageTotal()
        self._messages = Messages(wire.opening_messages(system))
        self._turn: Turn | None = None
        self._busy = threading.Lock()
        """Held during a turn and every other change of the conversation."""
        self._swap = threading.Lock()
        """Held while the conversation is replaced, so that no save mixes the old and the new one."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.provider} {self.model}>"

    @property
    def usage(self) -> UsageTotal:
        """The tokens of this client's answers so far; a restore does not change them."""
        return self._usage

    @property
    def history(self) -> Sequence[Native]:
        """The conversation so far, oldest first, each message in its provider's own JSON."""
        return tuple(Native(self.provider, raw) for raw in (*self._wire.history_prefix(self.system), *self._messages))

    @property
    def tools(self) -> Sequence[ToolSnapshot]:
        """The descriptions of its tools."""
        return tuple(self._tools.snapshots())

    @property
    def functions(self) -> Sequence[Tool]:
        """The tools that this client can run."""
        return tuple(tool for tool in self._tools.tools.values() if tool.handler is not None)

    @property
    def pending(self) -> Sequence[Native]:
        """The messages of the current turn that are not in the history yet.

        These are the question, until part of the answer arrives, and an answer whose tools are running.
        """
        turn = self._turn
        return () if turn is None else tuple(Native(self.provider, raw) for raw in turn.held)

    def message(self, prompt: Prompt) -> Native:
        """`prompt` as a message in the provider's own JSON. Invalid."""
        return Native(self.provider, self._encode_prompt(prompt))

    def add(self, prompt: Prompt) -> None:
        """Adds a user message to the conversation. Nothing is sent until the next question."""
        message = self._encode_prompt(prompt)
        with self._alone():
            self._messages.append(message)

    def set_tools(self, tools: Tools) -> None:
        """Replaces the tools that the model may call."""
        given = Toolbox(tools)
        with self._alone():
            self._tools = given

    def save(self) -> Snapshot:
        """A snapshot of the conversation, with the same id at every call and without an API key."""
        with self._swap:
            return new_snapshot(
                provider=self.provider,
                model=self.model,
                system_prompt=self.system,
                messages=self._messages,
                tools=self._tools.snapshots(),
                metadata=self._metadata,
            ).replace(id=self.id)

    def restore(self, snapshot: Snapshot, *, convert: bool = False) -> Report | None:
        """Replaces the conversation by that of a snapshot; keeps the client's model. Does not change the snapshot.

        Removes the client's earlier tools. The model gets the descriptions of the snapshot's tools. Their functions are
        not stored: call `set_tools` afterwards. Invalid, without a change, if the snapshot is of another provider, or
        if a message is malformed or one that the provider refuses; ``anthropic`` and ``claude`` are the same provider.
        With `convert`, a snapshot of another provider is converted first: it gets a new id, and the report lists the
        changes.
        """
        report = None
        if canonical(a_snapshot(snapshot).provider) not in self._wire.accepts:
            if not convert:
                raise Invalid(
                    f"the snapshot's provider does not match: expected {self.provider}, "
                    f"got {clip(snapshot.provider, 32)}",
                    hint="Restore it into a client of its own provider, or with convert=True.",
                )
            with loading:
                from clew.convert import convert as converted

            snapshot, report = converted(snapshot, self.provider)
        messages, system = self._wire.place_system(self._check_messages(snapshot), snapshot.system_prompt)
        with self._alone(), self._swap:
            self._tools = Toolbox().merge(snapshot.tools)
            self._messages = Messages(messages)
            self.system = system
            self.id = snapshot.id
            self._metadata = dict(snapshot.metadata)
        return report

    def _check_messages(self, snapshot: Snapshot) -> list[bytes]:
        """A snapshot's messages, if all of them are this provider's."""
        found = list(snapshot.parts)
        order = CallOrder(self._wire.results_in)
        for number, raw in enumerate(found, 1):
            message, wrong = self._read(raw, first=number == 1)
            if wrong is None:
                wrong = order.broken_by(self._wire.calls(message))
            if wrong is not None:
                raise Invalid(
                    f"message {number} of the snapshot is not one of {self.provider}: {wrong}",
                    hint="Nothing was restored. Load the snapshot again, or repair its messages.",
                )
        return found

    def _read(self, raw: bytes, *, first: bool = False) -> tuple[Json, str | None]:
        """A message, and why the provider refuses it, or None."""
        try:
            message = load(raw, int)
        except OutOfRange:
            return {}, "it has a number that is too large to be sent"
        except (ValueError, RecursionError):
            return {}, "it cannot be read"
        if not isinstance(message, dict):
            return {}, "it is not an object"
        return message, self._wire.check(message, first=first)

    def _encode_prompt(self, prompt: Prompt) -> bytes:
        if isinstance(prompt, Native):
            if canonical(prompt.provider) not in self._wire.accepts:
                raise Invalid(
                    f"a message of {clip(prompt.provider, 32)} cannot be sent to {self.provider}",
                    hint="Convert it with clew.convert.convert_messages, or send its text.",
                )
            if (wrong := self._read(prompt.raw)[1]) is not None:
                raise Invalid(f"the message is not one of {self.provider}: {wrong}")
            return prompt.raw
        if not isinstance(prompt, str) or not prompt:
            raise Invalid("a prompt must be text that is not empty")
        return self._wire.user(prompt)

    def _begin(self, prompt: Prompt, schema: Schema | None = None) -> Turn:
        """Starts a turn, which locks the conversation until it is closed."""
        question = self._encode_prompt(prompt)
        self._take()
        self._turn = Turn(self, question, schema)
        return self._turn

    def _take(self) -> None:
        if not self._busy.acquire(blocking=False):
            raise Conflict(
                "this client is in the middle of an answer",
                hint="Wait for the answer, close its stream, or use another client.",
            )

    def _end(self) -> None:
        self._turn = None
        self._busy.release()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._take()
        try:
            yield
        finally:
            self._end()

    def _with_options(self, body: Json) -> Json:
        """The body with the caller's own fields; a value of None removes a field."""
        for name, value in self._options.items():
            if isinstance(value, Mapping) and isinstance(there := body.get(name), dict):
                body[name] = {**there, **value}
            else:
                body[name] = value
        return {name: value for name, value in body.items() if value is not None}
