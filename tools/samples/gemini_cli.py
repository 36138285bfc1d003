"""Runs Gemini CLI: a prompt, a tool call after a resume, parallel calls, an error, a kill, a subagent, a compaction."""

from __future__ import annotations

import json
import re

from clew.testing.providers import ToolUse
from tools.samples.workbench import Workbench, workbench

SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


def main() -> None:
    """Makes the sample."""
    with workbench() as bench:
        write(bench)
        chats = bench.home / ".gemini" / "tmp" / "work" / "chats"
        files = {str(file.relative_to(chats)): shorten(file.read_bytes()) for file in sorted(chats.rglob("*.json*"))}
        bench.save("gemini-cli", {f"tmp/work/chats/{name}": data for name, data in files.items()})


def write(bench: Workbench) -> None:
    """Lets the program write its history."""
    program = bench.install("gemini-cli", "@google/gemini-cli@0.61.0") / ".bin" / "gemini"
    (bench.home / ".gemini").mkdir()
    (bench.home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))
    bench.env |= {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": bench.server.url}
    server = bench.server

    def ask(prompt: str, *more: str, timeout: float = 90) -> None:
        bench.run(program, "-m", "gemini-2.5-flash", "--skip-trust", "-y", "-p", prompt, *more, timeout=timeout)

    file = str(bench.work / "a.txt")
    server.say("Rome.", thinking="**A city**\nWhich one?")
    ask("Where are we going?")
    server.say("Let me look.", calls=[ToolUse("read_file", {"file_path": file})])
    server.say("It says alpha.")
    ask("What is in a.txt?", "--resume", "latest")
    read, shell = ToolUse("read_file", {"file_path": file}), ToolUse("run_shell_command", {"command": "exit 3"})
    missing = ToolUse("read_file", {"file_path": str(bench.work / "none.txt")})
    server.say("All at once.", calls=[read, shell, missing])
    server.say("Two of them failed.")
    ask("Do it all", "--resume", "latest")
    server.fail(400, "bad request")
    ask("This one fails", "--resume", "latest")
    server.say("", calls=[ToolUse("invoke_agent", {"agent_name": "codebase_investigator", "prompt": "Look around"})])
    report = {"SummaryOfFindings": "One file.", "ExplorationTrace": [], "RelevantLocations": []}
    server.say("", calls=[ToolUse("complete_task", {"report": report})])
    server.say("The agent found one file.")
    ask("Send an agent")
    server.say("It never ends", stalls=1)
    ask("Kill me", timeout=12)


def shorten(data: bytes) -> bytes:
    """The program's own context, without what it says about the machine."""
    return re.sub(
        rb"(<session_context>).*?(Workspace Directories.*?\\n  - [^\\]*).*?(</session_context>)", rb"\1\\n\2\\n\3", data
    )


if __name__ == "__main__":
    main()
