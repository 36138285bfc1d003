"""The messages in the transcript of a coding agent, as messages of the session: shown, searched, resumed, rewound.

A line whose type is user or assistant is a message, under its own uuid, and so is stored once. The agent goes back to
an earlier message by saying something whose parent that is: the session then goes back as well, and what it leaves
stays as a branch. A transcript has an answer in several lines, each with the usage of all of it so far. It is counted
once: a later line counts by how much it tells of more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

import clew
from clew import ids
from clew.agents import SessionStore
from clew.agents.wire import derived, message_id
from clew.cli.text import plain, warn
from clew.errors import Conflict, Invalid, NotFound

KINDS = ("user", "assistant")


class Talk:
    """Takes over messages into a session. `answer` is the id of the answer last counted, `counted` what it used.

    `above` has the lines that are no messages, each with what it follows.
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
        """Appends the message on a line, if it is one that is said in this session."""
        said, name = event.get("message"), event.get("uuid")
        own = self._session.is_subagent or not event.get("isSidechain")
        if event.get("type") not in KINDS or not isinstance(said, dict) or "role" not in said or not own:
            if isinstance(name, str):
                self._above[name] = _text(event.get("parentUuid"))
            return
        if is_prompt(event) and not self._is_stored(name):
            self._go_back(_text(event.get("parentUuid")))
        answer = _text(said.get("id"))
        if answer is not None and answer == self.answer:
            more = self._more(_numbers(said.get("usage")))
            rest = {name: value for name, value in said.items() if name != "usage"} | ({"usage": more} if more else {})
            line = json.dumps({**event, "message": rest}, separators=(",", ":")).encode()
        elif answer is not None:
            self.answer, self.counted = answer, _numbers(said.get("usage"))
        model = _text(said.get("model"))
        if model and not self._session.model:
            self._session.update(model=model)
        self._append(line, name if isinstance(name, str) else sha256(line).hexdigest())

    def _more(self, used: Mapping[str, int]) -> dict[str, int]:
        """By how much an answer's usage is larger than what was counted of it; nothing if it is not."""
        more = {name: max(0, number - self.counted.get(name, 0)) for name, number in used.items()}
        self.counted |= {name: max(number, self.counted.get(name, 0)) for name, number in used.items()}
        return more if any(more.values()) else {}

    def _append(self, line: bytes, name: str) -> None:
        try:
            self._sessions.append_message(self._session.id, line, id=name)
        except Conflict:  # a session that the agent has copied: the ids are another session's
            other = derived(self._session.id, f"copy of {name} {sha256(line).hexdigest()}")
            self._sessions.append_message(self._session.id, line, id=other)
        except Invalid as error:
            warn(f"clew: a message is in the transcript alone: {plain(error.message)}")

    def _is_stored(self, name: object) -> bool:
        """Whether a message is there already: what it follows was heeded then."""
        with suppress(NotFound):
            return bool(self._store.nodes.get(message_id(self._session.id, str(name))))
        return False

    def _go_back(self, parent: str | None) -> None:
        """Goes back to what a prompt follows, if that is an earlier message of the session."""
        seen = set[str]()
        while parent in self._above and parent not in seen:
            seen.add(parent)
            parent = self._above[parent]
        if parent is not None and ids.maybe(parent) is not None:
            with suppress(NotFound):
                self._session.rewind(to=parent)


def is_prompt(event: dict[str, Any]) -> bool:
    """True for what a person said; results of tools, and what the agent says to itself, have the same role."""
    said = event.get("message")
    if event.get("type") != "user" or event.get("isMeta") or event.get("isSidechain") or not isinstance(said, dict):
        return False
    content = said.get("content")
    if isinstance(content, list):
        kinds = {part.get("type") for part in content if isinstance(part, dict)}
        return "tool_result" not in kinds and isinstance(event.get("uuid"), str)
    return isinstance(content, str) and isinstance(event.get("uuid"), str)


def _numbers(usage: object) -> dict[str, int]:
    return {name: value for name, value in usage.items() if type(value) is int} if isinstance(usage, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
