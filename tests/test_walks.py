"""An operation runs through few files; tools/walks.py has the limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import walks


@pytest.mark.parametrize("name", [name for name in walks.WALKS if name != "langgraph_put"])
def test_a_walk_is_within_its_limit(name: str, tmp_path: Path) -> None:
    """A reader who follows the operation opens no more files than its limit, which may only shrink."""
    files = walks.WALKS[name](tmp_path)
    assert len(files) <= walks.LIMITS[name], sorted(files)


def test_files_are_counted_on_every_thread(tmp_path: Path) -> None:
    """The rendering of a page runs on a thread of the server."""
    assert {"web/app.py", "store/session.py", "engine/node.py"} <= walks.page(tmp_path)
