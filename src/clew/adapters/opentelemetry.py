"""OpenTelemetry's completion hook: ``OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK=clew`` and ``CLEW_DB=chats.db``.

Every instrumentation of model calls that supports the hook then records its conversations in clew, without a line of
code. Messages are stored in the form that the conventions give them, whatever the provider.
"""

from __future__ import annotations

import base64
import dataclasses
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from clew import keys
from clew.adapters.assembling import ModelCall
from clew.adapters.framework import framework
from clew.adapters.keyed import Target, check_version
from clew.adapters.recorder import CallRecorder, Recording
from clew.base.messages import Native
from clew.errors import Invalid
from clew.sources.otel import NAME
from clew.sources.values import tokens

with framework("opentelemetry"):
    from opentelemetry.context import get_current, get_value

TOOL = "opentelemetry"
CONVERSATION = "gen_ai.conversation.id"
_AMBIENT = "opentelemetry.util.genai.conversation_id"
"""Prefix of the key under which a context has the id of the conversation around a call."""
_MODELS = "gen_ai.response.model", "gen_ai.request.model"
_REPEATS = ("invoke_agent", "create_agent", "execute_tool", "invoke_workflow")
"""Operations whose messages are those of the model calls inside them."""


class ClewCompletionHook(Recording):
    """Calls in a store: a path, a URL or an open `Store`; by default the one that ``CLEW_DB`` names.

    `options` are those of `clew.open`; without them ``CLEW_KEY`` or ``CLEW_KEY_FILE`` has the key of a sealed store. A
    call never waits for the store, and never fails because of it; errors are logged.
    """

    def __init__(self, target: Target | None = None, **options: Any) -> None:
        check_version("opentelemetry-util-genai", "1.2", "2")
        if target is None:
            target = os.environ.get("CLEW_DB") or None
            if target is None:
                raise Invalid("no store to record model calls in", hint="Set CLEW_DB to a path or a URL.")
            if not options:
                options = _key_from_environment()
        self._recorder = CallRecorder(target, TOOL, options)

    def on_completion(
        self,
        *,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        system_instruction: Sequence[Any],
        tool_definitions: Sequence[Any] | None = None,
        span: Any = None,
        log_record: Any = None,
        **_: Any,
    ) -> None:
        """Copies the call: the program may change its messages before they are stored."""
        about = {**_attributes(log_record), **_attributes(span)}
        if about.get("gen_ai.operation.name") in _REPEATS or not (inputs or outputs):
            return
        asked = [_encode(one) for one in inputs]
        if system_instruction:
            parts = [_plain(part) for part in system_instruction]
            asked.insert(0, msgspec.json.encode({"role": "system", "parts": parts}))
        answers = [_encode(one) for one in outputs]
        started = getattr(span, "start_time", None)
        started_at = started // 1000 if isinstance(started, int) else None
        named = about.get(CONVERSATION) or _ambient_conversation()
        self._recorder.record(
            partial(_call, asked, answers, about, str(named) if named else None, started_at, time.time_ns() // 1000)
        )


def _call(
    asked: list[bytes],
    answers: list[bytes],
    about: dict[str, Any],
    conversation: str | None,
    started_at: int | None,
    ended_at: int,
) -> ModelCall:
    model = next((str(about[name]) for name in _MODELS if about.get(name)), None)
    counts = tokens(input=about.get("gen_ai.usage.input_tokens"), output=about.get("gen_ai.usage.output_tokens"))
    known = {"model": model, "usage": counts}
    extra = {name: value for name, value in known.items() if value is not None} or None
    return ModelCall(
        [Native(NAME, one) for one in asked],
        [[Native(NAME, one, extra=extra)] for one in answers],
        started_at,
        ended_at,
        model=model,
        conversation=conversation,
    )


def _key_from_environment() -> dict[str, Any]:
    if os.environ.get("CLEW_KEY"):
        return {"key": keys.from_env()}
    if file := os.environ.get("CLEW_KEY_FILE"):
        return {"key": keys.from_file(file)}
    return {}


def _attributes(record: Any) -> dict[str, Any]:
    found = getattr(record, "attributes", None)
    return dict(found) if found else {}


def _ambient_conversation() -> str | None:
    """The id of the conversation around a call. The key in the context has a random end."""
    context = get_current()
    found = next((get_value(name, context) for name in context if name.startswith(_AMBIENT)), None)
    return found if isinstance(found, str) else None


def _encode(message: Any) -> bytes:
    """A message as JSON, without fields that are not set."""
    fields = _plain(message)
    fields["parts"] = [_plain(part) for part in message.parts]
    return msgspec.json.encode(fields, enc_hook=str)


def _plain(value: Any) -> dict[str, Any]:
    named = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {
        name: base64.b64encode(one).decode() if isinstance(one, bytes) else one
        for name, one in named.items()
        if one is not None and name != "finish_reason"
    }
