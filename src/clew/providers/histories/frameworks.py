"""Messages as agent frameworks and traces of them store them."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.gemini import messages as gemini
from clew.providers.json_values import (
    UNKNOWN,
    Json,
    as_arguments,
    as_dict,
    as_list,
    as_text,
    as_word,
    decoded,
    guess_mime,
    inline_media,
    modality_of,
    to_json,
)
from clew.providers.openai import messages as openai

# Messages of Microsoft's Agent Framework.


def agent_framework_blocks(data: Json) -> Iterator[Block]:
    """One block for each content except usage."""
    for part in as_list(data.get("contents")):
        kind = as_word(part.get("type"))
        if kind == "function_call":
            id, name = as_word(part.get("call_id")), as_word(part.get("name"))
            yield ToolCall(id=id, name=name, arguments=as_arguments(decoded(part.get("arguments"))))
        elif kind == "function_result":
            content = tuple(
                _agent_framework_shown(one) for one in as_list(part.get("items"))
            ) or _agent_framework_value(part.get("result"))
            failed = part.get("exception") is not None
            yield ToolResult(call_id=as_word(part.get("call_id")), content=content, is_error=failed)
        elif kind == "text_reasoning":
            yield Thinking(text=as_word(part.get("text")), redacted=as_text(part.get("protected_data")))
        elif kind != "usage":
            yield _agent_framework_shown(part)


def _agent_framework_value(result: object) -> tuple[Text, ...]:
    if result is None:
        return ()
    return (Text(text=result if isinstance(result, str) else to_json(result)),)


def _agent_framework_shown(part: Json) -> Text | Media | Opaque:
    text, url = as_text(part.get("text")), as_text(part.get("uri"))
    if text is not None:
        return Text(text=text)
    if url is not None:
        mime = as_text(part.get("media_type")) or guess_mime(url)
        return Media(mime_type=mime, modality=modality_of(mime), url=url)
    return Opaque(kind=as_word(part.get("type")) or "content", data=part)


# Chainlit's steps and elements: ``{"step": …}``, or ``{"element": …, "role": …}``.

_CHAINLIT_MESSAGE = "_message"


def chainlit_role(data: Json) -> str:
    """The role of the author. A step that is not a message is what the assistant has called."""
    kind = as_word(as_dict(data.get("step")).get("type"))
    return (
        kind.removesuffix(_CHAINLIT_MESSAGE)
        if kind.endswith(_CHAINLIT_MESSAGE)
        else as_text(data.get("role")) or "assistant"
    )


def chainlit_blocks(data: Json) -> Iterator[Block]:
    """The text of a message; the call and the result of another step; the file of an element that has an address."""
    step, element = as_dict(data.get("step")), as_dict(data.get("element"))
    output = as_word(step.get("output"))
    if url := as_text(element.get("url")):
        mime = as_text(element.get("mime")) or UNKNOWN
        yield Media(mime_type=mime, modality=modality_of(mime), url=url, name=as_text(element.get("name")))
    elif as_word(step.get("type")).endswith(_CHAINLIT_MESSAGE):
        if output:
            yield Text(text=output)
    elif step:
        id, failed = as_word(step.get("id")), step.get("isError") is True
        yield ToolCall(id=id, name=as_word(step.get("name")), arguments=as_arguments(decoded(step.get("input"))))
        yield ToolResult(call_id=id, content=(Text(text=output),) if output else (), is_error=failed)


# Events of Google's Agent Development Kit (ADK).


def google_adk_role(data: Json) -> str:
    """The role: `user`, `assistant` for every agent, or `system` for an event without content."""
    if not as_dict(data.get("content")).get("parts") and as_text(data.get("error_message")) is None:
        return "system"
    return "user" if data.get("author") == "user" else "assistant"


def google_adk_blocks(data: Json) -> Iterator[Block]:
    """The parts of the content, then an error. An event that only changes the state is one opaque block."""
    found = list(gemini.blocks(as_dict(data.get("content"))))
    if (error := as_text(data.get("error_message"))) is not None:
        found.append(Text(text=error))
    yield from found or [Opaque(kind="actions", data=as_dict(data.get("actions")))]


# Messages in session traces of Hugging Face: OpenAI's messages with other names.

_HF_TRACES_NAMES = {"reasoningContent": "reasoning_content", "toolCalls": "tool_calls", "toolCallId": "tool_call_id"}


def hf_traces_role(data: Json) -> str:
    """The role of the message."""
    return as_word(data.get("role"))


def hf_traces_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message; empty text is left out."""
    renamed = {_HF_TRACES_NAMES.get(name, name): value for name, value in data.items() if name != "type"}
    yield from (block for block in openai.blocks(renamed) if not (isinstance(block, Text) and not block.text))


# LangChain's messages, as LangGraph's threads have them.

_LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "HumanMessageChunk": "user"}


def langchain_role(data: Json) -> str:
    """The role of a message, from its type, or from the role of a plain dict."""
    kind = as_word(data.get("type"))
    if kind == "chat":
        kind = as_word(as_dict(data.get("data")).get("role"))
    return _LANGCHAIN_ROLES.get(kind, kind) or as_word(data.get("role"))


