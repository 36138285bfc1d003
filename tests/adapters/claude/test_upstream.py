"""The SDK's own tests of session stores, run from its sdist with `ClewSessionStore` in the place of its own."""

from __future__ import annotations

import pytest

from tests.adapters.upstream import run_upstream

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

FILES = [
    "test_session_store_conformance.py",
    "test_transcript_mirror.py",
    "test_session_resume.py",
    "test_session_helpers_store.py",
    "test_session_summary.py",
    "test_session_import.py",
]
INTERNAL = """
clear_helper or continue_picks_most_recent or continue_skips_sidechain_sessions or continue_tie_break
or load_concurrency_is_bounded or gap_fill_bounded_concurrency or eager_flush_mode_appends_per_frame
or cancelled_after_mkdtemp
"""
"""Tests that set fields of the SDK's store in memory, or expect an answer before the event loop turns a few times."""


def test_upstream(tmp_path):
    """Every test of the SDK that does not reach into its own store passes with ours."""
    passed = run_upstream("claude", "claude_agent_sdk", FILES, tmp_path, without=INTERNAL)
    assert passed >= 330
