"""The error for an id that is no snapshot's."""

from __future__ import annotations

from clew.errors import Invalid, clip


class InvalidSnapshotID(Invalid):
    """The id of a snapshot is not a UUID in canonical form. Nothing was read or changed."""

    hint = "A snapshot's id is a UUID in lowercase, like 7d444840-9dc0-41d1-b245-5ffdce74fad2."

    def __init__(self, id: object) -> None:
        shown = clip(id, 32) if isinstance(id, str) else type(id).__name__
        super().__init__(f"{shown} is not the id of a snapshot")
