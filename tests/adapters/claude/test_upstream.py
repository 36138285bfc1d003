"""The SDK's own tests of session stores, run from its sdist with `ClewSessionStore` in the place of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

FILES = [
    "test_session_store_conformance.py",
    "test_transcript_mirror.py",
    "test_session_resume.py",
    "test_session_helpers_store.py",
    "test_session_summary.py",
    "test_session_import.py",
]
INTERNAL = """
clear_helper or continue_picks_most_recent or continue_skips_sidechain_sessions or continue_tie_break
or load_concurrency_is_bounded or gap_fill_bounded_concurrency or eager_flush_mode_appends_per_frame
or cancelled_after_mkdtemp
"""
"""Tests that set fields of the SDK's store in memory, or expect an answer before the event loop turns a few times."""


def test_upstream(tmp_path):
    """Every test of the SDK that does not reach into its own store passes with ours."""
    root = Path(__file__).parents[3]
    sdist = next(iter(Path(sys.prefix, "sdist").glob("claude_agent_sdk-*/tests")), None)
    if sdist is None:
        pytest.skip("the sdist of claude-agent-sdk is not there: `make test-adapters` downloads it")
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "swapped", "-q", "-o", "addopts=", "-o", "asyncio_mode=auto",
            "-p", "no:cacheprovider", "-k", f"not ({' '.join(INTERNAL.split())})",
            *(f"tests/{name}" for name in FILES),
        ],
        cwd=sdist.parent, capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{root / 'src'}", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    passed = re.search(r"(\d+) passed(?:, (\d+) deselected)?", done.stdout)
    assert passed is not None

    assert int(passed[1]) >= 330
