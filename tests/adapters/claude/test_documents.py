"""The page and the example about the Claude Agent SDK."""

from __future__ import annotations

import pytest

from tests.adapters.documents import run_example, run_page

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")


def test_page(tmp_path):
    """The code of the how-to page runs."""
    run_page("claude", tmp_path)


def test_example(tmp_path):
    """The program of the example is killed and resumed, and no line is there twice."""
    said = run_example("claude", tmp_path).splitlines()
    assert said[1:] == [
        "user: How is the weather?",
        "assistant: I will look.",
        "user: And tomorrow?",
        "assistant: Sunny.",
    ]
