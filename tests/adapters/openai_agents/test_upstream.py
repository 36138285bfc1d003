"""The SDK's own tests of sessions, run from its sdist with `ClewSession` in the place of `SQLiteSession`."""

from __future__ import annotations

import pytest

from tests.adapters.upstream import run_upstream

pytest.importorskip("agents.memory", reason="openai-agents is not installed")

FILES = [
    "memory/test_session.py",
    "memory/test_session_limit.py",
    "memory/test_session_context_wrapper.py",
    "memory/test_session_persistence_sanitize.py",
    "memory/test_openai_responses_compaction_session.py",
    "memory/test_compaction_suffix.py",
    "memory/test_compaction_model_visibility.py",
]
INTERNAL = """
close_closes_worker_thread_connections or reaps_connections_from_exited_worker_threads
or closes_retired_connections_before_the_next_allocation or keeps_connections_of_live_worker_threads
or closed_rejects_empty_add_items or skips_corrupt or returns_none_after_dropping_only_corrupt_rows
or file_lock_is_shared_across_instances or failed_add_items_releases_write_lock or failed_clear_session_rolls_back
or failed_pop_item_releases_write_lock or rollback_failure_evicts_connection or close_retries_quarantined_connection
or post_commit_cancellation_propagates_after_known_outcome or settled_pop_failure_invalidates_response_chain
or settled_clear_failure_invalidates_response_chain
or rolls_back_failed_insert or suffix_transaction_settles or failed_encrypted_suffix_transaction
"""
"""Tests that reach into the connections, rows and locks of `SQLiteSession`."""


def test_upstream(tmp_path):
    """Every test that does not reach into `SQLiteSession` itself passes with ours: 304 of 334."""
    passed = run_upstream(
        "openai_agents", "openai_agents", FILES, tmp_path, without=INTERNAL, options=["--confcutdir", "tests/memory"]
    )
    assert passed >= 304
