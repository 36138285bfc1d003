"""An agent of Google's ADK that is killed after its tool has run, and resumed.

pip install '.[google-adk]'
python examples/adapters/run_google_adk.py
"""

import os
import signal
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.genai import types
from killed import kill_and_resume, print_latest

from clew.adapters.google_adk import ClewSessionService


class Scripted(BaseLlm):
    """Stands for a model: calls a tool, then answers with what the tool returned."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        """One answer."""
        found = [part.function_response for content in llm_request.contents for part in content.parts]
        results = [one.response["result"] for one in found if one is not None]
        part = types.Part(function_call=types.FunctionCall(name="weather", args={"city": "Turin"}))
        if results:
            part = types.Part(text=f"It is {results[-1]} in Turin.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def weather(city: str) -> str:
    """Stands for a slow tool."""
    print("The tool runs.", flush=True)
    return "sunny"


async def main(path: str, killed: bool) -> None:
    """Asks, and with `killed` dies after the tool has answered."""
    with ClewSessionService(path) as service:
        who = {"user_id": "ada", "session_id": "s1"}
        runner = Runner(
            app_name="trip",
            agent=Agent(name="guide", model=Scripted(model="scripted"), tools=[weather]),
            session_service=service,
            auto_create_session=True,
        )
        question = "How is the weather?" if killed else "And now?"
        message = types.Content(role="user", parts=[types.Part(text=question)])
        async for event in runner.run_async(**who, new_message=message):
            if killed and event.get_function_responses():
                os.kill(os.getpid(), signal.SIGKILL)
        print_latest(service.store)


if __name__ == "__main__":
    kill_and_resume(main)
