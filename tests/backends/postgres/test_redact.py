"""Removing a secret from a stored message on a server."""

from __future__ import annotations

import pytest

import clew
from clew.errors import Conflict
from tests.backends.postgres.server import Server
from tests.store.test_redact_message import KEYS, apply, everything, secret, talk

STEPS = [(0, 0), (1, 0), (4, 0), (0, 1), (7, 1), (5, 2), (0, 1), (6, 0), (1, 0), (8, 0), (2, 0), (9, 1)]


def rows(server: Server, url: str) -> str:
    """Every row of every table of a store, as text."""
    schema = url.partition("schema=")[2]
    with server.connect() as conn:
        names = conn.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [schema]
        ).fetchall()
        found = [conn.execute(f'SELECT t::text FROM "{schema}"."{name}" t').fetchall() for (name,) in names]
    return str(found)


@pytest.mark.parametrize("key", list(KEYS.values()), ids=list(KEYS))
def test_only_that_value_is_gone(server: Server, key: bytes | None) -> None:
    """No row has it afterwards, the index neither; every conversation shows the new version, the rest is as it was."""
    url = server.url()
    with clew.open(url, key=key) as store:
        secrets = talk(store, STEPS)
        assert store.search("word0") and store.search(secret(0))
        before = everything(store)
        hexed = secret(0).encode().hex()
        assert (hexed in rows(server, url) or secret(0) in rows(server, url)) == (key is None)
        done = apply(store, secrets[0])
        after = everything(store)
        assert before.pop(secrets[0])[1] != after.pop(secrets[0])[1] and after == before
        assert len(done.sessions) > 1 and done.receipt is not None and not done.receipt.pending
        assert hexed not in rows(server, url) and secret(0) not in rows(server, url)
        assert [hit.node.id for hit in store.search("word0")] == [secrets[0]] and not store.search(secret(0))
        assert [hit.node.id for hit in store.search(secret(10))] == [secrets[-1]]
        assert store.verify().ok
        session = store.sessions.list().items[0]
        session.append(clew.user("more"))
        session.hold("kept")
        other = session.append(clew.user(secret(99)))
        with pytest.raises(Conflict):
            apply(store, other.id)
