"""The page and the example about LiteLLM."""

from __future__ import annotations

import pytest

from tests.adapters.documents import run_example, run_page

pytest.importorskip("litellm", reason="litellm is not installed")


def test_page(tmp_path):
    """The code of the how-to page runs."""
    run_page("litellm", tmp_path)


def test_example(tmp_path):
    """The program of the example is killed, and the next one continues its conversation."""
    said = run_example("litellm", tmp_path).splitlines()
    assert [line.partition(":")[0] for line in said[-4:]] == ["user", "assistant", "tool", "assistant"]
    assert said[-1] == "assistant: It is sunny in Turin."
