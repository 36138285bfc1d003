"""Messages as chat applications store or export them."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.claude import messages as claude
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
    modality_of,
    to_json,
)

# Messages in a ChatGPT export.

_CHATGPT_REFERENCE = re.compile("\ue200(?P<kind>\\w+)(?:\ue202(?P<data>[^\ue201]*))?\ue201")
"""What an answer has where the program shows a link to a source, a picture or the name of something."""


def chatgpt_role(data: Json) -> str:
    """The role of the author. A hidden message in the user's name, such as custom instructions, is the program's."""
    author = as_word(as_dict(data.get("author")).get("role"))
    hidden = (
        as_dict(data.get("metadata")).get("is_visually_hidden_from_conversation") is True or data.get("weight") == 0
    )
    return "system" if author == "user" and hidden else author


def chatgpt_media(data: Json) -> Iterator[Media]:
    """The pictures and recordings of a message, of any role."""
    for block in _chatgpt_content(as_dict(data.get("content"))):
        if isinstance(block, Media):
            yield block


def chatgpt_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message. One to a tool is a call, one from a tool is a result."""
    content = as_dict(data.get("content"))
    recipient = as_word(data.get("recipient"))
    author = as_dict(data.get("author"))
    found = list(_chatgpt_content(content))
    if author.get("role") == "tool":
        shown = tuple(block for block in found if isinstance(block, Text | Media | Opaque))
        yield ToolResult(call_id=as_word(author.get("name")), content=shown)
    elif author.get("role") == "assistant" and recipient not in ("", "all"):
        words = "".join(block.text for block in found if isinstance(block, Text))
        yield ToolCall(id=recipient, name=recipient, arguments={"input": words})
    else:
        shown_as = _chatgpt_references(as_dict(data.get("metadata")))
        for block in found:
            yield _chatgpt_resolved(block, shown_as) if isinstance(block, Text) else block


def _chatgpt_references(about: Json) -> dict[str, str]:
    """The Markdown that the program shows for each reference in an answer."""
    return {
        as_word(one.get("matched_text")): as_text(one.get("alt")) or ""
        for one in as_list(about.get("content_references"))
    }


def _chatgpt_resolved(block: Text, shown_as: dict[str, str]) -> Text:
    """A text with its references as the program shows them; without those that it has no words for."""

    def shown(found: re.Match[str]) -> str:
        return shown_as.get(found[0]) or (_chatgpt_entity(found["data"]) if found["kind"] == "entity" else "")

    text = _CHATGPT_REFERENCE.sub(shown, block.text)
    return block if text == block.text else Text(text=text)


def _chatgpt_entity(data: str | None) -> str:
    """The name of something: ``["city","Rome","capital of Italy"]``."""
    try:
        return msgspec.json.decode(data or "", type=list[str])[1]
    except (msgspec.MsgspecError, IndexError):
        return ""


def _chatgpt_content(content: Json) -> Iterator[Block]:
    kind = as_word(content.get("content_type"))
    if kind == "thoughts":
        for thought in as_list(content.get("thoughts")):
            summary, said = as_word(thought.get("summary")), as_word(thought.get("content"))
            yield Thinking(text=f"**{summary}**\n\n{said}" if summary and said else said or summary)
    elif kind == "reasoning_recap":
        yield Thinking(text=as_word(content.get("content")))
    elif isinstance(parts := content.get("parts"), list):
        for part in parts:
            if isinstance(part, str):
                if part:
                    yield Text(text=part)
            elif isinstance(part, dict):
                yield _chatgpt_part(part)
    elif (text := as_text(content.get("text"))) is not None:
        yield Text(text=text)
    elif words := [text for name in _CHATGPT_TEXTS if (text := as_text(content.get(name)))]:
        yield Text(text="\n\n".join(words))
    elif content:
        yield Opaque(kind=kind or "content", data=content)


_CHATGPT_TEXTS = ("user_profile", "user_instructions", "result", "summary", "content")
"""Fields with the words of content that has neither parts nor text: custom instructions, pages that were read."""


