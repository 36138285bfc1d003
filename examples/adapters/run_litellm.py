"""A program with LiteLLM and no sessions of its own, killed between two calls. Its conversation is in clew.

pip install '.[litellm]'
python examples/adapters/run_litellm.py
"""

import os
import signal
import time
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no request to the network

import litellm
from killed import kill_and_resume, print_latest

from clew.adapters.litellm import ClewLogger

SAID: list[dict[str, Any]] = [
    {"role": "user", "content": "How is the weather in Turin?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Turin"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "sunny"},
]


def main(path: str, killed: bool) -> None:
    """Makes one call, which repeats the conversation so far, and with `killed` dies after it is stored."""
    logger = ClewLogger(path)
    litellm.callbacks = [logger]
    if killed:
        litellm.completion(model="gpt-4o", messages=SAID[:1], mock_response="", mock_tool_calls=SAID[1]["tool_calls"])
    else:
        litellm.completion(model="gpt-4o", messages=SAID, mock_response="It is sunny in Turin.")
    while not logger.flush() or len(logger.store.nodes.list().items) < (2 if killed else 4):
        time.sleep(0.05)  # LiteLLM calls its loggers on a thread
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    print_latest(logger.store)
    logger.close()


if __name__ == "__main__":
    kill_and_resume(main)
