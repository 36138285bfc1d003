"""Small histories of every program, as files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.sources.samples import (
    claude_code,
    copilot_cli,
    cursor,
    exports,
    frameworks,
    hf_traces,
    librechat,
    lm_studio,
    old_codex,
    open_webui,
    otel,
    vscode,
)

HERE = Path(__file__).parent


class Sample(NamedTuple):
    """The files of one history."""

    name: str
    source: str
    files: Mapping[str, bytes]
    databases: Mapping[str, Callable[[Path], None]] = {}
    """Files that a function writes."""
    beside: Mapping[str, bytes] = {}
    """Files that are read with the others and are no histories themselves."""
    restamps: bool = False
    """True if a copy has other times, so that the times depend on which file is read first."""

    def __repr__(self) -> str:
        return self.name

    @property
    def histories(self) -> list[str]:
        """The names of the files with conversations."""
        return [*self.files, *self.databases]

    def write(self, folder: Path) -> None:
        """Writes all files below a folder."""
        for name, data in {**self.files, **self.beside}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        for name, make in self.databases.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            make(folder / name)


def stored(folder: str, pattern: str) -> dict[str, bytes]:
    """Files that a genuine program wrote, by their paths below its folder."""
    root = HERE / folder
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob(pattern))}


def from_sql(name: str, path: Path) -> None:
    """Writes a database from its SQL."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript((HERE / name).read_text())
        database.commit()


SAMPLES = [
    Sample("claude-code", "claude-code", claude_code.FILES, beside=claude_code.BESIDE),
    Sample("codex", "codex", stored("codex", "rollout-*.jsonl"), beside=stored("codex", "session_index.jsonl")),
    Sample("codex-old", "codex", old_codex.FILES, restamps=True),
    Sample("llm", "llm", {}, {"logs.db": partial(from_sql, "llm/logs.sql")}),
    Sample("chatgpt", "chatgpt", exports.CHATGPT),
    Sample("claude-ai", "claude-ai", exports.CLAUDE),
]

APPS = [
    Sample("copilot-cli", "copilot-cli", copilot_cli.FILES),
    Sample("vscode-document", "vscode", {vscode.DOCUMENT: vscode.document()}, beside=vscode.WORKSPACE),
    Sample("vscode-log", "vscode", {vscode.LOG: vscode.log()}, beside=vscode.WORKSPACE),
    Sample("cursor-editor", "cursor", {}, {"Cursor/User/globalStorage/state.vscdb": cursor.editor}),
    Sample("cursor-cli", "cursor", {}, {f".cursor/chats/5d41/{cursor.CLI}/store.db": cursor.store}),
    Sample("cursor-lines", "cursor", {f"agent-transcripts/{cursor.CLI}.jsonl": cursor.LINES}),
    Sample("cursor-text", "cursor", {f"agent-transcripts/{cursor.CLI}.txt": cursor.TEXT}),
    Sample("open-webui-export", "open-webui", {"chats.json": open_webui.export()}),
    Sample("open-webui-database", "open-webui", {}, {"webui.db": open_webui.database}),
    Sample("librechat-flat", "librechat", {"flat.json": librechat.document(librechat.FLAT)}),
    Sample("librechat-nested", "librechat", {"nested.json": librechat.document(librechat.NESTED)}),
    Sample("lm-studio", "lm-studio", {lm_studio.PATH: lm_studio.document()}),
    Sample("hf-traces", "hf-traces", {"trace.jsonl": hf_traces.DATA}),
    Sample("otel", "otel", {"traces.jsonl": otel.DATA}),
    Sample("openai-agents", "openai-agents", {}, {"sessions.db": frameworks.openai_agents}),
    Sample("google-adk", "google-adk", {}, {"adk.db": frameworks.google_adk}),
    Sample("langgraph", "langgraph", {}, {"checkpoints.db": frameworks.langgraph}),
    Sample("agno", "agno", {}, {"agno.db": frameworks.agno}),
    Sample("agno-old", "agno", {}, {"agno.db": frameworks.old_agno}),
]
