"""The provider on this machine: it speaks the protocols, and refuses what the real ones refuse."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from typing import Any

import pytest

from clew.testing.providers import ProviderServer

PATHS = {
    "claude": "/v1/messages",
    "openai": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/m:generateContent",
}


def post(server: ProviderServer, path: str, body: Any, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=10)
    try:
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def ask(server: ProviderServer, provider: str, body: Any) -> tuple[int, str]:
    tokens = {"authorization": "Bearer t", "x-goog-api-key": "t"}
    return post(server, PATHS[provider], body, **tokens)


def test_no_token_no_answer(server: ProviderServer) -> None:
    """A request without a token is refused, and one to nowhere is not found."""
    for path in PATHS.values():
        assert post(server, path, {})[0] == 401
    assert post(server, "/elsewhere", {})[0] == 404
    assert [request.path for request in server.requests] == [*PATHS.values(), "/elsewhere"]


USE = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "1", "content": "x"}
CALL = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]}
DONE = {"role": "tool", "tool_call_id": "1", "content": "x"}
HI = {"role": "user", "content": "Hi"}
GHI = {"role": "user", "parts": [{"text": "Hi"}]}
GCALL = {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}
GDONE = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}


def claude(*messages: Any, **more: Any) -> Any:
    return {"model": "m", "max_tokens": 5, "messages": list(messages), **more}


REFUSED = [
    ("claude", {"messages": [HI]}),
    ("claude", claude()),
    ("claude", claude({"role": "assistant", "content": "Hi"})),
    ("claude", claude({**HI, "id": "m"})),
    ("claude", claude(HI, {"role": "tool", "content": "x"})),
    ("claude", claude({"role": "user", "content": []})),
    ("claude", claude(HI, {"role": "assistant", "content": [USE]}, tools=[{}])),
    ("claude", claude(HI, {"role": "assistant", "content": [USE]}, HI, tools=[{}])),
    ("claude", claude({"role": "user", "content": [RESULT]}, tools=[{}])),
    ("claude", claude(HI, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT]})),
    ("claude", claude(HI, {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]})),
    ("openai", {}),
    ("openai", {"messages": [{"role": "nobody", "content": "x"}]}),
    ("openai", {"messages": [HI, CALL]}),
    ("openai", {"messages": [HI, CALL, HI]}),
    ("openai", {"messages": [HI, DONE]}),
    ("openai", {"messages": [{"role": "user", "content": ""}]}),
    ("openai-responses", {}),
    ("openai-responses", {"input": [{"role": "nobody", "content": "x"}]}),
    ("openai-responses", {"input": [HI, {"type": "function_call", "call_id": "1", "name": "f"}]}),
    ("openai-responses", {"input": [{"type": "function_call_output", "call_id": "1", "output": "x"}]}),
    ("openai-responses", {"input": [HI, {"type": "reasoning", "id": "rs_1"}], "store": False}),
    ("gemini", {}),
    ("gemini", {"contents": [{"role": "system", "parts": [{"text": "x"}]}]}),
    ("gemini", {"contents": [{"role": "user", "parts": []}]}),
    ("gemini", {"contents": [GHI, GCALL, GDONE]}),
    ("gemini", {"contents": [GHI, GCALL], "tools": [{}]}),
    ("gemini", {"contents": [GHI, GCALL, GHI], "tools": [{}]}),
    ("gemini", {"contents": [GHI, GDONE], "tools": [{}]}),
]


@pytest.mark.parametrize(("provider", "body"), REFUSED)
def test_what_the_real_one_refuses_is_refused(provider: str, body: Any, server: ProviderServer) -> None:
    """With the status of the real one, and with its reason."""
    status, told = ask(server, provider, body)
    assert status == 400
    assert json.loads(told)["error"]["message"]


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        (
            "claude",
            claude(HI, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT]}, tools=[{}]),
        ),
        ("openai", {"messages": [HI, CALL, DONE]}),
        ("openai-responses", {"input": [HI]}),
        ("gemini", {"contents": [GHI, GCALL, GDONE], "tools": [{}]}),
    ],
)
def test_what_is_right_is_answered(provider: str, body: Any, server: ProviderServer) -> None:
    """A valid request gets an answer and is recorded."""
    server.say("Yes.")
    status, told = ask(server, provider, body)
    assert status == 200
    assert "Yes." in told
    assert server.requests[-1].json == body


def test_it_needs_nothing_but_the_standard_library() -> None:
    """The module imports no SDK and no pytest."""
    code = (
        "import sys; import clew.testing.providers; "
        "print({'pytest', 'httpx2', 'anthropic', 'openai', 'google.genai', 'cryptography'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
