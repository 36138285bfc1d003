"""The conversation of a client, sync or async, and its turns: a question, any number of tool calls, and the answer."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from clew.base.loading import loading
from clew.base.messages import Native, Text, ToolCall, ToolResult, Usage
from clew.chat.protocols import Event, Prompt, Reply, Tools, UsageTotal
from clew.errors import Conflict, Invalid, clip
from clew.providers.errors import ProviderError
from clew.providers.json_values import Json
from clew.providers.registry import canonical
from clew.providers.tools import Schema, Tool, Toolbox
from clew.providers.wire import Answer, CallOrder, ChatRequest, Collector, OutOfRange, WireFormat, load
from clew.snapshots import Messages, Snapshot, ToolSnapshot, new_snapshot
from clew.snapshots.types import a_snapshot

if TYPE_CHECKING:
    from clew.convert import Report

INTERRUPTED = "The tool was interrupted. Whether it did its work is not known."


class Turn:
    """Tells a sync or async driver what to do next while it is `unfinished`: make a request, or run `calls`.

    It adds only complete steps to the conversation: an answer that calls tools together with their results. `close`
    adds what is left of an interrupted turn: text that arrived, and for each interrupted call a result that says so.
    """

    def __init__(self, conversation: Conversation, question: bytes, schema: Schema | None) -> None:
        self._conversation = conversation
        self._schema = schema
        self._held = [question]
        """Messages that are not in the conversation yet."""
        self._spent = UsageTotal()
        self._steps = 0
        self._collector: Collector | None = None
        self._answer: Answer | None = None
        self._results: dict[int, ToolResult] = {}
        self._closed = False
        self.reply: Reply | None = None
        """The answer; None until it is complete."""

    @property
    def unfinished(self) -> bool:
        """True until the answer is complete."""
        return self.reply is None

    @property
    def held(self) -> Sequence[bytes]:
        """Messages of both sides that are not in the conversation yet."""
        return [*self._held, *(self._answer.messages if self._answer is not None else ())]

    @property
    def calls(self) -> Sequence[ToolCall]:
        """The tools to run now."""
        return self._answer.calls if self._answer is not None else ()

    def request(self, *, stream: bool) -> Json:
        """The body of the next request. ProviderError after too many steps."""
        conversation = self._conversation
        if self._steps >= conversation.max_steps:
            raise ProviderError(
                conversation.provider,
                f"no answer after {self._steps} steps",
                hint="Allow more with max_steps, or ask again.",
            )
        self._steps += 1
        asked = ChatRequest(
            model=conversation.model,
            system=conversation.system,
            messages=[*conversation._messages, *self._held],
            tools=list(conversation._tools.tools.values()),
            max_tokens=conversation.max_tokens,
            schema=self._schema,
        )
        if stream:
            self._collector = conversation._wire.collect()
        return conversation._with_options(conversation._wire.request(asked, stream=stream))

    def whole(self, body: bytes) -> None:
        """Takes a whole response."""
        self._take(self._conversation._wire.answer(body))

    def piece(self, event: Json) -> Iterator[Event]:
        """Takes one event of a streamed response; returns what it adds to the answer."""
        assert self._collector is not None
        try:
            yield from self._collector.feed(event)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ProviderError(self._conversation.provider, "the answer is not in the provider's form") from error

    def end(self) -> Iterator[Event]:
        """Ends the streamed response. ProviderError if it is incomplete."""
        assert self._collector is not None
        answer = self._collector.answer()
        if answer is None:
            raise ProviderError(
                self._conversation.provider,
                "the answer broke off",
                hint="The conversation keeps what arrived; continue from there.",
            )
        self._collector = None
        self._take(answer)
        yield from answer.calls

    def add_result(self, at: int, result: ToolResult) -> None:
        """Takes the result of the call at `at`. The last result completes the step."""
        self._results[at] = result

    def results(self) -> Iterator[Event]:
        """Adds the calls and their results to the conversation, after all have run."""
        done = self._all_results()
        self._close_step(done)
        yield from done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Adds what is left of an unfinished turn, and unlocks the conversation. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._answer is not None:
                self._close_step(self._all_results())
            elif self._collector is not None and (arrived := self._collector.partial_messages()):
                self._grow(arrived)
                self._count(None)
        finally:
            self._conversation._end()

    def _take(self, answer: Answer) -> None:
        self._count(answer.usage)
        if answer.calls:
            self._answer, self._results = answer, {}
            return
        if answer.messages:
            self._grow(answer.messages)
        if not answer.again:
            usage = self._spent.usage
            self.reply = Reply(text=answer.text, stop=answer.stop, model=answer.model, usage=usage)
            self._conversation.reply = self.reply

    def _count(self, usage: Usage | None) -> None:
        self._spent = self._spent.plus(usage)
        self._conversation._usage = self._conversation._usage.plus(usage)

    def _all_results(self) -> list[ToolResult]:
        """The results of the calls. An async tool that cancelled itself has none."""
        assert self._answer is not None
        return [self._results.get(at) or _interrupted_result(call) for at, call in enumerate(self._answer.calls)]

    def _close_step(self, results: list[ToolResult]) -> None:
        assert self._answer is not None
        answer, self._answer = self._answer, None
        self._grow([*answer.messages, *self._conversation._wire.results(answer.calls, results)])

    def _grow(self, messages: list[bytes]) -> None:
        self._conversation._messages.extend([*self._held, *messages])
        self._held = []


def _interrupted_result(call: ToolCall) -> ToolResult:
    return ToolResult(call_id=call.id, content=(Text(text=INTERRUPTED),), is_error=True)


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
