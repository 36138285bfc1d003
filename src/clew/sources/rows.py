"""Rows of a database as records, with the JSON that is in them as it is."""

from __future__ import annotations

import sqlite3

import msgspec

from clew.errors import Invalid
from clew.providers.json_values import Json
from clew.providers.view import parse
from clew.sources.sqlite import record_row, row_record


def row_fields(row: sqlite3.Row) -> Json:
    """The values of a row by their columns; bytes are left out."""
    return {name: value for name, value in record_row(row_record("", row))[1].items() if not isinstance(value, bytes)}


def row_bytes(row: sqlite3.Row, *columns: str) -> bytes:
    """A row as a JSON object. The text of the `columns` is put into it byte for byte, where it is JSON."""
    found = msgspec.json.decode(row_record("", row))["row"]
    for column in columns:
        text = found.get(column)
        if isinstance(text, str) and _is_json(text):
            found[column] = msgspec.Raw(text.encode())
    return msgspec.json.encode(found)


def _is_json(text: str) -> bool:
    try:
        parse(b'{"":' + text.encode() + b"}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError, Invalid):
        return False
    return True
