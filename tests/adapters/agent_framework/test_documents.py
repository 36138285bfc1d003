"""The page and the example about Agent Framework."""

from __future__ import annotations

import pytest

from tests.adapters.documents import run_example, run_page

pytest.importorskip("agent_framework", reason="agent-framework-core is not installed")


def test_page(tmp_path):
    """The code of the how-to page runs."""
    run_page("agent_framework", tmp_path)


def test_example(tmp_path):
    """The agent of the example is killed between two turns, and the next run has the first turn."""
    said = run_example("agent_framework", tmp_path).splitlines()
    assert said == [
        "The program was killed. It resumes:",
        "user: My name is Ada.",
        "assistant: Hello, Ada.",
        "user: Who am I?",
        "assistant: You are Ada.",
    ]
