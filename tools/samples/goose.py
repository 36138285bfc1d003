"""Runs Goose: a prompt, calls after a resume, a kill."""

from __future__ import annotations

from clew.testing.providers import ToolUse
from tools.samples.workbench import Workbench, dump, workbench

TABLES = ("schema_version", "sessions", "messages", "usage_ledger")


def main() -> None:
    """Makes the sample."""
    with workbench() as bench:
        write(bench)
        database = bench.home / ".local" / "share" / "goose" / "sessions" / "sessions.db"
        bench.save("goose", {"sessions.db.sql": dump(database, TABLES)})


def write(bench: Workbench) -> None:
    """Lets the program write its history."""
    folder = bench.install("goose", "@aaif/goose@0.20.1")
    program = next(file for file in (folder / "@aaif" / "goose-binary-linux-x64").rglob("goose") if file.is_file())
    bench.env |= {
        "GOOSE_PROVIDER": "anthropic",
        "GOOSE_MODEL": "a-model",
        "ANTHROPIC_HOST": bench.server.url,
        "ANTHROPIC_API_KEY": "x",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_MODE": "auto",
        "GOOSE_DISABLE_SESSION_NAMING": "1",
    }
    server = bench.server

    def ask(prompt: str, *more: str, timeout: float = 60) -> None:
        bench.run(program, "run", *more, "--with-builtin", "developer", "-t", prompt, timeout=timeout)

    server.say("Rome.", thinking="Which one?")
    ask("Where are we going?", "--name", "A journey")
    server.say("Let me look.", calls=[ToolUse("shell", {"command": "cat a.txt"}, id="toolu_1")])
    server.say("It says alpha.")
    ask("What is in a.txt?", "--name", "A journey", "--resume")
    fails = ToolUse("shell", {"command": "exit 3"}, id="toolu_2")
    works = ToolUse("shell", {"command": "echo hi"}, id="toolu_3")
    server.say("Both at once.", calls=[fails, works])
    server.say("One of them failed.")
    ask("Do it all", "--name", "A journey", "--resume")
    server.say("It never ends", stalls=4)
    ask("Kill me", "--name", "A kill", timeout=8)


if __name__ == "__main__":
    main()
