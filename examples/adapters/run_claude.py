"""A transcript of the Claude Agent SDK whose program is killed between two batches, and resumed.

    pip install '.[claude]'
    python examples/adapters/run_claude.py

The SDK's own program needs a network, so this one writes the batches that the SDK would send.
"""

import os
import signal
import uuid
from typing import Any

from claude_agent_sdk import get_session_messages_from_store, project_key_for_directory
from killed import kill_and_resume

from clew.adapters.claude import ClewSessionStore

SESSION = "7d9f2c58-1d0f-4a57-9a57-0f5a3c1f2b10"
SAID = ["How is the weather?", "I will look.", "And tomorrow?", "Sunny."]


def entry(number: int) -> dict[str, Any]:
    """A line of the transcript, under an id that is the same whenever it is sent."""
    ids = [str(uuid.uuid5(uuid.UUID(SESSION), str(n))) for n in range(-1, len(SAID))]
    role = "assistant" if number % 2 else "user"
    return {
        "type": role, "uuid": ids[number + 1], "parentUuid": ids[number] if number else None, "sessionId": SESSION,
        "message": {"role": role, "content": SAID[number]}, "timestamp": f"2026-11-01T10:00:0{number}.000Z",
    }  # fmt: skip


async def main(path: str, killed: bool) -> None:
    """Sends two batches, and with `killed` dies after the first."""
    folder = os.path.dirname(path)
    key: Any = {"project_key": project_key_for_directory(folder), "session_id": SESSION}
    with ClewSessionStore(path) as store:
        await store.append(key, [entry(0), entry(1)])
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)
        await store.append(key, [entry(2), entry(3)])
        for message in await get_session_messages_from_store(store, SESSION, directory=folder):
            print(f"{message.type}: {message.message['content']}")


if __name__ == "__main__":
    kill_and_resume(main)
