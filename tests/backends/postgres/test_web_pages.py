"""The pages and the attacks of tests/web once more, over a store on a server, plain and sealed."""

from __future__ import annotations

import pytest

from clew import keys
from tests.web import test_guard, test_pages
from tests.web.conftest import same_tests

KEY = keys.generate()


@pytest.fixture(params=[None, KEY], ids=["plain", "sealed"])
def key(request: pytest.FixtureRequest) -> bytes | None:
    found: bytes | None = request.param
    return found


@pytest.fixture
def address(url: str) -> str:
    return url


FILE_ALONE = {"test_damage_is_shown_in_its_place", "test_a_sealed_store_asks_for_its_key"}
globals().update(same_tests(test_pages, test_guard, without=FILE_ALONE))
