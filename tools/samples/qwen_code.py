"""Runs Qwen Code: a prompt, a tool call after a resume, a failure, a fork, a kill."""

from __future__ import annotations

import re

from clew.testing.providers import ToolUse
from tools.samples.workbench import Workbench, workbench


def main() -> None:
    """Makes the sample."""
    with workbench() as bench:
        write(bench)
        projects = bench.home / ".qwen" / "projects"
        files = {
            str(file.relative_to(projects)): shorten(file.read_bytes()) for file in sorted(projects.rglob("*.jsonl"))
        }
        bench.save("qwen-code", {f"projects/{name}": data for name, data in files.items()})


def shorten(data: bytes) -> bytes:
    """Without the answers to requests of the program's own, which repeat its prompts."""
    return re.sub(rb'"response_text":"You said: (?:[^"\\\\]|\\\\.)*"', b'"response_text":"Nothing."', data)


def write(bench: Workbench) -> None:
    """Lets the program write its history."""
    folder = bench.install("qwen", "@qwen-code/qwen-code@0.24.4")
    node = bench.install("pi", "node@22") / ".bin" / "node"
    program = folder / "@qwen-code" / "qwen-code" / "cli.js"
    bench.env |= {
        "OPENAI_API_KEY": "x",
        "OPENAI_BASE_URL": bench.server.base_url("openai"),
        "OPENAI_MODEL": "qwen3-coder-plus",
    }
    server = bench.server

    def ask(prompt: str, *more: str, timeout: float = 90) -> None:
        bench.run(node, program, "--auth-type", "openai", "-y", *more, "-p", prompt, timeout=timeout)

    file = str(bench.work / "a.txt")
    server.say("Rome.", thinking="Which one?")
    ask("Where are we going?")
    server.say("Let me look.", calls=[ToolUse("read_file", {"file_path": file})])
    server.say("It says alpha.")
    ask("What is in a.txt?", "--continue")
    missing = ToolUse("read_file", {"file_path": str(bench.work / "none.txt")})
    server.say("Both at once.", calls=[ToolUse("run_shell_command", {"command": "echo hi"}), missing])
    server.say("One of them failed.")
    ask("Do it all", "--continue", "--fork-session")
    server.fail(400, "bad request")
    ask("This one fails")
    server.say("It never ends", stalls=1)
    ask("Kill me", timeout=12)


if __name__ == "__main__":
    main()
