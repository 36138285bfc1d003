"""The older tables of llm's log: one row of ``responses`` is a prompt and its answer.

Each side becomes a message: system prompt, results of tools, prompt, answer. Together their records have the whole row.
The oldest form, a single table ``log``, is read as if it were such rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from clew.sources.sqlite import look_up, scan

_ANSWER = (
    "response", "response_json", "reasoning", "input_tokens", "output_tokens", "token_details", "duration_ms",
    "resolved_model",
)  # fmt: skip
"""Columns of a row that belong to the answer; the others belong to the prompt."""


class LlmTables(NamedTuple):
    """One message of a response."""

    response: str
    side: str
    """``system``, ``results``, ``prompt`` or ``response``."""
    data: dict[str, Any]
    """The record."""
    row: dict[str, Any]
    """The row it was made from."""

    @property
    def key(self) -> str:
        """What tells it from the others of its conversation."""
        return f"{self.response} {self.side}"


class Responses:
    """The older tables of a database; only ids are kept in memory."""

    def __init__(self, connection: sqlite3.Connection, tables: dict[str, tuple[str, ...]]) -> None:
        self._connection = connection
        self._tables = tables
        self._of: dict[str, list[int]] = {}
        self._beside: dict[str, dict[str, list[int]]] = {"tool_calls": {}, "tool_results": {}}
        self.table = "responses" if "responses" in tables else "log" if "log" in tables else None
        if self.table is None:
            return
        for row in scan(connection, self.table, self._key()):
            self._of.setdefault(str(row["conversation"]), []).append(row["clew_rowid"])
        for table, ids in self._beside.items():
            if "response_id" in tables.get(table, ()):
                for row in scan(connection, table, "response_id"):
                    ids.setdefault(row["response_id"], []).append(row["clew_rowid"])

    def conversations(self) -> list[str]:
        """The ids of all conversations, in the order of their first response."""
        return list(self._of)

    def sides(self, conversation: str) -> Iterator[LlmTables]:
        """The messages of a conversation, in order."""
        rows = [self._row(number) for number in self._of.get(conversation, ())]
        system: str | None = None
        for row in sorted(rows, key=lambda row: (row["id"].rjust(32), row["id"])):
            yield from self._sides(row, system)
            system = row.get("system") or system

    def _sides(self, row: dict[str, Any], before: str | None) -> Iterator[LlmTables]:
        name = row["id"]
        data: dict[str, Any]
        prompt = {column: value for column, value in row.items() if column not in _ANSWER}
        answer = {column: value for column, value in row.items() if column in _ANSWER}
        fragments = self._fragments("system_fragments", name)
        if (row.get("system") and row["system"] != before) or fragments:
            data = {"side": "system", "row": {"system": row.get("system")}, "fragments": fragments}
            yield LlmTables(name, "system", {"table": self.table, "id": name, **data}, row)
        results = [dict(one) for one in self._rows("tool_results", name)]
        if results:
            data = {"side": "results", "tool_results": results}
            yield LlmTables(name, "results", {"table": self.table, "id": name, **data}, row)
        fragments, files = self._fragments("prompt_fragments", name), self._attachments(name)
        data = {"table": self.table, "id": name, "side": "prompt", "row": prompt}
        if row.get("prompt") or fragments or files or not results:
            yield LlmTables(name, "prompt", {**data, "fragments": fragments, "attachments": files}, row)
        else:
            answer = {**prompt, **answer}
        calls = [dict(one) for one in self._rows("tool_calls", name)]
        data = {"table": self.table, "id": name, "side": "response", "row": answer, "tool_calls": calls}
        yield LlmTables(name, "response", data, row)

    def _key(self) -> str:
        if self.table == "responses":
            return "coalesce(conversation_id, id) AS conversation"
        chat = "chat_id" if "chat_id" in self._tables["log"] else "NULL"
        return f"'log ' || coalesce({chat}, rowid) AS conversation"

    def _row(self, number: int) -> dict[str, Any]:
        row = dict(look_up(self._connection, self.table or "", "rowid", number)[0])
        if self.table == "log":
            row = {**row, "id": str(row.get("id") or number), "datetime_utc": row.get("timestamp")}
        return {**row, "id": str(row["id"])}

    def _rows(self, table: str, response: str) -> list[dict[str, Any]]:
        numbers = self._beside[table].get(response, ())
        return [dict(look_up(self._connection, table, "rowid", number)[0]) for number in numbers]

    def _fragments(self, table: str, response: str) -> dict[str, str]:
        if table not in self._tables or "fragments" not in self._tables:
            return {}
        links = look_up(self._connection, table, "response_id", response)
        ordered = sorted(links, key=lambda link: link["order"] if "order" in link.keys() else 0)  # noqa: SIM118
        return {str(link["fragment_id"]): fragment(self._connection, link["fragment_id"]) for link in ordered}

    def _attachments(self, response: str) -> list[dict[str, Any]]:
        if not {"prompt_attachments", "attachments"} <= self._tables.keys():
            return []
        links = look_up(self._connection, "prompt_attachments", "response_id", response)
        return [file for link in links for file in attachment(self._connection, link["attachment_id"])]


def fragment(connection: sqlite3.Connection, id: object) -> str:
    """The text of a fragment."""
    rows = look_up(connection, "fragments", "id", id)
    return str(rows[0]["content"]) if rows else ""


def attachment(connection: sqlite3.Connection, id: object) -> list[dict[str, Any]]:
    """What is known of a file, and whether its bytes are in the database; none if it is missing."""
    rows = look_up(connection, "attachments", "id", id)
    return [
        {**{name: row[name] for name in ("id", "type", "path", "url")}, "stored": row["content"] is not None}
        for row in rows
    ]
