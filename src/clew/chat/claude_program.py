"""Claude through the installed `claude` program, as a subprocess with its own login and tools.

The program does not expose its conversation, so this client has no `save` and `restore`, and
`isinstance(client, PersistentChatClient)` is False.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from clew.base.messages import Message, Text, Thinking, Usage, assistant, user
from clew.chat.client import answer_schema, decode_answer
from clew.chat.protocols import Event, Prompt, Reply, Tools, UsageTotal
from clew.errors import Invalid
from clew.providers.errors import ProviderError
from clew.providers.json_values import Json
from clew.providers.view import integer
from clew.providers.wire import count

T = TypeVar("T")
PROVIDER = "claude-local"


class ClaudeLocal:
    """A conversation with the `claude` program. It streams; it cannot be saved."""

    def __init__(
        self,
        *,
        model: str = "",
        system: str = "",
        tools: Tools = (),
        timeout: float | None = None,
        program: str = "claude",
    ) -> None:
        self.provider = PROVIDER
        self.model = model
        self.system = system
        self.reply: Reply | None = None
        """The last answer."""
        self._program = program
        self._timeout = timeout
        self._session: str | None = None
        """The program's id of the conversation."""
        self._added: list[str] = []
        self._history: list[Message] = []
        self._usage = UsageTotal()
        self.set_tools(tools)

    @property
    def usage(self) -> UsageTotal:
        """The tokens of its answers so far, as the program counts them."""
        return self._usage

    @property
    def history(self) -> Sequence[Message]:
        """The questions and answers of this client, without the program's intermediate steps."""
        return tuple(self._history)

    def add(self, prompt: Prompt) -> None:
        """Adds a message, which is sent together with the next question: the program accepts no message alone."""
        self._added.append(_words(prompt))

    def set_tools(self, tools: Tools) -> None:
        """Invalid unless `tools` is empty: the program uses only its own tools."""
        if list(tools):
            raise Invalid(f"{PROVIDER} runs its own tools", hint="Use provider='claude' for your own tools.")

    def chat(self, prompt: Prompt) -> str:
        """Sends `prompt` and returns the answer. ProviderError."""
        question = _words(prompt)
        try:
            done = subprocess.run(
                self._command("json"),
                input=self._input(question),
                capture_output=True,
                timeout=self._timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _late() from error
        except OSError as error:
            raise self._start_error(error) from error
        return self._take(question, _json(done.stdout), done.returncode).text

    def ask(self, question: Prompt, into: type[T]) -> T:
        """Adds the schema of `into` to the prompt; returns a value of that type. ProviderError if it does not fit."""
        schema = answer_schema(into)
        asked = _words(question)
        if schema is not None:
            asked += f"\n\nAnswer with JSON alone, of this JSON Schema:\n{json.dumps(schema)}"
        return decode_answer(PROVIDER, self.chat(asked), into)

    def stream(self, prompt: Prompt) -> Generator[Event, None, None]:
        """The answer in pieces, and at the end a `Reply`. If the caller stops early, the program ends."""
        question = _words(prompt)
        command = [*self._command("stream-json"), "--verbose", "--include-partial-messages"]
        try:
            running = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )  # fmt: skip
        except OSError as error:
            raise self._start_error(error) from error
        with running, _until(self._timeout, running) as late:
            try:
                assert running.stdin is not None
                assert running.stdout is not None
                with suppress(BrokenPipeError), running.stdin:  # it may end before it reads
                    running.stdin.write(self._input(question))
                result: Json = {}
                for line in running.stdout:
                    event = _json(line)
                    if event.get("type") == "result":
                        result = event
                    yield from _pieces(event)
                code = running.wait()
            finally:
                running.kill()
        if late.is_set():
            raise _late()
        yield self._take(question, result, code)

    def _command(self, form: str) -> list[str]:
        command = [self._program, "--print", "--output-format", form]
        if self.model:
            command += ["--model", self.model]
        if self.system:
            command += ["--system-prompt", self.system]
        return [*command, "--resume", self._session] if self._session else command

    def _input(self, question: str) -> bytes:
        return "\n\n".join([*self._added, question]).encode()

    def _take(self, question: str, result: Json, code: int) -> Reply:
        text = result.get("result")
        if code != 0 or result.get("is_error") or not isinstance(text, str):
            raise ProviderError(PROVIDER, f"the program failed (exit code {code})", hint="Run it by hand to see why.")
        used = result.get("usage")
        usage = Usage(
            input=count(used, "input_tokens"),
            output=count(used, "output_tokens"),
            cached=count(used, "cache_read_input_tokens"),
            cache_write=count(used, "cache_creation_input_tokens"),
        )
        self._session = result.get("session_id") or self._session
        self._history += [*(user(words) for words in self._added), user(question), assistant(text)]
        self._added = []
        self._usage = self._usage.plus(usage if used else None)
        self.reply = Reply(text=text, stop=result.get("subtype"), usage=usage if used else None)
        return self.reply

    def _start_error(self, error: OSError) -> ProviderError:
        return ProviderError(PROVIDER, f"the program does not run ({error.strerror})", hint="Is it installed?")


@contextmanager
def _until(timeout: float | None, running: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """Kills a program after this many seconds, and sets the event."""
    late = threading.Event()

    def end() -> None:
        late.set()
        running.kill()

    timer = None if timeout is None else threading.Timer(timeout, end)
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield late
    finally:
        if timer is not None:
            timer.cancel()


def _late() -> ProviderError:
    return ProviderError(PROVIDER, "no answer came in time", hint="Try again, or allow it more with timeout.")


def _words(prompt: Prompt) -> str:
    if not isinstance(prompt, str) or not prompt:
        raise Invalid(f"a prompt for {PROVIDER} is text, and not empty")
    return prompt


def _pieces(event: Json) -> Iterator[Text | Thinking]:
    delta = (event.get("event") or {}).get("delta") or {}
    if delta.get("type") == "text_delta":
        yield Text(text=delta["text"])
    elif delta.get("type") == "thinking_delta":
        yield Thinking(text=delta["thinking"])


def _json(line: bytes) -> Any:
    try:
        found = json.loads(line, parse_int=integer)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