def _chatgpt_part(part: Json) -> Block:
    """Text of a transcript, a picture, a recording; the file itself is elsewhere in the export."""
    kind = as_word(part.get("content_type"))
    if isinstance(sound := part.get("audio_asset_pointer"), dict):
        return _chatgpt_part({**sound, "content_type": "audio_asset_pointer"})
    if (text := as_text(part.get("text"))) is not None:
        return Text(text=text)
    if (pointer := as_text(part.get("asset_pointer"))) is not None:
        is_audio = kind.startswith("audio")
        mime = "audio/wav" if is_audio else "image/png"
        return Media(mime_type=mime, modality="audio" if is_audio else "image", url=pointer)
    return Opaque(kind=kind or "part", data=part)


# Messages in a Claude.ai export.


def claude_ai_role(data: Json) -> str:
    """The role of the sender. The instructions of a project are the system's."""
    if "sender" not in data and "docs" in data:
        return "system"
    return "user" if data.get("sender") == "human" else as_word(data.get("sender"))


def claude_ai_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message: its content, or its text where it has none, and the text of its attachments."""
    if "sender" not in data and "docs" in data:
        yield from _claude_ai_project(data)
        return
    found = [
        _claude_ai_voice(block) for block in claude.blocks(data) if not (isinstance(block, Text) and not block.text)
    ]
    if not found and (text := as_text(data.get("text"))):
        found = [Text(text=text)]
    yield from found
    for attachment in as_list(data.get("attachments")):
        if text := as_text(attachment.get("extracted_content")):
            yield Text(text=f"{as_word(attachment.get('file_name'))}\n\n{text}".strip())
    for file in as_list(data.get("files")):
        yield Opaque(kind="file", data=file)


def _claude_ai_voice(block: Block) -> Block:
    """What was said aloud, as text."""
    if isinstance(block, Opaque) and block.kind == "voice_note" and isinstance(block.data, dict):
        words = [text for name in ("title", "text") if (text := as_text(block.data.get(name)))]
        return Text(text="\n\n".join(words)) if words else block
    return block


def _claude_ai_project(data: Json) -> Iterator[Block]:
    for name in ("description", "prompt_template"):
        if text := as_text(data.get(name)):
            yield Text(text=text)
    for document in as_list(data.get("docs")):
        yield Text(text=f"{as_word(document.get('filename'))}\n\n{as_word(document.get('content'))}".strip())


# Messages in an export of LibreChat.


def librechat_role(data: Json) -> str:
    """The role of the sender."""
    return "user" if data.get("isCreatedByUser") is True or data.get("sender") == "User" else "assistant"


def librechat_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message: its content, or its text where it has none, and its files."""
    failed = {"error": True} if data.get("error") is True else None
    parts = as_list(data.get("content"))
    for part in parts:
        yield from _librechat_part(part)
    if not parts and (text := as_text(data.get("text"))):
        yield Text(text=text, extra=failed)
    for file in as_list(data.get("files")):
        yield Opaque(kind="file", data=file)


def _librechat_part(part: Json) -> Iterator[Block]:
    kind = part.get("type")
    inner = part.get(kind) if isinstance(kind, str) else None
    if kind in ("text", "think", "error"):
        text = as_word(inner.get("value")) if isinstance(inner, dict) else as_text(inner) or ""
        if kind == "think":
            yield Thinking(text=text)
        elif text:
            yield Text(text=text, extra={"error": True} if kind == "error" else None)
    elif kind == "tool_call":
        yield from _librechat_call(as_dict(inner))
    else:
        yield Opaque(kind=as_word(kind) or "part", data=part)


def _librechat_call(call: Json) -> Iterator[Block]:
    function = as_dict(call.get("function"))
    id = as_word(call.get("id"))
    given = decoded(call.get("args", function.get("arguments")))
    name = as_text(call.get("name")) or as_word(function.get("name"))
    yield ToolCall(id=id, name=name, arguments=as_arguments(given))
    output = as_text(call.get("output")) or as_text(function.get("output"))
    if output is not None:
        yield ToolResult(call_id=id, content=(Text(text=output),))


# Messages in llm's log: a message with its parts, or one side of an older response.

LLM_REFERENCE = "llm-attachment:"
"""How a message names a file that is in the database."""


def llm_role(data: Json) -> str:
    """The role of a message."""
    side = as_word(data.get("side"))
    return as_word(as_dict(data.get("row")).get("role")) or _LLM_SIDES.get(side, side)


