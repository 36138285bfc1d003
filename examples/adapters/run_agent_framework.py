"""An agent of Microsoft's Agent Framework that is killed between two turns, and resumed.

pip install 'clew[agent-framework]'
python examples/adapters/run_agent_framework.py
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, Message

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
        for node in history.store.sessions.latest().path():
            print(f"{node.role}: {node.message.text}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1], killed=True))
    else:
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "chats.db")
            subprocess.run([sys.executable, __file__, store], check=False)
            print("The program was killed. It resumes:")
            asyncio.run(main(store, killed=False))
