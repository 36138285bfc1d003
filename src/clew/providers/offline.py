"""An assistant in this process, for tests and trials: no network, no key, and always the same answers.

It echoes its input. ``/name {"argument": 1}`` calls the tool of that name, and its result is the answer. If the answer
has to be JSON, the input is the answer. Tokens are words.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator
from typing import Any

from clew.providers.json_values import Json
from clew.providers.openai import requests
from clew.providers.transport import Endpoint
from clew.providers.wire import dump

MODEL = "offline"
_COMMAND = re.compile(r"/([a-zA-Z0-9_-]{1,64})(?:\s+(\{.*\}))?\s*", re.DOTALL)


class OfflineTransport:
    """Answers requests for chat completions."""

    def __init__(self, to: Endpoint) -> None:
        pass

    def send(self, body: Json) -> bytes:
        message, reason = _reply(body)
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return dump({"object": "chat.completion", "model": MODEL, "choices": [choice], "usage": _usage(body, message)})

    def stream(self, body: Json) -> Generator[Json, None, None]:
        message, reason = _reply(body)
        calls = [{"index": at, **call} for at, call in enumerate(message.get("tool_calls", ()))]
        for words in re.findall(r"\s*\S+|\s+$", message["content"] or ""):
            yield _chunk({"content": words})
        if calls:
            yield _chunk({"tool_calls": calls})
        yield {**_chunk({}, reason), "usage": _usage(body, message)}

    def close(self) -> None:
        pass


class AsyncOfflineTransport:
    """Answers requests for chat completions."""

    def __init__(self, to: Endpoint) -> None:
        self._sync = OfflineTransport(to)

    async def send(self, body: Json) -> bytes:
        return self._sync.send(body)

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        for event in self._sync.stream(body):
            yield event

    async def close(self) -> None:
        pass


connect = OfflineTransport
connect_async = AsyncOfflineTransport
wire_format = requests.wire_format


def _reply(body: Json) -> tuple[Json, str]:
    last = body["messages"][-1]
    text = _text(last.get("content"))
    if last.get("role") == "tool":
        return _words(f"The tool says: {text}"), "stop"
    if "response_format" in body:
        return _words(text), "stop"
    command = _COMMAND.fullmatch(text)
    known = [tool["function"]["name"] for tool in body.get("tools", ())]
    if command is None or command[1] not in known:
        return _words(f"You said: {text}"), "stop"
    call = {"name": command[1], "arguments": command[2] or "{}"}
    number = sum("tool_calls" in message for message in body["messages"])
    calls = [{"id": f"call_{number}", "type": "function", "function": call}]
    return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"


def _words(text: str) -> Json:
    return {"role": "assistant", "content": text}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in content or () if isinstance(part, dict) and "text" in part)


def _chunk(delta: Json, reason: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"object": "chat.completion.chunk", "model": MODEL, "choices": [choice]}


def _usage(body: Json, message: Json) -> Json:
    words = sum(len(_text(one.get("content")).split()) for one in body["messages"])
    return {"prompt_tokens": words, "completion_tokens": len(_text(message["content"]).split())}
