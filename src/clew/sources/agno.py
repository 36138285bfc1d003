"""Sessions of agno: the tables of its ``SqliteDb``.

A session is a line of runs, and a run has its messages. Messages that a run repeats from the runs before it are read
once. A run inside another one, of a member of a team, is a subagent's trace. Before version 3, the runs were in the row
of the session. The rows of a conversation are kept as a frame, one row on a line, without the messages.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from clew.base.messages import Native
from clew.providers.json_values import Json, as_dict, as_text
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.documents import FRAME, frame
from clew.sources.items import Item
from clew.sources.sqlite import look_up, open_database, row_bytes, scan, tables, tables_of
from clew.sources.values import digest, element_bytes, field_bytes, object_or_empty, when

NAME = "agno"
PROVIDER = "openai"
"""agno writes messages of all models in the form of OpenAI's Chat Completions."""
_SESSION = {"session_id", "session_type", "session_data"}
_RUN = {"run_id", "session_id", "run_data"}


class Agno:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "agno"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        return _table(tables_of(path, head), _SESSION) is not None

    def read(self, item: Item) -> Iterator[Part]:
        with open_database(item) as connection:
            known = tables(connection)
            table, runs = _table(known, _SESSION), _table(known, _RUN)
            if table is None:
                yield Skip(None, "the database has no sessions of agno")
                return
            for session in scan(connection, table):
                path = _Session(str(session["session_id"]), row_bytes(session, "runs"))
                for raw in _older_runs(session):
                    yield from path.run(raw)
                for row in _runs(connection, runs, session):
                    yield from path.run(str(row["run_data"]).encode(), row_bytes(row, "run_data"))
                yield from path.end()


def _table(known: dict[str, tuple[str, ...]], columns: set[str]) -> str | None:
    """The table with these columns: its name is a setting."""
    return next((name for name, found in known.items() if columns <= set(found)), None)


def _older_runs(session: sqlite3.Row) -> list[bytes]:
    """The runs in the row of a session, in their order."""
    runs = session["runs"] if "runs" in session.keys() else None  # noqa: SIM118 (a sqlite3.Row)
    raw = b'{"runs":' + (runs.encode() if isinstance(runs, str) else b"null") + b"}"
    return element_bytes(field_bytes(raw, "runs")) if object_or_empty(raw) else []


def _runs(connection: sqlite3.Connection, table: str | None, session: sqlite3.Row) -> list[sqlite3.Row]:
    """The rows of the runs of a session, in their order."""
    if table is None:
        return []
    return look_up(connection, table, "session_id", session["session_id"], order="run_index, rowid")


class _Session:
    """The messages of a session, and of the runs inside its runs."""

    def __init__(self, name: str, row: bytes) -> None:
        self._name = name
        self._rows: dict[str, list[bytes]] = {name: [row]}
        """The rows of each conversation."""
        self._bodies: dict[str, dict[str, bytes]] = {}
        """The messages of each conversation by their ids, in the order in which they are in its rows."""
        self._above: dict[str, str] = {}
        """The last message of each conversation."""
        self._about: dict[str, dict[str, str | None]] = {}
        self._seen: set[str] = set()

    def run(self, raw: bytes, row: bytes | None = None) -> Iterator[Part]:
        """The messages of a run that are new. It has a row of its own, or is in the row of the session."""
        run = object_or_empty(raw)
        above, own = as_text(run.get("parent_run_id")), as_text(run.get("run_id")) or digest(raw)
        name = self._name if above is None else f"{self._name}/{own}"
        about = self._about.setdefault(name, {"agent": None, "owner": None, "model": None})
        about["model"] = as_text(run.get("model")) or about["model"]
        if above is not None:
            about |= {"agent": as_text(run.get("agent_id")) or "member", "owner": self._name}
            self._about[name] = about
        if row is not None:
            self._rows.setdefault(name, []).append(row)
        if not run:
            yield Skip(None, f"a run of {name} is not a JSON object")
            return
        for part in element_bytes(field_bytes(raw, "messages")):
            message = object_or_empty(part)
            key = as_text(message.get("id")) or digest(part)
            if message and not message.get("from_history") and f"{name} {key}" not in self._seen:
                self._seen.add(f"{name} {key}")
                yield self._entry(
                    name, key, part, {"created_at": run.get("created_at"), **message}, as_text(run.get("model"))
                )

    def _entry(self, name: str, key: str, raw: bytes, message: Json, model: str | None) -> Entry:
        used = as_dict(message.get("metrics"))
        counts = {"input": used.get("input_tokens"), "output": used.get("output_tokens")}
        usage = {side: count for side, count in counts.items() if type(count) is int}
        extra = {**({"usage": usage} if usage else {}), **({"model": model} if model else {})}
        said = Native(PROVIDER, raw, extra=extra if message.get("role") == "assistant" and extra else None)
        id, above = derived_id(NAME, name, key), self._above.get(name)
        self._above[name] = id
        self._bodies.setdefault(name, {})[id] = raw
        at = when(message.get("created_at"))
        return Entry(conversation=name, raw=raw, key=key, id=id, message=said, parent=above, created_at=at)

    def end(self) -> Iterator[Part]:
        """The facts about the conversations after all runs, and their rows."""
        for name, about in self._about.items():
            yield About(
                conversation=name,
                model=about["model"],
                head=self._above.get(name),
                agent=about["agent"],
                owner=about["owner"],
            )
        for name, rows in self._rows.items():
            yield Entry(conversation=name, raw=frame(b"\n".join(rows), self._bodies.get(name, {})), key=FRAME)
