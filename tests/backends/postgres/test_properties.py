"""Whatever is done to a store on a server, and in whatever order, it holds what a plain model holds."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

import clew
from tests.backends.postgres.server import Server
from tests.properties.test_store import LARGE, StoreMachine


def machine(server: Server, key: bytes | None) -> type[StoreMachine]:
    """The state machine, with its stores on a server."""

    class OnServer(StoreMachine):
        def open(self) -> clew.Store:
            if not hasattr(self, "url"):
                self.url = server.url()
            return clew.open(self.url, key=key, durability="relaxed", clock=self.clock, ids=self.ids)

        def teardown(self) -> None:
            super().teardown()
            if hasattr(self, "url"):
                with server.connect() as conn:
                    conn.execute(f"DROP SCHEMA {self.url.partition('schema=')[2]} CASCADE")

    return OnServer


@pytest.mark.parametrize("key", [None, bytes(range(32))], ids=["plain", "sealed"])
def test_a_store_is_its_model(server: Server, key: bytes | None) -> None:
    """Paths, histories, counters, branches, lists and latest are those of the model after every step."""
    short = settings(max_examples=6, stateful_step_count=25, deadline=None, suppress_health_check=LARGE)
    run_state_machine_as_test(machine(server, key), settings=short)


@pytest.mark.soak
@pytest.mark.parametrize("key", [None, bytes(range(32))], ids=["plain", "sealed"])
def test_a_store_is_its_model_for_long(server: Server, key: bytes | None) -> None:
    """The same, over long sequences and many of them."""
    long = settings(max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=LARGE)
    run_state_machine_as_test(machine(server, key), settings=long)
