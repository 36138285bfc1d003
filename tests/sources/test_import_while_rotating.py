"""An import works during a key change, whichever step the change was stopped at."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.engine.engine import Engine
from clew.sources.import_all import import_all
from clew.sources.importer import records
from clew.sources.registry import find
from clew.store.parts import Parts
from clew.store.session import row_of
from clew.upkeep import rekey
from tests.reliability.test_rekey import EXCHANGES
from tests.sources.made import SESSION, claude_line
from tests.sources.made import jsonl as lines

FIRST = [
    {"type": "mode", "mode": "plan", "sessionId": SESSION},
    claude_line(1, None, "user", "One"),
    claude_line(2, 1, "assistant", "Two"),
]
MORE = [
    {"type": "mode", "mode": "edit", "sessionId": SESSION},
    claude_line(3, 2, "user", "Three"),
    {"type": "mode", "mode": "auto", "sessionId": SESSION},
    claude_line(4, 3, "assistant", "Four"),
]


class Stopped(BaseException):
    """Ends a key change, as a kill would."""


def stop_after(steps: int) -> Callable[[int, int], None]:
    """A progress that ends a key change after so many steps."""
    seen = 0

    def progress(done: int, total: int) -> None:
        nonlocal seen
        seen += 1
        if seen >= steps:
            raise Stopped

    return progress


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is one row: so the change can be stopped between any two."""
    monkeypatch.setattr(rekey, "BATCH", 1)


def changing(patch: pytest.MonkeyPatch, store: clew.Store, how: str, steps: int) -> None:
    """Makes so many steps of a key change after the reads of an import, before its first transaction that writes."""
    whole, begun = Engine.write, list[bool]()

    def write(self: Engine, *work: Any) -> Any:
        if not begun:
            begun.append(True)
            with suppress(Stopped):
                EXCHANGES[how].run(store, stop_after(steps))
        return whole(self, *work)

    patch.setattr(Engine, "write", write)


def bring(store: clew.Store, file: Path) -> list[str]:
    return [why for outcome in import_all(store, find([str(file)])) for why in outcome.skipped]


@pytest.mark.parametrize("how", EXCHANGES)
def test_an_import_in_the_middle_of_a_key_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Stopped after any step, between the reads and the writes of an import: all is readable, and it finishes."""
    exchange, ended = EXCHANGES[how], False
    for steps in range(1, 60):
        path, file = tmp_path / f"{steps}.db", tmp_path / str(steps) / "projects" / "p" / f"{SESSION}.jsonl"
        file.parent.mkdir(parents=True)
        file.write_bytes(lines(FIRST))
        with clew.open(path, key=exchange.before) as store:
            assert bring(store, file) == []
            file.write_bytes(lines(FIRST + MORE))
            with monkeypatch.context() as patch:
                changing(patch, store, how, steps)
                assert bring(store, file) == []
            ended = store.key_status().state != {"seal": "sealing", "unseal": "unsealing"}.get(how, "rotating")
            if not ended:
                exchange.run(store, None)
        with clew.open(path, key=exchange.after) as store:
            assert store.verify().damage == []
            session = store.sessions.get(SESSION)
            assert [node.text for node in session.path()] == ["One", "Two", "Three", "Four"]
            assert b"".join(records(session, store)) == lines(FIRST + MORE)
        if ended:
            return
    raise AssertionError("the key change was never finished")


def test_a_row_that_was_read_before_a_key_change(tmp_path: Path) -> None:
    """A session is changed with a row of before any step of a deep rotation: its log stays readable."""
    for steps in range(1, 60):
        with clew.open(tmp_path / f"{steps}.db", key=EXCHANGES["deep"].before) as store:
            session, parts = store.sessions.create(title="Early"), Parts.of(store)
            session.log.append([b"one", b"two"])
            row = row_of(session)
            with suppress(Stopped):
                EXCHANGES["deep"].run(store, stop_after(steps))
            late = msgspec.structs.replace(parts.table.data(row), title="Late")
            parts.engine.write(lambda tx, row=row, late=late: parts.table.change(tx, row, late))  # type: ignore[misc]
            ended = store.key_status().state == "sealed"
            if not ended:
                EXCHANGES["deep"].run(store, None)
            assert store.verify().damage == []
            assert (session.refresh().title, [one.data for one in session.log.read()]) == ("Late", [b"one", b"two"])
        if ended:
            return
    raise AssertionError("the rotation was never finished")
