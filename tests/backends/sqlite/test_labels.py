"""Looking up a label takes as long in a store of many sessions as in one of few."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.sqlite.tx import SQLiteTx
from clew.store.parts import Parts


def steps(store: clew.Store, work: Callable[[], Any]) -> int:
    """The number of instructions that SQLite runs during `work`."""
    count = [0]

    def step() -> None:
        count[0] += 1

    def watch(handler: Callable[[], None] | None) -> None:
        def install(tx: Any) -> None:
            assert isinstance(tx, SQLiteTx)
            tx.conn.set_progress_handler(handler, 1)

        Parts.of(store).engine.read(install)

    watch(step)
    work()
    watch(None)
    return count[0]


@pytest.mark.parametrize("total", [False, True])
def test_a_label_is_not_searched_for_in_all_sessions(tmp_path: Path, total: bool) -> None:
    """A label of an old session is found and counted in as many steps among 1,500 sessions as among 100."""
    with clew.open(tmp_path / "s.db") as store:
        expected = [store.sessions.create(labels=["wanted"]) for _ in range(3)][::-1]

        def find() -> None:
            page = store.sessions.list(label="wanted", limit=20, total=total)
            assert page.items == expected
            assert page.total == (3 if total else None)

        found = []
        for count in (100, 1_400):
            with store.transaction():
                for number in range(count):
                    store.sessions.create(labels=["other"] * (number % 2))
            find()
            found.append(steps(store, find))
        assert 0 < found[1] <= 1.2 * found[0]


def test_labels_of_few_and_of_many_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a label are the same whether its sessions are sorted or found among the most recent ones."""
    with clew.open(tmp_path / "s.db") as store:
        sessions = [
            store.sessions.create(cwd="/a" if n % 2 else "/b", labels=["third"] * (n % 3 == 0)) for n in range(30)
        ]
        sessions[3].append("moves up")
        sessions[9].delete()
        for few in (500, 1):
            monkeypatch.setattr("clew.backends.sqlite.tx.FEW_REFS", few)
            expected = [sessions[n] for n in (3, 27, 24, 21, 18, 15, 12, 6, 0)]
            found, cursor = [], None
            while True:
                page = store.sessions.list(label="third", limit=2, cursor=cursor, total=True)
                found += page.items
                assert page.total == 9
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert found == expected
            assert store.sessions.list(label="third", cwd="/b", limit=2, total=True).total == 5
            assert store.sessions.list(label="third", cwd="/a").items == [sessions[n] for n in (3, 27, 21, 15)]
