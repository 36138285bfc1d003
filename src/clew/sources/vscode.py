"""Chats in VS Code and the editors made from it: ``<User>/workspaceStorage/*/chatSessions/<session>.json[l]``.

A chat is a list of requests, each with a prompt and a response. Older editors write it as one document; newer ones
write a log of changes, whose first line is the whole chat: ``kind`` 0 is a state, 1 sets a value, 2 cuts a list and
adds to it, 3 deletes a value. Requests that a change takes away stay here as a branch.

In a log no message has bytes of its own: the lines are kept as they are, and the messages are made from the chat that
they add up to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from clew.base.messages import AnyMessage, Native
from clew.providers.json_values import Json, as_dict, as_list
from clew.providers.view import parse
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.documents import FRAME, LARGEST, frame, read_document
from clew.sources.items import Item, read_beside
from clew.sources.lines import json_lines
from clew.sources.values import composed, digest, elements, fields, folder_of, nonblank, object_or_empty, tokens, when

EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Trae")


def user_folders(home: Home, editors: tuple[str, ...] = EDITORS) -> Iterator[str]:
    """The folder ``User`` of each editor."""
    if home.system == "darwin":
        root = os.path.join(home.path, "Library", "Application Support")
    elif home.system == "win32":
        root = home.env.get("APPDATA") or os.path.join(home.path, "AppData", "Roaming")
    else:
        root = home.env.get("XDG_CONFIG_HOME") or os.path.join(home.path, ".config")
    for editor in editors:
        yield os.path.join(root, editor, "User")


NAME = "vscode"
_LOG = re.compile(rb'\s*\{\s*"kind"\s*:\s*0\s*,\s*"v"\s*:\s*\{')
_FINISHED = (1, 2, 3)
"""States of a response that is complete, cancelled or failed."""


class VSCode:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "VS Code chat"
    deletes_after = None

    def discover(self, home: Home) -> Iterator[str]:
        for user in user_folders(home):
            yield os.path.join(user, "workspaceStorage", "*", "chatSessions")
            yield os.path.join(user, "globalStorage", "emptyWindowChatSessions")
            yield os.path.join(user, "globalStorage", "transferredChatSessions")

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        if b'"requests"' not in head:
            return _LOG.match(head) is not None and b'"sessionId"' in head
        is_document = head.lstrip()[:1] == b"{" and (b'"responderUsername"' in head or b'"initialLocation"' in head)
        return _LOG.match(head) is not None or is_document

    def read(self, item: Item) -> Iterator[Part]:
        named = os.path.basename(item.member or item.path)
        chat = _Chat(named.partition(".json")[0], _workspace(item))
        return chat.log(item) if named.endswith(".jsonl") else read_document(item, chat.document)


class _Turn(NamedTuple):
    """A request, its bytes if it has any, and the request before it."""

    request: Json
    raw: bytes | None
    before: str | None


class _Chat:
    """One file on its way."""

    def __init__(self, name: str, workspace: str | None) -> None:
        self._name = name
        self._workspace = workspace
        self._turns: dict[str, _Turn] = {}
        """Every request that was ever in the chat, by its id."""
        self._tails: dict[str, str] = {}
        """For each request: the last message of it."""
        self._used: set[str] = set()
        """Names of responses."""

    def document(self, raw: bytes) -> Iterator[Part]:
        chat = parse(raw)
        self._name = nonblank(chat.get("sessionId")) or self._name
        listed = chat.get("requests")
        bodies = elements(fields(raw)["requests"]) if isinstance(listed, list) else []
        self._note(listed, [bytes(body) for body in bodies])
        found = list(self._messages(chat))
        requests = {
            part.id or "": part.message.raw
            for part in found
            if isinstance(part, Entry) and isinstance(part.message, Native) and part.message.raw == part.raw
        }
        yield from found
        yield Entry(conversation=self._name, raw=frame(raw, requests), key=FRAME)

    def log(self, item: Item) -> Iterator[Part]:
        if item.size > LARGEST:
            yield Skip(None, f"the log has {item.size:,} bytes, more than {LARGEST:,}")
            return
        root: Json = {"": {}}
        for line in json_lines(item):
            if isinstance(line, Skip):
                yield line
                continue
            note = None if _apply(root, line.fields) else "the change does not fit the chat"
            chat = as_dict(root[""])
            self._name = nonblank(chat.get("sessionId")) or self._name
            self._note(chat.get("requests"))
            yield Entry(conversation=self._name, raw=line.data, key=f"line {line.number}", note=note)
        yield from self._messages(as_dict(root[""]))

    def _note(self, requests: object, bodies: list[bytes] | None = None) -> None:
        """Notes the requests that the chat has now."""
        before: str | None = None
        for at, request in enumerate(requests if isinstance(requests, list) else ()):
            key = nonblank(as_dict(request).get("requestId"))
            if key is None or (bodies is not None and key in self._turns):
                continue
            known = self._turns.get(key)
            self._turns[key] = _Turn(
                request, None if bodies is None else bodies[at], before if known is None else known.before
            )
            before = key

    def _messages(self, chat: Json) -> Iterator[Part]:
        """All messages, each after the one it follows, and what is known about the chat."""
        shown = [
            key
            for request in as_list(chat.get("requests"))
            if (key := nonblank(request.get("requestId"))) is not None
            and not (request.get("shouldBeRemovedOnSend") or request.get("isHidden"))
        ]
        models = [model for turn in self._turns.values() if (model := nonblank(turn.request.get("modelId")))]
        last = next(reversed(self._turns), None)
        at = when(chat.get("creationDate"))
        for key, turn in self._turns.items():
            at = when(turn.request.get("timestamp")) or at
            yield from self._turn(key, turn, at, is_last=key == last)
        if not self._turns:
            return
        yield About(
            conversation=self._name,
            title=nonblank(chat.get("customTitle")) or nonblank(chat.get("computedTitle")),
            cwd=self._workspace,
            branch=nonblank(as_dict(chat.get("repoData")).get("localBranch")),
            model=models[-1] if models else None,
            head=self._tails.get(shown[-1]) if shown else None,
        )

    def _turn(self, key: str, turn: _Turn, at: Any, *, is_last: bool) -> Iterator[Entry]:
        request, raw = turn.request, turn.raw
        prompt = request.get("message")
        asked = prompt if isinstance(prompt, dict) else {"text": prompt if isinstance(prompt, str) else ""}
        body = bytes(fields(raw)["message"]) if raw is not None and isinstance(prompt, dict) else None
        message: AnyMessage = composed(NAME, asked) if body is None else Native(NAME, body)
        id = derived_id(NAME, self._name, key)
        yield Entry(
            conversation=self._name,
            raw=b"" if body is None else body,
            key=key,
            id=id,
            message=message,
            parent=self._tails.get(turn.before or ""),
            created_at=at,
        )
        self._tails[key] = id
        if not _has_answer(request):
            return
        answer = nonblank(request.get("responseId"))
        if answer is None or answer in self._used or answer in self._turns:
            answer = f"{key} response"
        self._used.add(answer)
        is_finished = not is_last or _is_finished(request)
        extra: Json = {"model": nonblank(request.get("modelId")), "usage": _usage(request)}
        known = {name: value for name, value in extra.items() if value is not None}
        said = composed(NAME, request, **known) if raw is None else Native(NAME, raw, extra=known or None)
        if not is_finished:
            answer = f"{answer} {digest(repr(request.get('response')))}"
        self._tails[key] = derived_id(NAME, self._name, answer)
        yield Entry(
            conversation=self._name,
            raw=b"" if raw is None else raw,
            key=answer,
            id=self._tails[key],
            message=said,
            parent=id,
            created_at=when(as_dict(request.get("modelState")).get("completedAt")) or at,
            note=None if is_finished else "the response is unfinished",
        )


def _has_answer(request: Json) -> bool:
    result = as_dict(request.get("result"))
    return bool(request.get("response")) or bool(result.get("errorDetails"))


def _is_finished(request: Json) -> bool:
    state = as_dict(request.get("modelState")).get("value")
    return state in _FINISHED or request.get("isCanceled") is True or isinstance(request.get("result"), dict)


def _usage(request: Json) -> dict[str, int] | None:
    used = as_dict(as_dict(request.get("result")).get("usage")) or request
    return tokens(input=used.get("promptTokens"), output=used.get("completionTokens"))


def _workspace(item: Item) -> str | None:
    """The folder or workspace file that a chat belongs to."""
    about = object_or_empty(read_beside(item, "../workspace.json"))
    return folder_of(about.get("folder")) or folder_of(about.get("workspace") or about.get("configuration"))


def _apply(root: Json, change: Json) -> bool:
    """Applies a line of a log to the chat below `root`; False if it does not fit."""
    kind, path, value = change.get("kind"), change.get("k"), change.get("v")
    if kind == 0:
        root[""] = value
        return isinstance(value, dict)
    if kind not in (1, 2, 3) or not isinstance(path, list) or not path:
        return False
    try:
        holder: Any = root[""]
        if any(type(key) not in (str, int) for key in path):
            return False
        for key in path[:-1]:
            holder = holder[key]
        key = path[-1]
        if kind == 1:
            _set(holder, key, value)
        elif kind == 3:
            del holder[key]
        else:
            _push(holder, key, value, change.get("i"))
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _set(holder: Any, key: Any, value: object) -> None:
    if isinstance(holder, list) and key == len(holder):
        holder.append(value)
    elif isinstance(holder, dict) and type(key) is not str:
        raise TypeError("the name of a field is text")
    else:
        holder[key] = value


def _push(holder: Any, key: Any, values: object, start: object) -> None:
    listed = holder.get(key) if isinstance(holder, dict) else holder[key]
    # A new list: the old one may be that of a request that was taken away.
    kept = list(listed) if isinstance(listed, list) else []
    if type(start) is int:
        del kept[max(start, 0) :]
    _set(holder, key, [*kept, *(values if isinstance(values, list) else ())])
