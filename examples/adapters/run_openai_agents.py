"""An agent of the OpenAI Agents SDK that is killed between two turns, and resumed.

pip install 'clew[openai-agents]'
python examples/adapters/run_openai_agents.py
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile

from agents.testing import ScriptedModel, assistant_message

from agents import Agent, Runner, set_tracing_disabled
from clew.adapters.openai_agents import ClewSession


async def main(path: str, killed: bool) -> None:
    """Runs one turn, and with `killed` dies after it."""
    question, answer = ("My name is Ada.", "Hello, Ada.") if killed else ("Who am I?", "You are Ada.")
    with ClewSession("ada", path) as session:
        agent = Agent(name="Assistant", model=ScriptedModel(steps=[[assistant_message(answer)]]))
        await Runner.run(agent, question, session=session)
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)
        for node in session.store.sessions.latest().path():
            print(f"{node.role}: {node.message.text}")


if __name__ == "__main__":
    set_tracing_disabled(True)
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1], killed=True))
    else:
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "chats.db")
            subprocess.run([sys.executable, __file__, store], check=False)
            print("The program was killed. It resumes:")
            asyncio.run(main(store, killed=False))
