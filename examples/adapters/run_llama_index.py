"""A LlamaIndex chat that is killed between two turns, and resumed.

pip install '.[llama-index]'
python examples/adapters/run_llama_index.py
"""

import os
import signal
from typing import Any

from killed import kill_and_resume, print_latest
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory

from clew.adapters.llama_index import ClewDBChatStore


def answer(messages: list[ChatMessage], **_: Any) -> ChatMessage:
    """Stands for a model: answers with the name that the user has said before."""
    name = (messages[0].content or "").removeprefix("My name is ").rstrip(".")
    return ChatMessage(role="assistant", content=f"Hello, {name}." if len(messages) == 1 else f"You are {name}.")


async def main(path: str, killed: bool) -> None:
    """Runs one turn, and with `killed` dies after it."""
    with ClewDBChatStore(path) as store:
        memory = Memory.from_defaults("ada", chat_store=store, tokenizer_fn=str.split)
        model = MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)
        chat = SimpleChatEngine.from_defaults(llm=model, memory=memory)
        await chat.achat("My name is Ada." if killed else "Who am I?")
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)
        print_latest(store.store)


if __name__ == "__main__":
    kill_and_resume(main)
