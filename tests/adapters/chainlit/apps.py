"""A chat in which the assistant calls a tool, with Chainlit's own classes."""

from __future__ import annotations

import asyncio
from typing import Any

import chainlit as cl
from chainlit.context import init_http_context
from chainlit.data import BaseDataLayer
from chainlit.types import Feedback

import clew.adapters.chainlit


@cl.step(type="tool")
async def weather(city: str) -> str:
    """A tool."""
    return "sunny"


async def ask(layer: BaseDataLayer, thread: str, question: str = "Weather?", user: Any = None) -> list[str]:
    """One question and its answer, stored in `layer`. Returns the ids of both messages."""
    chainlit_uses(layer)
    init_http_context(thread_id=thread, user=user)
    asked = await cl.Message(question, type="user_message").send()
    async with cl.Step(name="on_message", type="run") as run:
        run.input = question
        answer = await cl.Message(f"It is {await weather(city='Turin')}.").send()
    await stored()
    return [asked.id, answer.id]


async def stored() -> None:
    """Waits for the tasks in which Chainlit stores."""
    while len(waiting := asyncio.all_tasks() - {asyncio.current_task()}) > 0:
        await asyncio.gather(*waiting)


def chainlit_uses(layer: BaseDataLayer | None) -> None:
    """Makes a data layer that of this process."""
    import chainlit.data

    chainlit.data._data_layer, chainlit.data._data_layer_initialized = layer, True


def said(thread: str, id: str, text: str, kind: str = "assistant_message", **more: Any) -> Any:
    """A step, as a message of Chainlit makes it."""
    now = f"2026-01-01T00:00:{int(id, 36) % 60:02}.000Z"
    base = {"id": id, "threadId": thread, "name": "bot", "type": kind, "output": text, "createdAt": now, "end": now}
    return {**base, "metadata": {}, "streaming": False, **more}


def liked(step: str, value: int = 1, **more: Any) -> Feedback:
    """Feedback for a step."""
    return Feedback(forId=step, value=value, **more)


assert issubclass(clew.adapters.chainlit.ClewDataLayer, BaseDataLayer)
