"""Requests that the real providers refuse, as far as a client of clew could send them."""

from __future__ import annotations

from itertools import groupby
from typing import Any

Json = dict[str, Any]


def words(content: Any) -> str:
    """The text of a message's content in any form."""
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content or () if isinstance(part.get("text"), str))


def anthropic(asked: Json) -> str | None:
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


def completions(asked: Json) -> str | None:
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


def responses(asked: Json) -> str | None:
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


def gemini(asked: Json) -> str | None:
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
