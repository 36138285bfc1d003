"""What is done often waits for the server once."""

from __future__ import annotations

import clew
from clew.store.parts import Parts
from tests.backends.postgres.trips import counted


def test_one_round_trip(url: str) -> None:
    """An append, durable, and a session's last messages take one round trip each, once the statement is prepared."""
    with clew.open(url) as store:
        session = store.sessions.create()
        for number in range(30):
            session.append(clew.user(str(number)))
        session.path(last=20)
        with Parts.of(store).engine.backend._connections.take() as conn:  # type: ignore[attr-defined]
            pass  # the next to ask gets the same
        with counted(conn) as bare:
            conn.execute("SELECT 1", prepare=False)
        with counted(conn) as appended:
            session.append(clew.user("30"))
        with counted(conn) as read:
            nodes = session.path(last=20)
        with counted(conn) as pinged:
            store.ping()
        assert [node.text for node in nodes] == [str(number) for number in range(11, 31)]
        assert (bare, appended, read, pinged) == ([1], [1], [1], [1])
        with counted(conn) as renamed:
            session.rename("a turn takes more")
        assert renamed[0] > 1
