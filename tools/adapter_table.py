"""Runs the checks of `clew.testing.adapters` with the stores of each framework, and writes the table of the page.

    python tools/adapter_table.py            runs all, and writes docs/how-to/write-an-adapter.md
    python tools/adapter_table.py --rows X   runs those of one framework, in an environment that has it, and prints JSON

`make adapter-table` sets up what it needs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/how-to/write-an-adapter.md"
BEGIN, END = "<!-- begin of the table -->", "<!-- end of the table -->"


class Row(NamedTuple):
    """A store: its name, its driver, and whether it is on a server."""

    name: str
    driver: str
    is_on_server: bool = False
    on: str = "SQLite"


STORES: dict[str, list[Row]] = {
    "langgraph": [
        Row("LangGraph, `ClewSaver`", "Ours"),
        Row("LangGraph, `SqliteSaver`", "Theirs"),
        Row("LangGraph, `ClewSaver`", "Ours", True),
        Row("LangGraph, `PostgresSaver`", "TheirsOnPostgres", True),
    ],
    "openai_agents": [
        Row("OpenAI Agents, `ClewSession`", "Ours"),
        Row("OpenAI Agents, `SQLiteSession`", "Theirs"),
        Row("OpenAI Agents, `SQLAlchemySession`", "TheirsWithSQLAlchemy"),
        Row("OpenAI Agents, `ClewSession`", "Ours", True),
        Row("OpenAI Agents, `SQLAlchemySession`", "TheirsWithSQLAlchemy", True),
    ],
    "pydantic_ai": [
        Row("Pydantic AI, `ClewConversationStore`", "Ours"),
        Row("Pydantic AI, `InMemoryConversationStore`", "InMemory", on="memory"),
        Row("Pydantic AI, `ClewConversationStore`", "Ours", True),
    ],
    "claude": [
        Row("Claude Agent SDK, `ClewSessionStore`", "Ours"),
        Row("Claude Agent SDK, `InMemorySessionStore`", "InMemory", on="memory"),
        Row("Claude Agent SDK, `ClewSessionStore`", "Ours", True),
        Row("Claude Agent SDK, example `PostgresSessionStore`", "ExamplePostgres", True),
    ],
    "google_adk": [
        Row("Google ADK, `ClewSessionService`", "Ours"),
        Row("Google ADK, `SqliteSessionService`", "Theirs"),
        Row("Google ADK, `ClewSessionService`", "Ours", True),
    ],
    "strands": [
        Row("Strands, `ClewSessionRepository`", "Ours"),
        Row("Strands, `FileSessionManager`", "Theirs", on="files"),
        Row("Strands, `ClewSessionRepository`", "Ours", True),
    ],
    "agent_framework": [
        Row("Agent Framework, `ClewHistoryProvider`", "Ours"),
        Row("Agent Framework, `FileHistoryProvider`", "Theirs", on="files"),
        Row("Agent Framework, `ClewHistoryProvider`", "Ours", True),
    ],
    "llama_index": [
        Row("LlamaIndex, `ClewDBChatStore`", "Ours"),
        Row("LlamaIndex, `SQLAlchemyChatStore`", "Theirs"),
        Row("LlamaIndex, `ClewDBChatStore`", "Ours", True),
    ],
    "chainlit": [
        Row("Chainlit, `ClewDataLayer`", "Ours"),
        Row("Chainlit, `SQLAlchemyDataLayer`", "Theirs"),
        Row("Chainlit, `ClewDataLayer`", "Ours", True),
    ],
}
COLUMNS = {
    "order": "order",
    "same batch twice": "twice",
    "kill -9": "kill -9",
    "lost answer": "lost answer",
    "two processes": "two processes",
    "cancelled task": "cancelled",
    "stopped clock": "clock",
    "deletion leaves nothing": "deletion",
    "bytes stay flat": "bytes of a message of 400",
}


def rows(framework: str) -> None:
    """Prints the rows of one framework: the name of each store and the texts of its cells."""
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    from tests.adapters.databases import databases
    from tests.backends.postgres.server import started

    from clew.testing.adapters import check

    server = started()
    try:
        for row in STORES[framework]:
            driver = f"tests.adapters.{framework}.drivers:{row.driver}"
            with tempfile.TemporaryDirectory() as folder:
                outcomes = check(driver, Path(folder), server=databases(server) if row.is_on_server else None)
            for one in outcomes:
                print(row.name, one, file=sys.stderr)
            where = "PostgreSQL" if row.is_on_server else row.on
            cells = {one.name: cell(one.name, one.passed, one.why) for one in outcomes}
            print(json.dumps([row.name, where, *(cells[name] for name in COLUMNS)]), flush=True)
    finally:
        server.stop()


def cell(name: str, passed: bool, why: str) -> str:
    """What the table says of one outcome."""
    if name == "bytes stay flat":
        found = re.findall(r"([\d,]+) bytes|([\d,]+) at 400", why)
        numbers = [one or other for one, other in found]
        if passed:
            return numbers[0] if numbers and numbers[0] != "0" else "–"
        return f"**{numbers[-2]} at 200, {numbers[-1]} at 400**" if len(numbers) > 1 else "**no**"
    if not passed:
        files = re.search(r"session are in (.*)", why)
        return f"**in `{files[1]}`**" if files else "**no**"
    if name in ("same batch twice", "lost answer") and "no ids" in why:
        return "–" if name == "same batch twice" else "yes"
    if name == "cancelled task":
        return f"yes, {why}"
    return "not read" if "not read" in why else "yes"


def main() -> None:
    """Runs every framework in its environment, and writes the page."""
    found: list[list[str]] = []
    for framework in STORES:
        own = ROOT / ".venv-adapters" / framework / "bin/python"
        python = str(own) if own.exists() else sys.executable
        done = subprocess.run(
            [python, __file__, "--rows", framework], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
        found += [json.loads(line) for line in done.stdout.splitlines()]
    head = ["store", "on", *COLUMNS.values()]
    lines = [head, ["---"] * len(head), *found]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        rows(sys.argv[2])
    else:
        main()
