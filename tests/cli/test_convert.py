"""`clew snapshot convert`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import clew
from clew.cli.commands.snapshot import convert
from clew.snapshots import Snapshot, new_snapshot
from tests.convert import vectors


@pytest.fixture
def snapshot(db: str) -> Snapshot:
    """A snapshot of Claude's in a store that CLEW_DB names."""
    made = new_snapshot(provider="claude", messages=b"[" + b",".join(vectors.raw("anthropic")) + b"]")
    with clew.open(db) as store:
        store.snapshots.save(made)
    return made


def run(*args: str) -> Result:
    return CliRunner().invoke(convert, args)


def ids(db: str) -> list[str]:
    with clew.open(db) as store:
        return [one.id for one in store.snapshots.list()]


def test_a_snapshot_is_made_and_its_losses_are_told(db: str, snapshot: Snapshot) -> None:
    """The id of the new one goes to stdout; what was lost to stderr, without a word of what was said."""
    done = run(snapshot.id, "--to", "gemini", "--model", "m")
    assert done.exit_code == 0
    (made,) = done.stdout.split()
    assert set(ids(db)) == {snapshot.id, made}
    with clew.open(db) as store:
        found = store.snapshots.load(made)
        assert store.snapshots.load(snapshot.id) == snapshot
    assert (found.provider, found.model) == ("gemini", "m")
    assert "message 1, block 0: signature dropped" in done.stderr
    assert "5 messages converted for gemini" in done.stderr
    assert "lint" not in done.stderr


def test_a_dry_run_only_tells(db: str, snapshot: Snapshot) -> None:
    """Nothing is stored."""
    done = run(snapshot.id, "--to", "openai", "--dry-run")
    assert (done.exit_code, done.stdout, ids(db)) == (0, "", [snapshot.id])
    assert "would be converted for openai" in done.stderr


def test_as_json(db: str, snapshot: Snapshot) -> None:
    """All of it as one document."""
    told = json.loads(run(snapshot.id, "--to", "openai", "--json", "--drop-thinking").stdout)
    assert (told["id"] in ids(db), told["converted_from"], told["provider"]) == (True, snapshot.id, "openai")
    assert {"message": 1, "block": 0, "kind": "dropped", "what": "thinking", "detail": ""} in told["losses"]


def test_a_provider_that_nobody_knows(snapshot: Snapshot, tmp_path: Path) -> None:
    """It is a usage error, which names those there are."""
    done = run(snapshot.id, "--to", "someone")
    assert done.exit_code == 2
    assert "openai-responses" in done.stderr
