"""Histories that the genuine programs wrote, made by the scripts in ``tools/samples``: see there for what they did."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.sources.samples import Sample

FOLDER = Path(__file__).parent


def _files(source: str, pattern: str) -> dict[str, bytes]:
    folder = FOLDER / source
    return {f"{source}/{file.relative_to(folder)}": file.read_bytes() for file in sorted(folder.rglob(pattern))}


def _database(source: str, name: str) -> dict[str, Callable[[Path], None]]:
    script = (FOLDER / source / f"{name}.sql").read_text()

    def make(path: Path) -> None:
        with closing(sqlite3.connect(path)) as database:
            database.executescript(f"PRAGMA synchronous = OFF; BEGIN; {script} COMMIT;")

    return {f"{source}/{name}": make}


def _without(files: dict[str, bytes], ending: str) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.endswith(ending)}


_CLINE, _CONTINUE = _files("cline", "*.json"), _files("continue", "*.json")
RECORDED = [
    Sample("gemini-cli", "gemini-cli", _files("gemini-cli", "*.jsonl")),
    Sample("opencode", "opencode", {}, _database("opencode", "opencode.db")),
    Sample("pi", "pi", _files("pi", "*.jsonl")),
    Sample("qwen-code", "qwen-code", _files("qwen-code", "*.jsonl")),
    Sample("goose", "goose", {}, _database("goose", "sessions.db")),
    Sample("cline", "cline", _files("cline", "*.messages.json"), beside=_without(_CLINE, ".messages.json")),
    Sample("continue", "continue", _without(_CONTINUE, "sessions.json"), beside={
        "continue/sessions/sessions.json": _CONTINUE["continue/sessions/sessions.json"],
    }),
    Sample("aider", "aider", _files("aider", ".aider.chat.history.md")),
]  # fmt: skip

CLAUDE_CODE = Sample(
    "claude-code", "claude-code", _files("claude-code", "*.jsonl"), beside=_files("claude-code", "*.json")
)
"""A session with a subagent and a compaction, and a fork of it, which has messages of it in another place."""
