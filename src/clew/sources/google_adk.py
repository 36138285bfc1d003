"""Sessions of Google's Agent Development Kit: the database of its ``SqliteSessionService``.

An event is a row with its JSON. Events are read in the order of their times, as the service reads them. The state of a
session, and those of its app and its user at this time, are in its free data, where the adapter for ADK finds them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from clew.providers.json_values import as_text
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id, join_names
from clew.sources.items import Item
from clew.sources.sqlite import look_up, open_database, row_bytes, scan, tables, tables_of
from clew.sources.values import object_or_empty, pieces, when

NAME = "google-adk"


class GoogleADK:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "Google ADK"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        known = tables_of(path, head)
        return "app_name" in known.get("sessions", ()) and "event_data" in known.get("events", ())

    def read(self, item: Item) -> Iterator[Part]:
        with open_database(item) as connection:
            states = _states(connection)
            for session in scan(connection, "sessions"):
                whose = (str(session["app_name"]), str(session["user_id"]), str(session["id"]))
                name = join_names(*whose)
                yield Entry(conversation=name, raw=row_bytes(session, "state"), key="session")
                above, model = None, None
                for number, row in enumerate(_events(connection, whose), 1):
                    body = str(row["event_data"]).encode()
                    data = object_or_empty(body)
                    if not data:
                        yield Skip(number, "the event is not a JSON object")
                        continue
                    (piece,) = pieces(NAME, row_bytes(row, "event_data"), [body])
                    model = as_text(data.get("model_version")) or model
                    id = derived_id(NAME, name, str(row["id"]))
                    at = when(data.get("timestamp"))
                    yield Entry(
                        conversation=name,
                        raw=piece.raw,
                        key=str(row["id"]),
                        id=id,
                        message=piece.message,
                        parent=above,
                        created_at=at,
                    )
                    above = id
                own = {"names": whose, "created": session["update_time"], "state": session["state"]}
                own |= {"app": states.get(whose[:1], "{}"), "user": states.get(whose[:2], "{}")}
                labels = tuple(f"{NAME}:{'/'.join(whose[:count])}" for count in (1, 2))
                yield About(conversation=name, model=model, head=above, labels=labels, own={NAME: own})


def _events(connection: sqlite3.Connection, whose: tuple[str, str, str]) -> list[sqlite3.Row]:
    rows = look_up(connection, "events", "session_id", whose[2], order="timestamp, rowid")
    return [row for row in rows if (row["app_name"], row["user_id"]) == whose[:2]]


def _states(connection: sqlite3.Connection) -> dict[tuple[str, ...], str]:
    """The states of apps and users, as JSON, by their names."""
    found: dict[tuple[str, ...], str] = {}
    known = tables(connection)
    for table, names in (("app_states", ["app_name"]), ("user_states", ["app_name", "user_id"])):
        if {*names, "state"} <= set(known.get(table, ())):
            for row in scan(connection, table):
                found[tuple(str(row[name]) for name in names)] = str(row["state"])
    return found
