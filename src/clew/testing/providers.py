"""A local provider for tests. It implements the wire protocols of Anthropic, OpenAI and Google.

Use its address in a program that calls a model, through the official SDKs or directly::

    with ProviderServer() as server:
        server.say("Rome.", thinking="A capital.")
        client = clew.chat.connect(
            provider="claude", model="a-model", token="a-token",
            base_url=server.base_url("claude"), allow_insecure=True,
        )
        assert client.chat("Where are we going?") == "Rome."
        assert server.requests[0].json["messages"][0]["content"] == "Where are we going?"

It sends the responses queued with `say`, `fail`, `send` and `redirect`, in order; when none is left, it echoes the
request. It refuses requests that the real provider would refuse, with the reason.

=================================  ===========================================================
path                               protocol
=================================  ===========================================================
``/v1/messages``                   Anthropic's messages, whole and as server-sent events
``/v1/chat/completions``           OpenAI's chat completions, likewise
``/v1/responses``                  OpenAI's Responses, likewise
``/v1beta/models/M:method``        Gemini's generateContent and streamGenerateContent
=================================  ===========================================================
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import re
import ssl
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

__all__ = ["Fail", "ProviderServer", "Redirect", "Request", "Say", "Send", "ToolUse", "self_signed"]

Json = dict[str, Any]


class ToolUse(NamedTuple):
    """A tool call of the model."""

    name: str
    arguments: Mapping[str, Any] = {}
    id: str = ""
    """If empty, the server creates one; in Gemini's protocol it sends none."""
    written: str | None = None
    """Text to send instead of the JSON of `arguments`, for example malformed JSON."""


class Say(NamedTuple):
    """An answer: thinking, text and tool calls, in this order."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolUse, ...] = ()
    tokens: tuple[int, int] | None = (10, 5)
    """Input and output tokens; None to omit them."""
    stop: str | None = None
    """The provider's stop reason; None for the usual one."""
    cut: int | None = None
    """Cuts the connection after this many events of a stream; None sends all."""
    ends: int | None = None
    """Ends the stream normally after this many events; None sends all."""
    stalls: int | None = None
    """Sends nothing after this many events, until the server stops; None sends all."""


class Fail(NamedTuple):
    """An error."""

    status: int
    message: str = "it was told to fail"
    retry_after: float | None = None
    kind: str = "api_error"


class Send(NamedTuple):
    """A raw body: a whole response, or the text of a stream."""

    body: bytes
    content_type: str = "application/json"


class Redirect(NamedTuple):
    """A redirect to another address."""

    location: str
    status: int = 307


QueuedResponse = Say | Fail | Send | Redirect


def words(content: Any) -> str:
    """The text of a message's content in any form."""
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content or () if isinstance(part.get("text"), str))


def refuse_anthropic(asked: Json) -> str | None:
    """The first error in a request to Anthropic's Messages API."""
    if not isinstance(asked.get("max_tokens"), int):
        return "max_tokens: Field required"
    messages = asked.get("messages")
    if not messages:
        return "messages: at least one message is required"
    if messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    for at, message in enumerate(messages):
        if set(message) != {"role", "content"}:
            return f"messages.{at}: Extra inputs are not permitted"
        if message["role"] not in ("user", "assistant", "system"):
            return f"messages.{at}: role must be user, assistant or system"
        blocks = message["content"] if isinstance(message["content"], list) else []
        if not message["content"]:
            return f"messages.{at}: content must not be empty"
        if any(block["type"] == "thinking" and not block.get("signature") for block in blocks):
            return f"messages.{at}: thinking.signature: Field required"
        if any(block["type"].startswith("tool_") for block in blocks) and not asked.get("tools"):
            return "Requests which include tool_use or tool_result blocks must define tools"
    open_calls: list[str] = []
    for role, turn in groupby(messages, key=lambda message: message["role"]):  # the API unites them
        blocks = [block for message in turn for block in _blocks(message["content"])]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        first = [block["type"] for block in blocks[: len(results)]]
        if sorted(open_calls) != sorted(results) or set(first) - {"tool_result"}:
            return f"{role}: tool_use ids were found without tool_result blocks immediately after"
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return "tool_use ids were found without tool_result blocks" if open_calls else None


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def refuse_completions(asked: Json) -> str | None:
    """The first error in a request for OpenAI's chat completions."""
    if not asked.get("messages"):
        return "messages is required"
    open_calls: list[str] = []
    for at, message in enumerate(asked["messages"]):
        if message.get("role") not in ("system", "developer", "user", "assistant", "tool"):
            return f"messages[{at}].role is unknown"
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return f"messages[{at}]: a tool message must follow the message with its tool_calls"
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return f"messages[{at}]: tool_calls must be followed by tool messages"
        elif not message.get("content") and not message.get("tool_calls"):
            return f"messages[{at}].content is required"
        open_calls += [call["id"] for call in message.get("tool_calls") or ()]
    return "tool_calls must be followed by tool messages" if open_calls else None


