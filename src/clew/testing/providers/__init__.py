"""A local provider for tests. It implements the wire protocols of Anthropic, OpenAI and Google.

Use its address in a program that calls a model, through the official SDKs or directly::

    with ProviderServer() as server:
        server.say("Rome.", thinking="A capital.")
        client = clew.chat.connect(
            provider="claude", model="a-model", token="a-token",
            base_url=server.base_url("claude"), allow_insecure=True,
        )
        assert client.chat("Where are we going?") == "Rome."
        assert server.requests[0].json["messages"][0]["content"] == "Where are we going?"

It sends the responses queued with `say`, `fail`, `send` and `redirect`, in order; when none is left, it echoes the
request. It refuses requests that the real provider would refuse, with the reason.

=================================  ===========================================================
path                               protocol
=================================  ===========================================================
``/v1/messages``                   Anthropic's messages, whole and as server-sent events
``/v1/chat/completions``           OpenAI's chat completions, likewise
``/v1/responses``                  OpenAI's Responses, likewise
``/v1beta/models/M:method``        Gemini's generateContent and streamGenerateContent
=================================  ===========================================================
"""

from clew.testing.providers.protocols import Fail, Redirect, Say, Send, ToolUse
from clew.testing.providers.server import ProviderServer, Request, self_signed

__all__ = ["Fail", "ProviderServer", "Redirect", "Request", "Say", "Send", "ToolUse", "self_signed"]
