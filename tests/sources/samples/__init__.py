"""Small histories of every program, as files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.sources.samples import claude_code, exports, old_codex

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
