"""A Pydantic AI agent that is killed between two turns, and resumed.

pip install 'clew[pydantic-ai]'
python examples/adapters/run_pydantic_ai.py
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel

from clew.adapters.pydantic_ai import ClewConversationStore


async def main(path: str, killed: bool) -> None:
    """Runs one turn and saves it, and with `killed` dies after that."""
    question, answer = ("My name is Ada.", "Hello, Ada.") if killed else ("Who am I?", "You are Ada.")
    with ClewConversationStore(path) as store:
        agent = Agent(TestModel(custom_output_text=answer))
        conversation = await store.load("ada") or Conversation(conversation_id="ada")
        await store.save(await agent.run(question, conversation=conversation))
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)
        for node in store.store.sessions.latest().path():
            print(f"{node.role}: {node.message.text}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1], killed=True))
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "chats.db")
            subprocess.run([sys.executable, __file__, file], check=False)
            print("The program was killed. It resumes:")
            asyncio.run(main(file, killed=False))