def llm_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message."""
    side = data.get("side")
    row = as_dict(data.get("row"))
    if side is None:
        for part in as_list(data.get("parts")):
            yield from _llm_part(part, data)
        return
    if side == "results":
        for result in as_list(data.get("tool_results")):
            yield _llm_result(result.get("tool_call_id"), result.get("output"), result.get("exception"))
        return
    if side == "response" and (thought := as_text(row.get("reasoning"))):
        yield Thinking(text=thought)
    name = {"system": "system", "prompt": "prompt", "response": "response"}.get(as_word(side), "")
    words = [*_llm_fragments(data), *([text] if (text := as_text(row.get(name))) else [])]
    if words:
        yield Text(text="\n".join(words))
    for attachment in as_list(data.get("attachments")):
        yield _llm_media(attachment)
    for call in as_list(data.get("tool_calls")):
        arguments = as_arguments(_llm_json(call.get("arguments")))
        yield ToolCall(id=as_word(call.get("tool_call_id")), name=as_word(call.get("name")), arguments=arguments)


_LLM_SIDES = {"system": "system", "prompt": "user", "results": "tool", "response": "assistant"}


def _llm_part(part: Json, data: Json) -> Iterator[Block]:
    kind = part.get("type")
    about = as_dict(_llm_json(part.get("payload")))
    text = as_text(part.get("text")) or _llm_join(about, data)
    if kind == "text":
        yield Text(text=text)
    elif kind == "reasoning":
        yield Thinking(text=text, redacted="" if about.get("redacted") is True else None)
    elif kind == "tool_call":
        arguments = as_arguments(about.get("arguments"))
        name = as_word(about.get("name") or part.get("tool_name"))
        yield ToolCall(id=as_word(about.get("tool_call_id")), name=name, arguments=arguments)
    elif kind == "tool_result":
        yield _llm_result(about.get("tool_call_id"), about.get("output"), about.get("exception"))
    elif kind == "attachment":
        named = as_dict(about.get("attachment")).get("id")
        files = [file for file in as_list(data.get("attachments")) if file.get("id") == named]
        yield _llm_media(files[0]) if files else Opaque(kind="attachment", data=about)
    else:
        yield Opaque(kind=as_word(kind), data={**part, "payload": about})


def _llm_join(about: Json, data: Json) -> str:
    """A text that is put together from fragments and pieces of its own."""
    fragments = as_dict(data.get("fragments"))
    pieces = [
        as_word(piece["literal"]) if "literal" in piece else as_word(fragments.get(as_word(piece.get("fragment"))))
        for piece in as_list(about.get("text_ref"))
    ]
    return "".join(pieces)


def _llm_fragments(data: Json) -> list[str]:
    return [text for text in as_dict(data.get("fragments")).values() if isinstance(text, str)]


def _llm_result(call: object, output: object, failed: object) -> ToolResult:
    text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    return ToolResult(call_id=as_word(call), content=(Text(text=text),), is_error=failed is not None)


def _llm_media(file: Json) -> Media:
    mime = as_text(file.get("type")) or UNKNOWN
    url = as_text(file.get("url")) or as_text(file.get("path")) or f"{LLM_REFERENCE}{as_word(file.get('id'))}"
    return Media(mime_type=mime, modality=modality_of(mime), url=url)


def _llm_json(value: object) -> Any:
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.MsgspecError, RecursionError):
        return value


# Messages in LM Studio: one version of a message, with one step or several.


def lm_studio_role(data: Json) -> str:
    """The role of the message."""
    return as_word(data.get("role"))


def lm_studio_blocks(data: Json) -> Iterator[Block]:
    """The blocks of all steps. Status and debug steps only concern the screen."""
    yield from _lm_studio_content(data.get("content"), thinking=False)
    for step in as_list(data.get("steps")):
        kind = step.get("type")
        if kind == "contentBlock":
            yield from _lm_studio_content(
                step.get("content"), thinking=as_dict(step.get("style")).get("type") == "thinking"
            )
        elif kind not in ("toolStatus", "debugInfoBlock"):
            yield Opaque(kind=as_word(kind) or "step", data=step)


def _lm_studio_content(content: object, *, thinking: bool) -> Iterator[Block]:
    for part in as_list(content):
        kind = part.get("type")
        if kind == "text":
            text = as_word(part.get("text"))
            if text:
                yield Thinking(text=text) if thinking else Text(text=text)
        elif kind == "toolCallRequest":
            yield ToolCall(
                id=_lm_studio_call_id(part),
                name=as_word(part.get("name")),
                arguments=as_arguments(part.get("parameters")),
            )
        elif kind == "toolCallResult":
            yield ToolResult(call_id=_lm_studio_call_id(part), content=tuple(_lm_studio_result(part.get("content"))))
        else:
            yield Opaque(kind=as_word(kind) or "part", data=part)


def _lm_studio_call_id(part: Json) -> str:
    found = (part.get(name) for name in ("toolCallRequestId", "toolCallId", "callId"))
    return next((as_word(value) for value in found if value is not None), "")


def _lm_studio_result(content: object) -> Iterator[Text | Media | Opaque]:
    """What a tool gave: text, which may be the JSON of a list of texts."""
    if isinstance(content, str):
        texts = [as_text(one.get("text")) for one in as_list(decoded(content))]
        text = "\n".join(text for text in texts if text) or content
        if text:
            yield Text(text=text)
    elif content is not None:
        yield Text(text=to_json(content))


# Messages in Open WebUI.

_OPEN_WEBUI_DETAILS = re.compile(r'<details type="(reasoning|tool_calls)"([^>]*)>(.*?)</details>', re.DOTALL)
_OPEN_WEBUI_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_OPEN_WEBUI_SUMMARY = re.compile(r"<summary>.*?</summary>", re.DOTALL)
_OPEN_WEBUI_QUOTE = re.compile(r"^> ?", re.MULTILINE)


def open_webui_role(data: Json) -> str:
    """The role of the message."""
    return as_word(data.get("role"))


def open_webui_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message: its text with the parts in it, its files, and what went wrong."""
    content = data.get("content")
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content):
        if isinstance(text := part.get("text"), str):
            yield from _open_webui_text(text)
        else:
            yield _open_webui_file(as_dict(part.get("image_url")) or part)
    for file in as_list(data.get("files")):
        yield _open_webui_file(file)
    error = data.get("error")
    if isinstance(error, dict | str) and error:
        shown = error if isinstance(error, str) else as_text(error.get("content")) or to_json(error)
        yield Text(text=shown, extra={"error": True})