def refuse_responses(asked: Json) -> str | None:
    """The first error in a request to OpenAI's Responses API."""
    if not asked.get("input"):
        return "input is required"
    calls: set[str] = set()
    answered: set[str] = set()
    for at, item in enumerate(asked["input"]):
        kind = item.get("type", "message")
        if kind == "function_call":
            calls.add(item["call_id"])
        elif kind == "function_call_output":
            answered.add(item["call_id"])
        elif kind == "message" and item.get("role") not in ("system", "developer", "user", "assistant"):
            return f"input[{at}].role is unknown"
        elif kind == "reasoning" and asked.get("store") is False and not item.get("encrypted_content"):
            return f"Item with id '{item.get('id')}' not found"
    return None if calls == answered else "No tool output found for function call"


def refuse_gemini(asked: Json) -> str | None:
    """The first error in a request for Gemini's generateContent."""
    contents = asked.get("contents")
    if not contents:
        return "contents is not specified"
    calls = 0
    for content in contents:
        if content.get("role") not in ("user", "model"):
            return "Please use a valid role: user, model."
        if not content.get("parts"):
            return "contents.parts must not be empty"
        if any("functionCall" in part for part in content["parts"]) and not asked.get("tools"):
            return "Function calls need their declarations"
        answers = sum("functionResponse" in part for part in content["parts"])
        if answers != calls:
            return "the number of function response parts must equal the number of function call parts"
        calls = sum("functionCall" in part for part in content["parts"])
    return "a function call needs its response" if calls else None


Events = list[tuple[str, Json]]
"""The name of an event, empty if it has none, and its data."""


class Wire(NamedTuple):
    """One protocol."""

    whole: Callable[[Say, Json], Json]
    events: Callable[[Say, Json], Events]
    error: Callable[[Fail], Json]
    refuses: Callable[[Json], str | None]
    """Why the real provider would refuse a request; None if it would not."""
    last_text: Callable[[Json], str]
    """The last text of the user."""
    token: tuple[str, ...]
    """The headers that may contain the API key."""
    ends_with_done: bool = False


def find(path: str) -> Wire | None:
    """The protocol of a path."""
    if re.fullmatch(r"/v1beta/models/[^/]+:(generateContent|streamGenerateContent)", path):
        return GEMINI
    return {"/v1/messages": ANTHROPIC, "/v1/chat/completions": COMPLETIONS, "/v1/responses": RESPONSES}.get(path)


def _pieces(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def _arguments_json(call: ToolUse) -> str:
    return json.dumps(dict(call.arguments)) if call.written is None else call.written


def _id(call: ToolUse, at: int, prefix: str) -> str:
    return call.id or f"{prefix}_{at}"


# Anthropic


def _anthropic_blocks(say: Say) -> list[Json]:
    blocks: list[Json] = []
    if say.thinking:
        blocks.append({"type": "thinking", "thinking": say.thinking, "signature": "c2lnbmVk"})
    if say.text:
        blocks.append({"type": "text", "text": say.text})
    for at, call in enumerate(say.calls):
        arguments = dict(call.arguments)
        blocks.append({"type": "tool_use", "id": _id(call, at, "toolu"), "name": call.name, "input": arguments})
    return blocks


def _anthropic(say: Say, asked: Json) -> Json:
    stop = say.stop or ("tool_use" if say.calls else "end_turn")
    body: Json = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"],
        "content": _anthropic_blocks(say), "stop_reason": stop, "stop_sequence": None,
    }  # fmt: skip
    if say.tokens is not None:
        body["usage"] = {"input_tokens": say.tokens[0], "output_tokens": say.tokens[1], "cache_read_input_tokens": 0}
    return body


