"""A write that waits for other writers for over a second leaves a line in the log."""

from __future__ import annotations

import logging
import threading
import time

import clew


def test_a_slow_write_is_logged(tmp_path, caplog):
    """The line has the time and no content; a quick write leaves none."""
    caplog.set_level(logging.WARNING, "clew.store")
    with clew.open(tmp_path / "chats.db") as holder, clew.open(tmp_path / "chats.db") as store:
        session = store.sessions.create(title="needle")
        session.append(clew.user("needle"))
        assert caplog.records == []
        held = threading.Event()

        def hold():
            with holder.transaction():
                holder.sessions.create()
                held.set()
                time.sleep(1.3)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        store.sessions.create(title="needle")
        thread.join()
    (record,) = caplog.records
    assert record.name == "clew.store"
    assert record.getMessage().startswith("a write took 1.")
    assert "needle" not in caplog.text
