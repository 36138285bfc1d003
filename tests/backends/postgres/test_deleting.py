"""P25 on PostgreSQL: whatever is deleted is decided in the transaction that deletes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.test_deleting import AGED, race


@pytest.mark.parametrize("way", ["undo", *AGED])
def test_deletions_beside_writers(url: str, tmp_path: Path, way: str) -> None:
    """Nothing that was appended, held or forked since is deleted, by any way of deleting."""
    race(url, tmp_path, way, 40)
