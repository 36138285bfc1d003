"""The mutants fit the code they are meant for."""

from __future__ import annotations

import re

import pytest

from tests.mutants import ROOT, exists, load

SOURCE = ROOT / "src" / "clew"
MUTANTS = load([])
CONTRACTS = "".join(path.read_text() for path in (SOURCE / "testing").rglob("*.py"))
"""Tests that a class of the tests inherits."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits(mutant) -> None:
    """Each text to replace is in its file exactly once, and each test that must fail is there."""
    for patch in mutant.patches:
        path = SOURCE / patch["file"]
        assert path.exists(), patch["file"]
        assert path.read_text().count(patch["old"]) == 1, f"{patch['file']}: {patch['old'].strip()!r}"
        assert patch["old"] != patch["new"]
    for test in mutant.tests:
        assert exists(test), test
        file, _, rest = test.partition("::")
        if rest:
            name = re.sub(r"\[.*", "", rest).rpartition("::")[2]
            assert re.search(rf"\b(def|class) {name}\b", (ROOT / file).read_text() + CONTRACTS), test
