"""What the three services share: the store, its address in ``services.yaml``, and events as they are stored."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from google.adk.events.event import Event
from google.genai import types

from clew import keys
from clew.adapters.documents import Documents
from clew.adapters.foreign import NoForm, Translator, own_message, parts_of, result_text
from clew.adapters.keyed import Adapter, Keyed, Target, check_version, unchanged
from clew.base.messages import Message, Native, ToolCall, ToolResult
from clew.engine.node import Node
from clew.engine.session_data import SessionData, label_set
from clew.errors import Invalid
from clew.sources.contract import join_names
from clew.sources.importer import SOURCE

TOOL = "google-adk"
"""Also the key of the state in a session's free data."""


def to_native(event: Event) -> Native:
    """An event as it is stored: the JSON that ADK's own services write. With its token counts."""
    extra: dict[str, Any] = {}
    if (used := event.usage_metadata) is not None:
        counts = {
            "input": used.prompt_token_count,
            "output": used.candidates_token_count,
            "cached": used.cached_content_token_count,
            "reasoning": used.thoughts_token_count,
        }
        extra["usage"] = {name: count for name, count in counts.items() if count is not None}
    if event.model_version:
        extra["model"] = event.model_version
    return Native(TOOL, event.model_dump_json(exclude_none=True).encode(), extra=extra or None)


def _decode(node: Node, said: Native) -> Event:
    return Event.model_validate_json(said.raw)


def _translate(node: Node, message: Message, before: Event | None) -> list[Event]:
    """The event of a message that ADK did not write. ADK takes an answer as its own agent's if it names that agent."""
    if message.role == "system":
        raise NoForm("a system message")
    parts: list[types.Part] = []
    for part in parts_of(message):
        if isinstance(part, ToolCall):
            call = types.FunctionCall(id=part.id, name=part.name, args=part.arguments)
            parts.append(types.Part(function_call=call))
        elif isinstance(part, ToolResult):
            name = _tool_name(before, part.call_id)
            answer = {"error" if part.is_error else "result": result_text(part)}
            parts.append(
                types.Part(function_response=types.FunctionResponse(id=part.call_id, name=name, response=answer))
            )
        else:
            parts.append(types.Part(text=part.text))
    is_user = message.role == "user"
    author = "user" if is_user else before.author if before is not None and before.author != "user" else "model"
    content = types.Content(role="model" if message.role == "assistant" else "user", parts=parts)
    return [
        Event(id=node.id, invocation_id=node.id, author=author, timestamp=node.created_at.timestamp(), content=content)
    ]


def _tool_name(event: Event | None, call: str) -> str:
    """The name of the tool that a call in an event is for. NoForm."""
    for part in (event.content.parts if event is not None and event.content is not None else None) or ():
        if part.function_call is not None and part.function_call.id == call and part.function_call.name:
            return str(part.function_call.name)
    raise NoForm("a tool's result without its call")


events = Translator(TOOL, _decode, _translate)
"""Reads the events of a session."""


class _Stamped(msgspec.Struct):
    timestamp: float


def timestamp(node: Node) -> float:
    """When an event happened, by its own clock."""
    own = own_message(node, TOOL)
    return node.created_at.timestamp() if own is None else msgspec.json.decode(own.raw, type=_Stamped).timestamp


def dump_state(state: dict[str, Any]) -> str:
    """A state as JSON text, which keeps every value that ADK's services keep."""
    return json.dumps(state)


def load_state(text: str) -> dict[str, Any]:
    """The state that `dump_state` was given."""
    state: dict[str, Any] = json.loads(text)
    return state


def message_id(keyed: Keyed, names: tuple[str, str, str], event: str) -> str | None:
    """The id of an event's message; None if the event has none. Two sessions may have events with one id."""
    if not event:
        return None
    return keyed.read(lambda unit: keyed.message_id(unit, "event", *names, event))


def session_data(
    names: tuple[str, str, str], state: dict[str, Any], created: float, more: Sequence[str], **fields: Any
) -> SessionData:
    """The data of a new session of an app, a user and an id; `more` are the labels of the adapter."""
    app, user, id = names
    origin = {"tool": TOOL, "id": join_names(*names), "app": app, "user": user, "session": id}
    told = label_set([*labels(app, user), *more])
    return SessionData(labels=told, extra={SOURCE: origin, TOOL: own_data(state, created)}, **fields)


def labels(app: str, user: str | None = None) -> tuple[str, ...]:
    """The labels of a session; the last is the one to find the sessions of a user, or of an app."""
    return label_set([f"{TOOL}:{app}", *([] if user is None else [f"{TOOL}:{app}/{user}"])])


def own_data(state: dict[str, Any], created: float) -> dict[str, Any]:
    """ADK's part of a session's free data."""
    return {"state": dump_state(state), "created": created}


def imported_state(data: dict[str, Any] | None, scope: str) -> dict[str, Any]:
    """The state of the app, or of the user, that was imported with a session."""
    return load_state(((data or {}).get(TOOL) or {}).get(scope) or "{}")


def read_own_data(data: dict[str, Any] | None) -> tuple[dict[str, Any], float]:
    """The state in a session's free data, and when the session was created."""
    kept = (data or {})[TOOL]
    return load_state(kept["state"]), kept["created"]


SCHEME = "clew://"


class Service(Adapter):
    """A service on a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    ADK's own command line passes an address instead, ``clew://chats.db``: the rest is the path or URL of the store.
    ``?key=NAME`` at its end names the environment variable that has the key of a sealed store.
    """

    def __init__(
        self, target: Target | None = None, *, uri: str | None = None, agents_dir: str | None = None, **options: Any
    ) -> None:
        check_version("google-adk", "2.10", "3")
        options.pop("per_agent", None)  # ADK's command line passes it to every service
        if uri is not None:
            target, found = parse_uri(uri)
            options = {**found, **options}
        if target is None:
            raise Invalid("a service needs a store", hint="Pass a path, a URL or an open store.")
        self._keyed = Keyed(target, TOOL, options, arity=3, forks=True)
        unchanged(self._keyed)
        self._documents = Documents(self._keyed)


def parse_uri(uri: str) -> tuple[str | os.PathLike[str], dict[str, Any]]:
    """The store of an address, and its options. Invalid."""
    if not uri.startswith(SCHEME) or uri == SCHEME:
        raise Invalid("the address of a store begins with clew://", hint="For example clew://chats.db.")
    target, _, query = uri.removeprefix(SCHEME).partition("?")
    if "://" in target:  # a server's own settings stay with its URL
        return uri.removeprefix(SCHEME), {}
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query):
        if name != "key":
            raise Invalid(f"unknown setting {name!r} in the address of a store", hint="Known: key.")
        options["key"] = keys.from_env(value)
    return target, options
