"""The checks of `clew.testing.adapters`."""

from __future__ import annotations

import pytest

from clew.testing.adapters import check

pytest.importorskip("chainlit.data", reason="the framework is not installed")

ORDERED_BY_CLOCK = {"stopped clock"}
"""Steps of a thread are ordered by the times that Chainlit gives them."""


def test_checks(tmp_path):
    """No check finds anything lost, repeated, reordered or left behind."""
    failed = [one for one in check("tests.adapters.chainlit.drivers:Ours", tmp_path) if not one.passed]
    assert [one for one in failed if one.name not in ORDERED_BY_CLOCK] == []
