"""Runs Continue's command line: a prompt, a call after a resume, a failing call, a fork, a failure."""

from __future__ import annotations

import json

from clew.testing.providers import ToolUse
from tools.samples.workbench import Workbench, workbench


def main() -> None:
    """Makes the sample."""
    with workbench() as bench:
        write(bench)
        sessions = bench.home / ".continue" / "sessions"
        bench.save("continue", {f"sessions/{file.name}": file.read_bytes() for file in sorted(sessions.glob("*.json"))})


def write(bench: Workbench) -> None:
    """Lets the program write its history."""
    program = bench.install("continue", "@continuedev/cli@1.5.47") / ".bin" / "cn"
    model = {
        "name": "A model", "provider": "openai", "model": "a-model", "apiKey": "x",
        "apiBase": bench.server.base_url("openai"), "roles": ["chat"], "capabilities": ["tool_use"],
    }  # fmt: skip
    config = {"name": "Local", "version": "0.0.1", "schema": "v1", "models": [model]}
    (bench.home / "config.yaml").write_text(json.dumps(config))
    bench.env["CONTINUE_TELEMETRY_ENABLED"] = "0"
    server = bench.server

    def ask(prompt: str, *more: str, timeout: float = 60) -> None:
        bench.run(program, "--config", bench.home / "config.yaml", "--auto", "-p", *more, prompt, timeout=timeout)

    server.say("Rome.", thinking="Which one?")
    ask("Where are we going?")
    server.say("Let me look.", calls=[ToolUse("Read", {"filepath": str(bench.work / "a.txt")}, id="call_1")])
    server.say("It says alpha.")
    ask("What is in a.txt?", "--resume")
    shell = ToolUse("Bash", {"command": "exit 3"}, id="call_2")
    missing = ToolUse("Read", {"filepath": str(bench.work / "none.txt")}, id="call_3")
    server.say("Both at once.", calls=[shell, missing])
    server.say("Both failed.")
    sessions = bench.home / ".continue" / "sessions"
    first = next((file.stem for file in sessions.glob("*.json") if file.stem != "sessions"), "")
    ask("Do it all", "--fork", first)
    server.fail(400, "bad request")
    ask("This one fails")


if __name__ == "__main__":
    main()
