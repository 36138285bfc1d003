"""The page and the example about Pydantic AI."""

from __future__ import annotations

import pytest

from tests.adapters.documents import run_example, run_page

pytest.importorskip("pydantic_ai.conversation_store", reason="pydantic-ai-slim is not installed")


def test_page(tmp_path):
    """The code of the how-to page runs."""
    run_page("pydantic_ai", tmp_path)


def test_example(tmp_path):
    """The agent of the example is killed, and the next run has the first turn."""
    said = run_example("pydantic_ai", tmp_path).splitlines()
    assert said[-4:] == [
        "user: My name is Ada.",
        "assistant: Hello, Ada.",
        "user: Who am I?",
        "assistant: You are Ada.",
    ]
