"""LangGraph's own suite for checkpointers."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("langgraph.checkpoint.conformance", reason="langgraph-checkpoint-conformance is not installed")

from langgraph.checkpoint.conformance import checkpointer_test, validate

from clew.adapters.langgraph import ClewSaver


def test_all_capabilities(opened):
    """All 8 capabilities are there, all 81 tests pass, and the store is sound after each suite."""

    @checkpointer_test(name="clew")
    async def ours():
        with opened(ClewSaver) as saver:
            yield saver
            assert saver.store.verify().ok

    report = asyncio.run(validate(ours))
    results = report.to_dict()["results"]
    assert report.passed_all(), results
    assert len(results) == 8
    assert sum(one["tests_passed"] for one in results.values()) == 81
