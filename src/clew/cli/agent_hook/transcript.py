"""Stores the messages of a coding agent's transcript in the session, so that they can be shown and searched.

A line of type user or assistant is a message, stored once under its own uuid. If a prompt has an earlier message as its
parent, the agent was rewound: the session is rewound too, and keeps the rest as a branch. A transcript has an answer in
several lines, each with the total usage so far; only the difference is counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

import clew
from clew.agents import SessionStore
from clew.agents.serial import derive_id, message_id
from clew.base import ids
from clew.base.visible import plain
from clew.cli.output.text import warn
from clew.errors import Conflict, Invalid, NotFound

KINDS = ("user", "assistant")


class TranscriptMessages:
    """Appends messages to a session. `answer` is the ID of the answer last counted, `counted` its usage.

    `above` maps lines that are not messages to their parents.
    """

    def __init__(
        self,
        store: clew.Store,
        session: clew.Session,
        answer: str | None,
        counted: Mapping[str, int],
        above: dict[str, str | None],
    ) -> None:
        self.answer = answer
        self.counted = dict(counted)
        self._store = store
        self._sessions = SessionStore(store)
        self._session = session
        self._above = above

    def take(self, event: dict[str, Any], line: bytes) -> None:
        """Appends the message of a line, if it belongs to this session."""
        message, name = event.get("message"), event.get("uuid")
        own = self._session.is_subagent or not event.get("isSidechain")
        if event.get("type") not in KINDS or not isinstance(message, dict) or "role" not in message or not own:
            if isinstance(name, str):
                self._above[name] = _text(event.get("parentUuid"))
            return
        if is_prompt(event) and not self._is_stored(name):
            self._rewind(_text(event.get("parentUuid")))
        answer = _text(message.get("id"))
        if answer is not None and answer == self.answer:
            more = self._more(_numbers(message.get("usage")))
            rest = {name: value for name, value in message.items() if name != "usage"} | (
                {"usage": more} if more else {}
            )
            line = json.dumps({**event, "message": rest}, separators=(",", ":")).encode()
        elif answer is not None:
            self.answer, self.counted = answer, _numbers(message.get("usage"))
        model = _text(message.get("model"))
        if model and not self._session.model:
            self._session.update(model=model)
        self._append(line, name if isinstance(name, str) else sha256(line).hexdigest())

    def _more(self, used: Mapping[str, int]) -> dict[str, int]:
        """The part of an answer's usage that is not counted yet."""
        more = {name: max(0, number - self.counted.get(name, 0)) for name, number in used.items()}
        self.counted |= {name: max(number, self.counted.get(name, 0)) for name, number in used.items()}
        return more if any(more.values()) else {}

    def _append(self, line: bytes, name: str) -> None:
        try:
            self._sessions.append_message(self._session.id, line, id=name)
        except Conflict:  # the agent copied a session: the IDs belong to another one
            other = derive_id(self._session.id, f"copy of {name} {sha256(line).hexdigest()}")
            self._sessions.append_message(self._session.id, line, id=other)
        except Invalid as error:
            warn(f"clew: a message of the transcript was not stored: {plain(error.message)}")

    def _is_stored(self, name: object) -> bool:
        """True if a message is stored; its parent was processed then."""
        with suppress(NotFound):
            return bool(self._store.nodes.get(message_id(self._session.id, str(name))))
        return False

    def _rewind(self, parent: str | None) -> None:
        """Rewinds the session to the parent of a prompt, if it is an earlier message."""
        seen = set[str]()
        while parent in self._above and parent not in seen:
            seen.add(parent)
            parent = self._above[parent]
        if parent is not None and ids.maybe(parent) is not None:
            with suppress(NotFound):
                self._session.rewind(to=parent)


def is_prompt(event: dict[str, Any]) -> bool:
    """True for a message of the user; tool results and internal messages have the same role."""
    message = event.get("message")
    if event.get("type") != "user" or event.get("isMeta") or event.get("isSidechain") or not isinstance(message, dict):
        return False
    content = message.get("content")
    if isinstance(content, list):
        kinds = {part.get("type") for part in content if isinstance(part, dict)}
        return "tool_result" not in kinds and isinstance(event.get("uuid"), str)
    return isinstance(content, str) and isinstance(event.get("uuid"), str)


def _numbers(usage: object) -> dict[str, int]:
    return {name: value for name, value in usage.items() if type(value) is int} if isinstance(usage, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
