"""Many agents at once: each has its own session, and appends at the same time share a commit."""

import asyncio
import tempfile
from pathlib import Path

import clew
import clew.aio


async def agent(store: clew.aio.Store, lead: clew.aio.Session, number: int) -> None:
    """Works on one part and stores its trace as a subagent session of the lead."""
    trace = await store.sessions.create(title=f"Part {number}", agent=f"worker-{number}", owner=lead)
    for step in range(10):
        await trace.append(clew.assistant(f"step {step}"))
    await lead.append(clew.tool(f"part {number} is done", call_id=f"call_{number}"))


async def main(path: Path) -> None:
    """Asks, runs eight agents, and reads their results."""
    async with clew.aio.open(path) as store:
        lead = await store.sessions.create(title="Lead")
        calls = [clew.ToolCall(id=f"call_{number}", name="work", arguments={"part": number}) for number in range(8)]
        await lead.append([clew.user("Do all eight parts."), clew.assistant("I share them out.", *calls)])
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(agent(store, lead, number))
        print((await lead.counters).messages, "messages in the lead's session")
        for trace in await lead.subagents():
            print(f"  {trace.agent}: {(await trace.counters).messages} messages")
        print("latest is the lead's:", await store.sessions.latest() == lead)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "chats.db"))
