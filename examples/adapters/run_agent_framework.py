"""An agent of Microsoft's Agent Framework that is killed between two turns, and resumed.

pip install '.[agent-framework]'
python examples/adapters/run_agent_framework.py
"""

import os
import signal
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, Message
from killed import kill_and_resume, print_latest

from clew.adapters.agent_framework import ClewHistoryProvider


class Scripted(BaseChatClient):
    """Stands for a model: answers with the name that the user has said before."""

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> ChatResponse:
        name = messages[0].text.removeprefix("My name is ").rstrip(".")
        answer = f"Hello, {name}." if len(messages) == 1 else f"You are {name}."
        return ChatResponse(messages=[Message("assistant", [Content.from_text(answer)])])


async def main(path: str, killed: bool) -> None:
    """Runs one turn, and with `killed` dies after it."""
    with ClewHistoryProvider(path) as history:
        agent = Agent(client=Scripted(), name="guide", context_providers=[history])
        question = "My name is Ada." if killed else "Who am I?"
        await agent.run(question, session=agent.create_session(session_id="ada"))
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)
        print_latest(history.store)


if __name__ == "__main__":
    kill_and_resume(main)