def _anthropic_events(say: Say, asked: Json) -> Events:
    whole = _anthropic(say, asked)
    begun = {**whole, "content": [], "stop_reason": None}
    if "usage" in whole:
        begun["usage"] = {**whole["usage"], "output_tokens": 1}
    found: list[Json] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for at, block in enumerate(whole["content"]):
        deltas: list[Json] = []
        if block["type"] == "text":
            start = {**block, "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        elif block["type"] == "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            start = {**block, "input": {}}
            call = say.calls[at - len(whole["content"])]
            written = _arguments_json(call)
            halves = ("", written[: len(written) // 2], written[len(written) // 2 :])
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
        found.append({"type": "content_block_start", "index": at, "content_block": start})
        found += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", "index": at})
    closing: Json = {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None}}
    closing["usage"] = {"output_tokens": say.tokens[1]} if say.tokens is not None else {}
    return [(event["type"], event) for event in [*found, closing, {"type": "message_stop"}]]


def _anthropic_error(fail: Fail) -> Json:
    return {"type": "error", "error": {"type": fail.kind, "message": fail.message}}


# OpenAI's chat completions


def _completion_message(say: Say) -> Json:
    message: Json = {"role": "assistant", "content": say.text or None, "refusal": None}
    if say.thinking:
        message["reasoning_content"] = say.thinking
    if say.calls:
        message["tool_calls"] = [
            {
                "id": _id(call, at, "call"),
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments_json(call)},
            }
            for at, call in enumerate(say.calls)
        ]
    return message


def _completion_usage(say: Say) -> Json | None:
    if say.tokens is None:
        return None
    prompt, completion = say.tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _completion(say: Say, asked: Json) -> Json:
    stop = say.stop or ("tool_calls" if say.calls else "stop")
    choice = {"index": 0, "message": _completion_message(say), "logprobs": None, "finish_reason": stop}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked["model"], "choices": [choice]}
    return {**body, "usage": used} if (used := _completion_usage(say)) else body