def _open_webui_text(text: str) -> Iterator[Block]:
    at = 0
    for found in _OPEN_WEBUI_DETAILS.finditer(text):
        if before := text[at : found.start()].strip():
            yield Text(text=before)
        at = found.end()
        if found[1] == "reasoning":
            yield Thinking(text=html.unescape(_OPEN_WEBUI_QUOTE.sub("", _OPEN_WEBUI_SUMMARY.sub("", found[3]).strip())))
        else:
            yield from _open_webui_call(dict(_OPEN_WEBUI_ATTRIBUTE.findall(found[2])), found[3])
    rest = text[at:].strip() if at else text
    if rest:
        yield Text(text=rest)


def _open_webui_call(attributes: dict[str, str], inner: str) -> Iterator[Block]:
    id = html.unescape(attributes.get("id", ""))
    arguments = as_arguments(_open_webui_attribute(attributes.get("arguments", "")))
    yield ToolCall(id=id, name=html.unescape(attributes.get("name", "")), arguments=arguments)
    if attributes.get("done") != "false":
        found = (
            _open_webui_attribute(attributes["result"])
            if "result" in attributes
            else _OPEN_WEBUI_SUMMARY.sub("", inner).strip()
        )
        text = "" if found is None else found if isinstance(found, str) else to_json(found)
        yield ToolResult(call_id=id, content=(Text(text=text),) if text else ())


def _open_webui_attribute(value: str) -> object:
    """An attribute that is JSON, or JSON in a JSON text; other text is kept as it is."""
    return decoded(decoded(html.unescape(value)))


def _open_webui_file(file: Json) -> Media | Opaque:
    url = as_text(file.get("url"))
    if url is None or not url.startswith(("data:", "http:", "https:")):
        return Opaque(kind=as_word(file.get("type")) or "file", data=file)
    mime = as_text(file.get("content_type")) or guess_mime(url, "image/png" if file.get("type") == "image" else UNKNOWN)
    return Media(mime_type=mime, modality=modality_of(mime), url=url, name=as_text(file.get("name")))
