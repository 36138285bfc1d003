"""The queued responses, in each provider's protocol: as one body and as events; and requests that providers refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

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
