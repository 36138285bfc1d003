"""Conversations with language models through one small interface: talk, stream, save, restore.

>>> from clew import chat
>>> client = chat.connect(provider="offline")
>>> client.chat("Hello")
'You said: Hello'

The providers' SDKs are extras, imported when a client needs one: ``clew[anthropic]``, ``[openai]``, ``[gemini]``. The
async client is `clew.chat.aio`.
"""

from clew.chat.base_url import MAX_BASE_URL_LENGTH, validate_base_url
from clew.chat.client import Client
from clew.chat.connecting import connect
from clew.chat.events import Event, Reply, UsageTotal
from clew.chat.local import ClaudeLocal
from clew.chat.protocols import (
    AsyncChatClient,
    AsyncPersistentChatClient,
    AsyncStreamingChatClient,
    ChatClient,
    PersistentChatClient,
    StreamingChatClient,
)
from clew.chat.tools import Tool
from clew.errors import InvalidBaseURL, ProviderError

__all__ = [
    "MAX_BASE_URL_LENGTH",
    "AsyncChatClient",
    "AsyncPersistentChatClient",
    "AsyncStreamingChatClient",
    "ChatClient",
    "ClaudeLocal",
    "Client",
    "Event",
    "InvalidBaseURL",
    "PersistentChatClient",
    "ProviderError",
    "Reply",
    "StreamingChatClient",
    "Tool",
    "UsageTotal",
    "connect",
    "validate_base_url",
]
