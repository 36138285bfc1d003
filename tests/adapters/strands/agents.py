"""An agent with a scripted model and a tool."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from strands import Agent, tool
from strands.models import Model


class ScriptedModel(Model):
    """Calls the tool, then answers with what it returned."""

    def update_config(self, **model_config: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted", "context_window_limit": 1000}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[dict[str, Any], None]:
        last = messages[-1]["content"][-1]
        yield {"messageStart": {"role": "assistant"}}
        if "toolResult" in last:
            text = f"It is {last['toolResult']['content'][0]['text']}."
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": text}}}
            stop = "end_turn"
        else:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": "weather", "toolUseId": f"t{len(messages)}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"city": "Turin"})}}}}
            stop = "tool_use"
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": stop}}
        usage = {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def agent(**options: Any) -> Agent:
    return Agent(model=ScriptedModel(), tools=[weather], callback_handler=None, **options)