def _completion_events(say: Say, asked: Json) -> Events:
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": asked["model"]}
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(say.thinking)]
    deltas += [{"content": piece} for piece in _pieces(say.text)]
    for at, call in enumerate(_completion_message(say).get("tool_calls", ())):
        written = call["function"]["arguments"]
        opening = {**call, "function": {**call["function"], "arguments": ""}}
        deltas.append({"tool_calls": [{"index": at, **opening}]})
        for half in (written[: len(written) // 2], written[len(written) // 2 :]):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": half}}]})
    chunks = [{**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    stop = say.stop or ("tool_calls" if say.calls else "stop")
    chunks.append({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}]})
    if asked.get("stream_options", {}).get("include_usage") and say.tokens is not None:
        chunks.append({**frame, "choices": [], "usage": _completion_usage(say)})
    return [("", chunk) for chunk in chunks]


def _openai_error(fail: Fail) -> Json:
    return {"error": {"message": fail.message, "type": fail.kind, "param": None, "code": None}}


# OpenAI's Responses


def _items(say: Say) -> list[Json]:
    items: list[Json] = []
    if say.thinking:
        summary = [{"type": "summary_text", "text": say.thinking}]
        items.append({"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "gAAAA"})
    if say.text:
        words = {"type": "output_text", "text": say.text, "annotations": []}
        items.append(
            {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [words]}
        )  # fmt: skip
    for at, call in enumerate(say.calls):
        items.append({
            "id": f"fc_{at}", "type": "function_call", "call_id": _id(call, at, "call"), "name": call.name,
            "arguments": _arguments_json(call), "status": "completed",
        })  # fmt: skip
    return items


def _response(say: Say, asked: Json) -> Json:
    body: Json = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": asked["model"],
        "status": "incomplete" if say.stop else "completed", "error": None,
        "incomplete_details": {"reason": say.stop} if say.stop else None, "output": _items(say),
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }  # fmt: skip
    if say.tokens is not None:
        given, made = say.tokens
        body["usage"] = {
            "input_tokens": given, "output_tokens": made, "total_tokens": given + made,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
        }  # fmt: skip
    return body


def _response_events(say: Say, asked: Json) -> Events:
    whole = _response(say, asked)
    found: list[Json] = [{"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}]
    for at, item in enumerate(whole["output"]):
        place = {"item_id": item["id"], "output_index": at}
        found.append(
            {"type": "response.output_item.added", "output_index": at, "item": {**item, "status": "in_progress"}}
        )
        if item["type"] == "message":
            part = {**place, "content_index": 0, "logprobs": []}
            found += [{"type": "response.output_text.delta", **part, "delta": piece} for piece in _pieces(say.text)]
        elif item["type"] == "reasoning":
            part = {**place, "summary_index": 0}
            kind = "response.reasoning_summary_text.delta"
            found += [{"type": kind, **part, "delta": piece} for piece in _pieces(say.thinking)]
        else:
            found.append({"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]})
        found.append({"type": "response.output_item.done", "output_index": at, "item": item})
    found.append({"type": f"response.{whole['status']}", "response": whole})
    return [(event["type"], {**event, "sequence_number": number}) for number, event in enumerate(found)]


# Gemini


def _parts(say: Say) -> list[Json]:
    parts: list[Json] = []
    if say.thinking:
        parts.append({"text": say.thinking, "thought": True})
    if say.text:
        parts.append({"text": say.text})
    for call in say.calls:
        made: Json = {"name": call.name, "args": dict(call.arguments)}
        signed = {} if parts and "functionCall" in parts[-1] else {"thoughtSignature": "c2ln/25lZA=="}
        parts.append({"functionCall": {"id": call.id, **made} if call.id else made, **signed})
    return parts


def _gemini_chunk(say: Say, parts: list[Json], stop: str | None) -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
    body: Json = {"candidates": [{**candidate, "finishReason": stop} if stop else candidate], "modelVersion": "a-model"}
    if say.tokens is not None:
        given, made = say.tokens
        counts = {"promptTokenCount": given, "candidatesTokenCount": made, "totalTokenCount": given + made}
        body["usageMetadata"] = counts
    return body


def _gemini(say: Say, asked: Json) -> Json:
    return _gemini_chunk(say, _parts(say), say.stop or "STOP")


def _gemini_events(say: Say, asked: Json) -> Events:
    pieces: list[Json] = []
    for part in _parts(say):
        words = _pieces(part["text"]) if "text" in part else []
        pieces += [{**part, "text": piece} for piece in words] or [part]
    chunks = [_gemini_chunk(say, [piece], None) for piece in pieces[:-1]]
    return [("", chunk) for chunk in [*chunks, _gemini_chunk(say, pieces[-1:], say.stop or "STOP")]]


def _gemini_error(fail: Fail) -> Json:
    return {"error": {"code": fail.status, "message": fail.message, "status": fail.kind.upper()}}


ANTHROPIC = Wire(
    _anthropic, _anthropic_events, _anthropic_error, refuse_anthropic,
    lambda asked: words(asked["messages"][-1].get("content")), ("x-api-key", "authorization"),
)  # fmt: skip
COMPLETIONS = Wire(
    _completion, _completion_events, _openai_error, refuse_completions,
    lambda asked: words(asked["messages"][-1].get("content")), ("authorization",), ends_with_done=True,
)  # fmt: skip
RESPONSES = Wire(
    _response, _response_events, _openai_error, refuse_responses,
    lambda asked: words(asked["input"][-1].get("content")), ("authorization",),
)  # fmt: skip
GEMINI = Wire(
    _gemini, _gemini_events, _gemini_error, refuse_gemini,
    lambda asked: words(asked["contents"][-1].get("parts")), ("x-goog-api-key",),
)  # fmt: skip


class Request(NamedTuple):
    """A request that the server received."""

    path: str
    headers: dict[str, str]
    """By their names in lowercase."""
    body: bytes

    @property
    def json(self) -> Json:
        """The decoded body."""
        found: Json = json.loads(self.body)
        return found


class ProviderServer:
    """A context manager that runs a provider on a free local port. `certificate` and `key` enable https."""

    def __init__(self, *, certificate: Path | None = None, key: Path | None = None) -> None:
        self.requests: list[Request] = []
        """The requests in order, including refused and failed ones."""
        self.left = threading.Event()
        """Set when the server stops."""
        self._queue: deque[QueuedResponse] = deque()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def base_url(self, provider: str) -> str:
        """The base URL of a provider, for `clew.chat.connect`."""
        return f"{self.url}/v1" if provider.startswith("openai") else self.url

    def say(
        self,
        text: str = "",
        *,
        thinking: str = "",
        calls: tuple[ToolUse, ...] | list[ToolUse] = (),
        tokens: tuple[int, int] | None = (10, 5),
        stop: str | None = None,
        cut: int | None = None,
        ends: int | None = None,
        stalls: int | None = None,
    ) -> None:
        """Queues an answer: thinking, text, tool calls. See `Say`."""
        self._queue.append(Say(text, thinking, tuple(calls), tokens, stop, cut, ends, stalls))

    def fail(self, status: int, message: str = "it was told to fail", *, retry_after: float | None = None) -> None:
        """Queues an error with this status."""
        kind = {429: "rate_limit_error", 529: "overloaded_error"}.get(status, "api_error")
        self._queue.append(Fail(status, message, retry_after, kind))

    def send(self, body: bytes, content_type: str = "application/json") -> None:
        """Queues a response with these bytes."""
        self._queue.append(Send(body, content_type))

    def redirect(self, location: str, status: int = 307) -> None:
        """Queues a redirect to this address."""
        self._queue.append(Redirect(location, status))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.left.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: Request, wire: Wire) -> QueuedResponse:
        """The response to a request: a refusal, a queued response, or an echo."""
        if not any(request.headers.get(name) for name in wire.token):
            return Fail(401, "a token is required", kind="authentication_error")
        asked = request.json
        if (why := wire.refuses(asked)) is not None:
            return Fail(400, why, kind="invalid_request_error")
        return self._queue.popleft() if self._queue else Say(f"You said: {wire.last_text(asked)}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: ProviderServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # send each piece at once, without waiting for an acknowledgement
    server: _Server

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, body)
        self.server.owner.requests.append(request)
        wire = find(url.path)
        if wire is None:
            self._whole(404, b'{"error":{"message":"no such path"}}')
            return
        response = self.server.owner.answer(request, wire)
        with suppress(ConnectionError):
            self._send_response(response, wire, request)

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing."""

    def _send_response(self, response: QueuedResponse, wire: Wire, request: Request) -> None:
        if isinstance(response, Fail):
            retry = {} if response.retry_after is None else {"retry-after": str(response.retry_after)}
            self._whole(response.status, json.dumps(wire.error(response)).encode(), headers=retry)
        elif isinstance(response, Redirect):
            self._whole(response.status, b"", headers={"location": response.location})
        elif isinstance(response, Send):
            self._whole(200, response.body, response.content_type)
        elif request.json.get("stream") or ":streamGenerateContent" in request.path:
            self._stream(response, wire.events(response, self._with_model(request)), done=wire.ends_with_done)
        else:
            self._whole(200, json.dumps(wire.whole(response, self._with_model(request))).encode())

    def _with_model(self, request: Request) -> Json:
        return {"model": "a-model", **request.json}

    def _whole(
        self, status: int, body: bytes, kind: str = "application/json", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, say: Say, events: Events, *, done: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        limits = [limit for limit in (say.cut, say.ends, say.stalls) if limit is not None]
        for name, data in events[: min(limits, default=len(events))]:
            self._chunk((f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n")
        if say.stalls is not None:
            self.server.owner.left.wait()
        if say.cut is not None:
            self.close_connection = True  # before the chunk that ends the stream
            return
        if done and say.ends is None:
            self._chunk("data: [DONE]\n\n")
        self._chunk("")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


def self_signed(directory: Path) -> tuple[Path, Path]:
    """A certificate for this machine and its key, made in `directory`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = directory / "certificate.pem", directory / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private
