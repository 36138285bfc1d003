"""Conversations with language models through one small interface: chat, stream, save, restore.

>>> from clew import chat
>>> client = chat.connect(provider="offline")
>>> client.chat("Hello")
'You said: Hello'

The providers' SDKs are extras, imported when a client needs one: ``clew[anthropic]``, ``[openai]``, ``[gemini]``. The
async client is `clew.chat.aio`.
"""

from clew.chat.claude_program import ClaudeLocal
from clew.chat.client import Client
from clew.chat.factory import connect
from clew.chat.protocols import (
    AsyncChatClient,
    AsyncPersistentChatClient,
    AsyncStreamingChatClient,
    ChatClient,
    Event,
    PersistentChatClient,
    Reply,
    StreamingChatClient,
    UsageTotal,
)
from clew.providers.base_url import MAX_BASE_URL_LENGTH, validate_base_url
from clew.providers.errors import InvalidBaseURL, ProviderError
from clew.providers.tools import Tool

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
