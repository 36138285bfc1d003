"""One turn: from a question to its answer, through as many calls of tools as it takes. It does no I/O itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from clew.chat.dialects import Answer, Asked, Collector, Json
from clew.chat.events import Event, Reply, UsageTotal
from clew.chat.tools import Schema
from clew.errors import ProviderError
from clew.model import Text, ToolCall, ToolResult, Usage

if TYPE_CHECKING:
    from clew.chat.conversation import Conversation

INTERRUPTED = "The tool was interrupted. Whether it did its work is not known."


class Turn:
    """What a driver, sync or async, does next is what it says: make a request, or run `calls`, while it `goes_on`.

    The conversation grows when something arrived, and always by whole steps: an answer that calls tools goes in
    together with their results. On leaving, what is unfinished is settled: words that arrived stay, and a call that was
    interrupted gets a result that says so.
    """

    def __init__(self, talk: Conversation, question: bytes, schema: Schema | None) -> None:
        self._talk = talk
        self._schema = schema
        self._held = [question]
        """What was said and is not in the conversation yet."""
        self._spent = UsageTotal()
        self._steps = 0
        self._collector: Collector | None = None
        self._answer: Answer | None = None
        self._results: dict[int, ToolResult] = {}
        self._closed = False
        self.reply: Reply | None = None
        """The answer, once there is one."""

    @property
    def goes_on(self) -> bool:
        """True until there is an answer."""
        return self.reply is None

    @property
    def calls(self) -> Sequence[ToolCall]:
        """The tools to run now."""
        return self._answer.calls if self._answer is not None else ()

    def request(self, *, stream: bool) -> Json:
        """The body of the next request. ProviderError after too many steps."""
        talk = self._talk
        if self._steps >= talk.max_steps:
            raise ProviderError(
                talk.provider, f"no answer after {self._steps} steps", hint="Allow more with max_steps, or ask again."
            )
        self._steps += 1
        asked = Asked(
            talk.model, talk.system, [*talk._messages, *self._held], list(talk._tools.tools.values()), talk.max_tokens,
            self._schema,
        )  # fmt: skip
        if stream:
            self._collector = talk._dialect.collect()
        return talk._with_options(talk._dialect.request(asked, stream=stream))

    def whole(self, body: bytes) -> None:
        """Takes a whole response."""
        self._take(self._talk._dialect.answer(body))

    def piece(self, event: Json) -> Iterator[Event]:
        """Takes one event of a streamed response; gives what it adds."""
        assert self._collector is not None
        try:
            yield from self._collector.feed(event)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ProviderError(self._talk.provider, "the answer is not in the provider's form") from error

    def end(self) -> Iterator[Event]:
        """The streamed response has ended. ProviderError if that was before its end."""
        assert self._collector is not None
        answer = self._collector.answer()
        if answer is None:
            raise ProviderError(
                self._talk.provider, "the answer broke off", hint="What arrived is kept; go on from it."
            )
        self._collector = None
        self._take(answer)
        yield from answer.calls

    def ran(self, at: int, result: ToolResult) -> None:
        """Takes the result of the call at `at`. With the last one the step is complete."""
        self._results[at] = result

    def results(self) -> Iterator[Event]:
        """All calls have run: the conversation grows by them and their results."""
        done = self._told()
        self._close_step(done)
        yield from done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Settles what is unfinished, and leaves the conversation to others. Once is enough."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._answer is not None:
                self._close_step(self._told())
            elif self._collector is not None and (arrived := self._collector.arrived()):
                self._grow(arrived)
                self._count(None)
        finally:
            self._talk._end()

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
            self._talk.reply = self.reply

    def _count(self, usage: Usage | None) -> None:
        self._spent = self._spent.plus(usage)
        self._talk._usage = self._talk._usage.plus(usage)

    def _told(self) -> list[ToolResult]:
        """The results of the calls; an async tool may have been cancelled by its own doing, and has none."""
        assert self._answer is not None
        return [self._results.get(at) or _interrupted(call) for at, call in enumerate(self._answer.calls)]

    def _close_step(self, results: list[ToolResult]) -> None:
        assert self._answer is not None
        answer, self._answer = self._answer, None
        self._grow([*answer.messages, *self._talk._dialect.results(answer.calls, results)])

    def _grow(self, messages: list[bytes]) -> None:
        self._talk._messages.extend([*self._held, *messages])
        self._held = []


def _interrupted(call: ToolCall) -> ToolResult:
    return ToolResult(call_id=call.id, content=(Text(text=INTERRUPTED),), is_error=True)
