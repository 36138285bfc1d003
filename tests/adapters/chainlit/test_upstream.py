"""Chainlit's own tests of its data layer on SQLite, run from its sdist with `ClewDataLayer` in its place."""

from __future__ import annotations

import pytest

from tests.adapters.upstream import run_upstream

pytest.importorskip("chainlit.data", reason="chainlit is not installed")


def test_upstream(tmp_path):
    """Every test passes with ours, except one about a method that no other layer has."""
    files = ["data/test_sql_alchemy.py"]
    # What Chainlit imports warns.
    options = ["-o", "filterwarnings="]
    passed = run_upstream("chainlit", "chainlit", files, tmp_path, without="get_current_timestamp", options=options)
    assert passed == 14
