"""Where requests go, what is logged about them, and how their failures are reported."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from clew import chat
from clew.chat import aio
from clew.providers.errors import ProviderError
from clew.providers.json_values import Json
from clew.providers.transport import LONGEST_QUOTE, LONGEST_TEXT, clean
from clew.testing.providers import ProviderServer
from tests.chat.conftest import TOKEN

Ask = Callable[[str, str, str], None]


def given(provider: str, url: str) -> dict[str, Any]:
    return {
        "provider": provider, "model": "a-model", "token": TOKEN, "base_url": url, "max_retries": 0,
        "allow_insecure": True, "system": "Be brief.",
    }  # fmt: skip


def ask_sync(provider: str, url: str, words: str) -> None:
    client = chat.connect(**given(provider, url))
    assert isinstance(client, chat.Client)
    with client:
        client.chat(words)


def stream_sync(provider: str, url: str, words: str) -> None:
    client = chat.connect(**given(provider, url))
    assert isinstance(client, chat.Client)
    with client:
        list(client.stream(words))


def ask_async(provider: str, url: str, words: str) -> None:
    async def main() -> None:
        async with aio.connect(**given(provider, url)) as client:
            await client.chat(words)

    anyio.run(main)


def stream_async(provider: str, url: str, words: str) -> None:
    async def main() -> None:
        async with aio.connect(**given(provider, url)) as client:
            assert [event async for event in client.stream(words)]

    anyio.run(main)


WAYS = [ask_sync, stream_sync, ask_async, stream_async]


@pytest.fixture
def elsewhere() -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        yield server


@pytest.mark.parametrize("ask", WAYS)
def test_no_redirect_is_followed(ask: Ask, provider: str, server: ProviderServer, elsewhere: ProviderServer) -> None:
    """A server that redirects gets an error that names the other host, and that host gets nothing."""
    for status in (307, 308, 302):
        server.redirect(f"{elsewhere.url.replace('127.0.0.1', 'localhost')}/v1/messages?who=me", status)
        with pytest.raises(ProviderError, match=r"127\.0\.0\.1 redirects to localhost") as caught:
            ask(provider, server.base_url(provider), "A secret question")
        assert caught.value.status == status
        assert "who=me" not in str(caught.value)
    assert elsewhere.requests == []
    assert len(server.requests) == 3


@pytest.mark.parametrize("ask", WAYS)
def test_no_address_and_no_word_is_logged(
    ask: Ask, provider: str, server: ProviderServer, caplog: pytest.LogCaptureFixture
) -> None:
    """At INFO no handler sees the address of a request or anything in it, whether it succeeds or fails."""
    caplog.set_level(logging.INFO)
    ask(provider, server.base_url(provider), "A canary question")
    server.fail(500, "A canary failure")
    with pytest.raises(ProviderError):
        ask(provider, server.base_url(provider), "A canary question")
    assert len(server.requests) == 2
    for told in ("http://", "/v1", "canary", TOKEN, "Be brief."):
        assert told not in caplog.text
    assert f"provider={provider} endpoint_host=127.0.0.1" in caplog.text


def test_requests_to_other_hosts_are_still_logged(server: ProviderServer, caplog: pytest.LogCaptureFixture) -> None:
    """A program's own requests stay in its logs, unless they go to the same host as a client's."""
    httpx = pytest.importorskip("httpx2")
    caplog.set_level(logging.INFO)
    ask_sync("openai", server.base_url("openai"), "Hello")
    httpx.get(server.url.replace("127.0.0.1", "localhost"))
    assert "http://localhost:" in caplog.text


@pytest.mark.parametrize("ask", WAYS)
def test_what_the_provider_says_of_an_error_is_shown(ask: Ask, provider: str, server: ProviderServer) -> None:
    """The provider's explanation is in the error, without the API key and without control characters."""
    server.fail(429, f"Rate limit reached \x1b[31mfor {TOKEN}:\n try again in 20s.")
    with pytest.raises(ProviderError) as caught:
        ask(provider, server.base_url(provider), "Hello")
    assert caught.value.said == "Rate limit reached [31mfor ***: try again in 20s."
    assert caught.value.message.endswith("(429): Rate limit reached [31mfor ***: try again in 20s")
    assert TOKEN not in str(caught.value)


