"""An agent of the OpenAI Agents SDK that is killed between two turns, and resumed.

pip install '.[openai-agents]'
python examples/adapters/run_openai_agents.py
"""

import os
import signal

from agents.testing import ScriptedModel, assistant_message
from killed import kill_and_resume, print_latest

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
        print_latest(session.store)


if __name__ == "__main__":
    set_tracing_disabled(True)
    kill_and_resume(main)
