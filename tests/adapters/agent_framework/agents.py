"""An agent with a scripted client and a tool."""

from __future__ import annotations

from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)


class ScriptedClient(FunctionInvocationLayer, BaseChatClient):
    """Calls the tool, then answers with what it returned."""

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> ChatResponse:
        last = messages[-1].contents[-1]
        if last.type == "function_result":
            contents = [Content.from_text(f"It is {last.result}.")]
        else:
            contents = [Content.from_function_call(f"c{len(messages)}", "weather", arguments={"city": "Turin"})]
        return ChatResponse(messages=[Message("assistant", contents)], response_id="r")


@tool(approval_mode="never_require")
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def agent(*providers: Any) -> Agent:
    return Agent(client=ScriptedClient(), name="guide", tools=[weather], context_providers=list(providers))
