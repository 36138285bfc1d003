"""Runs Cline's command line: a prompt, calls, a failure, a kill. It cannot resume without a terminal."""

from __future__ import annotations

from clew.testing.providers import ToolUse
from tools.samples.workbench import Workbench, workbench


def main() -> None:
    """Makes the sample."""
    with workbench() as bench:
        write(bench)
        sessions = bench.home / ".cline" / "data" / "sessions"
        files = {str(file.relative_to(sessions)): file.read_bytes() for file in sorted(sessions.rglob("*.json"))}
        bench.save("cline", {f"data/sessions/{name}": data for name, data in files.items()})


def write(bench: Workbench) -> None:
    """Lets the program write its history."""
    program = bench.install("cline", "cline@3.0.65") / ".bin" / "cline"
    server = bench.server
    bench.env["CLINE_TELEMETRY_DISABLED"] = "1"
    base = server.base_url("openai")
    bench.run(program, "auth", "openai", "--apikey", "x", "--modelid", "a-model", "--baseurl", base, timeout=20)

    def ask(prompt: str, *more: str, timeout: float = 30) -> None:
        options = ("-P", "openai", "-m", "a-model", "-s", "Be brief.", "--json")
        bench.run(program, *options, *more, prompt, timeout=timeout)

    server.say("Rome.", thinking="Which one?")
    ask("Where are we going?")
    read = ToolUse("read_files", {"files": [{"path": str(bench.work / "a.txt")}]}, id="toolu_1")
    shell = ToolUse("run_commands", {"commands": ["exit 3"]}, id="toolu_2")
    server.say("Both at once.", calls=[read, shell])
    server.say("It says alpha.")
    ask("What is in a.txt?")
    server.fail(400, "bad request")
    ask("This one fails")
    server.say("It never ends", stalls=4)
    ask("Kill me", timeout=8)


if __name__ == "__main__":
    main()
