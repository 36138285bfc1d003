"""Storing a checkpoint runs through few files; tools/walks.py has the limit."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("langgraph", reason="langgraph is not installed")

from tools import walks


def test_a_put_is_within_its_limit(tmp_path: Path) -> None:
    """A reader who follows the operation opens no more files than its limit, which may only shrink."""
    files = walks.langgraph_put(tmp_path)
    assert len(files) <= walks.LIMITS["langgraph_put"], sorted(files)
