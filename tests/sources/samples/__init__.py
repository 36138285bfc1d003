"""Small histories of every application, as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.sources.samples import copilot_cli, cursor, hf_traces, librechat, lm_studio, open_webui, otel, vscode


class Sample(NamedTuple):
    """The files of one history."""

    name: str
    source: str
    files: Mapping[str, bytes]
    databases: Mapping[str, Callable[[Path], None]] = {}
    """Files that a function writes."""
    beside: Mapping[str, bytes] = {}
    """Files that are read with the others and are no histories themselves."""

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
]
