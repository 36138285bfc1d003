"""Answers in each provider's protocol: as one body, and as the events of a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from clew.testing.providers import rules
from clew.testing.providers.scripted import Fail, Say, ToolUse

Json = dict[str, Any]
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
    _anthropic, _anthropic_events, _anthropic_error, rules.anthropic,
    lambda asked: rules.words(asked["messages"][-1].get("content")), ("x-api-key", "authorization"),
)  # fmt: skip
COMPLETIONS = Wire(
    _completion, _completion_events, _openai_error, rules.completions,
    lambda asked: rules.words(asked["messages"][-1].get("content")), ("authorization",), ends_with_done=True,
)  # fmt: skip
RESPONSES = Wire(
    _response, _response_events, _openai_error, rules.responses,
    lambda asked: rules.words(asked["input"][-1].get("content")), ("authorization",),
)  # fmt: skip
GEMINI = Wire(
    _gemini, _gemini_events, _gemini_error, rules.gemini,
    lambda asked: rules.words(asked["contents"][-1].get("parts")), ("x-goog-api-key",),
)  # fmt: skip
