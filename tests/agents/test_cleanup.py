"""The cleanup of agents' sessions asks the same place as a sweep."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import clew
from clew import agents
from clew.errors import SweepRefused
from clew.records import Policy, RecordService
from clew.testing import FakeClock
from tests.records.talk import made

DAY = timedelta(days=1)


@pytest.mark.checklist("B33")
def test_a_cleanup_keeps_what_retention_keeps(tmp_path: Path) -> None:
    """Only agents' own sessions go: not retained, held or other programs' ones, records, or owners of active agents."""
    clock = FakeClock()
    with clew.open(tmp_path / "a.db", clock=clock) as store:
        sessions = agents.SessionStore(store)
        old, retained, held, parent = (sessions.create(cwd="/p") for _ in range(4))
        below = sessions.create(cwd="/p", parent=parent, agent_name="helper")
        store.sessions.get(retained.id).retain(days=365)
        store.sessions.get(held.id).hold()
        chat = store.sessions.create()
        with RecordService(store, policy=Policy(days=None, records=180), sweep=False) as service:
            made(service, "record")
        clock.advance(60 * DAY)
        sessions.append_message(below.id, clew.user("still here"))
        would, done = sessions.cleanup(dry_run=True), sessions.cleanup()
        assert would.deleted == done.deleted == (old.id,)
        assert done.failures == ((held.id, "it is kept: hold"),)
        for one in (retained, held, parent, below, chat):
            assert store.sessions.get(one.id)
        with RecordService(store, sweep=False) as service:
            assert service.get("record") is not None


@pytest.mark.checklist("B33")
def test_a_cleanup_refuses_a_wrong_clock(tmp_path: Path) -> None:
    """After the clock jumps ten years ahead nothing goes, dry or not, unless the program insists."""
    clock = FakeClock()
    with clew.open(tmp_path / "a.db", clock=clock) as store:
        sessions = agents.SessionStore(store)
        made = sessions.create(cwd="/p")
        clock.advance(3650 * DAY)
        for dry_run in (True, False):
            with pytest.raises(SweepRefused, match="days ago"):
                sessions.cleanup(dry_run=dry_run)
        assert sessions.load(made.id)
        assert sessions.cleanup(force=True).deleted == (made.id,)
