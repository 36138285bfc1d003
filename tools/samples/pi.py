"""Runs pi: a prompt, calls after a resume, a fork, a failure, a kill."""

from __future__ import annotations

import json
import re

from clew.testing.providers import ToolUse
from tools.samples.workbench import Workbench, workbench


def main() -> None:
    """Makes the sample."""
    with workbench() as bench:
        write(bench)
        sessions = bench.home / ".pi" / "agent" / "sessions"
        files = {
            str(file.relative_to(sessions)): shorten(file.read_bytes()) for file in sorted(sessions.rglob("*.jsonl"))
        }
        bench.save("pi", {f"sessions/{name}": data for name, data in files.items()})


def shorten(data: bytes) -> bytes:
    """Without the program's own descriptions of its tools."""
    return re.sub(rb'"toolsAdded":\[\{.*\}\]', b'"toolsAdded":[]', data)


def write(bench: Workbench) -> None:
    """Lets the program write its history."""
    folder = bench.install("pi", "@earendil-works/pi-coding-agent@0.87.1", "node@22")
    node, program = folder / ".bin" / "node", folder / "@earendil-works" / "pi-coding-agent" / "dist" / "cli.js"
    model = {"id": "a-model", "contextWindow": 200000, "maxTokens": 8000}
    provider = {"baseUrl": bench.server.url, "api": "anthropic-messages", "apiKey": "x", "models": [model]}
    (bench.home / ".pi" / "agent").mkdir(parents=True)
    (bench.home / ".pi" / "agent" / "models.json").write_text(json.dumps({"providers": {"local": provider}}))
    bench.env["PI_OFFLINE"] = "1"
    server = bench.server

    def ask(prompt: str, *more: str, timeout: float = 60) -> None:
        options = ("--provider", "local", "--model", "a-model", "--system-prompt", "Be brief.", "-p")
        bench.run(node, program, *options, *more, prompt, timeout=timeout)

    file = str(bench.work / "a.txt")
    server.say("Rome.", thinking="Which one?")
    ask("Where are we going?", "--name", "A journey")
    server.say("Let me look.", calls=[ToolUse("read", {"path": file}, id="toolu_1")])
    server.say("It says alpha.")
    ask("What is in a.txt?", "--continue")
    shell = ToolUse("bash", {"command": "exit 3"}, id="toolu_2")
    missing = ToolUse("read", {"path": str(bench.work / "none.txt")}, id="toolu_3")
    server.say("Both at once.", calls=[shell, missing])
    server.say("Both failed.")
    first = next((bench.home / ".pi" / "agent" / "sessions").rglob("*.jsonl"))
    ask("Do it all", "--fork", str(first))
    server.fail(400, "bad request")
    ask("This one fails")
    server.say("It never ends", stalls=4)
    ask("Kill me", timeout=8)


if __name__ == "__main__":
    main()
