"""The page and the example about the OpenAI Agents SDK."""

from __future__ import annotations

import pytest

from tests.adapters.documents import run_example, run_page

pytest.importorskip("agents.memory", reason="openai-agents is not installed")


def test_page(tmp_path):
    """The code of the how-to page runs."""
    run_page("openai_agents", tmp_path)


def test_example(tmp_path):
    """The agent of the example is killed, and the next run has the first turn."""
    said = run_example("openai_agents", tmp_path).splitlines()
    assert said[-4:] == [
        "user: My name is Ada.",
        "assistant: Hello, Ada.",
        "user: Who am I?",
        "assistant: You are Ada.",
    ]
