"""Requests to OpenAI and compatible servers, through the SDK of OpenAI."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from clew.providers.failures import check_event, check_response
from clew.providers.json_values import Json
from clew.providers.sdk_transport import AsyncSDKTransport, SDKBase, SDKTransport, load_sdk
from clew.providers.transport import AsyncTransport, Endpoint, Transport
from clew.providers.wire import load

RESPONSES = "openai-responses"


def connect(to: Endpoint) -> Transport:
    """A transport for chat completions, or for the Responses API."""
    openai = load_sdk(to)
    http = openai.DefaultHttpxClient(follow_redirects=False)
    client = _without_organization(openai.OpenAI(http_client=http, **to.settings()))
    if to.provider == RESPONSES:
        return _ResponsesTransport(to, client, client.responses)
    return SDKTransport(to, client, client.chat.completions)


def connect_async(to: Endpoint) -> AsyncTransport:
    """`connect`, for async programs."""
    openai = load_sdk(to)
    http = openai.DefaultAsyncHttpxClient(follow_redirects=False)
    client = _without_organization(openai.AsyncOpenAI(http_client=http, **to.settings()))
    if to.provider == RESPONSES:
        return _AsyncResponsesTransport(to, client, client.responses)
    return AsyncSDKTransport(to, client, client.chat.completions)


def _without_organization(client: Any) -> Any:
    """The SDK takes organization and project from the environment; other servers must not learn them."""
    client.organization = client.project = None
    return client


class _ResponsesBase(SDKBase):
    """The Responses API reports a failed model in a response with status 200: ProviderError."""

    def check(self, body: Json, response: Any) -> bytes:
        content = super().check(body, response)
        if b'"failed"' in content:
            with suppress(ValueError):  # not JSON: the wire format raises an error
                found = load(content)
                check_response(self._to, body, found if isinstance(found, dict) else {})
        return content

    def check_event(self, body: Json, event: Any) -> Json:
        found = super().check_event(body, event)
        check_event(self._to, body, found)
        return found


class _ResponsesTransport(_ResponsesBase, SDKTransport):
    pass


class _AsyncResponsesTransport(_ResponsesBase, AsyncSDKTransport):
    pass
