"""Cline, Roo Code and Kilo Code: ``tasks/<id>/api_conversation_history.json`` in the storage of the extension, and
``~/.cline/data/sessions/<id>/<id>.messages.json`` of Cline's command line.

Both have messages in Anthropic's format. Those of the extensions have no ids, and the file is written again when a
person goes back to an earlier message: a message is known by its content and by the message before it, so that a path
which was left becomes a branch. ``ui_messages.json`` and the manifest beside the messages have titles, costs and
folders; they are kept in the log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from clew.base.messages import Native
from clew.providers.json_values import Json, as_dict, as_text, as_word
from clew.providers.view import parse
from clew.sources.contract import About, Entry, Home, Part, derived_id
from clew.sources.documents import FRAME, frame, read_document
from clew.sources.items import Item, read_beside
from clew.sources.values import digest, element_bytes, field_bytes, nonblank, object_or_empty, tokens, when
from clew.sources.vscode import user_folders
from clew.turns.model import NoteRule, ShowRules, tag

NAME = "cline"
_EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code")
_HISTORY = "api_conversation_history.json"
_MILLISECONDS = 13
"""Letters of the id of a task in an extension: when it began, in thousandths of a second since 1970."""


RULES = ShowRules(
    notes=(
        tag("reminder", "environment_details|explicit_instructions|file_content|notice"),
        NoteRule("reminder", re.compile(r"# (?:task_progress|TODO LIST) .*", re.DOTALL), "To-do list"),
        NoteRule("reminder", re.compile(r"\[TASK RESUMPTION\].*", re.DOTALL), "Resumed"),
        NoteRule("reminder", re.compile(r"\[\w+(?: for [^\]\n]*)?\] Result:.*", re.DOTALL), "Tool result"),
    ),
    opaque={"environment_details": "Environment"},
)


class Cline:
    """See `clew.sources.contract.Source`."""

    name = NAME
    rules = RULES
    title = "Cline"
    deletes_after = None
    programs = dict(zip(_EXTENSIONS, ("Cline", "Roo Code", "Kilo Code"), strict=True)) | {".cline": "Cline"}
    """The programs whose files it reads, by a part of their paths; `clew import` names those that are here."""

    def discover(self, home: Home) -> Iterator[str]:
        root = home.env.get("CLINE_DIR") or os.path.join(home.path, ".cline")
        data = home.env.get("CLINE_DATA_DIR") or os.path.join(root, "data")
        yield home.env.get("CLINE_SESSION_DATA_DIR") or os.path.join(data, "sessions")
        yield os.path.join(data, "tasks")
        for user in user_folders(home):
            for extension in _EXTENSIONS:
                yield os.path.join(user, "globalStorage", extension, "tasks")

    def resume(self, conversation: str) -> str | None:
        return f"cline --id {conversation}" if "_" in conversation else None

    def recognise(self, path: str, head: bytes) -> bool:
        name, start = os.path.basename(path), head.lstrip()[:1]
        if name == _HISTORY:
            return start == b"["
        return name.endswith(".messages.json") and start == b"{" and b'"sessionId"' in head and b'"messages"' in head

    def read(self, item: Item) -> Iterator[Part]:
        path = item.member or item.path
        if os.path.basename(path) == _HISTORY:
            name = os.path.basename(os.path.dirname(path))
            return read_document(item, lambda raw: _task(name, raw, read_beside(item, "ui_messages.json")))
        manifest = os.path.basename(path).replace(".messages.json", ".json")
        return read_document(item, lambda raw: _session(raw, read_beside(item, manifest)))


def _task(name: str, raw: bytes, shown: bytes) -> Iterator[Part]:
    """A task of an extension: a list of messages, and beside it what was shown."""
    bodies = element_bytes(raw)
    usage = _usage(shown)
    answers = sum(object_or_empty(body).get("role") == "assistant" for body in bodies)
    if shown:
        yield Entry(conversation=name, raw=shown, key="ui_messages.json")
    extras = [{"usage": one} for one in usage] if len(usage) == answers else []
    times = _times(shown)
    began = when(name) if len(name) == _MILLISECONDS else None
    yield from _messages(name, raw, bodies, extras, began, times if len(times) == answers else [])


def _session(raw: bytes, manifest: bytes) -> Iterator[Part]:
    """A session of the command line, and beside it its manifest."""
    fields, about = parse(raw), object_or_empty(manifest)
    name = as_text(fields.get("sessionId")) or as_word(about.get("session_id")) or "session"
    yield About(
        conversation=name,
        title=nonblank(as_dict(about.get("metadata")).get("title")),
        prompt=nonblank(about.get("prompt")),
        cwd=as_text(about.get("cwd")),
        model=as_text(about.get("model")),
        version=as_text(as_dict(fields.get("origin")).get("version")),
    )
    if manifest:
        yield Entry(conversation=name, raw=manifest, key="manifest")
    yield from _messages(name, raw, element_bytes(field_bytes(raw, "messages")), [])


def _messages(
    name: str,
    raw: bytes,
    bodies: list[bytes],
    extras: list[dict[str, Any]],
    began: datetime | None = None,
    times: Iterable[datetime] = (),
) -> Iterator[Part]:
    """Messages that follow each other. `extras` and `times` belong to the answers, in their order."""
    above: str | None = None
    kept: dict[str, bytes] = {}
    left, asked = iter(extras), iter(times)
    last = began
    for number, body in enumerate(bodies):
        message = object_or_empty(body)
        if not isinstance(message.get("role"), str):
            continue
        extra = _extra(message)
        if message["role"] == "assistant":
            extra = next(left, {}) | extra
            last = max(filter(None, (last, next(asked, None))), default=None)
        id = derived_id(NAME, name, f"{above} {message.get('id') or digest(body)}")
        last = when(message.get("ts")) or last
        yield Entry(
            conversation=name,
            raw=body,
            key=f"message {number}",
            id=id,
            message=Native(NAME, body, extra=extra or None),
            parent=above,
            created_at=last,
        )
        kept[id] = body
        above = id
    yield About(conversation=name, head=above)
    yield Entry(conversation=name, raw=frame(raw, kept), key=FRAME)


def _times(shown: bytes) -> list[datetime]:
    """When each request was sent, as ``ui_messages.json`` has it."""
    requests = (one for one in map(object_or_empty, element_bytes(shown)) if one.get("say") == "api_req_started")
    return [at for one in requests if (at := when(one.get("ts"))) is not None]


def _usage(shown: bytes) -> list[dict[str, int]]:
    """The tokens of each request, as ``ui_messages.json`` has them."""
    found = []
    for one in map(object_or_empty, element_bytes(shown)):
        if one.get("say") == "api_req_started" and isinstance(one.get("text"), str):
            used = object_or_empty(one["text"])
            counts = tokens(input=used.get("tokensIn"), output=used.get("tokensOut"), cached=used.get("cacheReads"),
                            cache_write=used.get("cacheWrites"))  # fmt: skip
            if counts:
                found.append(counts)
    return found


def _extra(message: Json) -> dict[str, Any]:
    """The model and the tokens of an answer, where the message itself has them."""
    metrics, model = as_dict(message.get("metrics")).get, as_dict(message.get("modelInfo"))
    known = tokens(input=metrics("inputTokens"), output=metrics("outputTokens"), cached=metrics("cacheReadTokens"),
                   cache_write=metrics("cacheWriteTokens"))  # fmt: skip
    name = as_text(model.get("id")) or as_text(model.get("modelId"))
    return ({"usage": known} if known else {}) | ({"model": name} if name else {})
