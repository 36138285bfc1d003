"""The page over a store on a server."""

from __future__ import annotations

import clew
from clew.web.server import Server, listen
from tests.web.conftest import Client, filled


def test_the_same_pages(url: str) -> None:
    """List, conversation, branch, search and find answer as over a file."""
    with clew.open(url) as store:
        session = filled(store)
        server = Server(lambda _: clew.open(url), listen(0))
        with server.in_background():
            client = Client(server)
            assert session.id in client.get("/").text
            assert "advisory lock" in client.get(f"/c/{session.id}").text
            left = session.branches()[0].head_id
            assert client.get(f"/c/{session.id}/compare.json?b={left}").json["common"] == 5
            assert client.get("/search.json?q=webhooks").json["count"] == 1
            assert "<strong>1</strong> match for" in client.get(f"/c/{session.id}?find=fail").text