SECRET = "the launch code is 0000 and nobody else knows it"
WHY = f"Too busy \x1b[31mfor {TOKEN}: '{SECRET}'\n try again in 20s."


@pytest.mark.parametrize("ask", [ask_sync, ask_async])
def test_a_failed_response_is_explained(ask: Ask, server: ProviderServer) -> None:
    """The Responses API may answer 200 with a response that failed: its explanation is shown, too, and cleaned."""
    failed = {"id": "r", "status": "failed", "error": {"code": "server_error", "message": WHY}, "output": []}
    server.send(json.dumps(failed).encode())
    with pytest.raises(ProviderError, match="the model failed to answer") as caught:
        ask("openai-responses", server.base_url("openai-responses"), f"Remember: {SECRET}, please")
    assert caught.value.said == "Too busy [31mfor ***: '…' try again in 20s."


@pytest.mark.parametrize("body", [b'"failed"', b'{"status": "failed"', b'{"status": "failed", "error": 7}'])
def test_a_failure_without_an_explanation(body: bytes, server: ProviderServer) -> None:
    """A response that does not explain itself, or is cut short, is a ProviderError all the same."""
    server.send(body)
    with pytest.raises(ProviderError) as caught:
        ask_sync("openai-responses", server.base_url("openai-responses"), "Hello")
    assert caught.value.said == ""


@pytest.mark.parametrize("ask", [stream_sync, stream_async])
@pytest.mark.parametrize(
    ("provider", "event"),
    [
        ("openai-responses", {"type": "response.failed", "response": {"status": "failed", "error": {"message": WHY}}}),
        ("openai-responses", {"type": "error", "code": "server_error", "message": WHY, "param": None}),
        ("openai-responses", {"type": "error", "error": {"type": "server_error", "message": WHY}}),
        ("openai", {"error": {"type": "server_error", "message": WHY}}),
        ("claude", {"type": "error", "error": {"type": "overloaded_error", "message": WHY}}),
        ("gemini", {"error": {"code": 503, "message": WHY, "status": "UNAVAILABLE"}}),
    ],
)
def test_a_failure_in_a_stream_is_explained(ask: Ask, provider: str, event: Json, server: ProviderServer) -> None:
    """A provider's explanation of a failure after the answer began is shown, cleaned in the same way."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    server.send(f"{name}data: {json.dumps(event)}\n\n".encode(), "text/event-stream")
    with pytest.raises(ProviderError) as caught:
        ask(provider, server.base_url(provider), f"Remember: {SECRET}, please")
    assert caught.value.said == "Too busy [31mfor ***: '…' try again in 20s."
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("ask", WAYS)
def test_an_error_does_not_quote_the_request(ask: Ask, provider: str, server: ProviderServer) -> None:
    """Of what was sent an error quotes a few characters at most, and of a long explanation it shows the beginning."""
    secret = "the launch code is 0000 and nobody else knows it"
    server.fail(400, f"Invalid value: '{secret}'. " + "Supported values are: a, b. " * 200)
    with pytest.raises(ProviderError) as caught:
        ask(provider, server.base_url(provider), f"Remember: {secret}, please")
    assert caught.value.said.startswith("Invalid value: '…'. Supported values are")
    assert len(caught.value.said) <= LONGEST_TEXT


def test_an_explanation_is_cleaned() -> None:
    """A key that is quoted in part goes, too; so does the quote of a request that is longer than the bound."""
    body = {"messages": [{"role": "user", "content": "0123456789" * 10 + "\nnext line"}], "n": 1}
    quoted = "0123456789" * 10
    assert clean("key sk-canar...6789 is wrong", TOKEN, body) == "key ***...6789 is wrong"
    assert clean(f"bad: {quoted} next line", TOKEN, body) == "bad: …"
    assert clean(f"bad: {quoted[: LONGEST_QUOTE - 5]}", TOKEN, body) == f"bad: {quoted[: LONGEST_QUOTE - 5]}"
    assert clean("", TOKEN, body) == ""


def test_a_page_for_browsers_is_not_shown(server: ProviderServer) -> None:
    """The HTML of a proxy is no explanation."""
    page = "<html><body>Bad gateway</body></html>"
    server.fail(502, page)
    with pytest.raises(ProviderError) as caught:
        ask_sync("gemini", server.base_url("gemini"), "Hello")
    assert caught.value.said == ""
    assert json.dumps(page)[1:5] not in caught.value.message
