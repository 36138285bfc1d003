"""LiteLLM records its calls in clew: ``litellm.callbacks = [ClewLogger("chats.db")]``.

The conversation is put together from the messages of each request, not from a session id alone. Of a call only
messages, answer, model, token counts and times are stored: no headers, no keys, no parameters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from clew.adapters.assembling import ModelCall
from clew.adapters.framework import framework
from clew.adapters.keyed import Target, check_version
from clew.adapters.recorder import CallRecorder, Recording
from clew.adapters.threads import in_thread
from clew.base.messages import Native
from clew.sources.values import tokens

with framework("litellm"):
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

TOOL = "litellm"
CHAT, RESPONSES, MESSAGES = "openai", "openai-responses", "anthropic"
"""The providers whose formats LiteLLM's requests have."""
FORMATS = {
    "completion": CHAT,
    "acompletion": CHAT,
    "responses": RESPONSES,
    "aresponses": RESPONSES,
    "anthropic_messages": MESSAGES,
}
"""The kinds of calls that are conversations."""


class ClewLogger(Recording, CustomLogger):
    """Calls in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    A call never waits for the store, and never fails because of it; errors are logged.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        super().__init__()
        check_version("litellm", "1.80", "2")
        self._recorder = CallRecorder(target, TOOL, options)

    async def drain(self) -> None:
        """Waits until LiteLLM has passed on all async calls so far, and all are stored.

        Call it at the end of an async program: LiteLLM drops what is in its queue when the event loop is closed.
        """
        await GLOBAL_LOGGING_WORKER.flush()
        await in_thread(self.flush)

    def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._record(kwargs, response_obj, start_time, end_time)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._record(kwargs, response_obj, start_time, end_time)

    def log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._record(kwargs, None, start_time, end_time)

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._record(kwargs, None, start_time, end_time)

    def _record(self, kwargs: Mapping[str, Any], response: Any, start: Any, end: Any) -> None:
        """Copies the call: the program may change its messages before they are stored."""
        wire = FORMATS.get(str(kwargs.get("call_type")))
        if wire is None:
            return
        try:
            given = kwargs.get("input") if wire == RESPONSES else kwargs.get("messages")
            request = _encode(given)
            system = _encode(_system(kwargs, wire))
            answer = b"{}" if response is None else _encode(_plain(response))
        except Exception:  # noqa: BLE001  the call is over, and must not fail because of its record
            request = system = answer = b""
        named = _conversation(kwargs)
        continues = wire == RESPONSES and bool((kwargs.get("optional_params") or {}).get("previous_response_id"))
        times = _micros(start), _micros(end)
        model = kwargs.get("model")
        self._recorder.record(
            partial(_call, wire, request, system, answer, times, str(model) if model else None, named, continues)
        )


def _call(
    wire: str,
    request: bytes,
    system: bytes,
    answer: bytes,
    times: tuple[int | None, int | None],
    model: str | None,
    conversation: str | None,
    continues: bool,
) -> ModelCall | None:
    """A call from its copied bytes."""
    given: Any = msgspec.json.decode(request)
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list):
        return None
    asked = [*msgspec.json.decode(system), *given]
    said: dict[str, Any] = msgspec.json.decode(answer)
    extra = _about(said, model)
    return ModelCall(
        [_native(wire, one) for one in asked if isinstance(one, dict)],
        [_last_with(choice, wire, extra) for choice in _choices(said) if choice],
        *times,
        model=model,
        conversation=conversation,
        continues=continues,
    )


def _choices(answer: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """The answers of a response, each as the messages that a next request would repeat."""
    if isinstance(answer.get("choices"), list):
        found = [one.get("message") for one in answer["choices"] if isinstance(one, dict)]
        return [[_without_none(one)] for one in found if isinstance(one, dict)]
    if isinstance(answer.get("output"), list):
        return [[_without_none(one) for one in answer["output"] if isinstance(one, dict)]]
    if isinstance(answer.get("content"), list):
        return [[{"role": "assistant", "content": answer["content"]}]]
    return []


def _last_with(choice: Sequence[dict[str, Any]], wire: str, extra: dict[str, Any]) -> list[Native]:
    """The messages of an answer; the last one has the model and the token counts."""
    return [
        _native(wire, one, extra if at == len(choice) - 1 else None) for at, one in enumerate(choice)
    ]  # fmt: skip


def _native(wire: str, message: dict[str, Any], extra: dict[str, Any] | None = None) -> Native:
    return Native(wire, msgspec.json.encode(message), extra=extra or None)


def _without_none(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if value is not None}


def _about(answer: Mapping[str, Any], model: str | None) -> dict[str, Any]:
    usage = answer.get("usage")
    used = usage if isinstance(usage, dict) else {}
    counts = tokens(
        input=used.get("prompt_tokens", used.get("input_tokens")),
        output=used.get("completion_tokens", used.get("output_tokens")),
    )
    known = {"model": answer.get("model") or model, "usage": counts}
    return {name: value for name, value in known.items() if value is not None}


def _system(kwargs: Mapping[str, Any], wire: str) -> list[dict[str, Any]]:
    """The system prompt, where it is a parameter of the request and not a message."""
    given = (kwargs.get("optional_params") or {}).get("instructions" if wire == RESPONSES else "system")
    return [{"role": "system", "content": given}] if isinstance(given, str) and given and wire != CHAT else []


def _conversation(kwargs: Mapping[str, Any]) -> str | None:
    """The session that the caller has named. LiteLLM's own trace ids are new for each call."""
    params = kwargs.get("litellm_params")
    params = params if isinstance(params, dict) else {}
    metadata = params.get("metadata")
    named = params.get("litellm_session_id") or (metadata or {}).get("session_id")
    return named if isinstance(named, str) and named else None


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


def _encode(value: Any) -> bytes:
    """A value as JSON, also with lone surrogates and objects of pydantic in it."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain_or_text)
    except (UnicodeEncodeError, msgspec.EncodeError):
        return json.dumps(value, default=_plain_or_text).encode()


def _plain_or_text(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else str(value)


def _micros(moment: Any) -> int | None:
    return int(moment.timestamp() * 1_000_000) if isinstance(moment, datetime) else None
