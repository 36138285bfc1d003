"""`store.ping()`: whether a store answers."""

from __future__ import annotations

import pytest

import clew


def test_ping(tmp_path):
    """It takes little time, and raises what a call would raise."""
    with clew.open(tmp_path / "chats.db") as store:
        store.sessions.create()
        assert 0 < store.ping() < 5
        assert 0 < store.ping(write=True) < 5
    with pytest.raises(clew.Closed):
        store.ping()


def test_a_write_lock_that_is_held(tmp_path):
    """Reads answer while another writer holds the lock; with `write` the lock is waited for."""
    with clew.open(tmp_path / "chats.db") as holder, clew.open(tmp_path / "chats.db", timeout=0.2) as store:
        with holder.transaction():
            holder.sessions.create()
            store.ping()
            with pytest.raises(clew.Unavailable):
                store.ping(write=True)
        store.ping(write=True)
