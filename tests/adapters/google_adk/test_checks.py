"""The checks of `clew.testing.adapters`."""

from __future__ import annotations

import pytest

from clew.testing.adapters import check

pytest.importorskip("google.adk.sessions", reason="the framework is not installed")


def test_checks(tmp_path):
    """No check finds anything lost, repeated, reordered or left behind."""
    failed = [one for one in check("tests.adapters.google_adk.drivers:Ours", tmp_path) if not one.passed]
    assert failed == []