def langchain_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message: its content, then its tool calls. The content of a tool's message is a result."""
    fields = as_dict(data.get("data")) if "data" in data else data
    found = list(_langchain_content(fields.get("content")))
    if langchain_role(data) == "tool":
        shown = tuple(block for block in found if isinstance(block, Text | Media | Opaque))
        failed = fields.get("status") == "error"
        yield ToolResult(call_id=as_word(fields.get("tool_call_id")), content=shown, is_error=failed)
        return
    yield from found
    for call in as_list(fields.get("tool_calls")):
        function = as_dict(call.get("function"))
        arguments = call.get("args", function.get("arguments"))
        given = arguments if isinstance(arguments, dict) else {"input": arguments}
        name = as_word(call.get("name") or function.get("name"))
        yield ToolCall(id=as_word(call.get("id")), name=name, arguments=given)


def _langchain_content(content: object) -> Iterator[Block]:
    if isinstance(content, str):
        if content:
            yield Text(text=content)
        return
    for part in content if isinstance(content, list) else []:
        if isinstance(part, str):
            yield Text(text=part)
        elif isinstance(part, dict):
            kind = as_word(part.get("type"))
            if (text := as_text(part.get("text"))) is not None:
                yield Text(text=text)
            elif kind in ("thinking", "reasoning"):
                yield Thinking(text=as_word(part.get("thinking") or part.get("reasoning")))
            elif kind == "image_url":
                image = part.get("image_url")
                url = as_word(as_dict(image).get("url") if isinstance(image, dict) else image)
                yield Media(mime_type="image/*", modality="image", url=url)
            elif kind != "tool_use":  # `tool_calls` has it
                yield Opaque(kind=kind or "part", data=part)


# LlamaIndex's chat messages.

_LLAMA_INDEX_FILES = {
    "image": ("image", "image_mimetype"),
    "audio": ("audio", "format"),
    "video": ("video", "video_mimetype"),
    "document": ("data", "document_mimetype"),
}
"""Kinds of blocks with a file: the fields that have its bytes, and its type."""


def llama_index_role(data: Json) -> str:
    """The role of a message; `chatbot` means the assistant."""
    name = as_word(data.get("role"))
    return "assistant" if name == "chatbot" else name


def llama_index_blocks(data: Json) -> Iterator[Block]:
    """One block for each part, then tool calls of older versions. The content of a tool's message is a result."""
    about = as_dict(data.get("additional_kwargs"))
    found = [block for part in as_list(data.get("blocks")) if (block := _llama_index_block(part)) is not None]
    if data.get("role") in ("tool", "function"):
        shown = tuple(block for block in found if isinstance(block, Text | Media | Opaque))
        yield ToolResult(call_id=as_word(about.get("tool_call_id")), content=shown)
        return
    yield from found
    if not any(isinstance(block, ToolCall) for block in found):
        for call in as_list(about.get("tool_calls")):
            function = as_dict(call.get("function"))
            name = as_word(function.get("name") or call.get("name"))
            yield ToolCall(
                id=as_word(call.get("id")), name=name, arguments=as_arguments(decoded(function.get("arguments")))
            )


def _llama_index_block(part: Json) -> Block | None:
    kind = as_word(part.get("block_type"))
    if (text := as_text(part.get("text"))) is not None:
        return Text(text=text) if text else None
    if kind == "tool_call":
        id, name = as_word(part.get("tool_call_id")), as_word(part.get("tool_name"))
        return ToolCall(id=id, name=name, arguments=as_arguments(decoded(part.get("tool_kwargs"))))
    if kind == "thinking":
        return Thinking(text=as_word(part.get("content")))
    if kind in _LLAMA_INDEX_FILES:
        bytes, mime = (as_text(part.get(field)) for field in _LLAMA_INDEX_FILES[kind])
        if bytes:
            return inline_media(mime or f"{kind}/*", bytes)
        if url := as_text(part.get("url")) or as_text(part.get("path")):
            mime = mime or guess_mime(url)
            return Media(mime_type=mime, modality=modality_of(mime), url=url)
    return Opaque(kind=kind or "block", data=part)


# Messages in OpenTelemetry's conventions for generative AI.


def otel_role(data: Json) -> str:
    """The role of the message."""
    return as_word(data.get("role"))


def otel_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message's parts."""
    for part in as_list(data.get("parts")):
        kind = part.get("type")
        if kind == "text":
            yield Text(text=as_word(part.get("content")))
        elif kind == "reasoning":
            yield Thinking(text=as_word(part.get("content")))
        elif kind == "tool_call":
            yield ToolCall(
                id=as_word(part.get("id")),
                name=as_word(part.get("name")),
                arguments=as_arguments(decoded(part.get("arguments"))),
            )
        elif kind == "tool_call_response":
            yield _otel_response(part)
        elif kind == "blob" and isinstance(content := part.get("content"), str):
            yield inline_media(as_text(part.get("mime_type")) or UNKNOWN, content)
        elif kind == "uri" and isinstance(uri := part.get("uri"), str):
            mime = as_text(part.get("mime_type")) or UNKNOWN
            yield Media(mime_type=mime, modality=modality_of(mime), url=uri)
        else:
            yield Opaque(kind=as_word(kind) or "part", data=part)


