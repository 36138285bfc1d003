"""Requests to Claude, through the SDK of Anthropic."""

from __future__ import annotations

from clew.providers.sdk_transport import AsyncSDKTransport, SDKTransport, load_sdk
from clew.providers.transport import AsyncTransport, Endpoint, Transport


def connect(to: Endpoint) -> Transport:
    """A transport to Claude."""
    anthropic = load_sdk(to)
    http = anthropic.DefaultHttpxClient(follow_redirects=False)
    client = anthropic.Anthropic(http_client=http, **to.settings())
    return SDKTransport(to, client, client.messages)


def connect_async(to: Endpoint) -> AsyncTransport:
    """`connect`, for async programs."""
    anthropic = load_sdk(to)
    http = anthropic.DefaultAsyncHttpxClient(follow_redirects=False)
    client = anthropic.AsyncAnthropic(http_client=http, **to.settings())
    return AsyncSDKTransport(to, client, client.messages)
