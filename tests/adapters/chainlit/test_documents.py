"""The page and the example about Chainlit."""

from __future__ import annotations

import pytest

from tests.adapters.documents import run_example, run_page

pytest.importorskip("chainlit.data", reason="chainlit is not installed")


def test_page(tmp_path):
    """The code of the how-to page runs."""
    run_page("chainlit", tmp_path)


def test_example(tmp_path):
    """The program of the example is killed after its tool has run; the next run has the tool's result."""
    said = run_example("chainlit", tmp_path).splitlines()
    assert said == [
        "The tool runs.",
        "The program was killed. It resumes:",
        "user: How is the weather?",
        "assistant: sunny",
        "user: And now?",
        "assistant: It is sunny in Turin.",
    ]