def _otel_response(part: Json) -> ToolResult:
    given = part.get("response", part.get("result"))
    text = given if isinstance(given, str) else "" if given is None else to_json(given)
    return ToolResult(call_id=as_word(part.get("id")), content=(Text(text=text),) if text else ())


# Pydantic AI's messages: requests and responses with parts.


def pydantic_ai_role(data: Json) -> str:
    """A response is the assistant's. A request is the user's, or the system's if it has nothing but instructions."""
    if data.get("kind") == "response":
        return "assistant"
    kinds = {part.get("part_kind") for part in as_list(data.get("parts"))}
    return "system" if kinds == {"system-prompt"} else "user"


def pydantic_ai_blocks(data: Json) -> Iterator[Block]:
    """One block for each part; a prompt of several pieces has one for each piece."""
    for part in as_list(data.get("parts")):
        kind = as_word(part.get("part_kind"))
        if kind == "tool-call":
            arguments = part.get("args")
            given = arguments if isinstance(arguments, dict) else {"input": arguments} if arguments else {}
            yield ToolCall(id=as_word(part.get("tool_call_id")), name=as_word(part.get("tool_name")), arguments=given)
        elif kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name") is not None):
            content = part.get("content")
            text = content if isinstance(content, str) else to_json(content)
            failed = kind == "retry-prompt"
            yield ToolResult(call_id=as_word(part.get("tool_call_id")), content=(Text(text=text),), is_error=failed)
        elif kind == "thinking":
            yield Thinking(text=as_word(part.get("content")), signature=as_text(part.get("signature")))
        else:
            yield from _pydantic_ai_content(kind, part.get("content"), part)


def _pydantic_ai_content(kind: str, content: object, part: Json) -> Iterator[Block]:
    if isinstance(content, str):
        if content:
            yield Text(text=content)
    elif isinstance(content, list):
        for piece in content:
            if isinstance(piece, str):
                yield Text(text=piece)
            elif isinstance(piece, dict) and (url := as_text(piece.get("url"))) is not None:
                mime = as_text(piece.get("media_type")) or guess_mime(url)
                yield Media(mime_type=mime, modality=modality_of(mime), url=url)
            else:
                yield Opaque(kind=as_word(piece.get("kind")) if isinstance(piece, dict) else kind, data=piece)
    else:
        yield Opaque(kind=kind or "part", data=part)


# Messages of Strands Agents: those of Amazon Bedrock, alone or in a stored record.


def strands_role(data: Json) -> str:
    """The role of a message."""
    return as_word(_strands_message(data).get("role"))


def strands_blocks(data: Json) -> Iterator[Block]:
    """One block for each part of the content."""
    for part in as_list(_strands_message(data).get("content")):
        yield from _strands_block(part)


def _strands_message(data: Json) -> Json:
    """The message of a record; the new one if a guardrail replaced it."""
    return as_dict(data.get("redact_message")) or as_dict(data.get("message")) or data


def _strands_block(part: Json) -> Iterator[Block]:
    if (text := as_text(part.get("text"))) is not None:
        yield Text(text=text)
    elif call := as_dict(part.get("toolUse")):
        id, name = as_word(call.get("toolUseId")), as_word(call.get("name"))
        yield ToolCall(id=id, name=name, arguments=as_arguments(call.get("input")))
    elif result := as_dict(part.get("toolResult")):
        content = tuple(_strands_result(one) for one in as_list(result.get("content")))
        failed = result.get("status") == "error"
        yield ToolResult(call_id=as_word(result.get("toolUseId")), content=content, is_error=failed)
    elif thought := as_dict(part.get("reasoningContent")):
        words = as_dict(thought.get("reasoningText"))
        yield Thinking(text=as_word(words.get("text")), signature=as_text(words.get("signature")))
    elif part:
        yield _strands_media(part) or Opaque(kind=next(iter(part)), data=part)


def _strands_result(part: Json) -> Text | Media | Opaque:
    if (text := as_text(part.get("text"))) is not None:
        return Text(text=text)
    if "json" in part:
        return Text(text=to_json(part["json"]))
    return _strands_media(part) or Opaque(kind=next(iter(part), "part"), data=part)


_STRANDS_TYPES = {"image": "image/", "video": "video/", "document": "application/"}


def _strands_media(part: Json) -> Media | None:
    """An image, video or document whose bytes are in the message."""
    for kind, prefix in _STRANDS_TYPES.items():
        if about := as_dict(part.get(kind)):
            data = as_dict(as_dict(about.get("source")).get("bytes")).get("data")
            if isinstance(data, str):
                return inline_media(prefix + as_word(about.get("format")), data)
    return None
