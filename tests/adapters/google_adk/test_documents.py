"""The page and the example about Google ADK."""

from __future__ import annotations

import pytest

from tests.adapters.documents import run_example, run_page

pytest.importorskip("google.adk.sessions", reason="google-adk is not installed")


def test_page(tmp_path):
    """The code of the how-to page runs."""
    run_page("google_adk", tmp_path)


def test_example(tmp_path):
    """The agent of the example is killed after its tool has run; the next run has the tool's result."""
    said = run_example("google_adk", tmp_path).splitlines()
    assert said[:2] == ["The tool runs.", "The program was killed. It resumes:"]
    assert said[2] == "user: How is the weather?"
    assert said[3].startswith("assistant: (ToolCall(")
    assert said[4:] == ["tool: sunny", "user: And now?", "assistant: It is sunny in Turin."]
