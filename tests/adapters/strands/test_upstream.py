"""The tests that Strands publishes in its sdist, with our repository and storage instead of those in memory."""

from __future__ import annotations

import pytest

from tests.adapters.upstream import run_upstream

pytest.importorskip("strands.session", reason="strands-agents is not installed")

FILES = [
    "strands/session/test_repository_session_manager.py",
    "strands/session/test_snapshot_session_manager.py",
    "strands/storage/test_in_memory_storage.py",
    "strands/storage/test_storage.py",
    "strands/agent/test_agent_storage.py",
]
INTERNAL = """
inline_stash_for_ephemeral_storage or save_omits_stash_when_empty or immutable_snapshot_includes_stash
or ephemeral_detection_survives_namespacing or test_clear or namespace_clear_only_clears_prefix
or namespace_passes_scoped_instance_to_strategy or write_indexes_with_search_strategy
or search_delegates_to_strategy
"""
"""Tests of what only a storage in memory has: it is ephemeral, can be cleared, and takes a search strategy."""


def test_upstream(tmp_path):
    """Every test that is not about memory itself passes with ours: 231 of 240."""
    passed = run_upstream("strands", "strands_agents", FILES, tmp_path, without=INTERNAL)
    assert passed >= 231
