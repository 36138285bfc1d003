"""Writes docs/first-minute.svg: a real run of clew in a temporary home with a small history of Claude Code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from rich.console import Console
from rich.text import Text

TARGET = Path(__file__).parents[1] / "docs" / "first-minute.svg"
WIDTH = 96
COMMANDS = (["import"], ["import", "--yes"], ["ls"], ["search", "lint"], ["stats", "--tool", "claude-code"])
TALKS = (
    (
        "Build fails on CI",
        "/home/user/app",
        "Why does the build fail?",
        "The lint step: `os` is never used.",
    ),
    ("Faster search", "/home/user/app", "Search takes seconds.", "An index on the words makes it milliseconds."),
    ("Release notes", "/home/user/site", "Write the notes for 2.1", "Here they are, with the lint fix first."),
)


def write_history(home: Path) -> None:
    """A history as Claude Code keeps it."""
    for title, cwd, question, answer in TALKS:
        session, first, second = (str(uuid.uuid5(uuid.NAMESPACE_URL, f"{title}{n}")) for n in range(3))
        folder = home / ".claude/projects" / cwd.replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        both = {"sessionId": session, "cwd": cwd, "gitBranch": "main", "isSidechain": False, "version": "2.1.0"}
        usage = {"input_tokens": 1200, "output_tokens": 80}
        lines = [
            {**both, "type": "user", "uuid": first, "parentUuid": None, "timestamp": "2026-11-01T10:00:00.000Z",
             "message": {"role": "user", "content": question}},
            {**both, "type": "assistant", "uuid": second, "parentUuid": first, "timestamp": "2026-11-01T10:00:09.000Z",
             "message": {"id": f"msg_{second[:8]}", "role": "assistant", "model": "claude", "usage": usage,
                         "content": [{"type": "text", "text": answer}]}},
            {"type": "custom-title", "customTitle": title, "sessionId": session},
        ]  # fmt: skip
        (folder / f"{session}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def main() -> None:
    """Runs the commands and writes the picture."""
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    with tempfile.TemporaryDirectory() as folder:
        write_history(Path(folder))
        env = {"HOME": folder, "PATH": os.environ["PATH"], "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TZ": "UTC"}
        for words in COMMANDS:
            command = [sys.executable, "-m", "clew", *words]
            done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=True)
            console.print(Text(f"$ clew {' '.join(words)}", style="bold"))
            console.print(Text.from_ansi(done.stdout + done.stderr))
            console.print()
    console.save_svg(str(TARGET), title="clew")


if __name__ == "__main__":
    main()
