"""`clew purge --label`: all that has a label, with one receipt."""

from __future__ import annotations

import clew
from clew.adapters.documents import Documents
from clew.adapters.keyed import Keyed


def test_purge_a_label(clew_cli, db):
    """It previews with --dry-run, purges with --yes, and takes no other choice."""
    with clew.open(db) as store:
        store.sessions.create(title="Ada's", labels=["user:42"]).append(clew.user("a"))
        store.sessions.create(title="Bob's").append(clew.user("b"))
        keyed = Keyed(store, "tool", {"labels": ("user:42",)})
        keyed.write(lambda unit: Documents(keyed).put(unit, ["state"], "x"))
    preview = clew_cli("purge", "--label", "user:42", "--dry-run")
    assert preview.code == 0
    assert "Ada's" in preview.out
    assert "Bob's" not in preview.out
    done = clew_cli("purge", "--label", "user:42", "--yes", "--json")
    assert (done.code, len(done.json["sessions"])) == (0, 2)
    with clew.open(db) as store:
        assert [session.title for session in store.sessions.list()] == ["Bob's"]
    for wrong in (("--all",), ("--before", "2d"), ("k3m9qa",)):
        assert clew_cli("purge", "--label", "user:42", "--yes", *wrong).code == 2
