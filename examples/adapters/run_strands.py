"""A Strands agent that is killed after its tool has run, and resumed.

pip install '.[strands]'
python examples/adapters/run_strands.py
"""

import os
import signal
from collections.abc import AsyncGenerator
from typing import Any

from killed import kill_and_resume, print_latest
from strands import Agent, tool
from strands.hooks import AfterToolCallEvent, BeforeModelCallEvent
from strands.models import Model
from strands.session import RepositorySessionManager

from clew.adapters.strands import ClewSessionRepository


class Scripted(Model):
    """Stands for a model: calls a tool once, then answers with what the tool returned."""

    def update_config(self, **config: Any) -> None:
        """Nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        """The size of its context."""
        return {"context_window_limit": 8000}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        """Not used here."""

    async def stream(self, messages: Any, *args: Any, **options: Any) -> AsyncGenerator[dict[str, Any], None]:
        """One answer."""
        results = [part["toolResult"] for message in messages for part in message["content"] if "toolResult" in part]
        yield {"messageStart": {"role": "assistant"}}
        if results:
            yield {"contentBlockDelta": {"delta": {"text": f"It is {results[-1]['content'][0]['text']} in Turin."}}}
        else:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": "weather", "toolUseId": "call-1"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"city": "Turin"}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if results else "tool_use"}}


@tool
def weather(city: str) -> str:
    """Stands for a slow tool."""
    print("The tool runs.", flush=True)
    return "sunny"


def main(path: str, killed: bool) -> None:
    """Asks, and with `killed` dies when the model is to be called with the tool's result."""
    done: list[AfterToolCallEvent] = []

    def die(event: BeforeModelCallEvent) -> None:
        if killed and done:
            os.kill(os.getpid(), signal.SIGKILL)

    with ClewSessionRepository(path) as repository:
        session = RepositorySessionManager("trip", repository)
        agent = Agent(
            model=Scripted(), tools=[weather], agent_id="guide", session_manager=session, callback_handler=None
        )
        agent.hooks.add_callback(AfterToolCallEvent, done.append)
        agent.hooks.add_callback(BeforeModelCallEvent, die)
        agent("How is the weather?" if killed else "And now?")
        print_latest(repository.store)


if __name__ == "__main__":
    kill_and_resume(main)
