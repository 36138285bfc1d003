"""An agent with a scripted model and a tool."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


class ScriptedModel(BaseLlm):
    """Calls the tool, then answers with what it returned."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1].parts[-1]
        if last.function_response is not None:
            part = types.Part(text=f"It is {last.function_response.response['result']}.")
        else:
            part = types.Part(function_call=types.FunctionCall(name="weather", args={"city": "Turin"}))
        used = types.GenerateContentResponseUsageMetadata(prompt_token_count=5, candidates_token_count=2)
        yield LlmResponse(
            content=types.Content(role="model", parts=[part]), usage_metadata=used, model_version="scripted-1"
        )


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def agent() -> Agent:
    return Agent(name="bot", model=ScriptedModel(model="scripted"), tools=[weather], output_key="answer")


def user(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])
