"""A Pydantic AI agent that is killed between two turns, and resumed.

pip install '.[pydantic-ai]'
python examples/adapters/run_pydantic_ai.py
"""

import os
import signal

from killed import kill_and_resume, print_latest
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
        print_latest(store.store)


if __name__ == "__main__":
    kill_and_resume(main)
