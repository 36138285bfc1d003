"""The advice that comes with a damaged snapshot, and with options of the wrong type."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from clew.errors import Corrupted, Invalid
from clew.snapshots import FileStore, new_snapshot


def test_the_hint_for_a_damaged_file_names_the_file(tmp_path: Path) -> None:
    """A damaged snapshot in a folder is refused with the path to restore, not with a command for stores."""
    store = FileStore(tmp_path)
    snapshot = new_snapshot(provider="claude")
    store.save(snapshot)
    path = tmp_path / f"{snapshot.id}.json"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(Corrupted) as caught:
        store.load(snapshot.id)
    assert str(path) in caught.value.hint
    assert "verify" not in caught.value.hint


@pytest.mark.parametrize("name", ["ids", "clock"])
def test_an_option_that_is_not_a_function_is_refused(path: Path, name: str) -> None:
    """A text for ids or clock is refused before a file is created."""
    with pytest.raises(Invalid, match="functions"):
        clew.open(path, **{name: "x"})  # type: ignore[arg-type]
    assert not path.exists()
