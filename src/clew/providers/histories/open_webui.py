"""The neutral view of messages in Open WebUI.

Reasoning and tool calls are HTML in the text: ``<details type="reasoning">`` and ``<details type="tool_calls" …>``.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
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

_DETAILS = re.compile(r'<details type="(reasoning|tool_calls)"([^>]*)>(.*?)</details>', re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_SUMMARY = re.compile(r"<summary>.*?</summary>", re.DOTALL)
_QUOTE = re.compile(r"^> ?", re.MULTILINE)


def role(data: Json) -> str:
    """The role of the message."""
    return as_word(data.get("role"))


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message: its text with the parts in it, its files, and what went wrong."""
    content = data.get("content")
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content):
        if isinstance(text := part.get("text"), str):
            yield from _text(text)
        else:
            yield _file(as_dict(part.get("image_url")) or part)
    for file in as_list(data.get("files")):
        yield _file(file)
    error = data.get("error")
    if isinstance(error, dict | str) and error:
        shown = error if isinstance(error, str) else as_text(error.get("content")) or to_json(error)
        yield Text(text=shown, extra={"error": True})


def _text(text: str) -> Iterator[Block]:
    at = 0
    for found in _DETAILS.finditer(text):
        if before := text[at : found.start()].strip():
            yield Text(text=before)
        at = found.end()
        if found[1] == "reasoning":
            yield Thinking(text=html.unescape(_QUOTE.sub("", _SUMMARY.sub("", found[3]).strip())))
        else:
            yield from _call(dict(_ATTRIBUTE.findall(found[2])), found[3])
    rest = text[at:].strip() if at else text
    if rest:
        yield Text(text=rest)


def _call(attributes: dict[str, str], inner: str) -> Iterator[Block]:
    id = html.unescape(attributes.get("id", ""))
    arguments = as_arguments(_attribute(attributes.get("arguments", "")))
    yield ToolCall(id=id, name=html.unescape(attributes.get("name", "")), arguments=arguments)
    if attributes.get("done") != "false":
        found = _attribute(attributes["result"]) if "result" in attributes else _SUMMARY.sub("", inner).strip()
        text = "" if found is None else found if isinstance(found, str) else to_json(found)
        yield ToolResult(call_id=id, content=(Text(text=text),) if text else ())


def _attribute(value: str) -> object:
    """An attribute that is JSON, or JSON in a JSON text; other text is kept as it is."""
    return decoded(decoded(html.unescape(value)))


def _file(file: Json) -> Media | Opaque:
    url = as_text(file.get("url"))
    if url is None or not url.startswith(("data:", "http:", "https:")):
        return Opaque(kind=as_word(file.get("type")) or "file", data=file)
    mime = as_text(file.get("content_type")) or guess_mime(url, "image/png" if file.get("type") == "image" else UNKNOWN)
    return Media(mime_type=mime, modality=modality_of(mime), url=url, name=as_text(file.get("name")))
