"""The page on sizing: its tables are those of the figures, and the figures are what a server says."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.sizing import MEASURED, each, larger, measure

from tests.backends.postgres.server import started

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "postgresql.md"


def test_the_page_has_the_tables() -> None:
    """What the page says of rows and bytes is computed from what was measured."""
    text = PAGE.read_text(encoding="utf-8")
    assert "\n".join(each(MEASURED)) in text
    assert "\n".join(larger(MEASURED)) in text


@pytest.mark.soak
def test_the_figures_are_a_servers() -> None:
    """A smaller store, measured now, is not far from them."""
    server = started()
    try:
        found = measure(server, 100)
    finally:
        server.stop()
    assert found.body == pytest.approx(MEASURED.body, rel=0.01)
    assert found.message.keys() == MEASURED.message.keys()
    assert found.session.keys() == MEASURED.session.keys()
    assert found.message["nodes"] == pytest.approx(MEASURED.message["nodes"], rel=0.15)
    for name in ("nodes_pkey", "nodes_id", "nodes_ord"):
        assert found.message[name] == pytest.approx(MEASURED.message[name], rel=0.5)
    assert found.words == pytest.approx(MEASURED.words, rel=0.5)
    assert found.appending < 3 * MEASURED.appending
