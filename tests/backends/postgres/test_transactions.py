"""Transactions of the caller's: what happens inside of one is the caller's own, whatever becomes of the link."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import clew
import clew.aio
from clew.errors import ClewError, Invalid, Unavailable
from clew.store import tenants
from tests.backends.postgres.proxy import Proxy


@pytest.mark.parametrize("error", [ValueError("mine\nalone", 2), KeyboardInterrupt("mine"), SystemExit(3)])
def test_an_error_after_the_link_has_broken(proxy: Proxy, error: BaseException) -> None:
    """Who raises it gets it as it was, and nothing of the transaction is kept."""
    said = error.args
    with clew.open(proxy.url(), timeout=10) as store:
        session = store.sessions.create()
        with pytest.raises(type(error)) as told, store.transaction():
            session.append(clew.user("x"))
            proxy.drop()
            with pytest.raises(Unavailable):
                session.append(clew.user("y"))
            raise error
        assert told.value is error
        assert error.args == said
        assert session.append(clew.user("z")).text == "z"
        assert [node.text for node in session.path()] == ["z"]


def test_a_task_that_is_cancelled_after_the_link_has_broken(proxy: Proxy) -> None:
    """It is cancelled: a deadline is told as one, and a task that is to end ends."""

    async def main() -> None:
        async with clew.aio.open(proxy.url(), timeout=10) as store:
            session = await store.sessions.create()
            began = time.monotonic()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5), store.transaction():
                    await session.append(clew.user("x"))
                    proxy.drop()
                    with suppress(ClewError):
                        await session.append(clew.user("y"))
                    await asyncio.sleep(60)
            assert time.monotonic() - began < 10
            assert await session.path() == []

    asyncio.run(main())


def test_an_error_in_a_transaction_inside_another(url: str) -> None:
    """It is told as it is, not as one of the server's: it says nothing about the store."""
    with clew.open(url) as store:
        session = store.sessions.create()
        with store.transaction():
            session.append(clew.user("x"))
            with pytest.raises(OverflowError, match="mine"), store.transaction():
                session.append(clew.user("y"))
                raise OverflowError("mine")
        assert [node.text for node in session.path()] == ["x"]


def test_what_cannot_be_part_of_a_transaction(url: str) -> None:
    """It is refused at once, before it waits for the transaction that it is made in."""
    with clew.open(url, key=bytes(32)) as store:
        session = store.sessions.create()
        session.append(clew.user("x"))
        refused: list[Callable[[], object]] = [
            lambda: store.rotate(bytes(range(32))),
            store.unseal,
            lambda: tenants.isolate(store),
            lambda: tenants.admit(store, "nobody", ""),
            lambda: tenants.dismiss(store, "nobody"),
        ]
        for call in refused:
            with pytest.raises(Invalid, match="inside a transaction"), store.transaction():
                session.append(clew.user("undone"))
                call()
        assert [node.text for node in session.path()] == ["x"]


def test_a_transaction_that_an_error_has_undone_is_not_told_as_kept(url: str) -> None:
    """The server answers its COMMIT without an error, whoever has passed over the one that undid it."""
    with clew.open(url) as store:

        def work(tx: Any) -> None:
            tx.set_header("mine", b"x")
            with suppress(psycopg.Error):
                tx.conn.execute("SELECT 1 / 0")

        with pytest.raises(Unavailable, match="rolled back"):
            store._engine.write(work)
        assert store._engine.read(lambda tx: tx.header("mine")) is None
        store.sessions.create()
