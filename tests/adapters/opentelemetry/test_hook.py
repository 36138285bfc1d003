"""`ClewCompletionHook`, driven by OpenTelemetry's own handler."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("opentelemetry.util.genai", reason="opentelemetry-util-genai is not installed")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.util.genai.completion_hook import load_completion_hook
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.types import (
    BlobPart,
    InputMessage,
    OutputMessage,
    ReasoningPart,
    TextPart,
    ToolCallRequestPart,
    ToolCallResponsePart,
)

import clew
from clew.adapters.opentelemetry import ClewCompletionHook
from tests.adapters.commands import QUESTION, expect_weather


@pytest.fixture
def hook(opened):
    hook = opened(ClewCompletionHook)
    yield hook
    hook.close()


def infer(hook, asked, answer, *, system=(), conversation=None):
    """One call of a model, as an instrumentation reports it."""
    handler = TelemetryHandler(
        tracer_provider=TracerProvider(),
        completion_hook=hook,
        instrumentation_scope_name="tests",
    )
    with handler.inference("openai", request_model="gpt-4o", conversation_id=conversation) as invocation:
        invocation.input_messages = asked
        invocation.system_instruction = list(system)
        invocation.output_messages = answer
        invocation.input_tokens, invocation.output_tokens = 7, 3
    assert hook.flush(30) if hasattr(hook, "flush") else True


def user(text):
    return InputMessage("user", [TextPart(text)])


def test_a_conversation(hook):
    """Calls that repeat the conversation are one session with roles, model and tokens."""
    infer(hook, [user("Hi")], [OutputMessage("assistant", [TextPart("Hello.")])], system=[TextPart("Be short.")])
    answer = InputMessage("assistant", [TextPart("Hello.")])
    infer(
        hook,
        [user("Hi"), answer, user("More")],
        [OutputMessage("assistant", [ReasoningPart("hm"), TextPart("Sure.")], "stop")],
        system=[TextPart("Be short.")],
    )
    (session,) = hook.store.sessions.list().items
    assert [node.role for node in session.path()] == ["system", "user", "assistant", "user", "assistant"]
    assert session.title == "Hi"
    assert session.extra["source"]["tool"] == "opentelemetry"
    last = session.path()[-1].message
    assert last.text == "Sure."
    assert last.model == "gpt-4o"
    assert (last.usage.input, last.usage.output) == (7, 3)
    assert len(hook.store.search("Sure")) == 1
    assert hook.store.verify().ok


def test_calls_results_and_pictures(hook):
    """Tool calls, their results and media are in the neutral view."""
    picture = BlobPart("image/png", "image", b"\x89PNG")
    asked = [InputMessage("user", [TextPart("Weather?"), picture])]
    called = [ToolCallRequestPart({"city": "Turin"}, "weather", "1")]
    infer(hook, asked, [OutputMessage("assistant", called)])
    asked += [InputMessage("assistant", called), InputMessage("tool", [ToolCallResponsePart("sunny", "1")])]
    infer(hook, asked, [OutputMessage("assistant", [TextPart("Sunny.")])])
    (session,) = hook.store.sessions.list().items
    nodes = session.path()
    assert [node.role for node in nodes] == ["user", "assistant", "tool", "assistant"]
    assert nodes[0].message.blocks[1].mime_type == "image/png"
    assert nodes[1].message.blocks[0].arguments == {"city": "Turin"}
    assert nodes[2].message.blocks[0].call_id == "1"


def test_conversation_ids(hook):
    """The conversation that a program names keeps calls apart that say the same."""
    for name in ("a", "b"):
        infer(hook, [user("Hi")], [OutputMessage("assistant", [TextPart("Hello.")])], conversation=name)
    assert {one.extra["source"]["id"] for one in hook.store.sessions.list().items} == {
        "conversation/a",
        "conversation/b",
    }


def test_agents_repeat_their_calls(hook):
    """What an agent reports of itself is not stored beside what its model calls report."""
    handler = TelemetryHandler(tracer_provider=TracerProvider(), completion_hook=hook)
    with handler.invoke_local_agent(agent_name="a") as invocation:
        invocation.input_messages = [user("Hi")]
        invocation.output_messages = [OutputMessage("assistant", [TextPart("Hello.")])]
    assert hook.flush(30)
    assert hook.store.sessions.list().items == []


PROGRAM = """
import os, signal, sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.util.genai.completion_hook import load_completion_hook
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.types import InputMessage, OutputMessage, TextPart
handler = TelemetryHandler(tracer_provider=TracerProvider(), completion_hook=load_completion_hook())
with handler.inference("openai", request_model="gpt-4o") as invocation:
    invocation.input_messages = [InputMessage("user", [TextPart("Hi")])]
    invocation.output_messages = [OutputMessage("assistant", [TextPart("Hello.")])]
"""


def run(tmp_path, **environment):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK": "clew"}
        | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_by_environment_alone(tmp_path):
    """A program without a line of clew records its calls if two variables are set, and stores them before it ends."""
    run(tmp_path, CLEW_DB=str(tmp_path / "c.db"))
    with clew.open(tmp_path / "c.db") as store:
        (session,) = store.sessions.list().items
        assert [node.text for node in session.path()] == ["Hi", "Hello."]


def test_a_sealed_store_by_environment(tmp_path):
    """The key of a sealed store comes from the environment."""
    key = clew.keys.generate()
    run(tmp_path, CLEW_DB=str(tmp_path / "c.db"), CLEW_KEY=key.hex())
    with clew.open(tmp_path / "c.db", key=key) as store:
        assert len(store.sessions.list().items) == 1


def test_a_store_that_is_gone(tmp_path):
    """If calls cannot be stored, or the store cannot be opened, the program runs on and stderr says why."""
    assert "not stored" in run(tmp_path, CLEW_DB=str(tmp_path / "missing" / "c.db")).stderr
    assert "Set CLEW_DB" in run(tmp_path).stderr


def test_the_entry_point(tmp_path, monkeypatch):
    """OpenTelemetry finds the hook by its name."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK", "clew")
    monkeypatch.setenv("CLEW_DB", str(tmp_path / "c.db"))
    assert isinstance(load_completion_hook()._wrapped, ClewCompletionHook)


def test_in_the_command_line(opened):
    """A conversation with a tool call is listed, found, shown, redacted and purged."""
    hook = opened(ClewCompletionHook)
    called = [ToolCallRequestPart({"city": "Turin"}, "weather", "1")]
    asked = [user(QUESTION), InputMessage("assistant", called)]
    asked.append(InputMessage("tool", [ToolCallResponsePart("sunny", "1")]))
    infer(hook, asked, [OutputMessage("assistant", [TextPart("It is sunny.")])])
    hook.close()
    expect_weather(opened)
