"""One turn: a question, any number of tool calls, and the answer. Does no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

from clew.base.messages import Text, ToolCall, ToolResult, Usage
from clew.chat.events import Event, Reply, UsageTotal
from clew.providers.errors import ProviderError
from clew.providers.json_values import Json
from clew.providers.tools import Schema, Toolbox
from clew.providers.wire import Answer, ChatRequest, Collector, WireFormat
from clew.snapshots import Messages

INTERRUPTED = "The tool was interrupted. Whether it did its work is not known."


class TurnHost(Protocol):
    """The part of a `Conversation` that a turn reads and changes."""

    model: str
    provider: str
    system: str
    max_steps: int
    max_tokens: int | None
    reply: Reply | None
    _wire: WireFormat
    _messages: Messages
    _tools: Toolbox
    _usage: UsageTotal

    def _with_options(self, body: Json) -> Json: ...
    def _end(self) -> None: ...


class Turn:
    """Tells a sync or async driver what to do next while it is `unfinished`: make a request, or run `calls`.

    It adds only complete steps to the conversation: an answer that calls tools together with their results. `close`
    adds what is left of an interrupted turn: text that arrived, and for each interrupted call a result that says so.
    """

    def __init__(self, conversation: TurnHost, question: bytes, schema: Schema | None) -> None:
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
