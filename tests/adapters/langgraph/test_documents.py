"""The page and the example about LangGraph."""

from __future__ import annotations

import pytest

from tests.adapters.documents import run_example, run_page

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")


def test_page(tmp_path):
    """The code of the how-to page runs."""
    run_page("langgraph", tmp_path)


def test_example(tmp_path):
    """The agent of the example is killed and resumed, and its tool runs once."""
    said = run_example("langgraph", tmp_path)
    assert said.count("The tool runs.") == 1
    assert said.endswith("assistant: It is sunny in Turin.\n")
