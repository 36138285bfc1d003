"""Runs opencode: a prompt, calls after a resume, a fork, a failure, a subagent, a compaction, a revert, a kill."""

from __future__ import annotations

import json

from clew.testing.providers import ToolUse
from tools.samples.workbench import Workbench, dump, workbench

TABLES = ("project", "session", "message", "part")


def main() -> None:
    """Makes the sample."""
    with workbench() as bench:
        write(bench)
        database = bench.home / ".local" / "share" / "opencode" / "opencode.db"
        bench.save("opencode", {"opencode.db.sql": dump(database, TABLES)})


def write(bench: Workbench) -> None:
    """Lets the program write its history."""
    folder = bench.install("opencode", "opencode-ai@1.18.33")
    program = folder / "opencode-linux-x64" / "bin" / "opencode"
    model = {"name": "A model", "tool_call": True, "limit": {"context": 200000, "output": 8000}}
    config = {
        "model": "local/a-model",
        "small_model": "local/a-model",
        "share": "disabled",
        "autoupdate": False,
        "provider": {
            "local": {
                "npm": "@ai-sdk/anthropic",
                "options": {"baseURL": f"{bench.server.url}/v1", "apiKey": "x"},
                "models": {"a-model": model},
            }
        },
    }
    bench.env |= {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    server = bench.server

    def ask(prompt: str, *more: str, timeout: float = 60) -> None:
        bench.run(program, "run", "--auto", *more, prompt, timeout=timeout)

    file = str(bench.work / "a.txt")
    server.say("Rome.", thinking="Which one?")
    ask("Where are we going?", "--title", "A journey")
    server.say("Let me look.", calls=[ToolUse("read", {"filePath": file}, id="toolu_1")])
    server.say("It says alpha.")
    ask("What is in a.txt?", "--continue")
    shell = ToolUse("bash", {"command": "exit 3", "description": "Fails"}, id="toolu_2")
    missing = ToolUse("read", {"filePath": str(bench.work / "none.txt")}, id="toolu_3")
    server.say("Both at once.", calls=[shell, missing])
    server.say("Both failed.")
    ask("Do it all", "--continue", "--fork")
    server.fail(400, "bad request")
    ask("This one fails", "--title", "A failure")
    agent = {"description": "Looks around", "prompt": "Look around", "subagent_type": "general"}
    server.say("", calls=[ToolUse("task", agent, id="toolu_4")])
    server.say("One file.")
    server.say("The agent found one file.")
    ask("Send an agent", "--title", "An agent")
    server.say("It never ends", stalls=4)
    ask("Kill me", "--title", "A kill", timeout=12)


if __name__ == "__main__":
    main()
