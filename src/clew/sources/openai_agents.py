"""Sessions of the OpenAI Agents SDK: the database of its ``SQLiteSession``.

An item of a session is a row with its JSON, in the order in which items were added. An item that the SDK encrypted
cannot be read without its key, and is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.items import Item
from clew.sources.sqlite import look_up, open_database, row_bytes, scan, tables_of
from clew.sources.values import digest, object_or_empty, pieces, when

NAME = "openai-agents"
PROVIDER = "openai-responses"
_SESSIONS, _ITEMS = "agent_sessions", "agent_messages"


class OpenAIAgents:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "OpenAI Agents SDK"
    deletes_after = None
    names_per_file = True

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        known = tables_of(path, head)
        return "session_id" in known.get(_SESSIONS, ()) and "message_data" in known.get(_ITEMS, ())

    def read(self, item: Item) -> Iterator[Part]:
        with open_database(item) as connection:
            for session in scan(connection, _SESSIONS):
                name = str(session["session_id"])
                yield Entry(conversation=name, raw=row_bytes(session), key="session")
                above = None
                for row in look_up(connection, _ITEMS, "session_id", name, order="id"):
                    body = str(row["message_data"]).encode()
                    data = object_or_empty(body)
                    if not data or "__enc__" in data:
                        yield Skip(row["id"], "the item is encrypted" if data else "the item is not a JSON object")
                        continue
                    (piece,) = pieces(PROVIDER, row_bytes(row, "message_data"), [body])
                    key = f"{row['id']} {digest(body)}"
                    id = derived_id(NAME, name, key)
                    at = when(f"{row['created_at']}Z".replace(" ", "T"))
                    yield Entry(
                        conversation=name,
                        raw=piece.raw,
                        key=key,
                        id=id,
                        message=piece.message,
                        parent=above,
                        created_at=at,
                    )
                    above = id
                if above is not None:
                    yield About(conversation=name, head=above)
