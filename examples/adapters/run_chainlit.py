"""A Chainlit chat that is killed after its tool has run, and resumed.

pip install '.[chainlit]'
python examples/adapters/run_chainlit.py
"""

import asyncio
import os
import signal
import tempfile

os.environ.setdefault("CHAINLIT_APP_ROOT", tempfile.mkdtemp())  # Chainlit writes its settings there

import chainlit as cl
from chainlit.context import init_http_context
from chainlit.data import get_data_layer
from killed import kill_and_resume, print_latest

from clew.adapters.chainlit import ClewDataLayer


@cl.step(type="tool")
async def weather(city: str) -> str:
    """Stands for a slow tool."""
    print("The tool runs.", flush=True)
    return "sunny"


async def on_message(message: cl.Message, killed: bool) -> None:
    """Answers with what the tool said in this thread; asks it first if it said nothing yet."""
    thread = await get_data_layer().get_thread(message.thread_id)
    known = [step["output"] for step in thread["steps"] if step["type"] == "tool"]
    if killed:
        known = [await weather(city="Turin")]
        await stored()
        os.kill(os.getpid(), signal.SIGKILL)
    await cl.Message(f"It is {known[-1]} in Turin.").send()


async def stored() -> None:
    """Waits for the tasks in which Chainlit stores."""
    while waiting := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.gather(*waiting)


async def main(path: str, killed: bool) -> None:
    """One question of a user; `chainlit run` does the same for a browser."""
    cl.data_layer(lambda: ClewDataLayer(path))
    init_http_context(thread_id="trip")
    message = await cl.Message("How is the weather?" if killed else "And now?", type="user_message").send()
    await stored()
    await on_message(message, killed)
    await stored()
    print_latest(get_data_layer().store)
    await get_data_layer().close()


if __name__ == "__main__":
    kill_and_resume(main)
